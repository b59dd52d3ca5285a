"""Odometry by small_gicp: GICP against a map of Gaussian voxels (Koide, JOSS 9(100), 2024); an extra."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.core.odometry.deskew import deskewed, predicted
from sitl_bridge.core.odometry.samples import LidarTurn, Pose, missing_estimator

NEIGHBOURS = 10
"""Of a point, for its covariance: small_gicp's default."""
LEAST_POINTS = 20
"""Of a turn."""


class SmallGicpOdometry:
    """Scan-to-map odometry, on one thread, so that equal clouds give equal poses.

    The next pose is predicted by constant velocity, and by the gyroscope's rotation or else a constant one;
    this prediction also takes the distortion by motion out of the turn.

    Args:
        voxel: m, of the map; a turn is thinned to half of it.

    Raises:
        UserError: where the package is missing.
    """

    def __init__(self, voxel: float) -> None:
        try:
            import small_gicp
        except ImportError as error:
            raise missing_estimator("small-gicp", "small-gicp") from error
        self._library = small_gicp
        self._voxel = voxel
        self._map = small_gicp.GaussianVoxelMap(voxel)
        self._pose, self._motion = np.eye(4), np.eye(4)
        self._begun = False

    def update(self, turn: LidarTurn) -> Pose:
        """Return the pose at the end of the turn."""
        motion = predicted(self._motion, turn)
        cloud = self._cloud(deskewed(turn, motion))
        pose = self._pose
        if self._begun:
            pose = self._pose @ motion
            if cloud is not None:
                found = self._library.align(
                    self._map,
                    cloud,
                    pose,
                    max_correspondence_distance=2.0 * self._voxel,
                    num_threads=1,
                    max_iterations=30,
                )
                pose = np.array(found.T_target_source)
        if cloud is not None:
            self._map.insert(cloud, pose)
            self._begun = True
        self._motion = np.linalg.inv(self._pose) @ pose
        self._pose = pose
        return pose.copy()

    def _cloud(self, points: NDArray[np.float64]) -> Any:
        """The thinned points with their covariances; None if there are fewer than LEAST_POINTS."""
        if len(points) < LEAST_POINTS:
            return None
        cloud, _ = self._library.preprocess_points(
            points, downsampling_resolution=0.5 * self._voxel, num_neighbors=NEIGHBOURS, num_threads=1
        )
        return cloud if cloud.size() >= LEAST_POINTS else None
