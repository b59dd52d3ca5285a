"""Speaks to flight stacks: MAVLink frames, the lockstep, PX4's parameters and its process."""
