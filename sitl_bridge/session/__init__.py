"""Runs flights in the bridge's process: their settings, processes, monitors, events and verdict."""
