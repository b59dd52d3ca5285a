"""The messages that the vehicle sends, one function each.

Units and meanings follow PX4 (its mavlink/streams); a function notes where PX4 deviates from MAVLink's
specification.  The rates are in ``streams.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sitl_bridge import __version__
from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.payload_control import REGIONS, PayloadControl
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.base.rotations import euler_angles
from sitl_bridge.core.world.atmosphere import pressure_altitude
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import MULTIROTORS
from sitl_bridge.link.mavlink.message import MavlinkMessage

UNKNOWN = 0xFFFF
"""Value of an unknown uint16 field."""

NAN = math.nan


@dataclass
class TelemetrySource:
    """Data source of the telemetry.  The records are views that the stack writes and telemetry only reads."""

    system_id: int  # MAVLink system id
    rotor_count: int  # number of rotors of the airframe
    commander: Commander  # mode, arming, mission, home, battery (``commander.Commander``)
    estimate: Packed  # () ESTIMATE
    setpoint: Packed  # () SETPOINT
    measurement: Packed  # () MEASUREMENT
    controls: Floats  # (16,) motor commands 0..1
    # the file being logged to; the logs in its directory are served.  None without a log.
    log: Path | None = None


class Snapshot:
    """State of the vehicle at one time, with the estimate as plain numbers, shared by all messages.

    Args:
        now: us of simulated time.
    """

    def __init__(self, source: TelemetrySource, now: int) -> None:
        estimate = source.estimate
        self.source = source
        self.commander = source.commander
        self.now = now
        self.boot_ms = now // 1000 & 0xFFFFFFFF
        self.valid = int(estimate["valid"])
        self.attitude: list[float] = estimate["attitude"].tolist()
        self.rates: list[float] = estimate["angular_velocity"].tolist()
        self.velocity: list[float] = estimate["velocity"].tolist()
        self.position: list[float] = estimate["position"].tolist()
        self.origin: list[float] = estimate["origin"].tolist()

    def has(self, bits: int) -> bool:
        """Return whether the estimate has all of these bits of ESTIMATE.valid."""
        return self.valid & bits == bits

    @cached_property
    def euler(self) -> tuple[float, float, float]:
        """Roll, pitch and yaw in rad."""
        return euler_angles(*self.attitude)

    @cached_property
    def geodetic(self) -> tuple[float, float, float]:
        """Position: deg latitude, deg longitude, m altitude."""
        return Projection.from_radians(*self.origin).place(self.position)

    @cached_property
    def home(self) -> tuple[float, float, float] | None:
        """Home in the local frame: m north, east, down; None if unknown."""
        home = self.commander.home
        return None if home is None else Projection.from_radians(*self.origin).position(home)

    @property
    def heading(self) -> float:
        """deg, 0..360."""
        return math.degrees(self.euler[2]) % 360.0


def round_to_field(value: float, low: int, high: int, unknown: int) -> int:
    """Return ``value`` rounded and limited to its field, or ``unknown`` if it is not finite."""
    return min(max(round(value), low), high) if math.isfinite(value) else unknown


def int16(value: float) -> int:
    """Return a value for an int16 field; 0 if it is not finite."""
    return round_to_field(value, -32768, 32767, 0)


def uint16(value: float, unknown: int = UNKNOWN) -> int:
    """Return a value for a uint16 field, or ``unknown`` if it is not finite."""
    return round_to_field(value, 0, 65534, unknown)


def int32(value: float) -> int:
    """Return a value for an int32 field; 0 if it is not finite."""
    return round_to_field(value, -(2**31), 2**31 - 1, 0)


INTERFACE = (1, 16, 0)
"""The PX4 release whose MAVLink interface is implemented.  MAVSDK and QGroundControl (which warns below 1.4)
derive the supported requests from it; VENDOR_MARK and a status text identify this program."""

VENDOR_MARK = b"built"
"""Replaces the beginning of PX4's git hash, after the version of this program."""

CAPABILITIES = (
    mavlink.MAV_PROTOCOL_CAPABILITY_PARAM_FLOAT
    | mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_INT
    | mavlink.MAV_PROTOCOL_CAPABILITY_COMMAND_INT
    | mavlink.MAV_PROTOCOL_CAPABILITY_PARAM_ENCODE_BYTEWISE
    | mavlink.MAV_PROTOCOL_CAPABILITY_SET_ATTITUDE_TARGET
    | mavlink.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_LOCAL_NED
    | mavlink.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_GLOBAL_INT
    | mavlink.MAV_PROTOCOL_CAPABILITY_FLIGHT_TERMINATION
    | mavlink.MAV_PROTOCOL_CAPABILITY_MAVLINK2
    | mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_FENCE
    | mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_RALLY
)


def heartbeat(s: Snapshot) -> MavlinkMessage:
    """HEARTBEAT with PX4's modes and PX4's MAV_AUTOPILOT, from which peers choose their protocol."""
    commander = s.commander
    return mavlink.MAVLink_heartbeat_message(
        MULTIROTORS.get(s.source.rotor_count, mavlink.MAV_TYPE_GENERIC_MULTIROTOR),
        mavlink.MAV_AUTOPILOT_PX4,
        commander.mode.base_mode(commander.armed),
        commander.mode.custom_mode,
        commander.system_status,
        3,
    )


def sys_status(s: Snapshot) -> MavlinkMessage:
    """SYS_STATUS; as in PX4, the prearm check is a health bit."""
    commander = s.commander
    present, healthy = commander.health_bits
    battery = commander.battery_state
    return mavlink.MAVLink_sys_status_message(
        present,
        present,
        healthy,
        0,
        uint16(battery.voltage * 1e3),
        round_to_field(battery.current * 1e2, 0, 32767, -1),
        round_to_field(
            math.ceil(battery.remaining * 1e2) if math.isfinite(battery.remaining) else NAN, 0, 100, -1
        ),
        *(0,) * 6,
    )


def battery_status(s: Snapshot) -> MavlinkMessage:
    """BATTERY_STATUS; the first cell holds the whole voltage, as in PX4 for an unknown number of cells."""
    battery = s.commander.battery_state
    voltage = uint16(battery.voltage * 1e3)
    return mavlink.MAVLink_battery_status_message(
        id=0,
        battery_function=mavlink.MAV_BATTERY_FUNCTION_ALL,
        type=mavlink.MAV_BATTERY_TYPE_LIPO,
        temperature=0x7FFF,
        voltages=[voltage] + [UNKNOWN] * 9,
        current_battery=round_to_field(battery.current * 1e2, 0, 32767, -1),
        current_consumed=-1,
        energy_consumed=-1,
        battery_remaining=round_to_field(battery.remaining * 1e2, 0, 100, -1),
        charge_state=battery.warning + mavlink.MAV_BATTERY_CHARGE_STATE_OK if battery.time >= 0 else 0,
    )


def extended_sys_state(s: Snapshot) -> MavlinkMessage:
    """EXTENDED_SYS_STATE."""
    return mavlink.MAVLink_extended_sys_state_message(
        mavlink.MAV_VTOL_STATE_UNDEFINED, s.commander.landed_state
    )


def autopilot_version(s: Snapshot) -> MavlinkMessage:
    """AUTOPILOT_VERSION.

    QGroundControl and MAVSDK read the three lowest bytes of ``flight_custom_version`` as the vendor's version
    and the rest as a hash.  They hold this program's version and VENDOR_MARK, never a PX4 hash.
    """
    major, minor, patch = (int(part) for part in __version__.split("."))
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


def protocol_version(_: Snapshot) -> MavlinkMessage:
    """PROTOCOL_VERSION: MAVLink 2; MAVLink 1 is accepted."""
    return mavlink.MAVLink_protocol_version_message(200, 100, 200, [0] * 8, [0] * 8)


def orbit_execution_status(s: Snapshot) -> MavlinkMessage | None:
    """ORBIT_EXECUTION_STATUS; None outside Orbit mode.  A negative radius turns left."""
    if s.commander.mode is not flight_modes.ORBIT or not s.has(records.GLOBAL):
        return None
    circle = s.commander.orbit.circle
    latitude, longitude, altitude = Projection.from_radians(*s.origin).place((circle.x, circle.y, circle.z))
    return mavlink.MAVLink_orbit_execution_status_message(
        s.now,
        math.copysign(circle.radius, circle.speed),
        mavlink.MAV_FRAME_GLOBAL_INT,
        int32(latitude * 1e7),
        int32(longitude * 1e7),
        altitude,
    )


def system_time(s: Snapshot) -> MavlinkMessage:
    """SYSTEM_TIME, simulated; UTC is not known."""
    return mavlink.MAVLink_system_time_message(0, s.boot_ms)


def attitude(s: Snapshot) -> MavlinkMessage | None:
    """ATTITUDE."""
    return (
        mavlink.MAVLink_attitude_message(s.boot_ms, *s.euler, *s.rates) if s.has(records.ATTITUDE) else None
    )


def attitude_quaternion(s: Snapshot) -> MavlinkMessage | None:
    """ATTITUDE_QUATERNION."""
    if not s.has(records.ATTITUDE):
        return None
    return mavlink.MAVLink_attitude_quaternion_message(s.boot_ms, *s.attitude, *s.rates)


def local_position_ned(s: Snapshot) -> MavlinkMessage | None:
    """LOCAL_POSITION_NED; as in PX4, only while position and velocity are both known."""
    if not s.has(records.POSITION | records.VELOCITY | records.HEIGHT):
        return None
    return mavlink.MAVLink_local_position_ned_message(s.boot_ms, *s.position, *s.velocity)


def global_position_int(s: Snapshot) -> MavlinkMessage | None:
    """GLOBAL_POSITION_INT."""
    if not s.has(records.GLOBAL | records.POSITION | records.HEIGHT):
        return None
    latitude, longitude, altitude = s.geodetic
    above_home = s.home[2] - s.position[2] if s.home is not None else -s.position[2]
    return mavlink.MAVLink_global_position_int_message(
        s.boot_ms,
        int32(latitude * 1e7),
        int32(longitude * 1e7),
        int32(altitude * 1e3),
        int32(above_home * 1e3),
        *(int16(v * 1e2) for v in s.velocity),
        round(s.heading * 1e2) % 36000,
    )


def vfr_hud(s: Snapshot) -> MavlinkMessage:
    """VFR_HUD; the airspeed is not measured."""
    controls = s.source.controls[: s.source.rotor_count]
    throttle = float(controls.mean()) * 100.0 if s.commander.armed and len(controls) else 0.0
    return mavlink.MAVLink_vfr_hud_message(
        0.0,
        math.hypot(s.velocity[0], s.velocity[1]),
        round(s.heading) % 360,
        uint16(throttle, 0),
        s.geodetic[2],
        -s.velocity[2],
    )


def altitude(s: Snapshot) -> MavlinkMessage | None:
    """ALTITUDE."""
    if not s.has(records.HEIGHT):
        return None
    up = -s.position[2]
    clearance = float(s.source.estimate["height_above_ground"])
    return mavlink.MAVLink_altitude_message(
        s.now,
        _height_by(float(s.source.measurement["pressure"])),
        s.geodetic[2],
        up,
        up + s.home[2] if s.home is not None else up,
        up - clearance,
        clearance,
    )


def _height_by(pressure: float) -> float:
    return pressure_altitude(pressure) if pressure > 0.0 else NAN


def odometry(s: Snapshot) -> MavlinkMessage | None:
    """ODOMETRY: pose and velocity in the local frame, as in PX4."""
    if not s.has(records.ATTITUDE | records.POSITION | records.HEIGHT):
        return None
    estimate = s.source.estimate
    pose, twist = [NAN] * 21, [NAN] * 21
    variances = [
        *estimate["position_deviation"].tolist(),
        *estimate["attitude_deviation"].tolist(),
    ]
    for at, deviation in zip((0, 6, 11, 15, 18, 20), variances, strict=True):
        pose[at] = deviation * deviation
    for at, deviation in zip((0, 6, 11), estimate["velocity_deviation"].tolist(), strict=True):
        twist[at] = deviation * deviation
    return mavlink.MAVLink_odometry_message(
        s.now,
        mavlink.MAV_FRAME_LOCAL_NED,
        mavlink.MAV_FRAME_LOCAL_NED,
        *s.position,
        s.attitude,
        *s.velocity,
        *s.rates,
        pose,
        twist,
        int(estimate["resets"]) & 0xFF,
        mavlink.MAV_ESTIMATOR_TYPE_AUTOPILOT,
    )


def estimator_status(s: Snapshot) -> MavlinkMessage:
    """ESTIMATOR_STATUS; each ratio is the largest innovation over gate of a source."""
    estimate = s.source.estimate
    squared = estimate["test_ratio"].tolist()
    ratio = [math.sqrt(value) if value > 0.0 else 0.0 for value in squared]
    flags = 0
    for bits, flag in _ESTIMATOR_FLAGS:
        if s.has(bits):
            flags |= flag
    deviation = estimate["position_deviation"].tolist()
    return mavlink.MAVLink_estimator_status_message(
        s.now,
        flags,
        max(ratio[records.GPS_VELOCITY], ratio[records.FLOW_VELOCITY]),
        ratio[records.GPS_POSITION],
        ratio[records.BARO_HEIGHT],
        ratio[records.MAGNETIC_HEADING],
        ratio[records.RANGE_HEIGHT],
        0.0,
        math.hypot(deviation[0], deviation[1]),
        deviation[2],
    )


_ESTIMATOR_FLAGS = (
    (records.ATTITUDE, mavlink.ESTIMATOR_ATTITUDE),
    (records.VELOCITY, mavlink.ESTIMATOR_VELOCITY_HORIZ),
    (records.HEIGHT, mavlink.ESTIMATOR_VELOCITY_VERT | mavlink.ESTIMATOR_POS_VERT_ABS),
    (records.POSITION, mavlink.ESTIMATOR_POS_HORIZ_REL | mavlink.ESTIMATOR_PRED_POS_HORIZ_REL),
    (
        records.POSITION | records.GLOBAL,
        mavlink.ESTIMATOR_POS_HORIZ_ABS | mavlink.ESTIMATOR_PRED_POS_HORIZ_ABS,
    ),
    (records.ABOVE_GROUND, mavlink.ESTIMATOR_POS_VERT_AGL),
)


def gps_global_origin(s: Snapshot) -> MavlinkMessage | None:
    """GPS_GLOBAL_ORIGIN of the local frame."""
    if not s.has(records.GLOBAL):
        return None
    latitude, longitude, height = s.origin
    return mavlink.MAVLink_gps_global_origin_message(
        int32(math.degrees(latitude) * 1e7),
        int32(math.degrees(longitude) * 1e7),
        int32(height * 1e3),
        s.now,
    )


def home_position(s: Snapshot) -> MavlinkMessage | None:
    """HOME_POSITION; None while home is unknown."""
    home = s.commander.home
    if home is None or s.home is None:
        return None
    latitude, longitude, height = home
    return mavlink.MAVLink_home_position_message(
        int32(latitude * 1e7),
        int32(longitude * 1e7),
        int32(height * 1e3),
        *s.home,
        [1.0, 0.0, 0.0, 0.0],
        0.0,
        0.0,
        0.0,
        s.now,
    )


PULSE_AT_REST, PULSE_RANGE = 1000, 1000
"""Servo pulse at motor command 0 and its increase to command 1, us (PX4's simulated outputs)."""


def attitude_target(s: Snapshot) -> MavlinkMessage:
    """ATTITUDE_TARGET; without attitude at the trajectory level, because the controller computes its own."""
    setpoint = s.source.setpoint
    level = int(setpoint["level"])
    mask = 0 if level == records.LEVEL_RATES else 7
    mask |= 0 if level == records.LEVEL_ATTITUDE else mavlink.ATTITUDE_TARGET_TYPEMASK_ATTITUDE_IGNORE
    if level not in (records.LEVEL_ATTITUDE, records.LEVEL_RATES):
        mask |= mavlink.ATTITUDE_TARGET_TYPEMASK_THROTTLE_IGNORE
    thrust = float(setpoint["thrust"])
    return mavlink.MAVLink_attitude_target_message(
        s.boot_ms,
        mask,
        setpoint["attitude"].tolist(),
        *setpoint["angular_velocity"].tolist(),
        thrust,
    )


def position_target_local_ned(s: Snapshot) -> MavlinkMessage | None:
    """POSITION_TARGET_LOCAL_NED; uncontrolled values are nan and masked, as in PX4."""
    setpoint = s.source.setpoint
    if int(setpoint["level"]) != records.TRAJECTORY:
        return None
    values = [
        *setpoint["position"].tolist(),
        *setpoint["velocity"].tolist(),
        *setpoint["acceleration"].tolist(),
        float(setpoint["yaw"]),
        float(setpoint["yaw_rate"]),
    ]
    # bits 0 to 8 position, velocity, acceleration; 9 is "force"; 10 yaw, 11 yaw rate
    bits = [*range(9), 10, 11]
    mask = sum(1 << bit for bit, value in zip(bits, values, strict=True) if not math.isfinite(value))
    return mavlink.MAVLink_position_target_local_ned_message(
        s.boot_ms, mavlink.MAV_FRAME_LOCAL_NED, mask, *values
    )


def servo_output_raw(s: Snapshot) -> MavlinkMessage:
    """SERVO_OUTPUT_RAW: motor commands as pulses; 0 for unused outputs."""
    count = s.source.rotor_count
    controls = s.source.controls.tolist()[:16]
    pulses = [uint16(PULSE_AT_REST + PULSE_RANGE * value, 0) for value in controls[:count]]
    pulses += [0] * (16 - len(pulses))
    return mavlink.MAVLink_servo_output_raw_message(s.now & 0xFFFFFFFF, 0, *pulses)


def gps_raw_int(s: Snapshot) -> MavlinkMessage:
    """GPS_RAW_INT; eph and epv are unknown, because HIL_GPS has no dilution of precision."""
    m = s.source.measurement
    north, east, _ = m["gps_velocity"].tolist()
    height = int32(float(m["altitude"]) * 1e3)
    return mavlink.MAVLink_gps_raw_int_message(
        s.now,
        int(m["fix"]),
        int32(math.degrees(float(m["latitude"])) * 1e7),
        int32(math.degrees(float(m["longitude"])) * 1e7),
        height,
        UNKNOWN,
        UNKNOWN,
        uint16(math.hypot(north, east) * 1e2),
        uint16(math.degrees(math.atan2(east, north)) % 360.0 * 1e2 % 36000),
        round_to_field(float(m["satellites"]), 0, 254, 255),
        height,
        round_to_field(float(m["eph"]) * 1e3, 0, 2**32 - 1, 0),
        round_to_field(float(m["epv"]) * 1e3, 0, 2**32 - 1, 0),
    )


def highres_imu(s: Snapshot) -> MavlinkMessage:
    """HIGHRES_IMU: accelerometer, gyroscope, magnetometer in gauss, pressure in hPa."""
    m = s.source.measurement
    pressure = float(m["pressure"])
    return mavlink.MAVLink_highres_imu_message(
        s.now,
        *m["accelerometer"].tolist(),
        *m["gyroscope"].tolist(),
        *(value * 1e4 for value in m["magnetometer"].tolist()),
        pressure * 1e-2,
        0.0,
        _height_by(pressure),
        NAN,
        0x3F | 0x1C0 | 0xA00,
    )


def scaled_pressure(s: Snapshot) -> MavlinkMessage:
    """SCALED_PRESSURE."""
    pressure = float(s.source.measurement["pressure"])
    return mavlink.MAVLink_scaled_pressure_message(s.boot_ms, pressure * 1e-2, 0.0, 0)


def distance_sensor(s: Snapshot) -> MavlinkMessage | None:
    """DISTANCE_SENSOR facing down; None if nothing is in range."""
    distance = float(s.source.measurement["range"])
    if not distance > 0.0:
        return None
    return mavlink.MAVLink_distance_sensor_message(
        s.boot_ms,
        0,
        0xFFFE,
        uint16(distance * 1e2),
        mavlink.MAV_DISTANCE_SENSOR_LASER,
        0,
        mavlink.MAV_SENSOR_ROTATION_PITCH_270,
        255,
    )


MESSAGES: dict[int, Callable[[Snapshot], MavlinkMessage | None]] = {
    getattr(mavlink, f"MAVLINK_MSG_ID_{make.__name__.upper()}"): make
    for make in (
        heartbeat, sys_status, battery_status, extended_sys_state, autopilot_version, protocol_version,
        system_time, orbit_execution_status, attitude, attitude_quaternion,
        local_position_ned, global_position_int, vfr_hud, altitude, odometry, estimator_status,
        gps_global_origin, home_position, gps_raw_int, highres_imu, scaled_pressure, distance_sensor,
        attitude_target, position_target_local_ned, servo_output_raw,
    )
}  # fmt: skip
"""Messages by id, each made by the function of its name, which returns None while its values are unknown."""


CAMERA_COMMANDS = range(2000, 3000)


def payload_messages(payload: PayloadControl, system: int) -> Iterator[MavlinkMessage]:
    """CAMERA_TRIGGER and commands that are waiting; those with a place as COMMAND_INT.

    Args:
        payload: emptied.
    """
    while payload.triggers:
        time, number = payload.triggers.popleft()
        yield mavlink.MAVLink_camera_trigger_message(time, number)
    while payload.commands:
        command, params = payload.commands.popleft()
        component = int(mavlink.MAV_COMP_ID_CAMERA) if command in CAMERA_COMMANDS else 0
        if command in REGIONS:
            latitude, longitude = (v if abs(v) <= 180.0 else 0.0 for v in params[4:6])
            place = (round(latitude * 1e7), round(longitude * 1e7), params[6])
            frame = mavlink.MAV_FRAME_GLOBAL
            yield mavlink.MAVLink_command_int_message(
                system, component, frame, command, 0, 0, *params[:4], *place
            )
        else:
            yield mavlink.MAVLink_command_long_message(system, component, command, 0, *params)
