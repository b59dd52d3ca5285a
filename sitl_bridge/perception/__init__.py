"""Runs the sensors that see the scene beside the lockstep: casters, workers, and who takes their samples."""
