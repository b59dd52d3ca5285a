"""Repeats recorded flights: runs of this program to the bit, flights of real vehicles in simulation."""
