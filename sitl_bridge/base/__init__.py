"""Gives every room its errors, files, units, processes, compiled kernels and random streams."""
