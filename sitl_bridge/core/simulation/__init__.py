"""Vehicles in a world, stepped together."""
