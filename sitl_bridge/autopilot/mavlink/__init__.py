"""The MAVLink services of the built-in flight stack, as PX4 offers them.

State machines without sockets and clocks (``services.py`` puts them together); ``endpoint.py`` alone opens
UDP ports.  What a command does to the vehicle is decided by the commander.
"""
