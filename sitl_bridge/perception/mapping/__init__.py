"""Occupancy maps from ranges, clearance from obstacles, and paths through both."""
