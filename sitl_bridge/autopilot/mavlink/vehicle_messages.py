"""Messages about the vehicle itself: state, battery, version, modes."""

from __future__ import annotations

import math
from typing import Any

from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.mavlink.ground_station import TYPES
from sitl_bridge.autopilot.mavlink.vehicle_snapshot import NAN, UNKNOWN, Snapshot, int32, rounded, uint16
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.core.world.geography import projection_at
from sitl_bridge.link.mavlink import common as mavlink

INTERFACE = (1, 16, 0)
"""The PX4 release whose MAVLink interface is implemented.  MAVSDK and QGroundControl (which warns below 1.4)
derive the supported requests from it; VENDOR_MARK and a status text identify this program."""

VENDOR_MARK = b"built"
"""Replaces the beginning of PX4's git hash, after the version of this program."""

CAPABILITIES = (
    mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_FLOAT
    | mavlink.MAV_PROTOCOL_CAPABILITY_PARAM_FLOAT
    | mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_INT
    | mavlink.MAV_PROTOCOL_CAPABILITY_COMMAND_INT
    | mavlink.MAV_PROTOCOL_CAPABILITY_PARAM_ENCODE_BYTEWISE
    | mavlink.MAV_PROTOCOL_CAPABILITY_FTP
    | mavlink.MAV_PROTOCOL_CAPABILITY_SET_ATTITUDE_TARGET
    | mavlink.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_LOCAL_NED
    | mavlink.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_GLOBAL_INT
    | mavlink.MAV_PROTOCOL_CAPABILITY_FLIGHT_TERMINATION
    | mavlink.MAV_PROTOCOL_CAPABILITY_MAVLINK2
    | mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_FENCE
    | mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_RALLY
)


def heartbeat(s: Snapshot) -> Any:
    """HEARTBEAT with PX4's modes and PX4's MAV_AUTOPILOT, from which partners choose their protocol."""
    commander = s.commander
    return mavlink.MAVLink_heartbeat_message(
        TYPES.get(s.source.rotor_count, mavlink.MAV_TYPE_GENERIC_MULTIROTOR),
        mavlink.MAV_AUTOPILOT_PX4,
        commander.mode.base_mode(commander.armed),
        commander.mode.custom_mode,
        commander.system_status,
        3,
    )


def sys_status(s: Snapshot) -> Any:
    """SYS_STATUS; as in PX4, the prearm check is a health bit."""
    commander = s.commander
    bits = commander.health_bits
    healthy = bits.healthy & ~mavlink.MAV_SYS_STATUS_PREARM_CHECK
    if not commander.arming_problems:
        healthy |= mavlink.MAV_SYS_STATUS_PREARM_CHECK
    battery = commander.battery_state
    return mavlink.MAVLink_sys_status_message(
        bits.present,
        bits.enabled,
        healthy,
        0,
        uint16(battery.voltage * 1e3),
        rounded(battery.current * 1e2, 0, 32767, -1),
        rounded(math.ceil(battery.remaining * 1e2) if math.isfinite(battery.remaining) else NAN, 0, 100, -1),
        *(0,) * 6,
    )


def battery_status(s: Snapshot) -> Any:
    """BATTERY_STATUS; the first cell holds the whole voltage, as in PX4 for an unknown number of cells."""
    battery = s.commander.battery_state
    voltage = uint16(battery.voltage * 1e3)
    return mavlink.MAVLink_battery_status_message(
        id=0,
        battery_function=mavlink.MAV_BATTERY_FUNCTION_ALL,
        type=mavlink.MAV_BATTERY_TYPE_LIPO,
        temperature=0x7FFF,
        voltages=[voltage] + [UNKNOWN] * 9,
        current_battery=rounded(battery.current * 1e2, 0, 32767, -1),
        current_consumed=-1,
        energy_consumed=-1,
        battery_remaining=rounded(battery.remaining * 1e2, 0, 100, -1),
        charge_state=battery.warning + mavlink.MAV_BATTERY_CHARGE_STATE_OK if battery.time >= 0 else 0,
    )


def extended_sys_state(s: Snapshot) -> Any:
    """EXTENDED_SYS_STATE."""
    return mavlink.MAVLink_extended_sys_state_message(
        mavlink.MAV_VTOL_STATE_UNDEFINED, int(s.commander.landed_state)
    )


def autopilot_version(s: Snapshot) -> Any:
    """AUTOPILOT_VERSION.

    QGroundControl and MAVSDK read the three lowest bytes of ``flight_custom_version`` as the vendor's version
    and the rest as a hash.  They hold this program's version and VENDOR_MARK, never a PX4 hash.
    """
    major, minor, patch = s.source.version
    custom = [patch, minor, major, *VENDOR_MARK]
    number = INTERFACE[0] << 24 | INTERFACE[1] << 16 | INTERFACE[2] << 8
    own = major << 24 | minor << 16 | patch << 8
    return mavlink.MAVLink_autopilot_version_message(
        capabilities=CAPABILITIES,
        flight_sw_version=number | mavlink.FIRMWARE_VERSION_TYPE_DEV,
        middleware_sw_version=own,
        os_sw_version=0,
        board_version=0,
        flight_custom_version=custom,
        middleware_custom_version=custom,
        os_custom_version=[0] * 8,
        vendor_id=0,
        product_id=0,
        uid=s.source.system_id,
        uid2=[s.source.system_id] + [0] * 17,
    )


def protocol_version(_: Snapshot) -> Any:
    """PROTOCOL_VERSION: MAVLink 2; MAVLink 1 is accepted."""
    return mavlink.MAVLink_protocol_version_message(200, 100, 200, [0] * 8, [0] * 8)


STANDARD_MODES = {
    flight_modes.POSITION_CONTROL: 1,
    flight_modes.ORBIT: 2,
    flight_modes.ALTITUDE_CONTROL: 4,
    flight_modes.AUTO_RTL: 5,
    flight_modes.AUTO_MISSION: 6,
    flight_modes.AUTO_LAND: 7,
    flight_modes.AUTO_TAKEOFF: 8,
}
"""MAV_STANDARD_MODE (development.xml); the other modes have custom names."""

ADVANCED, NOT_SELECTABLE = 1, 2
"""MAV_MODE_PROPERTY."""

SIMPLE_MODES = frozenset(
    {
        flight_modes.ALTITUDE_CONTROL,
        flight_modes.POSITION_CONTROL,
        flight_modes.AUTO_LOITER,
        flight_modes.AUTO_MISSION,
        flight_modes.AUTO_RTL,
        flight_modes.AUTO_LAND,
        flight_modes.AUTO_TAKEOFF,
    }
)
"""Modes that a ground station offers to every user (PX4's modes/ui.hpp)."""

OFFERED_MODES = tuple(
    mode for mode in flight_modes.MODES if mode not in (flight_modes.DESCEND, flight_modes.TERMINATION)
)
"""All modes except those entered only by a failsafe, one of which looks like Land to partners."""


def available_modes(which: float) -> list[Any]:
    """AVAILABLE_MODES: one by its index from 1, all for 0, none for other numbers."""
    count = len(OFFERED_MODES)
    if which == 0:
        wanted = range(1, count + 1)
    else:
        wanted = range(int(which), int(which) + 1) if 1 <= which <= count else range(0)
    return [_available_mode(index, count) for index in wanted]


def _available_mode(index: int, count: int) -> Any:
    mode = OFFERED_MODES[index - 1]
    standard = STANDARD_MODES.get(mode, 0)
    selectable = flight_modes.mode_of(mode.main, mode.sub) is mode
    properties = (0 if mode in SIMPLE_MODES else ADVANCED) | (0 if selectable else NOT_SELECTABLE)
    return mavlink.MAVLink_available_modes_message(
        number_modes=count,
        mode_index=index,
        standard_mode=standard,
        custom_mode=mode.custom_mode,
        properties=properties,
        mode_name=b"" if standard else mode.name.encode("ascii"),
    )


def current_mode(s: Snapshot) -> Any:
    """CURRENT_MODE: the active mode and the intended mode."""
    mode = s.commander.mode
    return mavlink.MAVLink_current_mode_message(
        standard_mode=STANDARD_MODES.get(mode, 0),
        custom_mode=mode.custom_mode,
        intended_custom_mode=s.commander.intended.custom_mode,
    )


def orbit_execution_status(s: Snapshot) -> Any:
    """ORBIT_EXECUTION_STATUS; None outside Orbit mode.  A negative radius turns left."""
    if s.commander.mode is not flight_modes.ORBIT or not s.has(records.GLOBAL):
        return None
    circle = s.commander.orbit.circle
    latitude, longitude, altitude = projection_at(*s.origin).place((circle.x, circle.y, circle.z))
    return mavlink.MAVLink_orbit_execution_status_message(
        s.now,
        math.copysign(circle.radius, circle.speed),
        mavlink.MAV_FRAME_GLOBAL_INT,
        int32(latitude * 1e7),
        int32(longitude * 1e7),
        altitude,
    )


def system_time(s: Snapshot) -> Any:
    """SYSTEM_TIME, simulated."""
    unix = s.source.unix_time
    return mavlink.MAVLink_system_time_message(unix + s.now if unix else 0, s.boot_ms)
