"""Flight modes of the built-in stack: missions, take-off, landing, and the setpoints of each mode."""
