"""A gyroscope at a lidar, which gives an estimator of motion the rotation of each turn."""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.base.arrays import Floats, interpolated
from sitl_bridge.base.rotations import matrix_from_quaternion
from sitl_bridge.core.sensors.perception.view import View

RATE = 200.0
"""Hz."""
NOISE, WALK, TURN_ON = 3.394e-4, 3.8785e-5, 0.0087
"""rad/s/sqrt(Hz), rad/s^2/sqrt(Hz), rad/s: the ADIS16448 of RotorS's VI-sensor (component_snippets.xacro)."""


class TurnGyroscope:
    """The gyroscope of one lidar: white noise, and a bias that begins at a random value and walks.

    Args:
        mounting: (3, 3) lidar's axes to body.
        period: s of a turn.
    """

    def __init__(self, mounting: Floats, period: float) -> None:
        self._mounting = mounting
        self._period = period
        self._bias: Floats | None = None

    def rotation(self, view: View) -> Floats:
        """(3, 3) the lidar's axes at the end of the turn to its axes at the beginning.

        Raises:
            ValueError: where the poses come without inertial quantities.
        """
        poses, random = view.poses, view.random
        if poses.inertial is None:
            raise ValueError("odometry with a gyroscope needs the vehicle's inertial quantities")
        count = max(round(self._period * RATE), 1)
        seconds = self._period / count
        # Each sample stands for its interval, and is taken in the middle of it.
        times = view.time - (np.arange(count, 0.0, -1.0) - 0.5) * seconds * 1e6
        true = interpolated(times, poses.time, poses.inertial[:, 3:6])
        if self._bias is None:
            self._bias = TURN_ON * random.standard_normal(3)
        noise = NOISE / math.sqrt(seconds) * random.standard_normal((count, 3))
        walk = WALK * math.sqrt(seconds) * random.standard_normal((count, 3))
        bias = self._bias + np.cumsum(walk, axis=0)
        self._bias = bias[-1]
        return _turned((true @ self._mounting + noise + bias) * seconds)


def _turned(angles: Floats) -> Floats:
    """(3, 3) of successive turns (k, 3), each an axis times an angle in rad, in the axes before it."""
    w, v = 1.0, np.zeros(3)
    for half in 0.5 * angles:
        angle = float(np.linalg.norm(half))
        cosine, sine = math.cos(angle), half * np.sinc(angle / math.pi)
        w, v = w * cosine - float(v @ sine), w * sine + cosine * v + np.cross(v, sine)
    return np.ascontiguousarray(matrix_from_quaternion([w, *v]))
