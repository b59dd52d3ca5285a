"""The estimator of the built-in flight stack: an error-state Kalman filter over all sensors of a vehicle.

Here is its step: predict by the inertial samples, correct by what is fresh, tell what is believed.  Settings,
prediction, measurements and correction are modules of ``estimation``.  (hector section 3.4; RotorS section
2.3; Solà, "Quaternion kinematics for the error-state Kalman filter", arXiv 1711.02508.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sitl_bridge.autopilot.estimation.alignment import align, resting
from sitl_bridge.autopilot.estimation.correction import inject
from sitl_bridge.autopilot.estimation.inertial import (
    FADING_PERIOD,
    LONGEST_LAG,
    fade,
    integrate,
    notice_shock,
    remember,
    rotated,
    spread,
)
from sitl_bridge.autopilot.estimation.records import (
    ACCELEROMETER,
    ESTIMATOR,
    GROUND,
    GYROSCOPE,
    TILT,
)
from sitl_bridge.autopilot.estimation.records import POSITION as POSITION_ERROR
from sitl_bridge.autopilot.estimation.records import VELOCITY as VELOCITY_ERROR
from sitl_bridge.autopilot.estimation.sensor_models import (
    assume_level_flight,
    assume_rest,
    take_field,
    take_fix,
    take_flow,
    take_pressure,
    take_range,
)
from sitl_bridge.autopilot.estimation.sensor_settings import estimator_record
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
    POSITION,
    RANGE_HEIGHT,
    SOURCES,
    VELOCITY,
)
from sitl_bridge.kernels.compiled import compiled

__all__ = ["ESTIMATOR", "estimator_record", "update"]

ASSUMPTION_PERIOD = 0.2
"""s between assumptions of rest or level flight (PX4 EKF2, ZeroVelocityUpdate)."""
REST_VARIANCE = 1e-4
"""(m/s)^2 of the assumed rest."""
CALM = 1.0
"""s of samples as from rest that make a vehicle one that stands."""
STUCK = 2.0
"""s of the same reading again and again that are no chance where the link rounds coarsely (PX4's
DataValidator: 100 samples)."""
REPEATED = 0.0
"""s of the same where the link carries single precision: noise makes no reading twice.  A hundred of them
would teach a heading or a height so surely that the fixes which contradict it are refused."""
STUCK_INERTIAL = 0.4
"""s of the same for accelerometer and gyroscope, 100 samples of PX4's."""
DEAF = 0.5
"""s without inertial samples after which nothing is valid (PX4's DataValidator, time-out)."""
DEAD_RECKONING = 5.0
"""s without a source after which what it told is no longer valid (PX4 EKF2, valid_timeout_max)."""
WORST_TILT = math.radians(3.0) ** 2
"""rad^2, variance at which the attitude counts as aligned (PX4 EKF2, tilt alignment)."""
DOUBTFUL_TILT = WORST_TILT / 4.0
"""rad^2, half that deviation."""
STRONG = 0.1
"""Share of gravity by which the specific force may differ from it in level flight (PX4 EKF2)."""
WORST_HEADING = math.radians(15.0) ** 2
"""rad^2; a position controller still converges well with four times the deviation."""
WORST_VELOCITY = 1.0
"""(m/s)^2, COM_VEL_FS_EVH (PX4)."""
WORST_POSITION = 25.0
"""m^2, COM_POS_FS_EPH (PX4)."""
WORST_HEIGHT = 25.0
"""m^2, EKF2_REQ_EPV (PX4)."""


@compiled
def _stuck(estimator: Any, source: Any, a: float, b: float, c: float, patience: float) -> bool:
    """Whether a noisy sensor has said the very same for longer than chance allows."""
    said = estimator.said[source]
    if said[0] != a or said[1] != b or said[2] != c:
        said[0], said[1], said[2] = a, b, c
        estimator.said_at[source] = estimator.clock
    return bool(estimator.noisy[source] and estimator.clock - estimator.said_at[source] > patience)


@compiled
def _inertial_live(estimator: Any, measurement: Any) -> bool:
    """Whether both inertial sensors say something new."""
    f, w = measurement.accelerometer, measurement.gyroscope
    force_stuck = _stuck(estimator, np.int64(SOURCES), f[0], f[1], f[2], STUCK_INERTIAL)
    rate_stuck = _stuck(estimator, np.int64(SOURCES + 1), w[0], w[1], w[2], STUCK_INERTIAL)
    return measurement.imu_fresh == 1 and not force_stuck and not rate_stuck


@compiled
def _news(estimator: Any, measurement: Any, source: int, dt: float) -> float:
    """Age in s of what a source has newly said; -1 where it says nothing or is stuck.

    Samples that come in the inertial frame are late by their latency, in whole steps; range and flow come
    behind it and are read with the next one.  A fix carries its time.
    """
    m = measurement
    age = math.ceil(estimator.latency[source] / dt - 1e-6) * dt
    said = m.magnetometer
    fresh = False
    stuck = False
    if source == GPS_POSITION and m.gps_fresh:
        fresh = True
        stuck = _stuck(estimator, source, m.latitude, m.longitude, m.gps_velocity[2], STUCK)
        age = (m.time - m.gps_time) * 1e-6
    elif source == BARO_HEIGHT and m.barometer_fresh:
        fresh = True
        stuck = _stuck(estimator, source, m.pressure, 0.0, 0.0, REPEATED)
    elif source == MAGNETIC_HEADING and m.magnetometer_fresh:
        fresh = True
        stuck = _stuck(estimator, source, said[0], said[1], said[2], REPEATED)
    elif source == RANGE_HEIGHT and m.range_fresh:
        fresh = True
        stuck = _stuck(estimator, source, m.range, 0.0, 0.0, STUCK)
        age += dt
    elif source == FLOW_VELOCITY and m.flow_fresh:
        fresh = True
        stuck = _stuck(estimator, source, m.flow[0], m.flow[1], 0.0, STUCK)
        age += dt
    return age if fresh and not stuck else -1.0


@compiled
def _correct(estimator: Any, estimate: Any, measurement: Any, dt: float) -> None:
    """Take in what is fresh."""
    for source in range(SOURCES):
        if estimator.fitted[source] == 0:
            continue
        age = _news(estimator, measurement, source, dt)
        if age < 0.0:
            continue
        spread(estimator)
        if source == GPS_POSITION:
            take_fix(estimator, estimate, measurement, source, age)
        elif source == BARO_HEIGHT:
            take_pressure(estimator, estimate, measurement, source, age)
        elif source == MAGNETIC_HEADING:
            take_field(estimator, estimate, measurement, source, age)
        elif source == RANGE_HEIGHT:
            take_range(estimator, estimate, measurement, source, age)
        elif source == FLOW_VELOCITY:
            take_flow(estimator, estimate, measurement, source, age)
        inject(estimator)


@compiled
def _aided(estimator: Any) -> float:
    """When a source of horizontal motion was last fused, s of ``clock``."""
    fused = estimator.fused_at
    return max(max(fused[GPS_POSITION], fused[GPS_VELOCITY]), fused[FLOW_VELOCITY])


@compiled
def _assume(estimator: Any) -> None:
    """While nothing tells the velocity: what keeps the tilt bounded.  The validity bits do not count it.

    A vehicle that stands still and was never told of its motion rests; in flight a calm inertial unit says
    nothing of the velocity.  In dead reckoning whose tilt grows doubtful, flight is level on average.
    """
    now = estimator.clock
    if now - estimator.assumed_at < ASSUMPTION_PERIOD:
        return
    p, f = estimator.covariance, estimator.force_before
    if math.isinf(_aided(estimator)):
        if now - estimator.still_since >= CALM:
            estimator.assumed_at = now
            spread(estimator)
            assume_rest(estimator, REST_VARIANCE)
            inject(estimator)
            return
    elif now - _aided(estimator) <= DEAD_RECKONING:
        return
    strength = math.sqrt(f[0] * f[0] + f[1] * f[1] + f[2] * f[2])
    doubtful = max(p[TILT, TILT], p[TILT + 1, TILT + 1]) > DOUBTFUL_TILT
    if doubtful and abs(strength - estimator.gravity) < STRONG * estimator.gravity:
        estimator.assumed_at = now
        spread(estimator)
        assume_level_flight(estimator)
        inject(estimator)


@compiled
def _validity(estimator: Any) -> int:
    """Bits of what may be relied upon, by the covariance and by how long ago it was measured."""
    p, now, fused = estimator.covariance, estimator.clock, estimator.fused_at
    bits = 0
    if now - estimator.heard_at > DEAF:
        return bits
    if max(p[TILT, TILT], p[TILT + 1, TILT + 1]) < WORST_TILT:
        bits |= ATTITUDE
    # Without a field the heading seems to get known by motion that is but noise.
    if p[TILT + 2, TILT + 2] < WORST_HEADING and not math.isinf(fused[MAGNETIC_HEADING]):
        bits |= HEADING
    measured = max(max(fused[BARO_HEIGHT], fused[GPS_POSITION]), fused[RANGE_HEIGHT])
    if now - measured <= DEAD_RECKONING and p[POSITION_ERROR + 2, POSITION_ERROR + 2] < WORST_HEIGHT:
        bits |= HEIGHT
    if now - _aided(estimator) <= DEAD_RECKONING:
        if max(p[VELOCITY_ERROR, VELOCITY_ERROR], p[VELOCITY_ERROR + 1, VELOCITY_ERROR + 1]) < WORST_VELOCITY:
            bits |= VELOCITY
        if max(p[POSITION_ERROR, POSITION_ERROR], p[POSITION_ERROR + 1, POSITION_ERROR + 1]) < WORST_POSITION:
            bits |= POSITION
    if estimator.origin_known:
        bits |= GLOBAL
    if now - estimator.range_at <= DEAD_RECKONING:
        bits |= ABOVE_GROUND
    return bits


@compiled
def _tell_deviations(estimator: Any, estimate: Any) -> None:
    """Standard deviations, those of the attitude about body axes, and the bits that follow."""
    p, q = estimator.covariance, estimator.attitude
    for i in range(3):
        estimate.velocity_deviation[i] = math.sqrt(p[VELOCITY_ERROR + i, VELOCITY_ERROR + i])
        estimate.position_deviation[i] = math.sqrt(p[POSITION_ERROR + i, POSITION_ERROR + i])
        n, e, d = rotated(q, 1.0 if i == 0 else 0.0, 1.0 if i == 1 else 0.0, 1.0 if i == 2 else 0.0)
        variance = n * n * p[0, 0] + e * e * p[1, 1] + d * d * p[2, 2]
        variance += 2.0 * (n * e * p[0, 1] + n * d * p[0, 2] + e * d * p[1, 2])
        estimate.attitude_deviation[i] = math.sqrt(max(variance, 0.0))
    estimate.valid = _validity(estimator)


@compiled
def _tell(estimator: Any, estimate: Any) -> None:
    """Fill in the estimate; position and velocity are those of the centre of gravity."""
    x, q, r = estimator.nominal, estimator.attitude, estimator.imu_position
    w = estimate.angular_velocity
    for i in range(3):
        w[i] = estimator.rate_before[i] - x[GYROSCOPE + i]
    place = rotated(q, r[0], r[1], r[2])
    motion = rotated(q, w[1] * r[2] - w[2] * r[1], w[2] * r[0] - w[0] * r[2], w[0] * r[1] - w[1] * r[0])
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


@compiled
def update(measurement: Any, estimator: Any, estimate: Any, dt: float) -> None:
    """Take in one step's measurements.

    Args:
        measurement: MEASUREMENT record; its inertial samples count whether fresh or held.
        estimator: ESTIMATOR record.
        estimate: ESTIMATE record, filled in; its innovations, counts and resets are those since the start.
        dt: s since the last call, the same in every call.
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
        notice_shock(estimator, measurement)
    if _inertial_live(estimator, measurement):
        estimator.heard_at = estimator.clock
    remember(estimator)
    if not resting(estimator, measurement):
        estimator.still_since = estimator.clock
    _correct(estimator, estimate, measurement, dt)
    _assume(estimator)
    if estimator.slow_time >= FADING_PERIOD - 0.5 * dt:
        spread(estimator)
        fade(estimator)
    if estimator.pending_time >= LONGEST_LAG - 0.5 * dt:
        spread(estimator)
    if estimator.pending_time == 0.0:
        _tell_deviations(estimator, estimate)
    _tell(estimator, estimate)
