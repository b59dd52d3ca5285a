"""Inputs and outputs of the commander besides the records: vehicle, targets, battery, health; plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from sitl_bridge.link.mavlink import common as mavlink

NAN3 = (math.nan, math.nan, math.nan)

ACCEPTED: int = mavlink.MAV_RESULT_ACCEPTED
TEMPORARILY_REJECTED: int = mavlink.MAV_RESULT_TEMPORARILY_REJECTED
DENIED: int = mavlink.MAV_RESULT_DENIED
UNSUPPORTED: int = mavlink.MAV_RESULT_UNSUPPORTED
FAILED: int = mavlink.MAV_RESULT_FAILED
EMERGENCY: int = mavlink.MAV_SEVERITY_EMERGENCY
CRITICAL: int = mavlink.MAV_SEVERITY_CRITICAL
WARNING: int = mavlink.MAV_SEVERITY_WARNING
INFO: int = mavlink.MAV_SEVERITY_INFO


@dataclass(frozen=True)
class VehicleFacts:
    """Properties of the vehicle that the commander uses."""

    hover_thrust: float = 0.5  # share of full thrust that hovers, 0..1
    motors: int = 4  # number of motors
    # kinds of the fitted sensors, as in airframe files
    sensors: frozenset[str] = frozenset({"gps", "magnetometer", "barometer"})


@dataclass(frozen=True, slots=True)
class OffboardTarget:
    """A setpoint of an offboard program; nan is not controlled.

    ``attitude`` and ``angular_velocity`` go with ``thrust``; they come alone, without the first three.
    """

    # m NED from the origin of the vehicle's own estimate, where it was switched on
    position: tuple[float, float, float] = NAN3
    # m/s NED, or of the body's heading frame (x forward, y right, z down) with ``body_frame``
    velocity: tuple[float, float, float] = NAN3
    acceleration: tuple[float, float, float] = NAN3  # m/s^2 NED, or as ``velocity``
    yaw: float = math.nan  # rad
    yaw_rate: float = math.nan  # rad/s
    attitude: tuple[float, float, float, float] | None = None  # quaternion (w, x, y, z) body to NED
    angular_velocity: tuple[float, float, float] | None = None  # rad/s body
    thrust: float = math.nan  # 0..1
    body_frame: bool = False  # whether velocity and acceleration turn with the vehicle's heading


@dataclass(slots=True)
class BatteryState:
    """The latest battery sample."""

    voltage: float = math.nan  # V
    current: float = math.nan  # A
    remaining: float = math.nan  # 0..1
    time: int = -1  # us of the sample; -1 before the first
    warning: int = 0  # PX4's level: 0 none, 1 low, 2 critical, 3 emergency


class HealthBits(NamedTuple):
    """MAV_SYS_STATUS_SENSOR bits of SYS_STATUS."""

    present: int  # all that are present are enabled
    healthy: int
