"""Formations: patterns, slot assignment, neighbour graphs and the setpoints of each vehicle."""
