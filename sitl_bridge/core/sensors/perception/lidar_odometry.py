"""The motion of a vehicle as an estimator makes it of its lidar's turns, in flight."""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.rotations import matrix_from_euler, matrix_from_quaternion, quaternion_from_matrix
from sitl_bridge.core.odometry.lidar import LIDAR_ESTIMATORS, LidarTurn, deskew
from sitl_bridge.core.sensors.perception.view import Arrays, View

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
        random = view.random
        count = max(round(self._period * RATE), 1)
        seconds = self._period / count
        # Each sample stands for its interval, and is taken in the middle of it.
        times = view.time - (np.arange(count, 0.0, -1.0) - 0.5) * seconds * 1e6
        true = view.poses.inertial_at(times)[:, 3:6]
        if self._bias is None:
            self._bias = TURN_ON * random.standard_normal(3)
        noise = NOISE / math.sqrt(seconds) * random.standard_normal((count, 3))
        walk = WALK * math.sqrt(seconds) * random.standard_normal((count, 3))
        bias = self._bias + np.cumsum(walk, axis=0)
        self._bias = bias[-1]
        return _chain_rotations((true @ self._mounting + noise + bias) * seconds)


def _chain_rotations(angles: Floats) -> Floats:
    """(3, 3) of successive turns (k, 3), each an axis times an angle in rad, in the axes before it."""
    w, v = 1.0, np.zeros(3)
    for half in 0.5 * angles:
        angle = float(np.linalg.norm(half))
        cosine, sine = math.cos(angle), half * np.sinc(angle / math.pi)
        w, v = w * cosine - float(v @ sine), w * sine + cosine * v + np.cross(v, sine)
    return np.ascontiguousarray(matrix_from_quaternion([w, *v]))


class LidarMotion:
    """The estimate of one lidar's motion.

    The frame begins at the lidar's place and at the vehicle's heading at the first turn, and is level: the
    vehicle's accelerometer levels it before the start.

    Args:
        name: of the estimator.
        voxel: m, of its map.
        mounting: (3, 3) lidar's axes to body.
        offset: m, of the lidar in the body.
        gyroscope: at the lidar, which gives the rotation of each turn; None: the estimator goes without.
        rays: (n, 3) beams in the lidar's axes where a map is built from the estimated poses; else None.

    Raises:
        UserError: where the estimator's package is missing.
    """

    def __init__(
        self,
        name: str,
        voxel: float,
        mounting: Floats,
        *,
        offset: tuple[float, float, float],
        gyroscope: TurnGyroscope | None = None,
        rays: Floats | None = None,
    ) -> None:
        self._estimator = LIDAR_ESTIMATORS[name](voxel)
        self._mounting, self._gyroscope = mounting, gyroscope
        self._begin: Floats | None = None
        self._offset, self._rays = np.array(offset, float), rays
        self._start, self._heading = np.zeros(3), np.eye(3)
        """Of the frame in the world: m NED, and rotation to NED."""
        self._before: Floats | None = None

    def update(self, view: View, arrays: Arrays) -> Arrays:
        """The sample with ``position`` (3,) in m and ``attitude``, w, x, y, z of the body, at its end.

        With ``rays`` also ``map_place`` (3,), where the lidar is, ``map_points`` (n, 3) and ``map_rays``
        (n, 3), the beams' directions, all in m NED by the estimate, which begins at the true pose of the
        first turn.
        """
        points = arrays["points"].astype(float)
        met = np.isfinite(points[:, 0])
        measured = None if self._gyroscope is None else self._gyroscope.rotation(view)
        turn = LidarTurn(points[met], arrays["offset"].astype(float)[met], measured)
        pose = self._estimator.update(turn)
        if self._begin is None:
            position, rotations = view.poses.at(np.array([float(view.time)]))
            rotation = rotations[0]
            self._heading = matrix_from_euler(0.0, 0.0, math.atan2(rotation[1, 0], rotation[0, 0]))
            self._begin = self._heading.T @ rotation @ self._mounting @ pose[:3, :3].T
            self._start = position[0] + rotation @ self._offset
        position = self._begin @ pose[:3, 3]
        found: Arrays = {
            "position": position,
            "attitude": quaternion_from_matrix(self._begin @ pose[:3, :3] @ self._mounting.T),
        }
        if self._rays is not None:
            before = pose if self._before is None else self._before
            self._before = pose
            motion = np.linalg.inv(before) @ pose
            rotation = self._heading @ self._begin @ pose[:3, :3]
            place = self._start + self._heading @ position
            seen = np.full(arrays["points"].shape, np.nan)
            seen[met] = place + deskew(turn, motion) @ rotation.T
            motion[:3, 3] = 0.0
            rays = deskew(LidarTurn(self._rays, arrays["offset"].astype(float)), motion) @ rotation.T
            found |= {"map_place": place, "map_points": seen, "map_rays": rays}
        return {**arrays, **found}
