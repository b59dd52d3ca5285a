"""PX4's reports over MAVLink: status as plain values, texts, battery.

Converts decoded messages to values and back; sockets and threads are in session/monitor.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.link.px4.versions import release

MAIN_MODES = {1: "Manual", 2: "Altitude", 3: "Position", 5: "Acro", 6: "Offboard", 7: "Stabilized"}
AUTO_MODES = {
    1: "Ready",
    2: "Takeoff",
    3: "Hold",
    4: "Mission",
    5: "Return",
    6: "Land",
    8: "Follow",
    9: "Precision land",
}
"""px4_custom_mode.h: main mode in the third byte of custom_mode, sub-mode of mode 4 (auto) in the fourth."""
MODE_NUMBERS = {name: (main, 0) for main, name in MAIN_MODES.items()} | {
    name: (4, sub) for sub, name in AUTO_MODES.items()
}
"""Main mode and sub-mode, by PX4's name of a mode."""

LANDED_STATES = {
    mavlink.MAV_LANDED_STATE_UNDEFINED: "unknown",
    mavlink.MAV_LANDED_STATE_ON_GROUND: "on ground",
    mavlink.MAV_LANDED_STATE_IN_AIR: "in air",
    mavlink.MAV_LANDED_STATE_TAKEOFF: "taking off",
    mavlink.MAV_LANDED_STATE_LANDING: "landing",
}

SENSORS = {
    mavlink.MAV_SYS_STATUS_SENSOR_3D_GYRO: "gyroscope",
    mavlink.MAV_SYS_STATUS_SENSOR_3D_ACCEL: "accelerometer",
    mavlink.MAV_SYS_STATUS_SENSOR_3D_MAG: "magnetometer",
    mavlink.MAV_SYS_STATUS_SENSOR_ABSOLUTE_PRESSURE: "barometer",
    mavlink.MAV_SYS_STATUS_SENSOR_DIFFERENTIAL_PRESSURE: "airspeed sensor",
    mavlink.MAV_SYS_STATUS_SENSOR_GPS: "GPS",
    mavlink.MAV_SYS_STATUS_SENSOR_OPTICAL_FLOW: "optical flow",
    mavlink.MAV_SYS_STATUS_SENSOR_LASER_POSITION: "range finder",
    mavlink.MAV_SYS_STATUS_AHRS: "attitude estimate",
    mavlink.MAV_SYS_STATUS_SENSOR_BATTERY: "battery",
    mavlink.MAV_SYS_STATUS_SENSOR_MOTOR_OUTPUTS: "motors",
}

ESTIMATES = {
    mavlink.ESTIMATOR_ATTITUDE: "attitude",
    mavlink.ESTIMATOR_VELOCITY_HORIZ: "horizontal velocity",
    mavlink.ESTIMATOR_VELOCITY_VERT: "vertical velocity",
    mavlink.ESTIMATOR_POS_HORIZ_ABS: "position",
    mavlink.ESTIMATOR_POS_VERT_ABS: "height",
}


RESULTS = {
    mavlink.MAV_RESULT_TEMPORARILY_REJECTED: "temporarily rejected",
    mavlink.MAV_RESULT_DENIED: "denied",
    mavlink.MAV_RESULT_UNSUPPORTED: "unsupported",
    mavlink.MAV_RESULT_FAILED: "failed",
    mavlink.MAV_RESULT_CANCELLED: "cancelled",
    mavlink.MAV_RESULT_COMMAND_LONG_ONLY: "to be sent as COMMAND_LONG",
    mavlink.MAV_RESULT_COMMAND_INT_ONLY: "to be sent as COMMAND_INT",
    mavlink.MAV_RESULT_COMMAND_UNSUPPORTED_MAV_FRAME: "in a frame that it does not support",
}
"""Of refusals."""

TEXT_CHUNK = 50
"""Characters per STATUSTEXT; a longer text is split."""


@dataclass(frozen=True)
class BatterySample:
    """The last reading of the simulated battery sensor."""

    time: int  # us of simulated time
    voltage: float  # V of the pack
    current: float  # A
    remaining: float  # share 0..1
    consumed: float  # A s
    cells: int  # in series
    temperature: int = 0x7FFF  # field of BATTERY_STATUS, see ``battery_temperature``


@dataclass(frozen=True)
class VehicleMessage:
    """A text from PX4: a status text, or an event's text."""

    time: float  # s on PX4's clock at arrival
    level: int  # 0 emergency ... 6 info, 7 debug (MAV_SEVERITY).
    text: str  # without the tab with which PX4 marks texts that it also sends as events
    event: bool = False  # whether it was sent as an event


@dataclass(frozen=True)
class VehicleStatus:
    """The latest values reported by a vehicle; nan and empty before the first report."""

    heard: bool = False  # whether any message was received
    silent: bool = False  # whether messages were received and then stopped
    time: float = math.nan  # s on PX4's clock
    mode: str = ""  # flight mode, by PX4's name
    armed: bool = False  # whether the motors may turn
    landed: str = ""  # e.g. ``on ground``.
    position: tuple[float, float, float] = (math.nan, math.nan, math.nan)  # m north, east, down
    velocity: tuple[float, float, float] = (math.nan, math.nan, math.nan)  # m/s north, east, down
    position_time: float = math.nan  # s on PX4's clock of these two
    attitude: tuple[float, float, float] = (math.nan, math.nan, math.nan)  # rad roll, pitch, yaw
    battery_voltage: float = math.nan  # V
    battery_remaining: float = math.nan  # share 0..1
    unhealthy: tuple[str, ...] = ()  # enabled sensors that PX4 reports as unhealthy
    estimates: tuple[str, ...] = ()  # quantities that the estimator does not provide yet, by name
    can_arm: bool = False  # whether PX4's prearm check passes
    waits_for: tuple[str, ...] = ("the first heartbeat",)  # texts of the checks that prevent arming


def status_changes(number: int, message: MavlinkMessage) -> JsonObject:
    """Return the fields of :class:`VehicleStatus` that a message changes; empty for other messages."""
    reader = READERS.get(number)
    return reader(message) if reader is not None else {}


def _heartbeat(m: MavlinkMessage) -> JsonObject:
    armed = bool(m.base_mode & mavlink.MAV_MODE_FLAG_SAFETY_ARMED)
    return {"mode": mode_name(m.custom_mode), "armed": armed}


def _local_position(m: MavlinkMessage) -> JsonObject:
    time = m.time_boot_ms * 1e-3
    return {
        "time": time,
        "position_time": time,
        "position": (m.x, m.y, m.z),
        "velocity": (m.vx, m.vy, m.vz),
    }


def _attitude(m: MavlinkMessage) -> JsonObject:
    return {"attitude": (m.roll, m.pitch, m.yaw)}


def _system_time(m: MavlinkMessage) -> JsonObject:
    return {"time": m.time_boot_ms * 1e-3}


def _landed_state(m: MavlinkMessage) -> JsonObject:
    return {"landed": LANDED_STATES.get(m.landed_state, "unknown")}


def _health(m: MavlinkMessage) -> JsonObject:
    unhealthy = m.onboard_control_sensors_enabled & ~m.onboard_control_sensors_health
    return {
        "unhealthy": tuple(name for bit, name in SENSORS.items() if unhealthy & bit),
        "can_arm": bool(m.onboard_control_sensors_health & mavlink.MAV_SYS_STATUS_PREARM_CHECK),
    }


def _battery(m: MavlinkMessage) -> JsonObject:
    cells = [voltage for voltage in m.voltages if voltage != 0xFFFF]
    return {
        "battery_voltage": sum(cells) * 1e-3 if cells else math.nan,
        "battery_remaining": m.battery_remaining * 1e-2 if m.battery_remaining >= 0 else math.nan,
    }


def _estimator(m: MavlinkMessage) -> JsonObject:
    return {"estimates": tuple(name for bit, name in ESTIMATES.items() if not m.flags & bit)}


READERS: dict[int, Callable[[MavlinkMessage], JsonObject]] = {
    mavlink.MAVLINK_MSG_ID_HEARTBEAT: _heartbeat,
    mavlink.MAVLINK_MSG_ID_SYS_STATUS: _health,
    mavlink.MAVLINK_MSG_ID_SYSTEM_TIME: _system_time,
    mavlink.MAVLINK_MSG_ID_LOCAL_POSITION_NED: _local_position,
    mavlink.MAVLINK_MSG_ID_ATTITUDE: _attitude,
    mavlink.MAVLINK_MSG_ID_BATTERY_STATUS: _battery,
    mavlink.MAVLINK_MSG_ID_ESTIMATOR_STATUS: _estimator,
    mavlink.MAVLINK_MSG_ID_EXTENDED_SYS_STATE: _landed_state,
}
"""Decoding functions by message id."""


class TextAssembly:
    """Joins status texts that arrive in chunks, which PX4 sends one after the other (STATUSTEXT.hpp)."""

    def __init__(self) -> None:
        self._level, self._begun = 0, ""

    def take(self, message: MavlinkMessage) -> list[tuple[int, str]]:
        """Return level and text of what a STATUSTEXT completes.

        A chunk that is not full ends its text.  A text of full chunks alone ends when the next one begins.
        """
        whole = []
        if message.chunk_seq == 0 and self._begun:
            whole.append((self._level, self._begun))
            self._begun = ""
        self._level, self._begun = message.severity, self._begun + message.text
        if len(message.text) < TEXT_CHUNK:
            whole.append((self._level, self._begun))
            self._begun = ""
        return whole


def battery_temperature(version: str) -> int:
    """The field for a battery that measures none, as a PX4 of this version reads it.

    Up to v1.17 and v1.18.0-alpha1, it takes the number for deg C, also that for unknown
    (mavlink_receiver.cpp); main of July 2026 knows it, and hundredths.
    """
    number = release(version)
    return 25 if number is not None and number < (1, 18) else 0x7FFF


def battery_message(sample: BatterySample) -> MavlinkMessage:
    """Return BATTERY_STATUS of a sample.  PX4 sums the cells and reads at most ten."""
    shown = min(sample.cells, 10)
    cell = min(max(round(sample.voltage / shown * 1000), 0), 0xFFFE)
    return mavlink.MAVLink_battery_status_message(
        id=0,
        battery_function=mavlink.MAV_BATTERY_FUNCTION_ALL,
        type=mavlink.MAV_BATTERY_TYPE_LIPO,
        temperature=sample.temperature,
        voltages=[cell] * shown + [0xFFFF] * (10 - shown),
        current_battery=min(max(round(sample.current * 100), 0), 0x7FFF),
        current_consumed=min(round(sample.consumed / 3.6), 0x7FFFFFFF),
        energy_consumed=-1,
        battery_remaining=min(max(round(sample.remaining * 100), 0), 100),
    )


def mode_name(custom_mode: int) -> str:
    """Return PX4's name of a flight mode, from HEARTBEAT.custom_mode."""
    main, sub = custom_mode >> 16 & 0xFF, custom_mode >> 24 & 0xFF
    if main == 3 and sub:
        return {1: "Orbit", 2: "Position slow"}.get(sub, "Position")
    if main >= 10:
        return {10: "Termination", 11: "Altitude cruise"}.get(main, f"Mode {main}")
    if main == 4:
        return AUTO_MODES.get(sub, f"Auto {sub}")
    return MAIN_MODES.get(main, f"Mode {main}")
