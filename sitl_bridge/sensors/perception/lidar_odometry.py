"""The motion of a vehicle as an estimator makes it of its lidar's turns, in flight."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.odometry.estimators import LIDAR_ESTIMATORS
from sitl_bridge.odometry.samples import LidarTurn
from sitl_bridge.sensors.perception.view import Arrays, View
from sitl_bridge.sensors.perception.visual_odometry import quaternion_of, turned


class LidarMotion:
    """The estimate of one lidar's motion.

    The frame begins at the lidar's place and at the vehicle's heading at the first turn, and is level: the
    vehicle's accelerometer levels it before the start.

    Args:
        name: of the estimator.
        voxel: m, of its map.
        mounting: (3, 3) lidar's axes to body.

    Raises:
        UserError: where the estimator's package is missing.
    """

    def __init__(self, name: str, voxel: float, mounting: NDArray[np.float64]) -> None:
        self._estimator = LIDAR_ESTIMATORS[name](voxel)
        self._mounting = mounting
        self._begin: NDArray[np.float64] | None = None

    def update(self, view: View, arrays: Arrays) -> Arrays:
        """The sample with ``position`` (3,) in m and ``attitude``, w, x, y, z of the body, at its end."""
        points = arrays["points"].astype(float)
        met = np.isfinite(points[:, 0])
        turn = LidarTurn(points[met], arrays["offset"].astype(float)[met])
        pose = self._estimator.update(turn)
        if self._begin is None:
            rotation = view.poses.at(np.array([float(view.time)]))[1][0]
            level = turned(math.atan2(rotation[1, 0], rotation[0, 0])).T @ rotation
            self._begin = level @ self._mounting @ pose[:3, :3].T
        return {
            **arrays,
            "position": self._begin @ pose[:3, 3],
            "attitude": quaternion_of(self._begin @ pose[:3, :3] @ self._mounting.T),
        }
