"""Computes the set-points of n vehicles, with their radio and a quick simulator; no I/O, no MAVSDK."""
