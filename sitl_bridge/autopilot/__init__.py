"""The built-in flight stack: estimator, controllers, allocation, commander, navigator, MAVLink services.

It speaks the simulator link from PX4's side and PX4's MAVLink modes and commands, so that a machine without
PX4 flies, tests need no PX4 and large fleets fit on one machine.  It never claims to be
PX4.
"""
