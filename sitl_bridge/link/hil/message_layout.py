"""MAVLink 2 frames of the simulator link: messages, sizes, payloads and checksum.

Only the few messages of the link; everything else uses pymavlink, against which writer and parser are tested
byte for byte.  Field order, CRC extras and units are those of MAVLink's common.xml.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitl_bridge.base.kernels.compiled import compiled

HEARTBEAT = 0
COMMAND_LONG = 76
HIL_ACTUATOR_CONTROLS = 93
HIL_SENSOR = 107
HIL_GPS = 113
HIL_OPTICAL_FLOW = 114
HIL_STATE_QUATERNION = 115
DISTANCE_SENSOR = 132
LANDING_TARGET = 149
ODOMETRY = 331

SET_MESSAGE_INTERVAL = 511
SYSTEM_ID = 1
COMPONENT_ID = 51
"""Component ID of the simulator's frames; PX4 ignores it."""

MAGIC = 0xFD
MAGIC_1 = 0xFE
HEADER = 10
HEADER_1 = 6
CHECKSUM = 2
SIGNATURE = 13
MAX_FRAME = HEADER + 255 + CHECKSUM + SIGNATURE
MAX_STEP_BYTES = 24 * MAX_FRAME

FIELD_ACCELEROMETER = 0x7
FIELD_GYROSCOPE = 0x38
FIELD_MAGNETOMETER = 0x1C0
FIELD_BAROMETER = 0x1A00
FIELD_AIRSPEED = 0x400

PAYLOADS = np.dtype(
    [
        (
            "sensor",
            [
                ("time_usec", "<u8"),
                ("acc", "<f4", 3),
                ("gyro", "<f4", 3),
                ("mag", "<f4", 3),
                ("abs_pressure", "<f4"),
                ("diff_pressure", "<f4"),
                ("pressure_alt", "<f4"),
                ("temperature", "<f4"),
                ("fields_updated", "<u4"),
                ("id", "u1"),
            ],
        ),
        (
            "gps",
            [
                ("time_usec", "<u8"),
                ("lat", "<i4"),
                ("lon", "<i4"),
                ("alt", "<i4"),
                ("eph", "<u2"),
                ("epv", "<u2"),
                ("vel", "<u2"),
                ("vn", "<i2"),
                ("ve", "<i2"),
                ("vd", "<i2"),
                ("cog", "<u2"),
                ("fix_type", "u1"),
                ("satellites_visible", "u1"),
                ("id", "u1"),
                ("yaw", "<u2"),
            ],
        ),
        (
            "truth",
            [
                ("time_usec", "<u8"),
                ("q", "<f4", 4),
                ("rates", "<f4", 3),
                ("lat", "<i4"),
                ("lon", "<i4"),
                ("alt", "<i4"),
                ("vel", "<i2", 3),
                ("ind_airspeed", "<u2"),
                ("true_airspeed", "<u2"),
                ("acc", "<i2", 3),
            ],
        ),
        (
            "distance",
            [
                ("time_boot_ms", "<u4"),
                ("min_distance", "<u2"),
                ("max_distance", "<u2"),
                ("current_distance", "<u2"),
                ("type", "u1"),
                ("id", "u1"),
                ("orientation", "u1"),
                ("covariance", "u1"),
                ("horizontal_fov", "<f4"),
                ("vertical_fov", "<f4"),
                ("quaternion", "<f4", 4),
                ("signal_quality", "u1"),
            ],
        ),
        (
            "flow",
            [
                ("time_usec", "<u8"),
                ("integration_time_us", "<u4"),
                ("integrated_x", "<f4"),
                ("integrated_y", "<f4"),
                ("integrated_gyro", "<f4", 3),
                ("time_delta_distance_us", "<u4"),
                ("distance", "<f4"),
                ("temperature", "<i2"),
                ("sensor_id", "u1"),
                ("quality", "u1"),
            ],
        ),
    ]
)
"""Payloads to send, in wire order: MAVLink sorts by size of the base type; extensions follow as declared."""

RECEIVED = np.dtype(
    {
        # HIL_ACTUATOR_CONTROLS has the first four, COMMAND_LONG the others.
        "names": ["time_usec", "flags", "controls", "mode", "parameters", "command"],
        "formats": ["<u8", "<u8", ("<f4", (16,)), "u1", ("<f4", (7,)), "<u2"],
        "offsets": [0, 8, 16, 80, 0, 28],
        "itemsize": 255,
    }
)
"""The payload of a received frame, padded with zeros, as whichever message it is."""


def _crc_table() -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    """Table of the CRC-16/MCRF4XX (reflected polynomial 0x8408), MAVLink's checksum."""
    table = np.zeros(256, np.uint16)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ 0x8408 if value & 1 else value >> 1
        table[byte] = value
    return table


_CRC_TABLE = _crc_table()


@compiled
def checksum(data: Any, start: int, end: int, extra: int) -> int:
    """CRC-16/MCRF4XX of ``data[start:end]`` followed by the message's CRC extra."""
    crc = np.uint16(0xFFFF)
    for i in range(start, end):
        crc = (crc >> np.uint16(8)) ^ _CRC_TABLE[(crc ^ data[i]) & np.uint16(0xFF)]
    return int((crc >> np.uint16(8)) ^ _CRC_TABLE[(crc ^ np.uint16(extra)) & np.uint16(0xFF)])
