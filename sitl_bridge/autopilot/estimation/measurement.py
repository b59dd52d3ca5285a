"""From frames of the simulator link to what the flight stack measures; sensors that were made to fail.

The stack in one process with the simulation reads the same bytes as the one at the far end of a socket, so
both fly the same flight.  Who sends and receives them is in link.py and fleet.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sitl_bridge.autopilot.records import MEASUREMENT
from sitl_bridge.hil.message_layout import (
    CHECKSUM,
    DISTANCE_SENSOR,
    FIELD_ACCELEROMETER,
    FIELD_BAROMETER,
    FIELD_MAGNETOMETER,
    HEADER,
    HIL_GPS,
    HIL_OPTICAL_FLOW,
    HIL_SENSOR,
    HIL_STATE_QUATERNION,
    MAGIC,
    PAYLOADS,
    SIGNATURE,
    checksum,
)
from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.sensors.records import FAULT_NONE, FAULT_OFF, FAULT_STUCK

OTHER = 0
STEP = 1
"""A primary inertial frame: time moves, the stack is to run."""

GYROSCOPE_FAILURE = 0
ACCELEROMETER_FAILURE = 1
MAGNETOMETER_FAILURE = 2
BAROMETER_FAILURE = 3
GPS_FAILURE = 4
RANGE_FAILURE = 5
FLOW_FAILURE = 6
FAILURES = 7

SENSOR_AT, GPS_AT, DISTANCE_AT, FLOW_AT, TRUTH_AT = 0, 1, 2, 3, 4


def _places() -> np.ndarray[Any, np.dtype[np.int64]]:
    fields = PAYLOADS.fields
    assert fields is not None
    rows = [fields[name][:2] for name in ("sensor", "gps", "distance", "flow", "truth")]
    return np.array([[offset, dtype.itemsize] for dtype, offset in rows], np.int64)


_PLACES = _places()
"""(5, 2) offset and length of each payload within the scratch record."""

READER = np.dtype(
    [
        ("payloads", PAYLOADS),
        ("measurement", MEASUREMENT),
        ("held", MEASUREMENT),  # of each sensor the last sample before it got stuck
        ("failure", "i8", FAILURES),  # FAULT_* by sensor
        # --- the last HIL_STATE_QUATERNION, for the log only
        ("truth_time", "i8"),  # us, 0 before the first
        ("truth_place", "f8", 3),  # latitude deg, longitude deg, altitude m
        ("truth_velocity", "f8", 3),  # m/s NED
        ("garbage", "i8"),  # bytes that belong to no frame
    ],
    align=True,
)
"""What one vehicle's side of the link remembers."""


@compiled
def frame_size(data: Any, at: int, end: int) -> int:
    """Bytes of the frame at ``at``: 0 where more must come first, -1 where no frame begins.

    Checksums of the messages the stack reads are verified; others are stepped over by their length.
    """
    if data[at] != MAGIC:
        return -1
    if end - at < HEADER + CHECKSUM:
        return 0
    if data[at + 2] > 1:
        return -1
    size: Any = HEADER + np.int64(data[at + 1]) + CHECKSUM + (SIGNATURE if data[at + 2] == 1 else 0)
    if end - at < size:
        return 0
    message = data[at + 7] | (np.int64(data[at + 8]) << 8) | (np.int64(data[at + 9]) << 16)
    extra = -1
    if message == HIL_SENSOR:
        extra = 108
    elif message == HIL_GPS:
        extra = 124
    elif message == DISTANCE_SENSOR:
        extra = 85
    elif message == HIL_OPTICAL_FLOW:
        extra = 237
    elif message == HIL_STATE_QUATERNION:
        extra = 4
    if extra >= 0:
        last: Any = at + HEADER + np.int64(data[at + 1])
        if checksum(data, at + 1, last, extra) != data[last] | (np.int64(data[last + 1]) << 8):
            return -1
    return int(size)


@compiled
def _unpack(data: Any, at: int, raw: Any, place: Any) -> None:
    """Payload of the frame at ``at`` into the scratch record, with the zeros that were cut off."""
    length = np.int64(data[at + 1])
    for k in range(place[1]):
        raw[place[0] + k] = data[at + HEADER + k] if k < length else np.uint8(0)


@compiled
def read_frame(data: Any, at: int, raw: Any, reader: Any) -> int:
    """Take the verified frame at ``at`` into the reader's measurement; STEP where the stack is to run.

    Only the first instance of a sensor is read.  What follows the primary inertial frame of a step counts
    for the next step, because only that frame's end is known to be reached when it is answered.

    Args:
        data: uint8 frames.
        at: where the frame begins.
        raw: the bytes of the reader.
        reader: READER record.
    """
    m = reader.measurement
    message = data[at + 7] | (np.int64(data[at + 8]) << 8) | (np.int64(data[at + 9]) << 16)
    if message == HIL_SENSOR:
        _unpack(data, at, raw, _PLACES[SENSOR_AT])
        s = reader.payloads.sensor
        if s.id != 0:
            return OTHER
        m.time = np.int64(s.time_usec)
        if s.fields_updated & FIELD_ACCELEROMETER:
            m.imu_fresh = 1
            for axis in range(3):
                m.accelerometer[axis] = s.acc[axis]
                m.gyroscope[axis] = s.gyro[axis]
        if s.fields_updated & FIELD_MAGNETOMETER:
            m.magnetometer_fresh = 1
            for axis in range(3):
                m.magnetometer[axis] = np.float64(s.mag[axis]) * 1e-4
        if s.fields_updated & FIELD_BAROMETER:
            m.barometer_fresh = 1
            m.pressure = np.float64(s.abs_pressure) * 1e2
        return STEP
    if message == HIL_GPS:
        _unpack(data, at, raw, _PLACES[GPS_AT])
        g = reader.payloads.gps
        if g.id == 0:
            m.gps_fresh = 1
            m.gps_time = np.int64(g.time_usec)
            m.latitude = math.radians(g.lat * 1e-7)
            m.longitude = math.radians(g.lon * 1e-7)
            m.altitude = g.alt * 1e-3
            m.gps_velocity[0] = g.vn * 1e-2
            m.gps_velocity[1] = g.ve * 1e-2
            m.gps_velocity[2] = g.vd * 1e-2
            m.eph = g.eph * 1e-2
            m.epv = g.epv * 1e-2
            m.fix = np.int64(g.fix_type)
            m.satellites = np.int64(g.satellites_visible)
    elif message == DISTANCE_SENSOR:
        _unpack(data, at, raw, _PLACES[DISTANCE_AT])
        d = reader.payloads.distance
        if d.id == 0:
            m.range_fresh = 1
            m.range = d.current_distance * 1e-2 if d.signal_quality != 1 else np.nan
    elif message == HIL_OPTICAL_FLOW:
        _unpack(data, at, raw, _PLACES[FLOW_AT])
        f = reader.payloads.flow
        m.flow_fresh = 1
        m.flow[0] = f.integrated_x
        m.flow[1] = f.integrated_y
        for axis in range(3):
            m.flow_gyroscope[axis] = f.integrated_gyro[axis]
        m.flow_interval = f.integration_time_us * 1e-6
        m.flow_quality = np.float64(f.quality)
    elif message == HIL_STATE_QUATERNION:
        _unpack(data, at, raw, _PLACES[TRUTH_AT])
        q = reader.payloads.truth
        reader.truth_time = np.int64(q.time_usec)
        reader.truth_place[0] = q.lat * 1e-7
        reader.truth_place[1] = q.lon * 1e-7
        reader.truth_place[2] = q.alt * 1e-3
        for axis in range(3):
            reader.truth_velocity[axis] = q.vel[axis] * 1e-2
    return OTHER


@compiled
def fail_sensors(reader: Any) -> None:
    """Silence or freeze the sensors whose failure was injected, and keep what the others last said.

    PX4 takes a failed inertial sensor for silent as a whole; so is it here, for nobody flies without.
    """
    m = reader.measurement
    held = reader.held
    failure = reader.failure
    for axis in range(3):
        if failure[GYROSCOPE_FAILURE] == FAULT_STUCK:
            m.gyroscope[axis] = held.gyroscope[axis]
        if failure[ACCELEROMETER_FAILURE] == FAULT_STUCK:
            m.accelerometer[axis] = held.accelerometer[axis]
        if failure[MAGNETOMETER_FAILURE] == FAULT_STUCK:
            m.magnetometer[axis] = held.magnetometer[axis]
        if failure[GPS_FAILURE] == FAULT_STUCK:
            m.gps_velocity[axis] = held.gps_velocity[axis]
        held.gyroscope[axis] = m.gyroscope[axis]
        held.accelerometer[axis] = m.accelerometer[axis]
        held.magnetometer[axis] = m.magnetometer[axis]
        held.gps_velocity[axis] = m.gps_velocity[axis]
    if failure[BAROMETER_FAILURE] == FAULT_STUCK:
        m.pressure = held.pressure
    if failure[GPS_FAILURE] == FAULT_STUCK:
        m.latitude = held.latitude
        m.longitude = held.longitude
        m.altitude = held.altitude
    if failure[RANGE_FAILURE] == FAULT_STUCK:
        m.range = held.range
    held.pressure = m.pressure
    held.latitude = m.latitude
    held.longitude = m.longitude
    held.altitude = m.altitude
    held.range = m.range
    if failure[GYROSCOPE_FAILURE] == FAULT_OFF or failure[ACCELEROMETER_FAILURE] == FAULT_OFF:
        m.imu_fresh = 0
    if failure[MAGNETOMETER_FAILURE] == FAULT_OFF:
        m.magnetometer_fresh = 0
    if failure[BAROMETER_FAILURE] == FAULT_OFF:
        m.barometer_fresh = 0
    if failure[GPS_FAILURE] == FAULT_OFF:
        m.gps_fresh = 0
    if failure[RANGE_FAILURE] == FAULT_OFF:
        m.range_fresh = 0
    if failure[FLOW_FAILURE] != FAULT_NONE:
        m.flow_fresh = 0


@compiled
def done(m: Any) -> None:
    """Everything measured was used; nothing is fresh any more."""
    m.imu_fresh = 0
    m.magnetometer_fresh = 0
    m.barometer_fresh = 0
    m.gps_fresh = 0
    m.range_fresh = 0
    m.flow_fresh = 0
