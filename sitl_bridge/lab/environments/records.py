"""The memory of a batch of vehicles: settings of its reset, and what an episode drew."""

from __future__ import annotations

import numpy as np

from sitl_bridge.core.dynamics.records import MAX_ROTORS

# Levels of the actions.
MOTORS = 0
RATES = 1
ATTITUDE = 2
VELOCITY = 3

# Bits of the events of a step.
ON_GROUND = 1
COLLIDED = 2
DIVERGED = 4

TRUTH_SIZE = 13
"""Position 0:3 and velocity 3:6 NED, attitude 6:10, angular velocity 10:13."""
MAX_ACTIONS = 16

RESET = np.dtype(
    [
        # Least and greatest factor on a figure of the airframe.
        ("mass", "f8", 2),
        ("inertia", "f8", 2),  # beside that of the mass
        ("rotor", "f8", 2),  # on thrust and torque of each rotor
        ("motor", "f8", 2),  # on the time constants
        ("drag", "f8", 2),
        ("noise", "f8", 2),  # on the errors of all sensors
        # Least and greatest value.
        ("wind", "f8", 2),  # m/s, horizontal, from any direction
        ("turbulence", "f8", 2),  # m/s, wind at 20 ft that sets its intensity
        ("position", "f8", (2, 3)),  # m NED from the start
        ("yaw", "f8", 2),  # rad
        # Greatest magnitude.
        ("speed", "f8"),  # m/s
        ("tilt", "f8"),  # rad
        ("rate", "f8"),  # rad/s
    ],
    align=True,
)
EPISODE = np.dtype(
    [
        ("mass", "f8"),  # kg
        ("inertia", "f8", (3, 3)),
        ("inertia_inverse", "f8", (3, 3)),
        ("motor_tau_up", "f8"),
        ("motor_tau_down", "f8"),
        ("drag_force", "f8", 3),
        ("rotor_health", "f8", MAX_ROTORS),
        ("noise", "f8"),
        ("wind", "f8", 3),  # m/s NED
        ("turbulence", "f8"),  # m/s
    ],
    align=True,
)
"""What an episode drew."""
BATCH = np.dtype(
    [
        ("level", "i8"),
        ("step", "i8"),  # us
        ("state_words", "i8"),  # 64-bit words of a STATE that are not constant or scratch
        ("flying_words", "i8"),  # the first of them, which last from step to step
        ("ground_first", "i8"),  # first of those that last on the ground alone
        ("controller_first", "i8"),  # the first word of a CONTROLLER that changes
        ("max_tilt", "f8"),  # rad, of a velocity setpoint
        ("wind", "f8", 3),  # m/s NED, steady wind of the world
        ("turbulence", "f8"),  # m/s, of the world
        ("meridian", "f8"),  # m per rad of latitude at the origin
        ("parallel", "f8"),  # m per rad of longitude
        ("varied", "i8"),  # 1: airframe, air or sensors differ from vehicle to vehicle
        ("still", "i8"),  # 1: the air never moves
        ("given", "i8"),  # address of the actions of this call, (n, k), before their limits
        ("single", "i8"),  # 1: they are float32; 0: float64
    ],
    align=True,
)
SLOT = np.dtype(
    [("sensor", "i8"), ("kind", "i8"), ("first", "i8"), ("size", "i8"), ("factor", "f8")], align=True
)
"""Figures of a sensor in an observation."""
