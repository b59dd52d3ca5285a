"""The run directory and its logs."""
