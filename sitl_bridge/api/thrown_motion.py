"""Bring a vehicle into a motion by a force and a moment from outside, as a hand does that throws it.

Its sensors feel them, so that the estimator of any flight stack follows: nothing jumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.base.arrays import Floats
from sitl_bridge.core.simulation.simulation import Simulation

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation


class Throw:
    """A vehicle's way into a motion, with constant acceleration and a cubic rotation to the end.

    What else acts on it, its rotors above all, is taken from the step before and cancelled.

    Args:
        simulation: of the vehicle, between two steps.
        vehicle: its number.
        velocity: (3,) m/s NED at the end.
        attitude: (4,) quaternion w, x, y, z at the end, body FRD to NED.
        angular_velocity: (3,) rad/s at the end, body FRD.
    """

    def __init__(
        self,
        simulation: Simulation,
        vehicle: int,
        velocity: ArrayLike,
        attitude: ArrayLike,
        angular_velocity: ArrayLike,
    ) -> None:
        from scipy.spatial.transform import Rotation  # takes time that other programs save

        self._rotation = Rotation
        self._state: np.void = simulation.states[vehicle]
        record = simulation.vehicles[vehicle]
        self._mass, self._inertia = float(record["mass"]), np.array(record["inertia"])
        self._step = simulation.step * 1e-6
        self._velocity, self._rate = np.array(velocity, float), np.array(angular_velocity, float)
        self._goal = self._rotation_of(attitude)
        self._others = np.zeros((2, 3))
        """Accelerations by what else acts: m/s^2 NED and rad/s^2 body."""

    def _rotation_of(self, attitude: ArrayLike) -> Rotation:
        w, x, y, z = np.asarray(attitude, dtype=np.float64)
        return self._rotation.from_quat((x, y, z, w))

    def _motion(self) -> Floats:
        return np.array([self._state["velocity"], self._state["angular_velocity"]])

    def push(self, steps_left: int) -> None:
        """Let force and moment of the next step act."""
        left = steps_left * self._step
        self._before = velocity, rate = self._motion()
        turn = (self._rotation_of(self._state["attitude"]).inv() * self._goal).as_rotvec()
        turning = 6.0 * turn / left**2 - (4.0 * rate + 2.0 * self._rate) / left
        if steps_left == 1:
            turning = (self._rate - rate) / left
        self._given = np.array([(self._velocity - velocity) / left, turning]) - self._others
        self._state["external_force"] = self._mass * self._given[0]
        self._state["external_moment"] = self._inertia @ self._given[1]

    def observe(self) -> None:
        """Learn from the step that has been taken what else acts; nothing from outside acts any more."""
        self._others = (self._motion() - self._before) / self._step - self._given
        self._state["external_force"] = self._state["external_moment"] = 0.0
