"""Messages with measurements of the sensors."""

from __future__ import annotations

import math
from typing import Any

from sitl_bridge.autopilot.mavlink.estimate_messages import pressure_altitude
from sitl_bridge.autopilot.mavlink.vehicle_snapshot import NAN, UNKNOWN, Snapshot, int32, rounded, uint16
from sitl_bridge.link.mavlink import common as mavlink


def gps_raw_int(s: Snapshot) -> Any:
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
        rounded(float(m["satellites"]), 0, 254, 255),
        height,
        rounded(float(m["eph"]) * 1e3, 0, 2**32 - 1, 0),
        rounded(float(m["epv"]) * 1e3, 0, 2**32 - 1, 0),
    )


def highres_imu(s: Snapshot) -> Any:
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
        pressure_altitude(pressure),
        NAN,
        0x3F | 0x1C0 | 0xA00,
    )


def scaled_pressure(s: Snapshot) -> Any:
    """SCALED_PRESSURE."""
    pressure = float(s.source.measurement["pressure"])
    return mavlink.MAVLink_scaled_pressure_message(s.boot_ms, pressure * 1e-2, 0.0, 0)


def distance_sensor(s: Snapshot) -> Any:
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


def vibration(s: Snapshot) -> Any:
    """VIBRATION: zero, because it is not measured."""
    return mavlink.MAVLink_vibration_message(s.now, 0.0, 0.0, 0.0, 0, 0, 0)
