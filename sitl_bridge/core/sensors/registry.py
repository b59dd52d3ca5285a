"""The sensors of an airframe.  A new built-in sensor is a module, a line here and a line in sample.py."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sitl_bridge.core.sensors.battery_monitor import BatterySpecification
from sitl_bridge.core.sensors.custom import CustomSpecification
from sitl_bridge.core.sensors.gps import GpsSpecification
from sitl_bridge.core.sensors.imu import ImuSpecification
from sitl_bridge.core.sensors.magnetometer import MagnetometerSpecification
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
from sitl_bridge.core.sensors.pressure import AirspeedSpecification, BarometerSpecification
from sitl_bridge.core.sensors.ranging import OpticalFlowSpecification, RangeFinderSpecification

SensorUnion = Annotated[
    ImuSpecification
    | MagnetometerSpecification
    | BarometerSpecification
    | GpsSpecification
    | AirspeedSpecification
    | RangeFinderSpecification
    | OpticalFlowSpecification
    | BatterySpecification
    | ScannerSpecification
    | LidarSpecification
    | DepthCameraSpecification
    | CameraSpecification
    | StereoCameraSpecification
    | VisualInertialSpecification
    | VisualOdometrySpecification
    | MarkerDetectorSpecification
    | PayloadCameraSpecification
    | CustomSpecification,
    Field(discriminator="kind"),
]
