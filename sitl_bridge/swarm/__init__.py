"""Setpoints for n vehicles: the interface, the radio and the quick simulator.  No I/O, no MAVSDK."""
