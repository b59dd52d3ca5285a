"""What is made of a run afterwards: evaluation, plots and the summary."""
