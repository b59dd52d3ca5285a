"""Trajectories of poses compared, and the odometry that estimates them from clouds and images.

For research programs and for ``lab``: these names change only with a line in the changelog.
"""

from sitl_bridge.analysis.evaluation.pose_error import (
    Alignment,
    Comparison,
    DeltaUnit,
    PoseTrajectory,
    align,
    compare,
    pairs_by_delta,
)
from sitl_bridge.core.odometry.lidar import LIDAR_ESTIMATORS, LidarTurn
from sitl_bridge.core.odometry.stereo import (
    STEREO_ESTIMATOR,
    CameraModel,
    StereoImages,
    StereoOdometry,
    StereoRig,
)
from sitl_bridge.core.world.cloud_file import ENDINGS, read_cloud

__all__ = [
    "ENDINGS",
    "LIDAR_ESTIMATORS",
    "STEREO_ESTIMATOR",
    "Alignment",
    "CameraModel",
    "Comparison",
    "DeltaUnit",
    "LidarTurn",
    "PoseTrajectory",
    "StereoImages",
    "StereoOdometry",
    "StereoRig",
    "align",
    "compare",
    "pairs_by_delta",
    "read_cloud",
]
