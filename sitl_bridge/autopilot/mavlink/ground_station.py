"""Parameters that steer nothing and that QGroundControl looks up when it connects.

Without them it reports parameters as missing and calls the vehicle not set up (its AirframeComponent.cc and
SensorsComponent.cc).  Their values are fixed: what there is to set up is in the airframe's file.
"""

from __future__ import annotations

from sitl_bridge.autopilot.parameters import ParameterInfo


def _fixed(name: str, value: int, text: str) -> ParameterInfo:
    return ParameterInfo(name, value, value, value, "", text)


GROUND_STATION = (
    _fixed("SYS_AUTOSTART", 22000, "An airframe of the user's own, as PX4 numbers them from here on"),
    _fixed("CAL_ACC0_ID", 1, "The accelerometer needs no calibration"),
    _fixed("CAL_GYRO0_ID", 1, "The gyroscope needs no calibration"),
    _fixed("CAL_MAG0_ID", 1, "The magnetometer needs no calibration"),
)
