"""The climb from the ground to the first setpoint, within limits of speed and acceleration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.swarm.formation.trajectory import minimum_jerk, move_time
from sitl_bridge.swarm.interface import Setpoints, States

Array: TypeAlias = NDArray[np.float64]

CLIMB_SPEED, CLIMB_ACCELERATION = 1.5, 0.5
"""m/s and m/s^2 of the climb to the starting positions; the first is PX4's MPC_TKO_SPEED."""


@dataclass
class Climb:
    """Simultaneous climb from the ground to positions in the air; it begins at ``start`` s, inf at first."""

    begin: States
    places: Array
    yaw: float | Array
    start: float = math.inf

    @property
    def duration(self) -> float:
        """s from start to end."""
        longest = float(np.linalg.norm(self.places - self.begin.position, axis=1).max())
        return move_time(longest, CLIMB_SPEED, CLIMB_ACCELERATION)

    def at(self, time: float) -> Setpoints:
        """Setpoints at a time in s of the fleet's clock."""
        part = 0.0 if time < self.start else min((time - self.start) / self.duration, 1.0)
        way, rate, change_of_rate = (float(x) for x in minimum_jerk(part))
        change = self.places - self.begin.position
        turn = np.remainder(self.yaw - self.begin.yaw + math.pi, 2.0 * math.pi) - math.pi
        return Setpoints(
            self.begin.position + way * change,
            rate / self.duration * change,
            change_of_rate / self.duration**2 * change,
            self.begin.yaw + way * turn,
        )


def extrapolated(setpoints: Setpoints, seconds: float) -> Setpoints:
    """Setpoints extrapolated by some seconds at constant acceleration."""
    velocity, acceleration = np.nan_to_num(setpoints.velocity), np.nan_to_num(setpoints.acceleration)
    return Setpoints(
        setpoints.position + seconds * velocity + 0.5 * seconds**2 * acceleration,
        setpoints.velocity + seconds * acceleration,
        setpoints.acceleration,
        setpoints.yaw,
    )
