"""The estimator of the built-in flight stack: an error-state Kalman filter over all sensors of a vehicle.

This module runs one step: predict with the inertial sample, correct with fresh measurements, write the
estimate.  Settings, prediction, sensor models and correction are the other modules of ``estimation``.
(hector section 3.4; RotorS section 2.3; Solà, "Quaternion kinematics for the error-state Kalman filter",
arXiv 1711.02508.)
"""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.autopilot.estimation.alignment import align, is_at_rest
from sitl_bridge.autopilot.estimation.correction import inject_correction
from sitl_bridge.autopilot.estimation.inertial import (
    COVARIANCE_INTERVAL,
    DECAY_INTERVAL,
    decay_biases,
    handle_saturation,
    integrate,
    propagate_covariance,
    store_state,
)
from sitl_bridge.autopilot.estimation.odometry import fuse_odometry
from sitl_bridge.autopilot.estimation.records import (
    ACCELEROMETER,
    GROUND,
    GYROSCOPE,
    TILT,
    Estimator,
)
from sitl_bridge.autopilot.estimation.records import POSITION as POSITION_ERROR
from sitl_bridge.autopilot.estimation.records import VELOCITY as VELOCITY_ERROR
from sitl_bridge.autopilot.estimation.sensor_models import (
    fuse_fix,
    fuse_flow,
    fuse_level_flight,
    fuse_magnetic_field,
    fuse_pressure,
    fuse_range,
    fuse_zero_velocity,
)
from sitl_bridge.autopilot.records import (
    ABOVE_GROUND,
    ATTITUDE,
    BARO_HEIGHT,
    FLOW_VELOCITY,
    GLOBAL,
    GPS_POSITION,
    GPS_VELOCITY,
    HEADING,
    HEIGHT,
    MAGNETIC_HEADING,
    ODOMETRY_POSITION,
    ODOMETRY_VELOCITY,
    POSITION,
    RANGE_HEIGHT,
    SOURCES,
    VELOCITY,
    Estimate,
    Measurement,
)
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.rotations import axis_in_ned, to_ned

ASSUMPTION_INTERVAL = 0.2
"""Interval between assumed measurements of rest or level flight, s (PX4 EKF2, ZeroVelocityUpdate)."""
REST_TIME = 1.0
"""Time of resting samples after which a vehicle counts as standing still, s."""
STUCK_ROUNDED = 2.0
"""Time of identical readings after which a sensor on a coarsely rounded field counts as stuck, s (PX4's
DataValidator: 100 samples)."""
STUCK_PRECISE = 0.0
"""The same for sensors sent in single precision, s: with noise, two readings are never identical.  A hundred
identical samples would make the filter so certain of heading or height that it rejects the GNSS fixes that
contradict them."""
STUCK_INERTIAL = 0.4
"""The same for accelerometer and gyroscope, s: 100 samples, as in PX4."""
INERTIAL_TIMEOUT = 0.5
"""Time without inertial samples after which no estimate is valid, s (time-out of PX4's DataValidator)."""
VALID_TIMEOUT = 5.0
"""Time without a measurement after which the quantity is no longer valid, s (PX4 EKF2, valid_timeout_max)."""
MAX_TILT_VARIANCE = math.radians(3.0) ** 2
"""Tilt variance below which the attitude is valid, rad^2 (PX4 EKF2, tilt alignment)."""
UNCERTAIN_TILT_VARIANCE = MAX_TILT_VARIANCE / 4.0
"""Tilt variance of half that standard deviation, rad^2, from which level flight is assumed in dead
reckoning."""
LEVEL_FORCE_TOLERANCE = 0.1
"""Largest relative difference of specific force and gravity in level flight (PX4 EKF2)."""
MAX_HEADING_VARIANCE = math.radians(15.0) ** 2
"""Heading variance below which the heading is valid, rad^2; a position controller still converges at four
times this standard deviation."""
MAX_VELOCITY_VARIANCE = 1.0
"""Velocity variance below which the velocity is valid, (m/s)^2: PX4's COM_VEL_FS_EVH."""
MAX_POSITION_VARIANCE = 25.0
"""Horizontal position variance below which the position is valid, m^2: PX4's COM_POS_FS_EPH."""
MAX_HEIGHT_VARIANCE = 25.0
"""Height variance below which the height is valid, m^2: PX4's EKF2_REQ_EPV."""


@compiled
def _is_stuck(
    estimator: Estimator, source: int | np.int64, a: float, b: float, c: float, timeout: float
) -> bool:
    """Return whether a noisy sensor has repeated the same reading for longer than ``timeout`` (s)."""
    last_reading = estimator.last_reading[source]
    if last_reading[0] != a or last_reading[1] != b or last_reading[2] != c:
        last_reading[0], last_reading[1], last_reading[2] = a, b, c
        estimator.reading_since[source] = estimator.clock
    return bool(estimator.noisy[source] and estimator.clock - estimator.reading_since[source] > timeout)


@compiled
def _inertial_is_live(estimator: Estimator, measurement: Measurement) -> bool:
    f, w = measurement.accelerometer, measurement.gyroscope
    force_stuck = _is_stuck(estimator, np.int64(SOURCES), f[0], f[1], f[2], STUCK_INERTIAL)
    rate_stuck = _is_stuck(estimator, np.int64(SOURCES + 1), w[0], w[1], w[2], STUCK_INERTIAL)
    return measurement.imu_fresh == 1 and not force_stuck and not rate_stuck


@compiled
def _sample_age(estimator: Estimator, measurement: Measurement, source: int, dt: float) -> float:
    """Return the age in s of a source's fresh sample; -1 if there is none or the sensor is stuck.

    Samples in the primary inertial frame are late by the sensor's latency, rounded up to whole steps.  Range
    and flow frames follow that frame and are read one step later.  A GNSS fix and a sample of odometry carry
    their own time.
    """
    m = measurement
    age = math.ceil(estimator.latency[source] / dt - 1e-6) * dt
    last_reading = m.magnetometer
    fresh = False
    stuck = False
    if source == GPS_POSITION and m.gps_fresh:
        fresh = True
        stuck = _is_stuck(estimator, source, m.latitude, m.longitude, m.gps_velocity[2], STUCK_ROUNDED)
        age = (m.time - m.gps_time) * 1e-6
    elif source == BARO_HEIGHT and m.barometer_fresh:
        fresh = True
        stuck = _is_stuck(estimator, source, m.pressure, 0.0, 0.0, STUCK_PRECISE)
    elif source == MAGNETIC_HEADING and m.magnetometer_fresh:
        fresh = True
        stuck = _is_stuck(estimator, source, last_reading[0], last_reading[1], last_reading[2], STUCK_PRECISE)
    elif source == RANGE_HEIGHT and m.range_fresh:
        fresh = True
        stuck = _is_stuck(estimator, source, m.range, 0.0, 0.0, STUCK_ROUNDED)
        age += dt
    elif source == FLOW_VELOCITY and m.flow_fresh:
        fresh = True
        stuck = _is_stuck(estimator, source, m.flow[0], m.flow[1], 0.0, STUCK_ROUNDED)
        age += dt
    elif source == ODOMETRY_POSITION and m.odometry_fresh:
        fresh = True
        age = (m.time - m.odometry_time) * 1e-6
    return age if fresh and not stuck else -1.0


@compiled
def _fuse_fresh(estimator: Estimator, estimate: Estimate, measurement: Measurement, dt: float) -> None:
    for source in range(SOURCES):
        if estimator.fitted[source] == 0:
            continue
        age = _sample_age(estimator, measurement, source, dt)
        if age < 0.0:
            continue
        propagate_covariance(estimator)
        if source == GPS_POSITION:
            fuse_fix(estimator, estimate, measurement, source, age)
        elif source == BARO_HEIGHT:
            fuse_pressure(estimator, estimate, measurement, source, age)
        elif source == MAGNETIC_HEADING:
            fuse_magnetic_field(estimator, estimate, measurement, source, age)
        elif source == RANGE_HEIGHT:
            fuse_range(estimator, estimate, measurement, source, age)
        elif source == FLOW_VELOCITY:
            fuse_flow(estimator, estimate, measurement, source, age)
        elif source == ODOMETRY_POSITION:
            fuse_odometry(estimator, estimate, measurement, age)
        inject_correction(estimator)


@compiled
def _aiding_time(estimator: Estimator) -> float:
    """Return the time of the last fused measurement of horizontal motion, s of ``clock``."""
    fused = estimator.fused_at
    seen = max(fused[ODOMETRY_POSITION], fused[ODOMETRY_VELOCITY])
    return max(max(max(fused[GPS_POSITION], fused[GPS_VELOCITY]), fused[FLOW_VELOCITY]), seen)


@compiled
def _fuse_assumptions(estimator: Estimator) -> None:
    """While velocity is not measured, bound the tilt error with assumed measurements.

    Before any velocity measurement, a vehicle whose inertial samples are at rest is assumed to stand still.
    In flight, calm inertial samples do not imply zero velocity.  In dead reckoning with a large tilt
    variance, level flight on average is assumed.  These assumptions do not count towards validity.
    """
    now = estimator.clock
    if now - estimator.assumed_at < ASSUMPTION_INTERVAL:
        return
    p, f = estimator.covariance, estimator.force_before
    if math.isinf(_aiding_time(estimator)):
        if now - estimator.still_since >= REST_TIME:
            estimator.assumed_at = now
            propagate_covariance(estimator)
            fuse_zero_velocity(estimator)
            inject_correction(estimator)
            return
    elif now - _aiding_time(estimator) <= VALID_TIMEOUT:
        return
    strength = math.sqrt(f[0] * f[0] + f[1] * f[1] + f[2] * f[2])
    tilt_uncertain = max(p[TILT, TILT], p[TILT + 1, TILT + 1]) > UNCERTAIN_TILT_VARIANCE
    if tilt_uncertain and abs(strength - estimator.gravity) < LEVEL_FORCE_TOLERANCE * estimator.gravity:
        estimator.assumed_at = now
        propagate_covariance(estimator)
        fuse_level_flight(estimator)
        inject_correction(estimator)


@compiled
def _validity_bits(estimator: Estimator) -> int:
    """Return the validity bits, from the covariance and the time since the last measurements."""
    p, now, fused = estimator.covariance, estimator.clock, estimator.fused_at
    bits = 0
    if now - estimator.inertial_at > INERTIAL_TIMEOUT:
        return bits
    if max(p[TILT, TILT], p[TILT + 1, TILT + 1]) < MAX_TILT_VARIANCE:
        bits |= ATTITUDE
    # Without a magnetometer, noise in the motion makes the heading variance shrink wrongly.
    if p[TILT + 2, TILT + 2] < MAX_HEADING_VARIANCE and not math.isinf(fused[MAGNETIC_HEADING]):
        bits |= HEADING
    measured = max(max(fused[BARO_HEIGHT], fused[GPS_POSITION]), fused[RANGE_HEIGHT])
    if now - measured <= VALID_TIMEOUT and p[POSITION_ERROR + 2, POSITION_ERROR + 2] < MAX_HEIGHT_VARIANCE:
        bits |= HEIGHT
    if now - _aiding_time(estimator) <= VALID_TIMEOUT:
        if (
            max(p[VELOCITY_ERROR, VELOCITY_ERROR], p[VELOCITY_ERROR + 1, VELOCITY_ERROR + 1])
            < MAX_VELOCITY_VARIANCE
        ):
            bits |= VELOCITY
        if (
            max(p[POSITION_ERROR, POSITION_ERROR], p[POSITION_ERROR + 1, POSITION_ERROR + 1])
            < MAX_POSITION_VARIANCE
        ):
            bits |= POSITION
    if estimator.origin_known:
        bits |= GLOBAL
    if now - estimator.range_at <= VALID_TIMEOUT:
        bits |= ABOVE_GROUND
    return bits


@compiled
def _write_deviations(estimator: Estimator, estimate: Estimate) -> None:
    """Write standard deviations (attitude about body axes) and the validity bits."""
    p, q = estimator.covariance, estimator.attitude
    for i in range(3):
        estimate.velocity_deviation[i] = math.sqrt(p[VELOCITY_ERROR + i, VELOCITY_ERROR + i])
        estimate.position_deviation[i] = math.sqrt(p[POSITION_ERROR + i, POSITION_ERROR + i])
        n, e, d = axis_in_ned(q, i)
        variance = n * n * p[0, 0] + e * e * p[1, 1] + d * d * p[2, 2]
        variance += 2.0 * (n * e * p[0, 1] + n * d * p[0, 2] + e * d * p[1, 2])
        estimate.attitude_deviation[i] = math.sqrt(max(variance, 0.0))
    estimate.valid = _validity_bits(estimator)


@compiled
def _write_estimate(estimator: Estimator, estimate: Estimate) -> None:
    """Write the estimate; position and velocity are those of the centre of gravity."""
    x, q, r = estimator.nominal, estimator.attitude, estimator.imu_position
    w = estimate.angular_velocity
    for i in range(3):
        w[i] = estimator.rate_before[i] - x[GYROSCOPE + i]
    place = to_ned(q, r[0], r[1], r[2])
    motion = to_ned(q, w[1] * r[2] - w[2] * r[1], w[2] * r[0] - w[0] * r[2], w[0] * r[1] - w[1] * r[0])
    for i in range(3):
        estimate.velocity[i] = x[VELOCITY_ERROR + i] - motion[i]
        estimate.position[i] = x[POSITION_ERROR + i] - place[i]
        estimate.acceleration[i] = estimator.force_before[i] + (estimator.gravity if i == 2 else 0.0)
        estimate.gyroscope_bias[i] = x[GYROSCOPE + i]
        estimate.accelerometer_bias[i] = x[ACCELEROMETER + i]
        estimate.origin[i] = estimator.origin[i]
    for i in range(4):
        estimate.attitude[i] = q[i]
    estimate.height_above_ground = math.nan
    if estimate.valid & ABOVE_GROUND:
        estimate.height_above_ground = x[GROUND] - estimate.position[2]


@on_demand
def update(measurement: Measurement, estimator: Estimator, estimate: Estimate, dt: float) -> None:
    """Advance the estimate by one step.

    Args:
        measurement: MEASUREMENT record; its inertial sample is integrated whether it is fresh or held.
        estimate: ESTIMATE record, written; innovations, counters and resets accumulate from the start.
        dt: time since the last call, s; the same in every call.
    """
    estimate.time = measurement.time
    if estimator.aligned == 0:
        estimator.clock += dt
        align(estimator, measurement, dt)
        estimate.valid = 0
        estimate.height_above_ground = math.nan
        for i in range(4):
            estimate.attitude[i] = estimator.attitude[i]
        if estimator.aligned == 0:
            return
    else:
        integrate(estimator, measurement, dt)
        handle_saturation(estimator, measurement)
    if _inertial_is_live(estimator, measurement):
        estimator.inertial_at = estimator.clock
    store_state(estimator)
    if not is_at_rest(estimator, measurement):
        estimator.still_since = estimator.clock
    _fuse_fresh(estimator, estimate, measurement, dt)
    _fuse_assumptions(estimator)
    if estimator.slow_time >= DECAY_INTERVAL - 0.5 * dt:
        propagate_covariance(estimator)
        decay_biases(estimator)
    if estimator.pending_time >= COVARIANCE_INTERVAL - 0.5 * dt:
        propagate_covariance(estimator)
    if estimator.pending_time == 0.0:
        _write_deviations(estimator, estimate)
    _write_estimate(estimator, estimate)
