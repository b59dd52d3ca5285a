"""Formations: patterns, who flies which slot, who hears whom, and what each vehicle is told every tick.

Nothing here knows how a vehicle is flown: states go in and setpoints come out as arrays (``flock.py``), for
the quick simulator, for a fleet in this process and for PX4 behind MAVSDK alike.
"""
