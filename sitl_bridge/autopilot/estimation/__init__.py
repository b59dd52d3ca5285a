"""The estimator's parts: its memory, its settings, what it predicts, what it measures and how it corrects."""
