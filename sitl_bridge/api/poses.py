"""Trajectories of poses compared, and the odometry that estimates them from clouds and images.

For research programs and for ``lab``: these names change only with a line in the changelog.
"""

from sitl_bridge.analysis.evaluation.pose_error import Alignment as Alignment
from sitl_bridge.analysis.evaluation.pose_error import Comparison as Comparison
from sitl_bridge.analysis.evaluation.pose_error import DeltaUnit as DeltaUnit
from sitl_bridge.analysis.evaluation.pose_error import PoseTrajectory as PoseTrajectory
from sitl_bridge.analysis.evaluation.pose_error import align as align
from sitl_bridge.analysis.evaluation.pose_error import compare as compare
from sitl_bridge.analysis.evaluation.pose_error import pairs_by_delta as pairs_by_delta
from sitl_bridge.core.odometry.lidar import LIDAR_ESTIMATORS as LIDAR_ESTIMATORS
from sitl_bridge.core.odometry.lidar import LidarTurn as LidarTurn
from sitl_bridge.core.odometry.stereo import STEREO_ESTIMATOR as STEREO_ESTIMATOR
from sitl_bridge.core.odometry.stereo import CameraModel as CameraModel
from sitl_bridge.core.odometry.stereo import StereoImages as StereoImages
from sitl_bridge.core.odometry.stereo import StereoOdometry as StereoOdometry
from sitl_bridge.core.odometry.stereo import StereoRig as StereoRig
from sitl_bridge.core.world.cloud_file import ENDINGS as ENDINGS
from sitl_bridge.core.world.cloud_file import read_cloud as read_cloud
