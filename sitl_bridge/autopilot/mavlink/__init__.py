"""The MAVLink services of the built-in flight stack, after PX4's.

State machines without sockets and clocks (``services.py`` combines them); only ``endpoint.py`` opens UDP
ports.  The commander executes vehicle commands.
"""
