"""Messages with the estimate: attitude, position, height, their accuracy, home."""

from __future__ import annotations

import math
from typing import Any

from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.mavlink.vehicle_snapshot import NAN, Snapshot, int16, int32, uint16
from sitl_bridge.link.mavlink import common as mavlink


def attitude(s: Snapshot) -> Any:
    """ATTITUDE."""
    return (
        mavlink.MAVLink_attitude_message(s.boot_ms, *s.euler, *s.rates) if s.has(records.ATTITUDE) else None
    )


def attitude_quaternion(s: Snapshot) -> Any:
    """ATTITUDE_QUATERNION."""
    if not s.has(records.ATTITUDE):
        return None
    return mavlink.MAVLink_attitude_quaternion_message(s.boot_ms, *s.attitude, *s.rates)


def local_position_ned(s: Snapshot) -> Any:
    """LOCAL_POSITION_NED; as in PX4, only while position and velocity are both known."""
    if not s.has(records.POSITION | records.VELOCITY | records.HEIGHT):
        return None
    return mavlink.MAVLink_local_position_ned_message(s.boot_ms, *s.position, *s.velocity)


def global_position_int(s: Snapshot) -> Any:
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


def vfr_hud(s: Snapshot) -> Any:
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


def altitude(s: Snapshot) -> Any:
    """ALTITUDE."""
    if not s.has(records.HEIGHT):
        return None
    up = -s.position[2]
    clearance = float(s.source.estimate["height_above_ground"])
    return mavlink.MAVLink_altitude_message(
        s.now,
        pressure_altitude(float(s.source.measurement["pressure"])),
        s.geodetic[2],
        up,
        up + s.home[2] if s.home is not None else up,
        up - clearance,
        clearance,
    )


def pressure_altitude(pressure: float) -> float:
    """Return the height in m in the standard atmosphere (ICAO Doc 7488: 288.15 K, 101325 Pa, 6.5 K/km)."""
    return 44330.77 * (1.0 - (pressure / 101325.0) ** 0.190263) if pressure > 0.0 else NAN


def odometry(s: Snapshot) -> Any:
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


def estimator_status(s: Snapshot) -> Any:
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


def gps_global_origin(s: Snapshot) -> Any:
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


def home_position(s: Snapshot) -> Any:
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
