"""Decoding of simulator-link frames into the measurements of the flight stack, and injected sensor failures.

A stack in the simulation's process decodes the same bytes as one connected by a socket, so both produce the
same flight.  Sending and receiving are in lockstep_client.py and pilot.py.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from sitl_bridge.autopilot.records import Measurement
from sitl_bridge.base.arrays import Bytes, Floats, Ints, Singles
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.core.sensors.records import FAULT_NONE, FAULT_OFF, FAULT_STUCK
from sitl_bridge.core.world.world import HOUR
from sitl_bridge.link.hil.message_layout import (
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
    ODOMETRY,
    FlowPayload,
    GpsPayload,
    Payloads,
    SensorPayload,
    TruthPayload,
    checksum,
    claimed_length,
    crc_extra,
    payload_place,
    read_unsigned,
)

OTHER = 0
STEP = 1
"""Result of ``read_frame`` for a primary inertial frame: time advances, run the stack."""

FAILING = ("gyroscope", "accelerometer", "magnetometer", "barometer", "gps", "range_finder", "optical_flow")
"""Sensors that may fail, in the order of the following rows."""
GYROSCOPE_FAILURE, ACCELEROMETER_FAILURE, MAGNETOMETER_FAILURE, BAROMETER_FAILURE = 0, 1, 2, 3
GPS_FAILURE, RANGE_FAILURE, FLOW_FAILURE = 4, 5, 6

BODY_FRAMES = (8, 12)
"""MAV_FRAME_BODY_NED and MAV_FRAME_BODY_FRD."""
LOCAL_FRAMES = (1, 20)
"""MAV_FRAME_LOCAL_NED and MAV_FRAME_LOCAL_FRD."""


class OdometryPayload(Record, align=False):
    """ODOMETRY in wire order."""

    time_usec: Annotated[int, "<u8"]
    position: Annotated[Singles, 3]
    q: Annotated[Singles, 4]
    velocity: Annotated[Singles, 3]
    rates: Annotated[Singles, 3]
    pose_covariance: Annotated[Singles, 21]
    velocity_covariance: Annotated[Singles, 21]
    frame_id: Annotated[int, "u1"]
    child_frame_id: Annotated[int, "u1"]
    reset_counter: Annotated[int, "u1"]
    estimator_type: Annotated[int, "u1"]
    quality: Annotated[int, "i1"]


ODOMETRY_PAYLOAD = OdometryPayload.dtype


_SENSOR, _GPS = payload_place(HIL_SENSOR), payload_place(HIL_GPS)
_DISTANCE, _FLOW = payload_place(DISTANCE_SENSOR), payload_place(HIL_OPTICAL_FLOW)
_TRUTH = payload_place(HIL_STATE_QUATERNION)


class Reader(Record):
    """Receive state of one vehicle's simulator link."""

    payloads: Payloads
    measurement: Measurement
    last_sample: Measurement  # last sample of each sensor before it got stuck
    failure: Annotated[Ints, len(FAILING)]  # FAULT_* by sensor
    # --- the last HIL_STATE_QUATERNION, for the log only
    truth_time: int  # us, 0 before the first
    truth_position: Annotated[Floats, 3]  # latitude deg, longitude deg, altitude m
    truth_velocity: Annotated[Floats, 3]  # m/s NED
    garbage: int  # number of bytes outside any frame
    odometry: OdometryPayload


READER = Reader.dtype


assert READER.fields is not None
_ODOMETRY = np.array([READER.fields["odometry"][1], ODOMETRY_PAYLOAD.itemsize])
"""Offset within the reader, and length, of the payload of ODOMETRY."""


@compiled
def frame_size(data: Bytes, at: int, end: int) -> int:
    """Return the length in bytes of the frame at ``at``: 0 if it is incomplete, -1 if no frame begins there.

    Checksums are verified for the messages of the link; others are skipped by their length.
    """
    if data[at] != MAGIC:
        return -1
    if end - at < HEADER + CHECKSUM:
        return 0
    size = claimed_length(data, at, end)
    if size == 0:
        return -1
    if end - at < size:
        return 0
    message = read_unsigned(data, at + 7, 3)
    extra = crc_extra(message)
    if extra >= 0:
        last: Any = at + HEADER + np.int64(data[at + 1])
        if checksum(data, at + 1, last, extra) != read_unsigned(data, last, 2):
            return -1
    return int(size)


@compiled
def _copy_payload(data: Bytes, at: int, raw: Bytes, place: Ints) -> None:
    """Copy the payload of the frame at ``at`` to the scratch record and restore its truncated zeros."""
    length = np.int64(data[at + 1])
    for k in range(place[1]):
        raw[place[0] + k] = data[at + HEADER + k] if k < length else np.uint8(0)


@compiled
def _take_sensors(m: Measurement, s: SensorPayload) -> None:
    """HIL_SENSOR: inertial unit, magnetometer and barometer, of which each may have a sample."""
    m.time = s.time_usec
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


@compiled
def _take_fix(m: Measurement, g: GpsPayload) -> None:
    m.gps_fresh = 1
    # UTC is a whole number of hours ahead of simulated time, and a fix arrives within seconds.
    utc: Any = np.int64(g.time_usec)
    m.gps_time = utc - (utc - m.time + HOUR // 2) // HOUR * HOUR
    m.latitude = math.radians(g.lat * 1e-7)
    m.longitude = math.radians(g.lon * 1e-7)
    m.altitude = g.alt * 1e-3
    m.gps_velocity[0] = g.vn * 1e-2
    m.gps_velocity[1] = g.ve * 1e-2
    m.gps_velocity[2] = g.vd * 1e-2
    m.eph = g.eph * 1e-2
    m.epv = g.epv * 1e-2
    m.fix = g.fix_type
    m.satellites = g.satellites_visible


@compiled
def _take_flow(m: Measurement, f: FlowPayload) -> None:
    """HIL_OPTICAL_FLOW: flow and rotation, integrated over an interval."""
    m.flow_fresh = 1
    m.flow[0] = f.integrated_x
    m.flow[1] = f.integrated_y
    for axis in range(3):
        m.flow_gyroscope[axis] = f.integrated_gyro[axis]
    m.flow_interval = f.integration_time_us * 1e-6
    m.flow_quality = np.float64(f.quality)


@compiled
def _take_truth(reader: Reader, q: TruthPayload) -> None:
    """HIL_STATE_QUATERNION: the truth, for the log only."""
    reader.truth_time = q.time_usec
    reader.truth_position[0] = q.lat * 1e-7
    reader.truth_position[1] = q.lon * 1e-7
    reader.truth_position[2] = q.alt * 1e-3
    for axis in range(3):
        reader.truth_velocity[axis] = q.vel[axis] * 1e-2


@compiled
def _take_odometry(m: Measurement, o: OdometryPayload) -> None:
    """ODOMETRY in a level frame with any heading."""
    if o.frame_id not in LOCAL_FRAMES:
        return
    m.odometry_fresh = 1
    m.odometry_time = o.time_usec
    m.odometry_resets = o.reset_counter
    for k in range(4):
        m.odometry_attitude[k] = o.q[k]
    diagonal: Any = 0
    for axis in range(3):
        m.odometry_position[axis] = o.position[axis]
        m.odometry_velocity[axis] = o.velocity[axis] if o.child_frame_id in BODY_FRAMES else np.nan
        m.odometry_position_variance[axis] = o.pose_covariance[diagonal]
        m.odometry_velocity_variance[axis] = o.velocity_covariance[diagonal]
        diagonal += 6 - axis


@compiled
def read_frame(data: Bytes, at: int, raw: Bytes, reader: Reader) -> int:
    """Decode the verified frame at ``at`` into the reader's measurement; return STEP if the stack is to run.

    Only the first instance of a sensor is read.  Frames after the primary inertial frame of a step count for
    the next step: only the primary frame is known to have arrived when the stack answers.

    Args:
        data: uint8 frames.
        at: offset of the frame.
        raw: the reader's record as bytes.
    """
    m = reader.measurement
    message = read_unsigned(data, at + 7, 3)
    if message == HIL_SENSOR:
        _copy_payload(data, at, raw, _SENSOR)
        if reader.payloads.sensor.id != 0:
            return OTHER
        _take_sensors(m, reader.payloads.sensor)
        return STEP
    if message == HIL_GPS:
        _copy_payload(data, at, raw, _GPS)
        if reader.payloads.gps.id == 0:
            _take_fix(m, reader.payloads.gps)
    elif message == DISTANCE_SENSOR:
        _copy_payload(data, at, raw, _DISTANCE)
        d = reader.payloads.distance
        if d.id == 0:
            m.range_fresh = 1
            m.range = d.current_distance * 1e-2 if d.signal_quality != 1 else np.nan
    elif message == HIL_OPTICAL_FLOW:
        _copy_payload(data, at, raw, _FLOW)
        _take_flow(m, reader.payloads.flow)
    elif message == HIL_STATE_QUATERNION:
        _copy_payload(data, at, raw, _TRUTH)
        _take_truth(reader, reader.payloads.truth)
    elif message == ODOMETRY:
        _copy_payload(data, at, raw, _ODOMETRY)
        _take_odometry(m, reader.odometry)
    return OTHER


@compiled
def fail_sensors(reader: Reader) -> None:
    """Silence or freeze the sensors with an injected failure; store the last samples of the others.

    A failed gyroscope or accelerometer silences the whole inertial unit, as in PX4.
    """
    m = reader.measurement
    held = reader.last_sample
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
def clear_fresh(m: Measurement) -> None:
    """Clear the fresh flags after the measurements were used."""
    m.imu_fresh = 0
    m.magnetometer_fresh = 0
    m.barometer_fresh = 0
    m.gps_fresh = 0
    m.range_fresh = 0
    m.flow_fresh = 0
    m.odometry_fresh = 0
