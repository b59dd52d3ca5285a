"""MAVLink 2 frames of the simulator link: messages, sizes, payloads and checksum.

Only the few messages of the link; everything else uses pymavlink, against which writer and parser are tested
byte for byte.  Field order and units are those of MAVLink's common.xml.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from sitl_bridge.base.arrays import Bytes, Ints, Singles
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.link.mavlink.common import mavlink_map

HEARTBEAT = 0
COMMAND_LONG = 76
HIL_ACTUATOR_CONTROLS = 93
HIL_SENSOR = 107
HIL_GPS = 113
HIL_OPTICAL_FLOW = 114
HIL_STATE_QUATERNION = 115
DISTANCE_SENSOR = 132
ODOMETRY = 331

CRC_EXTRA = np.array(
    [mavlink_map[k].crc_extra if k in mavlink_map else -1 for k in range(512)], dtype=np.int64
)
"""By the id of a message; -1 for messages that the dialect does not have.

Of all messages, not of the link's alone: a frame whose checksum fits is one, whatever its payload looks like,
and a link may carry telemetry.
"""

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


class SensorPayload(Record, align=False):
    """HIL_SENSOR in wire order."""

    time_usec: Annotated[int, "<u8"]
    acc: Annotated[Singles, 3]
    gyro: Annotated[Singles, 3]
    mag: Annotated[Singles, 3]
    abs_pressure: Annotated[float, "<f4"]
    diff_pressure: Annotated[float, "<f4"]
    pressure_alt: Annotated[float, "<f4"]
    temperature: Annotated[float, "<f4"]
    fields_updated: Annotated[int, "<u4"]
    id: Annotated[int, "u1"]


class GpsPayload(Record, align=False):
    """HIL_GPS in wire order."""

    time_usec: Annotated[int, "<u8"]
    lat: Annotated[int, "<i4"]
    lon: Annotated[int, "<i4"]
    alt: Annotated[int, "<i4"]
    eph: Annotated[int, "<u2"]
    epv: Annotated[int, "<u2"]
    vel: Annotated[int, "<u2"]
    vn: Annotated[int, "<i2"]
    ve: Annotated[int, "<i2"]
    vd: Annotated[int, "<i2"]
    cog: Annotated[int, "<u2"]
    fix_type: Annotated[int, "u1"]
    satellites_visible: Annotated[int, "u1"]
    id: Annotated[int, "u1"]
    yaw: Annotated[int, "<u2"]


class TruthPayload(Record, align=False):
    """HIL_STATE_QUATERNION in wire order."""

    time_usec: Annotated[int, "<u8"]
    q: Annotated[Singles, 4]
    rates: Annotated[Singles, 3]
    lat: Annotated[int, "<i4"]
    lon: Annotated[int, "<i4"]
    alt: Annotated[int, "<i4"]
    vel: Annotated[Ints, "<i2", 3]
    ind_airspeed: Annotated[int, "<u2"]
    true_airspeed: Annotated[int, "<u2"]
    acc: Annotated[Ints, "<i2", 3]


class DistancePayload(Record, align=False):
    """DISTANCE_SENSOR in wire order."""

    time_boot_ms: Annotated[int, "<u4"]
    min_distance: Annotated[int, "<u2"]
    max_distance: Annotated[int, "<u2"]
    current_distance: Annotated[int, "<u2"]
    type: Annotated[int, "u1"]
    id: Annotated[int, "u1"]
    orientation: Annotated[int, "u1"]
    covariance: Annotated[int, "u1"]
    horizontal_fov: Annotated[float, "<f4"]
    vertical_fov: Annotated[float, "<f4"]
    quaternion: Annotated[Singles, 4]
    signal_quality: Annotated[int, "u1"]


class FlowPayload(Record, align=False):
    """HIL_OPTICAL_FLOW in wire order."""

    time_usec: Annotated[int, "<u8"]
    integration_time_us: Annotated[int, "<u4"]
    integrated_x: Annotated[float, "<f4"]
    integrated_y: Annotated[float, "<f4"]
    integrated_gyro: Annotated[Singles, 3]
    time_delta_distance_us: Annotated[int, "<u4"]
    distance: Annotated[float, "<f4"]
    temperature: Annotated[int, "<i2"]
    sensor_id: Annotated[int, "u1"]
    quality: Annotated[int, "u1"]


class Payloads(Record, align=False):
    """Payloads to send, in wire order: MAVLink sorts by size of the base type,
    with extensions as declared."""

    sensor: SensorPayload
    gps: GpsPayload
    truth: TruthPayload
    distance: DistancePayload
    flow: FlowPayload


PAYLOADS = Payloads.dtype
PAYLOAD_NAMES = {
    HIL_SENSOR: "sensor",
    HIL_GPS: "gps",
    HIL_STATE_QUATERNION: "truth",
    DISTANCE_SENSOR: "distance",
    HIL_OPTICAL_FLOW: "flow",
}
"""Names of the payloads in ``PAYLOADS`` by message ID."""


def payload_place(message: int) -> Ints:
    """(3,) offset and length of a message's payload within PAYLOADS, message ID.

    An array rather than three constants: numba would compile ``write_frame`` once for each set of constants.
    """
    assert PAYLOADS.fields is not None
    dtype, offset = PAYLOADS.fields[PAYLOAD_NAMES[message]][:2]
    return np.array([offset, dtype.itemsize, message], np.int64)


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
def checksum(data: Bytes, start: int, end: int, extra: int) -> int:
    """CRC-16/MCRF4XX of ``data[start:end]`` followed by the message's CRC extra."""
    crc = np.uint16(0xFFFF)
    for i in range(start, end):
        crc = (crc >> np.uint16(8)) ^ _CRC_TABLE[(crc ^ data[i]) & np.uint16(0xFF)]
    return int((crc >> np.uint16(8)) ^ _CRC_TABLE[(crc ^ np.uint16(extra)) & np.uint16(0xFF)])


@compiled
def read_unsigned(data: Bytes, at: int, size: int) -> int:
    """The number of ``size`` bytes, the lowest first."""
    value: Any = 0
    for i in range(size):
        value |= np.int64(data[at + i]) << (8 * i)
    return int(value)


@compiled
def crc_extra(message: int) -> int:
    """CRC extra of a message; -1 if the dialect does not have it."""
    return int(CRC_EXTRA[message]) if message < CRC_EXTRA.shape[0] else -1


@compiled
def claimed_length(data: Bytes, at: int, end: int) -> Any:
    """Length of the MAVLink 2 frame at ``at`` according to its header; 0 if no frame can begin there.

    Only bit 0 of the incompatibility flags is defined (signed); with any other bit set it is not a frame.
    """
    if end - at < 3:
        return HEADER + CHECKSUM
    if data[at + 2] > 1:
        return 0
    return HEADER + np.int64(data[at + 1]) + CHECKSUM + (SIGNATURE if data[at + 2] == 1 else 0)
