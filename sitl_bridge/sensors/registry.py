"""The sensors an airframe may carry.  A new built-in sensor is one module, one line here, one in sample.py."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sitl_bridge.sensors.battery import BatterySpecification
from sitl_bridge.sensors.gps import GpsSpecification
from sitl_bridge.sensors.imu import ImuSpecification
from sitl_bridge.sensors.magnetometer import MagnetometerSpecification
from sitl_bridge.sensors.pressure import AirspeedSpecification, BarometerSpecification
from sitl_bridge.sensors.ranging import OpticalFlowSpecification, RangeFinderSpecification

SensorUnion = Annotated[
    ImuSpecification
    | MagnetometerSpecification
    | BarometerSpecification
    | GpsSpecification
    | AirspeedSpecification
    | RangeFinderSpecification
    | OpticalFlowSpecification
    | BatterySpecification,
    Field(discriminator="kind"),
]
