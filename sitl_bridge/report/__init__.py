"""Evaluation after a flight: figures, plots and the summary."""
