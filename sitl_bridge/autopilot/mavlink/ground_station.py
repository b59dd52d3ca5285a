"""Parameters without effect that QGroundControl reads when it connects.

Without them it reports missing parameters and a vehicle that is not set up (its AirframeComponent.cc and
SensorsComponent.cc).  Their values are fixed; the airframe file holds the actual settings.
"""

from __future__ import annotations

from sitl_bridge.autopilot.stack_parameters import ParameterInfo
from sitl_bridge.link.mavlink import common as mavlink

TYPES = {
    3: mavlink.MAV_TYPE_TRICOPTER,
    4: mavlink.MAV_TYPE_QUADROTOR,
    6: mavlink.MAV_TYPE_HEXAROTOR,
    8: mavlink.MAV_TYPE_OCTOROTOR,
    10: mavlink.MAV_TYPE_DECAROTOR,
    12: mavlink.MAV_TYPE_DODECAROTOR,
}
"""MAV_TYPE by number of rotors."""


def _fixed(name: str, value: int, text: str) -> ParameterInfo:
    return ParameterInfo(name, value, value, value, "", text)


def vehicle_type(rotors: int) -> ParameterInfo:
    """Return MAV_TYPE of a multirotor."""
    return _fixed("MAV_TYPE", TYPES.get(rotors, mavlink.MAV_TYPE_GENERIC), "Vehicle type, a MAV_TYPE")


GROUND_STATION = (
    _fixed("SYS_AUTOSTART", 22000, "User-defined airframe, as PX4 numbers them from here on"),
    _fixed("CAL_ACC0_ID", 1, "The accelerometer needs no calibration"),
    _fixed("CAL_GYRO0_ID", 1, "The gyroscope needs no calibration"),
    _fixed("CAL_MAG0_ID", 1, "The magnetometer needs no calibration"),
)
