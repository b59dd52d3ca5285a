"""Checks before arming and mode changes, and the health bits of SYS_STATUS.

The texts are PX4's (commander/HealthAndArmingChecks).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.commander_data import BatteryState, HealthBits, VehicleFacts
from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.flight_modes import Mode
from sitl_bridge.autopilot.modes.tasks.sticks import Sticks
from sitl_bridge.autopilot.safety.failsafe import FailsafeConditions

LOSS_FACTOR = 2.5
"""Factor on the accuracy limits of an estimate that was valid (PX4: COM_POS_FS_EPH)."""

# --- MAV_SYS_STATUS_SENSOR
GYROSCOPE, ACCELEROMETER, MAGNETOMETER, BAROMETER, GPS, FLOW, RANGE = 1, 2, 4, 8, 0x20, 0x40, 0x100
ATTITUDE_STABILIZATION, POSITION_CONTROL, MOTORS, RC_RECEIVER = 0x800, 0x4000, 0x8000, 0x10000
AHRS, BATTERY, PREARM = 0x200000, 0x2000000, 0x10000000

SENSOR_BITS = {
    "gyroscope": GYROSCOPE,
    "accelerometer": ACCELEROMETER,
    "magnetometer": MAGNETOMETER,
    "barometer": BAROMETER,
    "gps": GPS,
    "optical_flow": FLOW,
    "range_finder": RANGE,
    "motor": MOTORS,
    "battery": BATTERY,
}

WORDS = (
    (flight_modes.ATTITUDE, "No valid attitude estimate"),
    (
        flight_modes.LOCAL_POSITION | flight_modes.RELAXED_POSITION,
        "Navigation error: No valid position estimate",
    ),
    (flight_modes.GLOBAL_POSITION, "Navigation error: No valid global position estimate"),
    (flight_modes.ALTITUDE, "Navigation error: No valid altitude estimate"),
    (flight_modes.MISSION, "No valid mission available"),
    (flight_modes.OFFBOARD_SIGNAL, "No offboard signal"),
    (flight_modes.HOME, "Home position not set"),
    (flight_modes.MANUAL_CONTROL, "No manual control input"),
)
"""Text for each mode requirement that is not met (modeCheck.cpp)."""


class Accuracy:
    """Whether position and velocity are accurate enough, with hysteresis."""

    __slots__ = ("position", "velocity")

    def __init__(self) -> None:
        self.position = False
        self.velocity = False

    def update(self, state: EstimatedState, values: Mapping[str, float]) -> None:
        """Update with the estimate."""
        limit = values["COM_POS_FS_EPH"]
        if self.position:
            limit *= LOSS_FACTOR
        self.position = bool(state.valid & records.POSITION) and (limit < 0.0 or state.eph <= limit)
        limit = values["COM_VEL_FS_EVH"]
        if self.velocity:
            limit *= LOSS_FACTOR
        self.velocity = bool(state.valid & records.VELOCITY) and state.evh <= limit


def missing_needs(
    state: EstimatedState, accuracy: Accuracy, home: bool, mission: bool, offboard: bool, manual: bool
) -> int:
    """Return the mode requirements (bits of flight_modes.py) that are not met."""
    valid = state.valid
    missing = 0
    if not valid & records.ATTITUDE:
        missing |= flight_modes.ATTITUDE
    if not (accuracy.position and accuracy.velocity and valid & records.HEADING):
        missing |= flight_modes.LOCAL_POSITION | flight_modes.GLOBAL_POSITION
    if not valid & records.GLOBAL:
        missing |= flight_modes.GLOBAL_POSITION
    if not accuracy.velocity:
        missing |= flight_modes.RELAXED_POSITION
    if not valid & records.HEIGHT:
        missing |= flight_modes.ALTITUDE
    if not home:
        missing |= flight_modes.HOME
    if not mission:
        missing |= flight_modes.MISSION
    if not offboard:
        missing |= flight_modes.OFFBOARD_SIGNAL
    if not manual:
        missing |= flight_modes.MANUAL_CONTROL
    return missing


def arming_problems(
    mode: Mode,
    conditions: FailsafeConditions,
    state: EstimatedState,
    values: Mapping[str, float],
    battery: BatteryState,
    failures: Mapping[str, Mapping[int, str]],
    needs_home: bool,
) -> tuple[str, ...]:
    """Return the texts of the checks that prevent arming in ``mode``; empty if it can arm.

    ``needs_home``: whether the geofence does.
    """
    missing = conditions.missing
    problems = [words for bits, words in WORDS if mode.needs & missing & bits]
    if mode.needs & flight_modes.NO_ARMING:
        problems.append("Mode not suitable for arming")
    if not state.valid & records.HEADING and state.valid & records.ATTITUDE:
        problems.append("Heading estimate not stable")
    level, least = battery.warning, values["COM_ARM_BAT_MIN"]
    if least >= 0.0:
        if battery.remaining < least:
            problems.append("Low battery")
    elif level >= 2:
        problems.append("Critical battery" if level == 2 else "Emergency battery level")
    for kind, instances in failures.items():
        if kind in SENSOR_BITS and "off" in instances.values():
            problems.append(f"{kind.replace('_', ' ').capitalize()} failure")
    if conditions.station_lost and values["NAV_DLL_ACT"]:
        problems.append("No connection to the ground control station")
    if conditions.fence is not None and values["GF_ACTION"]:
        problems.append(f"Geofence violation: {conditions.fence}")
    if needs_home and missing & flight_modes.HOME and values["GF_ACTION"] == 3:
        problems.append("Geofence RTL requires valid home")
    if state.tilt > math.radians(max(values["FD_FAIL_R"], values["FD_FAIL_P"]) or 180.0):
        problems.append("Attitude failure detected")
    return tuple(problems)


def stick_problem(mode: Mode, sticks: Sticks, missing: int, values: Mapping[str, float]) -> str | None:
    """Return the reason why the throttle prevents arming; None if it does not."""
    if not mode.manual or missing & flight_modes.MANUAL_CONTROL:
        return None
    dead = 0.5 * values["MPC_HOLD_DZ"]
    if mode in (flight_modes.ALTITUDE_CONTROL, flight_modes.POSITION_CONTROL):
        return "throttle above center" if sticks.throttle > 0.5 + dead else None
    return "high throttle" if sticks.throttle > dead else None


def health(
    facts: VehicleFacts,
    missing: int,
    manual_present: bool,
    battery_level: int,
    failures: Mapping[str, Mapping[int, str]],
    can_arm: bool,
) -> HealthBits:
    """The bits of SYS_STATUS."""
    present = GYROSCOPE | ACCELEROMETER | AHRS | ATTITUDE_STABILIZATION | POSITION_CONTROL | MOTORS | PREARM
    present |= BATTERY | (RC_RECEIVER if manual_present else 0)
    for kind in facts.sensors:
        present |= SENSOR_BITS.get(kind, 0)
    healthy = present
    if missing & flight_modes.ATTITUDE:
        healthy &= ~(AHRS | ATTITUDE_STABILIZATION)
    if missing & flight_modes.LOCAL_POSITION:
        healthy &= ~POSITION_CONTROL
    if missing & flight_modes.GLOBAL_POSITION:
        healthy &= ~GPS
    if missing & flight_modes.MANUAL_CONTROL:
        healthy &= ~RC_RECEIVER
    if battery_level >= 2:
        healthy &= ~BATTERY
    for kind, instances in failures.items():
        if instances:
            healthy &= ~SENSOR_BITS.get(kind, 0)
    if not can_arm:
        healthy &= ~PREARM
    return HealthBits(present, healthy)
