"""The simulator link: MAVLink, lockstep, PX4."""
