"""MAVLink 2 frames of the simulator link, encoded and parsed in compiled code.

Only the few messages of the link; everything else speaks through pymavlink, against which this codec is
tested byte for byte.  Field order, CRC extras and units are those of MAVLink's common.xml.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.sensors.axes import to_world
from sitl_bridge.sensors.records import (
    AIRSPEED,
    BAROMETER,
    GPS,
    IMU,
    MAGNETOMETER,
    MAX_SENSORS,
    NONE,
    OPTICAL_FLOW,
    RANGE_FINDER,
)
from sitl_bridge.world.atmosphere import (
    GAS_CONSTANT,
    SEA_LEVEL_PRESSURE,
    SEA_LEVEL_TEMPERATURE,
    air,
)
from sitl_bridge.world.earth import geodetic

HEARTBEAT = 0
COMMAND_LONG = 76
HIL_ACTUATOR_CONTROLS = 93
HIL_SENSOR = 107
HIL_GPS = 113
HIL_OPTICAL_FLOW = 114
HIL_STATE_QUATERNION = 115
DISTANCE_SENSOR = 132

SET_MESSAGE_INTERVAL = 511
SYSTEM_ID = 1
COMPONENT_ID = 51
"""MAV_COMP_ID_... of a simulator: PX4 does not look at it."""

MAGIC = 0xFD
MAGIC_1 = 0xFE
HEADER = 10
HEADER_1 = 6
CHECKSUM = 2
SIGNATURE = 13
MAX_FRAME = HEADER + 255 + CHECKSUM + SIGNATURE
MAX_STEP_BYTES = 24 * MAX_FRAME

SEA_LEVEL_DENSITY = SEA_LEVEL_PRESSURE / (GAS_CONSTANT * SEA_LEVEL_TEMPERATURE)
"""kg/m^3, to which indicated airspeed refers."""

FIELD_ACCELEROMETER = 0x7
FIELD_GYROSCOPE = 0x38
FIELD_MAGNETOMETER = 0x1C0
FIELD_BAROMETER = 0x1A00
FIELD_AIRSPEED = 0x400

# Payloads in wire order (MAVLink sorts by size of the base type; extensions follow as declared).
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


def _description(name: str, message: int, extra: int) -> NDArray[np.int64]:
    """(4,) offset and length of a payload within the scratch record, message id, CRC extra.

    An array, because numba compiles a kernel anew for every integer literal it is called with.
    """
    fields = PAYLOADS.fields
    assert fields is not None
    dtype, offset = fields[name][:2]
    return np.array([offset, dtype.itemsize, message, extra], np.int64)


_SENSOR = _description("sensor", HIL_SENSOR, 108)
_GPS = _description("gps", HIL_GPS, 124)
_TRUTH = _description("truth", HIL_STATE_QUATERNION, 4)
_DISTANCE = _description("distance", DISTANCE_SENSOR, 85)
_FLOW = _description("flow", HIL_OPTICAL_FLOW, 237)

LINK = np.dtype(
    [
        ("fd", "i8"),  # -1: nobody is connected
        ("sequence", "i8"),  # of the next frame sent
        ("have", "i8"),  # bytes in the receive buffer
        ("answered", "i8"),  # 1: the frame sent last was answered; 2: its answer is waited for no longer
        ("previous", "i8"),  # 1: the frame before it was answered
        ("lost", "i8"),  # 1: the peer closed the connection
        ("settled", "i8"),  # 1: in lockstep, every frame is answered before the next goes out
        ("stalled", "i8"),  # 1: answers stopped; frames go on at real time
        ("streak", "i8"),  # steps answered in a row while stalled
        ("held", "i8"),  # 1: the peer does not read; time waits for it
        ("left", "i8"),  # 1: stalled, and the others fly on without waiting for it
        ("quiet_until", "i8"),  # ns, end of the silence after first answers (left: after any); 0: none came
        ("out_start", "i8"),  # bytes of ``out`` that the socket has taken
        ("out_end", "i8"),  # bytes of ``out`` to be sent
        ("sent_bytes", "i8"),  # in all
        ("sent_frames", "i8"),  # steps in all
        ("sent_time", "i8"),  # us, time_usec of the last primary sensor frame
        ("wait_start", "i8"),  # ns, when waiting for its answer began
        ("truth_interval", "i8"),  # us between HIL_STATE_QUATERNION, 0 = not asked for
        ("truth_next", "i8"),  # us
        # --- the last HIL_ACTUATOR_CONTROLS
        ("time_usec", "i8"),
        ("flags", "u8"),
        ("mode", "i8"),
        ("controls", "f4", 16),
        # --- counters
        ("answers", "i8"),
        ("heartbeats", "i8"),
        ("garbage", "i8"),  # bytes that belong to no frame
        ("bad_checksums", "i8"),
        ("unknown", "i8"),  # frames of other messages
        ("mavlink1", "i8"),  # frames of MAVLink 1
        ("not_finite", "i8"),  # controls that were no finite number
        ("clamped", "i8"),  # controls out of range
        ("ahead", "i8"),  # commands with a time stamp ahead of the last frame's
    ],
    align=True,
)


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


@compiled
def write_frame(out: Any, at: int, payload: Any, description: Any, link: Any) -> int:
    """Frame a payload of ``payload`` into ``out`` at ``at``; returns where the frame ends.

    ``description`` is (4,): where the payload starts, its length, message id, CRC extra.  Trailing zeros of
    the payload are cut off, its first byte never, as MAVLink 2 demands.
    """
    start = description[0]
    length = description[1]
    message = description[2]
    while length > 1 and payload[start + length - 1] == 0:
        length -= 1
    out[at] = MAGIC
    out[at + 1] = length
    out[at + 2] = 0
    out[at + 3] = 0
    out[at + 4] = link.sequence & 0xFF
    out[at + 5] = SYSTEM_ID
    out[at + 6] = COMPONENT_ID
    out[at + 7] = message & 0xFF
    out[at + 8] = (message >> 8) & 0xFF
    out[at + 9] = (message >> 16) & 0xFF
    for i in range(length):
        out[at + HEADER + i] = payload[start + i]
    end = at + HEADER + length
    crc = checksum(out, at + 1, end, description[3])
    out[end] = crc & 0xFF
    out[end + 1] = crc >> 8
    link.sequence += 1
    return end + CHECKSUM


@compiled
def bounded(value: float, lower: float, upper: float) -> float:
    """Value rounded to the nearest integer within an integer field's range; nan becomes the lower end."""
    if not value > lower:
        return lower
    return min(np.rint(value), upper)


@compiled
def write_sensor(out: Any, at: int, p: Any, raw: Any, memories: Any, slots: Any, link: Any, time: int) -> int:
    """HIL_SENSOR of one instance from the sensors in ``slots`` (imu, mag, baro, airspeed; -1 = none).

    Fields without a fresh sample are 0 and not flagged.  Instance 0 is always written, for it moves PX4's
    clock, even where no sensor of it works; another one is not where none of its sensors has a sample.
    """
    fields = 0
    p.time_usec = time
    p.abs_pressure = 0.0
    p.diff_pressure = 0.0
    p.pressure_alt = 0.0
    p.temperature = 0.0
    for axis in range(3):
        p.acc[axis] = 0.0
        p.gyro[axis] = 0.0
        p.mag[axis] = 0.0
    if slots[0] >= 0 and memories[slots[0]].fresh == 1:
        values = memories[slots[0]].values
        for axis in range(3):
            p.acc[axis] = values[axis]
            p.gyro[axis] = values[3 + axis]
        p.temperature = values[6]
        fields |= FIELD_ACCELEROMETER | FIELD_GYROSCOPE
    if slots[1] >= 0 and memories[slots[1]].fresh == 1:
        for axis in range(3):
            p.mag[axis] = memories[slots[1]].values[axis] * 1e4
        fields |= FIELD_MAGNETOMETER
    if slots[2] >= 0 and memories[slots[2]].fresh == 1:
        values = memories[slots[2]].values
        p.abs_pressure = values[0] * 1e-2
        p.temperature = values[1]
        p.pressure_alt = values[2]
        fields |= FIELD_BAROMETER
    if slots[3] >= 0 and memories[slots[3]].fresh == 1:
        p.diff_pressure = memories[slots[3]].values[0] * 1e-2
        fields |= FIELD_AIRSPEED
    if fields == 0 and p.id != 0:
        return at
    p.fields_updated = fields
    return write_frame(out, at, raw, _SENSOR, link)


@compiled
def write_gps(out: Any, at: int, p: Any, raw: Any, memory: Any, instance: int, link: Any) -> int:
    """HIL_GPS: degE7, mm, cm, cm/s, centidegrees; ``time_usec`` is when the fix was taken."""
    values = memory.values
    p.time_usec = memory.time
    p.lat = np.int32(bounded(math.degrees(values[0]) * 1e7, -900000000.0, 900000000.0))
    p.lon = np.int32(bounded(math.degrees(values[1]) * 1e7, -1800000000.0, 1800000000.0))
    p.alt = np.int32(bounded(values[2] * 1e3, -2147483648.0, 2147483647.0))
    p.eph = np.uint16(bounded(values[6] * 1e2, 0.0, 65534.0))
    p.epv = np.uint16(bounded(values[7] * 1e2, 0.0, 65534.0))
    speed = math.sqrt(values[3] * values[3] + values[4] * values[4])
    p.vel = np.uint16(bounded(speed * 1e2, 0.0, 65534.0))
    p.vn = np.int16(bounded(values[3] * 1e2, -32768.0, 32767.0))
    p.ve = np.int16(bounded(values[4] * 1e2, -32768.0, 32767.0))
    p.vd = np.int16(bounded(values[5] * 1e2, -32768.0, 32767.0))
    course = math.degrees(math.atan2(values[4], values[3])) * 1e2
    if course < 0.0:
        course += 36000.0
    p.cog = np.uint16(bounded(course, 0.0, 35999.0))
    p.fix_type = np.uint8(values[8])
    p.satellites_visible = np.uint8(values[9])
    p.id = np.uint8(instance)
    p.yaw = np.uint16(0)
    return write_frame(out, at, raw, _GPS, link)


@compiled
def write_truth(
    out: Any, at: int, p: Any, raw: Any, state: Any, environment: Any, link: Any, time: int
) -> int:
    """HIL_STATE_QUATERNION; the accelerations are the velocity's derivative, NED, in mm/s^2.

    MAVLink says mG.  PX4 divides the fields by 1000 and logs them as ax, ay, az of
    vehicle_local_position_groundtruth (SimulatorMavlink.cpp), which are "velocity derivative in NED
    earth-fixed frame" in m/s^2 (VehicleLocalPosition.msg); so this makes its ground truth right.
    """
    lat, lon, height = geodetic(environment, state.position[0], state.position[1], state.position[2])
    force = state.specific_force
    north, east, down = to_world(state, force[0], force[1], force[2])
    p.acc[0] = np.int16(bounded(north * 1e3, -32768.0, 32767.0))
    p.acc[1] = np.int16(bounded(east * 1e3, -32768.0, 32767.0))
    p.acc[2] = np.int16(bounded((down + environment.gravity) * 1e3, -32768.0, 32767.0))
    p.time_usec = time
    for i in range(4):
        p.q[i] = state.attitude[i]
    square = 0.0
    for i in range(3):
        p.rates[i] = state.angular_velocity[i]
        p.vel[i] = np.int16(bounded(state.velocity[i] * 1e2, -32768.0, 32767.0))
        square += (state.velocity[i] - state.wind[i]) ** 2
    p.lat = np.int32(bounded(math.degrees(lat) * 1e7, -900000000.0, 900000000.0))
    p.lon = np.int32(bounded(math.degrees(lon) * 1e7, -1800000000.0, 1800000000.0))
    p.alt = np.int32(bounded(height * 1e3, -2147483648.0, 2147483647.0))
    airspeed = math.sqrt(square) * 1e2
    _, _, density = air(environment, state.position[2])
    p.true_airspeed = np.uint16(bounded(airspeed, 0.0, 65535.0))
    p.ind_airspeed = np.uint16(bounded(airspeed * math.sqrt(density / SEA_LEVEL_DENSITY), 0.0, 65535.0))
    return write_frame(out, at, raw, _TRUTH, link)


@compiled
def write_distance(
    out: Any, at: int, p: Any, raw: Any, memory: Any, instance: int, link: Any, time: int
) -> int:
    """DISTANCE_SENSOR, downward, in cm; no return is signalled by a quality of 1 % and the far limit."""
    values = memory.values
    p.time_boot_ms = np.uint32((time // 1000) & 0xFFFFFFFF)
    p.min_distance = np.uint16(bounded(values[1] * 1e2, 0.0, 65534.0))
    p.max_distance = np.uint16(bounded(values[2] * 1e2, 0.0, 65534.0))
    p.type = np.uint8(0)
    p.id = np.uint8(instance)
    p.orientation = np.uint8(25)
    p.covariance = np.uint8(bounded(values[3] * 1e4, 0.0, 254.0))
    if math.isfinite(values[0]):
        p.current_distance = np.uint16(bounded(values[0] * 1e2, 0.0, 65534.0))
        p.signal_quality = np.uint8(100)
    else:
        p.current_distance = np.uint16(bounded(values[2] * 1e2 + 1.0, 0.0, 65535.0))
        p.signal_quality = np.uint8(1)
    return write_frame(out, at, raw, _DISTANCE, link)


@compiled
def write_flow(out: Any, at: int, p: Any, raw: Any, memory: Any, link: Any, time: int) -> int:
    """HIL_OPTICAL_FLOW, rad integrated over the sample; a distance of -1 says it is not measured."""
    values = memory.values
    p.time_usec = time
    p.integration_time_us = np.uint32(bounded(values[5] * 1e6, 0.0, 4294967295.0))
    p.integrated_x = values[0]
    p.integrated_y = values[1]
    for axis in range(3):
        p.integrated_gyro[axis] = values[2 + axis]
    p.time_delta_distance_us = np.uint32(0)
    p.distance = values[6] if math.isfinite(values[6]) else -1.0
    p.temperature = np.int16(0)
    p.sensor_id = np.uint8(0)
    p.quality = np.uint8(values[7])
    return write_frame(out, at, raw, _FLOW, link)


@compiled
def write_step(
    out: Any,
    payloads: Any,
    raw: Any,
    state: Any,
    environment: Any,
    sensors: Any,
    memories: Any,
    link: Any,
    slots: Any,
    time: int,
) -> int:
    """All frames of one vehicle for one step; returns their length in bytes.

    HIL_SENSOR with id 0 comes first: it sets PX4's clock, and PX4 stamps everything else with its clock when
    it arrives; sent before, it would be stamped one step early.  The price: PX4's rate loop and estimator
    start on the inertial sample while the receiver still works through the rest, so an estimator cycle may
    see, say, a GPS fix one cycle later.  It has the right time stamp then, and GPS is fused 0.1 s late
    anyway.  Nothing slips into the next step: one thread reads the stream in order, and the next id 0 is
    behind all of this.

    Args:
        out: (MAX_STEP_BYTES,) uint8.
        payloads: (1,) PAYLOADS scratch.
        raw: the same memory as uint8.
        state: STATE record at ``time``.
        environment: ENVIRONMENT record.
        sensors: (MAX_SENSORS,) SENSOR, those of kind NONE last.
        memories: (MAX_SENSORS,) SENSOR_STATE.
        link: LINK record.
        slots: (3, 4) which sensor is the imu, magnetometer, barometer, airspeed of each instance, -1 none.
        time: us.
    """
    scratch = payloads[0]
    at: Any = np.int64(0)
    for instance in range(slots.shape[0]):
        scratch.sensor.id = np.uint8(instance)
        at = write_sensor(out, at, scratch.sensor, raw, memories, slots[instance], link, time)
    for s in range(MAX_SENSORS):
        if sensors[s].kind == NONE:
            break
        if memories[s].fresh == 0:
            continue
        if sensors[s].kind == GPS:
            at = write_gps(out, at, scratch.gps, raw, memories[s], sensors[s].instance, link)
        elif sensors[s].kind == RANGE_FINDER:
            at = write_distance(out, at, scratch.distance, raw, memories[s], sensors[s].instance, link, time)
        elif sensors[s].kind == OPTICAL_FLOW:
            at = write_flow(out, at, scratch.flow, raw, memories[s], link, time)
    if link.truth_interval > 0 and time >= link.truth_next:
        link.truth_next = max(link.truth_next + link.truth_interval, time)
        at = write_truth(out, at, scratch.truth, raw, state, environment, link, time)
    link.sent_time = time
    return at


def sensor_slots(sensors: np.ndarray[tuple[int], np.dtype[np.void]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(3, 4) index of the imu, magnetometer, barometer and airspeed sensor of each HIL_SENSOR id, -1 none."""
    slots = np.full((3, 4), -1, np.int64)
    columns = {IMU: 0, MAGNETOMETER: 1, BAROMETER: 2, AIRSPEED: 3}
    for i, sensor in enumerate(sensors):
        column = columns.get(int(sensor["kind"]))
        if column is not None:
            slots[int(sensor["instance"]), column] = i
    return slots


@compiled
def _word(data: Any, at: int, size: int) -> int:
    """Unsigned little-endian integer of ``size`` bytes (at most 8; wraps beyond 63 bits)."""
    value: Any = 0
    for i in range(size):
        value |= np.int64(data[at + i]) << (8 * i)
    return int(value)


@compiled
def _take_actuators(link: Any, data: Any, scratch: Any, scratch_raw: Any) -> None:
    """Decode a HIL_ACTUATOR_CONTROLS payload (zero-padded in ``data``) into the link.

    A flight stack in lockstep takes its time from the frames, so its answer to the last frame has exactly
    that frame's time.  A later time answers nothing that was sent: its commands hold, as those of a flight
    stack that keeps a clock of its own do.
    """
    link.time_usec = _word(data, 0, 8)
    link.flags = np.uint64(_word(data, 8, 8))
    link.mode = np.int64(data[80])
    for i in range(16):
        for b in range(4):
            scratch_raw[b] = data[16 + 4 * i + b]
        value = scratch[0]
        if not math.isfinite(value):
            value = np.float32(0.0)
            link.not_finite += 1
        elif value > 1.0 or value < -1.0:
            value = np.float32(1.0) if value > 0.0 else np.float32(-1.0)
            link.clamped += 1
        link.controls[i] = value
    if link.time_usec > link.sent_time or link.time_usec < 0:  # a time beyond 63 bits comes out negative
        link.ahead += 1
        return
    link.answers += 1
    if link.time_usec == link.sent_time:
        link.answered = 1


@compiled
def _take_command(link: Any, data: Any, scratch: Any, scratch_raw: Any) -> None:
    """COMMAND_LONG: SET_MESSAGE_INTERVAL for the ground truth is the only one PX4 sends here."""
    if _word(data, 28, 2) != SET_MESSAGE_INTERVAL:
        return
    for b in range(4):
        scratch_raw[b] = data[b]
    message = scratch[0]
    for b in range(4):
        scratch_raw[b] = data[4 + b]
    interval = scratch[0]
    if message == HIL_STATE_QUATERNION:
        link.truth_interval = np.int64(interval) if 0.0 < interval < 1e9 else 0


@compiled
def crc_extra(message: int) -> int:
    """CRC extra of the messages a flight stack sends here, -1 for others."""
    if message == HIL_ACTUATOR_CONTROLS:
        return 47
    if message == HEARTBEAT:
        return 50
    if message == COMMAND_LONG:
        return 152
    return -1


@compiled
def _verified(buffer: Any, i: Any, have: Any) -> Any:
    """Length of the whole frame of a known message, checksum right, at ``i``; 0 where there is none."""
    if have - i < HEADER + CHECKSUM or buffer[i] != MAGIC:
        return 0
    size = _claimed(buffer, i, have)
    if size == 0 or size > have - i:
        return 0
    extra = crc_extra(_word(buffer, i + 7, 3))
    if extra < 0:
        return 0
    end: Any = i + HEADER + np.int64(buffer[i + 1])
    return size if checksum(buffer, i + 1, end, extra) == _word(buffer, end, 2) else 0


@compiled
def _claimed(buffer: Any, i: Any, have: Any) -> Any:
    """Length of the MAVLink 2 frame that may begin at ``i``, by its header; 0 where none can.

    Only bit 0 of the incompatibility flags is defined (signed), so other values are no frame's.
    """
    if have - i < 3:
        return HEADER + CHECKSUM
    if buffer[i + 2] > 1:
        return 0
    return HEADER + np.int64(buffer[i + 1]) + CHECKSUM + (SIGNATURE if buffer[i + 2] == 1 else 0)


@compiled
def _mavlink_1(buffer: Any, i: Any, have: Any) -> Any:
    """Length of the whole MAVLink 1 frame of a known message, checksum right, at ``i``; 0 where none is."""
    if have - i < HEADER_1 + CHECKSUM or buffer[i] != MAGIC_1:
        return 0
    end: Any = i + HEADER_1 + np.int64(buffer[i + 1])
    message: Any = np.int64(buffer[i + 5])
    extra = crc_extra(message)
    if extra < 0 or end + CHECKSUM > have:
        return 0
    right = checksum(buffer, i + 1, end, extra) == _word(buffer, end, 2)
    return end + CHECKSUM - i if right else 0


@compiled
def _take(link: Any, buffer: Any, i: Any, payload: Any, scratch: Any, scratch_raw: Any) -> None:
    """Decode the verified frame at ``i`` into the link."""
    length = np.int64(buffer[i + 1])
    for k in range(length):
        payload[k] = buffer[i + HEADER + k]
    for k in range(length, payload.shape[0]):
        payload[k] = 0
    message = _word(buffer, i + 7, 3)
    if message == HIL_ACTUATOR_CONTROLS:
        _take_actuators(link, payload, scratch, scratch_raw)
    elif message == COMMAND_LONG:
        _take_command(link, payload, scratch, scratch_raw)
    else:
        link.heartbeats += 1


@compiled
def _promising(buffer: Any, i: Any, have: Any) -> bool:
    """True where the bytes so far may be the beginning of a known message's frame that is under way."""
    if buffer[i] != MAGIC:
        return False
    size = _claimed(buffer, i, have)
    if size <= have - i:
        return False
    return have - i < HEADER or crc_extra(_word(buffer, i + 7, 3)) >= 0


@compiled
def _doubtful(link: Any, buffer: Any, i: Any, have: Any) -> Any:
    """How many bytes to step over at a frame start that is not verified; -1 to wait for more of it.

    A false start in garbage may claim up to 280 bytes of what follows.  The flight stack sends no more
    until it is sent the next step, so waiting for them would stop the run: a verified frame within the
    claimed bytes proves the start false.  Frames of other messages cannot be verified; they are taken for
    what they claim unless a known message's frame has begun within them.
    """
    size = _claimed(buffer, i, have)
    if size == 0:
        link.garbage += 1
        return 1
    whole = have - i >= size
    if whole and crc_extra(_word(buffer, i + 7, 3)) >= 0:
        link.bad_checksums += 1
        return 1
    for k in range(i + 1, min(i + size, have)):
        if buffer[k] == MAGIC and _verified(buffer, k, have) > 0:
            link.garbage += k - i
            return k - i
    if not whole:
        return -1
    for k in range(i + 1, i + size):
        if _promising(buffer, k, have):
            link.garbage += k - i
            return k - i
    if i + size == have or buffer[i + size] == MAGIC or buffer[i + size] == MAGIC_1:
        link.unknown += 1
        return size
    link.garbage += 1
    return 1


@compiled
def parse(link: Any, buffer: Any, payload: Any, scratch: Any, scratch_raw: Any) -> None:
    """Take every whole frame out of ``buffer[:link.have]``; what is left of a frame moves to its front.

    Bytes that begin no frame, frames with a wrong checksum and frames that are cut short are stepped over
    a byte at a time, so that the stream is found again wherever it goes on.

    Args:
        link: LINK record.
        buffer: (size,) uint8 received bytes.
        payload: (255,) uint8 scratch.
        scratch: (1,) float32 scratch.
        scratch_raw: the same memory as (4,) uint8.
    """
    have = link.have
    i: Any = np.int64(0)
    while i < have:
        size = _verified(buffer, i, have)
        if size > 0:
            _take(link, buffer, i, payload, scratch, scratch_raw)
            i += size
            continue
        if buffer[i] == MAGIC:
            skip = _doubtful(link, buffer, i, have)
            if skip < 0:
                break
            i += skip
            continue
        old = _mavlink_1(buffer, i, have)
        if old > 0:
            link.mavlink1 += 1
            i += old
            continue
        link.garbage += 1
        i += 1
    for k in range(have - i):
        buffer[k] = buffer[i + k]
    link.have = have - i
