"""Odometry from the turns of a lidar by KISS-ICP and small_gicp; an extra.

KISS-ICP is point-to-point ICP against a voxel map (Vizzo et al., IEEE RA-L 8(2), 2023).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.extras import missing_package

Pose = Floats
"""(4, 4), axes of the sensor at a sample to its axes at the first sample."""
EXTRA = "odometry"
"""Extra of this package that installs the estimators."""


class LidarTurn(NamedTuple):
    """The points of one turn of a lidar."""

    points: Floats  # (n, 3) m in the sensor's axes, each at its own time
    offset: Floats  # (n,) s from the end of the turn, 0 or negative
    # (3, 3) of a gyroscope, axes at the end of the turn to axes at its beginning; None without one: the
    # estimator then expects the motion of the turn before
    rotation: Floats | None = None


def rotation_vector(rotation: Floats) -> Floats:
    """(3,) rad, axis times angle, of a rotation matrix by less than half a turn."""
    skew = 0.5 * np.array(
        [
            rotation[2, 1] - rotation[1, 2],
            rotation[0, 2] - rotation[2, 0],
            rotation[1, 0] - rotation[0, 1],
        ]
    )
    sine, cosine = float(np.linalg.norm(skew)), 0.5 * (float(np.trace(rotation)) - 1.0)
    if sine < 1e-12:
        return np.zeros(3)
    return np.asarray(skew * (np.arctan2(sine, cosine) / sine))


def predict_motion(motion: Pose, turn: LidarTurn) -> Pose:
    """(4, 4) motion expected of a turn, axes at its end to axes at its beginning.

    Args:
        motion: (4, 4) of the turn before.
        turn: whose rotation by a gyroscope replaces that of the motion, if there is one.
    """
    if turn.rotation is None:
        return motion
    found = motion.copy()
    found[:3, :3] = turn.rotation
    return found


def deskew(turn: LidarTurn, motion: Pose) -> Floats:
    """(n, 3) points in the sensor's axes at the end of the turn, at constant velocity and turn rate.

    Args:
        motion: (4, 4) of one turn: axes at its end to axes at its beginning.
    """
    span = float(-turn.offset.min()) if len(turn.offset) else 0.0
    if span == 0.0:
        return turn.points
    share = turn.offset / span
    axis = rotation_vector(motion[:3, :3])
    angle = float(np.linalg.norm(axis))
    points = turn.points
    if angle > 1e-12:
        k = axis / angle
        a = (share * angle)[:, None]
        # Rodrigues' formula.
        along = (points @ k)[:, None] * k
        points = along + np.cos(a) * (points - along) + np.sin(a) * np.cross(k, points)
    # Of the motion in the axes of the end, to first order of the angle of a turn.
    shift = motion[:3, :3].T @ motion[:3, 3]
    return np.asarray(points + share[:, None] * shift)


FARTHEST = 100.0
"""m; KISS-ICP's default of the greatest range."""
FIRST_THRESHOLD = 4.0
"""First threshold of correspondences as a multiple of the voxel; KISS-ICP's 2 m is for roads."""


class KissIcpOdometry:
    """KISS-ICP's pipeline, on one thread, so that equal clouds give equal poses.

    Args:
        voxel: m, of the map.

    Raises:
        UserError: where the package is missing.
    """

    def __init__(self, voxel: float) -> None:
        try:
            from kiss_icp.config import KISSConfig
            from kiss_icp.kiss_icp import KissICP
        except ImportError as error:
            raise missing_package("kiss-icp", "estimators of the kind kiss-icp", EXTRA) from error
        threshold = {"initial_threshold": min(FIRST_THRESHOLD * voxel, 2.0), "min_motion_th": 0.1 * voxel}
        self._pipeline = KissICP(
            KISSConfig(
                data={"max_range": FARTHEST, "deskew": True},
                mapping={"voxel_size": voxel},
                registration={"max_num_threads": 1},
                adaptive_threshold=threshold,
            )
        )

    def update(self, turn: LidarTurn) -> Pose:
        """Return the pose at the end of the turn."""
        if len(turn.points) == 0:
            return np.array(self._pipeline.last_pose)
        self._pipeline.last_delta = predict_motion(np.array(self._pipeline.last_delta), turn)
        self._pipeline.register_frame(turn.points, turn.offset)
        return np.array(self._pipeline.last_pose)


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
            raise missing_package("small-gicp", "estimators of the kind small-gicp", EXTRA) from error
        self._library = small_gicp
        self._voxel = voxel
        self._map = small_gicp.GaussianVoxelMap(voxel)
        self._pose, self._motion = np.eye(4), np.eye(4)
        self._begun = False

    def update(self, turn: LidarTurn) -> Pose:
        """Return the pose at the end of the turn."""
        motion = predict_motion(self._motion, turn)
        cloud = self._cloud(deskew(turn, motion))
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

    def _cloud(self, points: Floats) -> Any:
        """The thinned points with their covariances; None if there are fewer than LEAST_POINTS."""
        if len(points) < LEAST_POINTS:
            return None
        cloud, _ = self._library.preprocess_points(
            points, downsampling_resolution=0.5 * self._voxel, num_neighbors=NEIGHBOURS, num_threads=1
        )
        return cloud if cloud.size() >= LEAST_POINTS else None


LIDAR_ESTIMATORS: dict[str, type[KissIcpOdometry | SmallGicpOdometry]] = {
    "kiss-icp": KissIcpOdometry,
    "small-gicp": SmallGicpOdometry,
}
"""By name; each takes the size of its map's voxels in m."""
