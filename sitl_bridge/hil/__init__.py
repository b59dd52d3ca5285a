"""The simulator link: MAVLink frames, sockets, the lockstep loop."""
