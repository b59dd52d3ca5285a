"""Flight tasks: each turns a target, stick positions or offboard setpoints into a controller setpoint."""
