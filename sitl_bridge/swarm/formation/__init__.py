"""Formations: patterns, slot assignment, neighbour graphs and what each vehicle flies to every tick."""
