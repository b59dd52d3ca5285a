"""Reads and checks the plans of QGroundControl."""
