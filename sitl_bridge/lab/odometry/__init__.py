"""Estimators of motion from recorded sensors, beside the truth."""
