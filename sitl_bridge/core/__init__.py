"""Computes the physics of a world and its vehicles, without a link, a clock or a thread.

A step of all vehicles begins in simulation/fleet_step.py, a step of one in dynamics/step.py; the air at a
vehicle comes from world/air.py, what a sensor does in a step from sensors/sample.py.
"""
