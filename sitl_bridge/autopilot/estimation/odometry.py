"""Measurement model of odometry: position in a frame of its own, and velocity, by camera or lidar (ODOMETRY).

The frame is level and begins at the first sample.  Steps from sample to sample are turned to NED by the
heading of the estimate against that of the odometry, and added up to a path.  The place of the path's origin
is a state of the filter beside the others: OFFSET in records.py.  Without odometry that state is absent.
"""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.autopilot.estimation.correction import (
    REJECTION_TIMEOUT,
    RESET,
    UNKNOWN_POSITION,
    check_innovation,
    fuse,
    predict_variance,
    reset_variance,
    set_term,
)
from sitl_bridge.autopilot.estimation.inertial import UNKNOWN_VELOCITY, recall_state
from sitl_bridge.autopilot.estimation.records import OFFSET, POSITION, STATES, TILT, VELOCITY, Estimator
from sitl_bridge.autopilot.estimation.sensor_models import LeverArm, lever_arm, position_terms, velocity_terms
from sitl_bridge.autopilot.records import (
    GPS_POSITION,
    ODOMETRY_POSITION,
    ODOMETRY_VELOCITY,
    Estimate,
    Measurement,
)
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.rotations import heading, to_ned

HORIZONTAL, VERTICAL, SPEED = 1, 2, 4
"""Parts that are fused: bits of PX4's EKF2_EV_CTRL."""
LEAST_DEVIATION = 0.01
"""Least standard deviation of position (m) and velocity (m/s): PX4 EKF2 (ev_pos_control.cpp)."""


@compiled
def _finite(values: Floats) -> bool:
    return math.isfinite(values[0]) and math.isfinite(values[1]) and math.isfinite(values[2])


@compiled
def _begin_path(estimator: Estimator, variance: Floats, lever: LeverArm) -> None:
    """Put the offset to where the estimate has the vehicle: a copy of the position's error, and the noise.

    Args:
        estimator: ESTIMATOR record; the state at the time of the sample is loaded.
        variance: (3,) m^2 of the position.
        lever: position of the sensor relative to the inertial unit, m NED.
    """
    cross, own = estimator.odometry_cross, estimator.odometry_covariance
    estimator.odometry_known = 0
    for e in range(3):
        position_terms(estimator, e)
        predict_variance(estimator)
        for j in range(STATES):
            cross[e, j] = estimator.gain[j]
        for f in range(e + 1):
            position_terms(estimator, f)
            shared = 0.0
            for k in range(estimator.term_count):
                shared += estimator.term_value[k] * estimator.gain[estimator.term_index[k]]
            own[e, f] = shared + (variance[e] if e == f else 0.0)
            own[f, e] = own[e, f]
        estimator.odometry_offset[e] = estimator.past_position[e] + lever[e] - estimator.odometry_path[e]
        estimator.odometry_correction[e] = 0.0
    estimator.odometry_known = 1


@compiled
def _extend_path(estimator: Estimator, measurement: Measurement, seconds: float) -> None:
    """Add the step since the last sample; its errors go into the offset.

    A step turned by an error of the heading is off by that error times the step, at right angles.  Drift is a
    random walk over the distance flown.
    """
    m, last = measurement, estimator.odometry_last
    turn = heading(estimator.past_attitude) - heading(m.odometry_attitude)
    c, s = math.cos(turn), math.sin(turn)
    x, y = m.odometry_position[0] - last[0], m.odometry_position[1] - last[1]
    north, east = c * x - s * y, s * x + c * y
    estimator.odometry_path[0] += north
    estimator.odometry_path[1] += east
    estimator.odometry_path[2] += m.odometry_position[2] - last[2]
    p, cross, own = estimator.covariance, estimator.odometry_cross, estimator.odometry_covariance
    down = TILT + 2
    for e in range(2):
        step = -east if e == 0 else north
        for f in range(3):
            own[e, f] += step * cross[f, down]
        for f in range(3):
            own[f, e] += step * cross[f, down]
        own[e, e] += step * step * p[down, down]
        for j in range(STATES):
            cross[e, j] += step * p[down, j]
    v = estimator.past_velocity
    way = math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]) * seconds
    for e in range(3):
        own[e, e] += estimator.odometry_drift * estimator.odometry_drift * way


@compiled
def offset_terms(estimator: Estimator, axis: int) -> None:
    """Set the terms of the path: the position at the time of the sample, less the offset."""
    position_terms(estimator, axis)
    set_term(estimator, OFFSET + axis, -1.0)


@compiled
def _fuse_position(estimator: Estimator, estimate: Estimate, variance: Floats, lever: LeverArm) -> None:
    """Fuse the path: position of the sensor less the offset."""
    r, s = estimator.residual, estimator.innovation_variance
    for i in range(3):
        offset_terms(estimator, i)
        r[i] = (
            estimator.odometry_path[i] + estimator.odometry_offset[i] - estimator.past_position[i] - lever[i]
        )
        s[i] = predict_variance(estimator) + variance[i]
        used = VERTICAL if i == 2 else HORIZONTAL
        if estimator.odometry_control & used == 0:
            r[i], s[i] = 0.0, 1.0
    verdict = check_innovation(estimator, estimate, ODOMETRY_POSITION)
    if verdict == RESET:
        if estimator.clock - estimator.fused_at[GPS_POSITION] <= REJECTION_TIMEOUT:
            _begin_path(estimator, variance, lever)
            return
        # Nothing else measures the position: the inertial solution drifted.
        for i in range(3):
            reset_variance(estimator, POSITION + i, UNKNOWN_POSITION)
            reset_variance(estimator, VELOCITY + i, UNKNOWN_VELOCITY)
    if verdict:
        for i in range(3):
            if estimator.odometry_control & (VERTICAL if i == 2 else HORIZONTAL):
                residual = r[i]
                offset_terms(estimator, i)
                fuse(estimator, residual, variance[i], np.int64(-1), 0.0)


@compiled
def _fuse_velocity(estimator: Estimator, estimate: Estimate, measurement: Measurement, age: float) -> None:
    """Fuse the velocity of the sensor, a mean over its exposure in the body axes of its end."""
    m = measurement
    if not (_finite(m.odometry_velocity) and _finite(m.odometry_velocity_variance)):
        return
    if not recall_state(estimator, age):
        return
    v = m.odometry_velocity
    seen = to_ned(estimator.past_attitude, v[0], v[1], v[2])
    if not recall_state(estimator, age + 0.5 * estimator.odometry_exposure):
        return
    lever = lever_arm(estimator, estimator.odometry_position)
    r, s = estimator.residual, estimator.innovation_variance
    variance = LEAST_DEVIATION * LEAST_DEVIATION
    for i in range(3):
        variance = max(variance, m.odometry_velocity_variance[i])
        # A tilt error rotates the measured velocity, the lever arm's and the integral of the force.
        estimator.past_force[i] += seen[i] - lever[3 + i]
    for i in range(3):
        velocity_terms(estimator, i)
        r[i] = seen[i] - estimator.past_velocity[i] - lever[3 + i]
        for k in range(estimator.term_count):
            # The position of the same sample is fused but not injected yet.
            r[i] -= estimator.term_value[k] * estimator.correction[estimator.term_index[k]]
        s[i] = predict_variance(estimator) + variance
    verdict = check_innovation(estimator, estimate, ODOMETRY_VELOCITY)
    if verdict == RESET:
        for i in range(3):
            reset_variance(estimator, VELOCITY + i, UNKNOWN_VELOCITY)
    if verdict:
        for i in range(3):
            velocity_terms(estimator, i)
            residual = seen[i] - estimator.past_velocity[i] - lever[3 + i]
            fuse(estimator, residual, variance, np.int64(-1), 0.0)


@compiled
def fuse_odometry(estimator: Estimator, estimate: Estimate, measurement: Measurement, age: float) -> None:
    """Fuse position and velocity of an odometry sample that is ``age`` s old, as ``odometry_control`` says.

    After a change of the reset counter the path goes on from where the estimate has the vehicle.
    """
    m = measurement
    if estimator.odometry_control & (HORIZONTAL | VERTICAL) == 0:
        estimator.odometry_known = 0
    elif _finite(m.odometry_position) and recall_state(estimator, age):
        lever = lever_arm(estimator, estimator.odometry_position)
        for i in range(3):
            estimator.past_displacement[i] += lever[i]
        variance = estimator.odometry_variance
        for i in range(3):
            stated = m.odometry_position_variance[i]
            variance[i] = LEAST_DEVIATION * LEAST_DEVIATION
            if math.isfinite(stated):
                variance[i] = max(variance[i], stated)
        if estimator.odometry_known == 0 or m.odometry_resets != estimator.odometry_resets:
            _begin_path(estimator, variance, lever)
        else:
            _extend_path(estimator, m, (m.odometry_time - estimator.odometry_at) * 1e-6)
            _fuse_position(estimator, estimate, variance, lever)
        estimator.odometry_at = m.odometry_time
        estimator.odometry_resets = m.odometry_resets
        for i in range(3):
            estimator.odometry_last[i] = m.odometry_position[i]
    if estimator.odometry_control & SPEED:
        _fuse_velocity(estimator, estimate, m, age)
