"""The kinds of sensors.  A new built-in one is a module, its lines here, and its message, if it has one."""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.field_paths import kinds
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.dynamics.records import State, Vehicle
from sitl_bridge.core.sensors.battery_monitor import BATTERY, BatterySpecification, sample_battery
from sitl_bridge.core.sensors.custom import CustomSpecification
from sitl_bridge.core.sensors.error_model import SensorSpecification, draw_errors
from sitl_bridge.core.sensors.gps import GPS, GpsSpecification, sample_gps
from sitl_bridge.core.sensors.imu import IMU, ImuSpecification, sample_imu
from sitl_bridge.core.sensors.magnetometer import MAGNETOMETER, MagnetometerSpecification, sample_magnetometer
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
from sitl_bridge.core.sensors.pressure import (
    AIRSPEED,
    BAROMETER,
    AirspeedSpecification,
    BarometerSpecification,
    sample_airspeed,
    sample_barometer,
)
from sitl_bridge.core.sensors.ranging import (
    OPTICAL_FLOW,
    RANGE_FINDER,
    OpticalFlowSpecification,
    RangeFinderSpecification,
    sample_optical_flow,
    sample_range_finder,
)
from sitl_bridge.core.sensors.records import Sensor, SensorState
from sitl_bridge.core.world.records import Environment

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
KINDS: dict[str, type[SensorSpecification]] = {
    kind: made
    for made in get_args(get_args(SensorUnion)[0])
    if issubclass(made, SensorSpecification)
    for kind in kinds(made)
}
"""Specifications of the sensors that the compiled step samples, by kind."""
KIND_NAMES = {made.code: kind for kind, made in KINDS.items()}
"""Names of the kinds in airframe files, by code."""


@compiled
def measure(
    vehicle: Vehicle, state: State, environment: Environment, sensor: Sensor, memory: SensorState, out: Floats
) -> bool:
    """Take one sample into ``out`` ((MAX_VALUES,) row); False where the instrument puts out nothing."""
    draw_errors(sensor, memory)
    memory.drawn = 0
    kind = sensor.kind
    if kind == IMU:
        sample_imu(vehicle, state, environment, sensor, memory, out)
    elif kind == MAGNETOMETER:
        sample_magnetometer(state, environment, sensor, memory, out)
    elif kind == BAROMETER:
        sample_barometer(vehicle, state, environment, sensor, memory, out)
    elif kind == GPS:
        return sample_gps(state, environment, sensor, memory, out)
    elif kind == AIRSPEED:
        sample_airspeed(state, environment, sensor, memory, out)
    elif kind == RANGE_FINDER:
        sample_range_finder(environment, state, sensor, memory, out[:])
    elif kind == OPTICAL_FLOW:
        sample_optical_flow(environment, state, sensor, memory, out[:])
    elif kind == BATTERY:
        sample_battery(vehicle, state, sensor, memory, out)
    return True
