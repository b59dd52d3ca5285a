"""The sensors that see the scene.  A new one is a module here and a line in this list."""

from __future__ import annotations

from sitl_bridge.core.sensors.perception.camera import CameraSpecification
from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.marker_detector import MarkerDetectorSpecification
from sitl_bridge.core.sensors.perception.payload_camera import PayloadCameraSpecification
from sitl_bridge.core.sensors.perception.scanner import ScannerSpecification
from sitl_bridge.core.sensors.perception.stereo_camera import (
    StereoCameraSpecification,
    VisualInertialSpecification,
)
from sitl_bridge.core.sensors.perception.visual_odometry import VisualOdometrySpecification

SeeingUnion = (
    ScannerSpecification
    | LidarSpecification
    | DepthCameraSpecification
    | CameraSpecification
    | StereoCameraSpecification
    | VisualInertialSpecification
    | VisualOdometrySpecification
    | MarkerDetectorSpecification
    | PayloadCameraSpecification
)
