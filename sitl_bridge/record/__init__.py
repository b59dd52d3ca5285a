"""What a run keeps: its directory and its logs."""
