"""Writes the frames of one vehicle for one step: its sensors' samples in the messages that PX4 reads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sitl_bridge.base.arrays import Bytes, Ints, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.rotations import to_ned
from sitl_bridge.core.dynamics.records import State
from sitl_bridge.core.sensors.gps import FIX_NONE, GPS
from sitl_bridge.core.sensors.imu import ACCELEROMETER_RANGE, GYROSCOPE_RANGE, IMU, MORE
from sitl_bridge.core.sensors.magnetometer import MAGNETOMETER
from sitl_bridge.core.sensors.pressure import AIRSPEED, BAROMETER
from sitl_bridge.core.sensors.ranging import OPTICAL_FLOW, RANGE_FINDER
from sitl_bridge.core.sensors.records import MAX_SENSORS, NONE, Sensor, SensorState
from sitl_bridge.core.simulation.fleet_step import FleetArrays
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.world.atmosphere import (
    GAS_CONSTANT,
    SEA_LEVEL_PRESSURE,
    SEA_LEVEL_TEMPERATURE,
    air,
)
from sitl_bridge.core.world.earth import geodetic, local_gravity
from sitl_bridge.core.world.records import Environment
from sitl_bridge.link.hil.link_state import LINK, Link
from sitl_bridge.link.hil.message_layout import (
    CHECKSUM,
    COMPONENT_ID,
    CRC_EXTRA,
    DISTANCE_SENSOR,
    FIELD_ACCELEROMETER,
    FIELD_AIRSPEED,
    FIELD_BAROMETER,
    FIELD_GYROSCOPE,
    FIELD_MAGNETOMETER,
    HEADER,
    HIL_GPS,
    HIL_OPTICAL_FLOW,
    HIL_SENSOR,
    HIL_STATE_QUATERNION,
    MAGIC,
    PAYLOADS,
    SYSTEM_ID,
    checksum,
    payload_place,
)

FULL_SCALE = 32767.0 / 32768.0
"""Of 16 g and 2000 deg/s: PX4 takes the first unit's samples as 16-bit numbers, in which +16 g would be -16 g
(SimulatorMavlink.cpp)."""
SEA_LEVEL_DENSITY = SEA_LEVEL_PRESSURE / (GAS_CONSTANT * SEA_LEVEL_TEMPERATURE)
"""kg/m^3, to which indicated airspeed refers."""
_LARGEST_FORCE = FULL_SCALE * ACCELEROMETER_RANGE
_LARGEST_RATE = FULL_SCALE * GYROSCOPE_RANGE


_SENSOR = payload_place(HIL_SENSOR)
_GPS = payload_place(HIL_GPS)
_TRUTH = payload_place(HIL_STATE_QUATERNION)
_DISTANCE = payload_place(DISTANCE_SENSOR)
_FLOW = payload_place(HIL_OPTICAL_FLOW)


@compiled
def write_frame(out: Bytes, at: int, payload: Bytes, description: Ints, link: Link) -> int:
    """Write one of the simulator's frames, which ``link`` (LINK) counts; else as ``enframe``."""
    system, component = np.int64(SYSTEM_ID), np.int64(COMPONENT_ID)
    end = enframe(out, at, payload, description, link.sequence, system, component)
    link.sequence += 1
    return end


@compiled
def enframe(
    out: Bytes,
    at: int,
    payload: Bytes,
    description: Ints,
    sequence: int,
    system: int | np.int64,
    component: int | np.int64,
) -> int:
    """Write one frame into ``out`` at ``at``; returns where the frame ends.

    MAVLink 2 cuts trailing zeros off the payload, but never its first byte.

    Args:
        out: uint8.
        at: where the frame begins.
        payload: scratch as uint8.
        description: (3,) offset and length of the payload in the scratch, message id.
        sequence: number of the frame.
        system, component: ids of the sender.
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
    out[at + 4] = sequence & 0xFF
    out[at + 5] = system
    out[at + 6] = component
    out[at + 7] = message & 0xFF
    out[at + 8] = (message >> 8) & 0xFF
    out[at + 9] = (message >> 16) & 0xFF
    for i in range(length):
        out[at + HEADER + i] = payload[start + i]
    end = at + HEADER + length
    crc = checksum(out, at + 1, end, CRC_EXTRA[message])
    out[end] = crc & 0xFF
    out[end + 1] = crc >> 8
    return end + CHECKSUM


@compiled
def round_within(value: float, lower: float, upper: float) -> float:
    """The value rounded to an integer and limited to a field's range; NaN becomes the lower end."""
    if not value > lower:
        return lower
    return min(np.rint(value), upper)


@compiled
def write_sensor(
    out: Bytes, at: int, p: Any, raw: Bytes, memories: Records, slots: Ints, link: Link, time: int
) -> int:
    """HIL_SENSOR of one instance, from the sensors in ``slots``: (4,) of ``sensor_slots``.

    Fields without a fresh sample are 0 and not flagged.  Instance 0 is always written because it sets PX4's
    clock, even if none of its sensors works; another instance only if one of its sensors has a fresh sample.
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
        values, shaken = memories[slots[0]].values, memories[slots[0]].memory
        for axis in range(3):
            more = shaken[MORE + axis]
            force = values[axis] + more if more != 0.0 else values[axis]
            rate = values[3 + axis]
            if p.id == 0:
                force = min(max(force, -_LARGEST_FORCE), _LARGEST_FORCE)
                rate = min(max(rate, -_LARGEST_RATE), _LARGEST_RATE)
            p.acc[axis], p.gyro[axis] = force, rate
        p.temperature = values[6]
        fields |= FIELD_ACCELEROMETER | FIELD_GYROSCOPE
    if slots[1] >= 0 and memories[slots[1]].fresh == 1:
        for axis in range(3):
            p.mag[axis] = memories[slots[1]].values[axis] * 1e4
        fields |= FIELD_MAGNETOMETER
    if slots[2] >= 0 and memories[slots[2]].fresh == 1:
        values = memories[slots[2]].values
        p.abs_pressure = values[0] * 1e-2
        # PX4 takes the temperature for all its sensors, only from frames with a pressure; on one board, the
        # barometer is as warm as the inertial unit.
        if fields & FIELD_GYROSCOPE == 0:
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
def write_gps(
    out: Bytes, at: int, p: Any, raw: Bytes, memory: SensorState, instance: int, link: Link, utc: int
) -> int:
    """HIL_GPS in degE7, mm, cm, cm/s and centidegrees; ``time_usec`` is the UTC of the fix.

    PX4 takes it for UTC (SimulatorMavlink.cpp), and stamps the fix with the time of its arrival.

    The first message of each receiver but that with ID 0 has no fix.  PX4 v1.18 reports its GPS as unhealthy
    once fewer receivers have a fix than before (gnssRedundancyCheck.cpp), and counts only those with a device
    ID, which SimulatorMavlink.cpp gives to the first message of each alone: two would soon count as lost.
    """
    values = memory.values
    p.time_usec = utc + memory.time
    p.lat = np.int32(round_within(math.degrees(values[0]) * 1e7, -900000000.0, 900000000.0))
    p.lon = np.int32(round_within(math.degrees(values[1]) * 1e7, -1800000000.0, 1800000000.0))
    p.alt = np.int32(round_within(values[2] * 1e3, -2147483648.0, 2147483647.0))
    p.eph = np.uint16(round_within(values[6] * 1e2, 0.0, 65534.0))
    p.epv = np.uint16(round_within(values[7] * 1e2, 0.0, 65534.0))
    speed = math.sqrt(values[3] * values[3] + values[4] * values[4])
    p.vel = np.uint16(round_within(speed * 1e2, 0.0, 65534.0))
    p.vn = np.int16(round_within(values[3] * 1e2, -32768.0, 32767.0))
    p.ve = np.int16(round_within(values[4] * 1e2, -32768.0, 32767.0))
    p.vd = np.int16(round_within(values[5] * 1e2, -32768.0, 32767.0))
    course = math.degrees(math.atan2(values[4], values[3])) * 1e2
    if course < 0.0:
        course += 36000.0
    p.cog = np.uint16(round_within(course, 0.0, 35999.0))
    known = instance == 0 or link.receivers & (1 << instance) != 0
    p.fix_type = np.uint8(values[8] if known else FIX_NONE)
    link.receivers |= 1 << instance
    p.satellites_visible = np.uint8(values[9])
    p.id = np.uint8(instance)
    p.yaw = np.uint16(0)
    return write_frame(out, at, raw, _GPS, link)


@compiled
def write_truth(
    out: Bytes, at: int, p: Any, raw: Bytes, state: State, environment: Environment, link: Link, time: int
) -> int:
    """HIL_STATE_QUATERNION; accelerations are the derivative of velocity, NED, in mm/s^2.

    MAVLink defines them in mG.  But PX4 divides the fields by 1000 and logs them as ax, ay, az of
    vehicle_local_position_groundtruth (SimulatorMavlink.cpp), which is the "velocity derivative in NED
    earth-fixed frame" in m/s^2 (VehicleLocalPosition.msg).  In mm/s^2, PX4's ground truth is right.
    """
    lat, lon, height = geodetic(environment, state.position[0], state.position[1], state.position[2])
    force, gravity = state.specific_force, local_gravity(environment, state.position[0], state.position[2])
    north, east, down = to_ned(state.attitude, force[0], force[1], force[2])
    p.acc[0] = np.int16(round_within(north * 1e3, -32768.0, 32767.0))
    p.acc[1] = np.int16(round_within(east * 1e3, -32768.0, 32767.0))
    p.acc[2] = np.int16(round_within((down + gravity) * 1e3, -32768.0, 32767.0))
    p.time_usec = time
    for i in range(4):
        p.q[i] = state.attitude[i]
    square = 0.0
    for i in range(3):
        p.rates[i] = state.angular_velocity[i]
        p.vel[i] = np.int16(round_within(state.velocity[i] * 1e2, -32768.0, 32767.0))
        square += (state.velocity[i] - state.wind[i]) ** 2
    p.lat = np.int32(round_within(math.degrees(lat) * 1e7, -900000000.0, 900000000.0))
    p.lon = np.int32(round_within(math.degrees(lon) * 1e7, -1800000000.0, 1800000000.0))
    p.alt = np.int32(round_within(height * 1e3, -2147483648.0, 2147483647.0))
    airspeed = math.sqrt(square) * 1e2
    _, _, density = air(environment, state.position[2])
    p.true_airspeed = np.uint16(round_within(airspeed, 0.0, 65535.0))
    p.ind_airspeed = np.uint16(round_within(airspeed * math.sqrt(density / SEA_LEVEL_DENSITY), 0.0, 65535.0))
    return write_frame(out, at, raw, _TRUTH, link)


@compiled
def _orientation(sensor: Sensor) -> int:
    """MAV_SENSOR_ORIENTATION of the sensor's z axis: forward, right, backward, left, up or down."""
    x, y, z = sensor.rotation[2]
    if abs(z) >= max(abs(x), abs(y)) - 1e-9:
        return 25 if z > 0.0 else 24
    if abs(x) >= abs(y):
        return 0 if x > 0.0 else 4
    return 2 if y > 0.0 else 6


@compiled
def write_distance(
    out: Bytes, at: int, p: Any, raw: Bytes, memory: SensorState, sensor: Sensor, link: Link, time: int
) -> int:
    """DISTANCE_SENSOR in cm, with the orientation nearest to the beam's.

    Without an echo it has a quality of 1 % and the far limit.
    """
    values = memory.values
    p.time_boot_ms = np.uint32((time // 1000) & 0xFFFFFFFF)
    p.min_distance = np.uint16(round_within(values[1] * 1e2, 0.0, 65534.0))
    p.max_distance = np.uint16(round_within(values[2] * 1e2, 0.0, 65534.0))
    p.type = np.uint8(0)
    p.id = np.uint8(sensor.instance)
    p.orientation = np.uint8(_orientation(sensor))
    p.covariance = np.uint8(round_within(values[3] * 1e4, 0.0, 254.0))
    if math.isfinite(values[0]):
        p.current_distance = np.uint16(round_within(values[0] * 1e2, 0.0, 65534.0))
        p.signal_quality = np.uint8(100)
    else:
        p.current_distance = np.uint16(round_within(values[2] * 1e2 + 1.0, 0.0, 65535.0))
        p.signal_quality = np.uint8(1)
    return write_frame(out, at, raw, _DISTANCE, link)


@compiled
def write_flow(out: Bytes, at: int, p: Any, raw: Bytes, memory: SensorState, link: Link, time: int) -> int:
    """HIL_OPTICAL_FLOW in rad, integrated over the sample; a distance of -1 means not measured."""
    values = memory.values
    p.time_usec = time
    p.integration_time_us = np.uint32(round_within(values[5] * 1e6, 0.0, 4294967295.0))
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
    out: Bytes,
    payloads: Records,
    raw: Bytes,
    state: State,
    environment: Environment,
    sensors: Records,
    memories: Records,
    link: Link,
    slots: Ints,
    time: int,
) -> int:
    """All frames of one vehicle for one step; returns their length in bytes.

    HIL_SENSOR with ID 0 comes first because it sets PX4's clock.  PX4 stamps every other message with that
    clock on arrival, so a message sent before it would be stamped one step early.  The price: PX4's rate
    loop and estimator start on the inertial sample while its receiver still works through the rest, so an
    estimator cycle may see, for example, a GPS fix one cycle later, with the right time stamp.  (GPS is fused
    0.1 s late anyway.)  No message slips into the next step: one thread reads the stream in order.

    Args:
        out: (MAX_STEP_BYTES,) uint8.
        payloads: (1,) PAYLOADS scratch.
        raw: the same memory as (bytes,) uint8.
        state: STATE record at ``time``.
        sensors: (MAX_SENSORS,) SENSOR, those of kind NONE last.
        memories: (MAX_SENSORS,) SENSOR_STATE.
        slots: (3, 4) as of ``sensor_slots``.
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
            at = write_gps(out, at, scratch.gps, raw, memories[s], sensors[s].instance, link, environment.utc)
        elif sensors[s].kind == RANGE_FINDER:
            at = write_distance(out, at, scratch.distance, raw, memories[s], sensors[s], link, time)
        elif sensors[s].kind == OPTICAL_FLOW:
            at = write_flow(out, at, scratch.flow, raw, memories[s], link, time)
    if link.truth_interval > 0 and time >= link.truth_next:
        link.truth_next = max(link.truth_next + link.truth_interval, time)
        at = write_truth(out, at, scratch.truth, raw, state, environment, link, time)
    link.sent_time = time
    return at


def sensor_slots(sensors: np.ndarray[tuple[int], np.dtype[np.void]]) -> Ints:
    """(3, 4) index of the IMU, magnetometer, barometer and airspeed sensor of each HIL_SENSOR ID, -1 none."""
    slots = np.full((3, 4), -1, np.int64)
    columns = {IMU: 0, MAGNETOMETER: 1, BAROMETER: 2, AIRSPEED: 3}
    for i, sensor in enumerate(sensors):
        column = columns.get(int(sensor["kind"]))
        if column is not None:
            slots[int(sensor["instance"]), column] = i
    return slots


def frame_memory(simulation: Simulation) -> tuple[Records, Ints, Records, Bytes]:
    """Memory in which the frames of a simulation's vehicles are written.

    Returns:
        (n,) LINK; (n, 3, 4) as of ``sensor_slots``; (n, 1) PAYLOADS, and the same memory as (n, bytes) uint8.
    """
    n = len(simulation)
    payloads = np.zeros((n, 1), PAYLOADS)
    slots = np.array([sensor_slots(row) for row in simulation.sensors])
    return np.zeros(n, LINK), slots, payloads, payloads.view(np.uint8).reshape(n, PAYLOADS.itemsize)


@compiled
def write_frames(out: Bytes, fleet: FleetArrays, memory: Any, i: int, time: int) -> int:
    """As ``write_step``, of vehicle ``i`` of a fleet; ``memory`` has that of ``frame_memory``."""
    return write_step(
        out,
        memory.payloads[i],
        memory.payload_bytes[i],
        fleet.states[i],
        fleet.environment[0],
        fleet.sensors[i],
        fleet.sensor_states[i],
        memory.links[i],
        memory.slots[i],
        time,
    )
