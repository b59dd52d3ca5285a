"""Flight tasks: each turns what is wanted (a target, sticks, offboard setpoints) into a setpoint."""
