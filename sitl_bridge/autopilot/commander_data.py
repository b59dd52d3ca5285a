"""Inputs and outputs of the commander besides the records: vehicle, targets, battery, health; plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

NAN3 = (math.nan, math.nan, math.nan)

# --- MAV_RESULT
ACCEPTED, TEMPORARILY_REJECTED, DENIED, UNSUPPORTED, FAILED = 0, 1, 2, 3, 4

# --- MAV_SEVERITY
EMERGENCY, CRITICAL, WARNING, INFO = 0, 2, 4, 6


class LandedState(IntEnum):
    """MAV_LANDED_STATE."""

    ON_GROUND = 1
    IN_AIR = 2
    TAKING_OFF = 3
    LANDING = 4


class SystemStatus(IntEnum):
    """MAV_STATE."""

    UNINITIALISED = 0
    STANDBY = 3
    ACTIVE = 4
    CRITICAL = 5
    TERMINATED = 8


@dataclass(frozen=True)
class VehicleFacts:
    """Properties of the vehicle that the commander uses.

    Attributes:
        name: of the airframe.
        hover_thrust: share of full thrust that hovers, 0..1.
        mass: kg.
        thrust_to_weight: full thrust over weight.
        motors: number of motors.
        has_gps: whether the sensor is fitted; likewise the others.
    """

    name: str = "vehicle"
    hover_thrust: float = 0.5
    mass: float = 1.5
    thrust_to_weight: float = 2.0
    motors: int = 4
    has_gps: bool = True
    has_magnetometer: bool = True
    has_barometer: bool = True
    has_range_finder: bool = False
    has_optical_flow: bool = False
    has_battery: bool = True


@dataclass(frozen=True, slots=True)
class OffboardTarget:
    """A setpoint of an offboard program; nan is not controlled.

    ``attitude`` and ``angular_velocity`` go with ``thrust``; they come alone, without the first three.

    Attributes:
        position: m NED from the origin of the vehicle's own estimate, where it was switched on.
        velocity: m/s NED, or of the body's heading frame (x forward, y right, z down) with ``body_frame``.
        acceleration: m/s^2 NED, or as ``velocity``.
        yaw: rad.
        yaw_rate: rad/s.
        attitude: quaternion (w, x, y, z) body to NED.
        angular_velocity: rad/s body.
        thrust: 0..1.
        body_frame: whether velocity and acceleration turn with the vehicle's heading.
    """

    position: tuple[float, float, float] = NAN3
    velocity: tuple[float, float, float] = NAN3
    acceleration: tuple[float, float, float] = NAN3
    yaw: float = math.nan
    yaw_rate: float = math.nan
    attitude: tuple[float, float, float, float] | None = None
    angular_velocity: tuple[float, float, float] | None = None
    thrust: float = math.nan
    body_frame: bool = False


@dataclass(slots=True)
class BatteryState:
    """The latest battery sample.

    Attributes:
        voltage: V.
        current: A.
        remaining: 0..1.
        time: us of the sample; -1 before the first.
        warning: PX4's level: 0 none, 1 low, 2 critical, 3 emergency.
    """

    voltage: float = math.nan
    current: float = math.nan
    remaining: float = math.nan
    time: int = -1
    warning: int = 0


@dataclass(slots=True)
class HealthBits:
    """MAV_SYS_STATUS_SENSOR bits of SYS_STATUS."""

    present: int = 0
    enabled: int = 0
    healthy: int = 0
