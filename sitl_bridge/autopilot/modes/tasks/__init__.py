"""Flight tasks: each turns a target, sticks or offboard setpoints into a setpoint of the controller."""
