"""Parts of the estimator: records, sensor settings, prediction, sensor models, correction and alignment."""
