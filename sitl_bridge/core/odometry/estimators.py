"""The estimators of motion by name.  A new one is a module here and a line in one of these tables."""

from __future__ import annotations

from collections.abc import Callable

from sitl_bridge.core.odometry.lidar import KissIcpOdometry, SmallGicpOdometry
from sitl_bridge.core.odometry.samples import LidarEstimator, StereoRig
from sitl_bridge.core.odometry.stereo import StereoOdometry

LIDAR_ESTIMATORS: dict[str, Callable[[float], LidarEstimator]] = {
    "kiss-icp": KissIcpOdometry,
    "small-gicp": SmallGicpOdometry,
}
"""Each takes the size of its map's voxels in m."""
STEREO_ESTIMATORS: dict[str, Callable[[StereoRig], StereoOdometry]] = {
    "stereo-vo": StereoOdometry,
}
"""Each takes the geometry of the pair."""
