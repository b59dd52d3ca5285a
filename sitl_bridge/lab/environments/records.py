"""The memory of a batch of vehicles: settings of its reset, and what an episode drew."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.record import Record
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


class Reset(Record):
    """What a reset draws from."""

    # Least and greatest factor on a figure of the airframe.
    mass: Annotated[Floats, 2]
    inertia: Annotated[Floats, 2]  # beside that of the mass
    rotor: Annotated[Floats, 2]  # on thrust and torque of each rotor
    motor: Annotated[Floats, 2]  # on the time constants
    drag: Annotated[Floats, 2]
    noise: Annotated[Floats, 2]  # on the errors of all sensors
    # Least and greatest value.
    wind: Annotated[Floats, 2]  # m/s, horizontal, from any direction
    turbulence: Annotated[Floats, 2]  # m/s, wind at 20 ft that sets its intensity
    position: Annotated[Floats, 2, 3]  # m NED from the start
    yaw: Annotated[Floats, 2]  # rad
    # Greatest magnitude.
    speed: float  # m/s
    tilt: float  # rad
    rate: float  # rad/s


RESET = Reset.dtype


class Episode(Record):
    """What an episode drew."""

    mass: float  # kg
    inertia: Annotated[Floats, 3, 3]
    inertia_inverse: Annotated[Floats, 3, 3]
    motor_tau_up: float
    motor_tau_down: float
    drag_force: Annotated[Floats, 3]
    rotor_health: Annotated[Floats, MAX_ROTORS]
    noise: float
    wind: Annotated[Floats, 3]  # m/s NED
    turbulence: float  # m/s


EPISODE = Episode.dtype


class Batch(Record):
    """Settings of a batch."""

    level: int
    step: int  # us
    state_words: int  # 64-bit words of a STATE that are not constant or scratch
    flying_words: int  # the first of them, which last from step to step
    ground_first: int  # first of those that last on the ground alone
    controller_first: int  # the first word of a CONTROLLER that changes
    max_tilt: float  # rad, of a velocity setpoint
    wind: Annotated[Floats, 3]  # m/s NED, steady wind of the world
    turbulence: float  # m/s, of the world
    meridian: float  # m per rad of latitude at the origin
    parallel: float  # m per rad of longitude
    varied: int  # 1: airframe, air or sensors differ from vehicle to vehicle
    still: int  # 1: the air never moves
    given: int  # address of the actions of this call, (n, k), before their limits
    single: int  # 1: they are float32; 0: float64


BATCH = Batch.dtype
SLOT = np.dtype(
    [("sensor", "i8"), ("kind", "i8"), ("first", "i8"), ("size", "i8"), ("factor", "f8")], align=True
)
"""Figures of a sensor in an observation."""
