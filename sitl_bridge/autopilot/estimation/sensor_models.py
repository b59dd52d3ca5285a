"""What each sensor says of the state: its prediction, the errors it depends on, its noise.

Errors are those of layout.py.  A late measurement is compared with the state of its time (``recall``); its
terms carry the present errors back there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sitl_bridge.autopilot.estimation.correction import (
    ANYWHERE,
    PATIENCE,
    RESET,
    cast_off,
    forget,
    fuse,
    judge,
    project,
    term,
)
from sitl_bridge.autopilot.estimation.inertial import UNKNOWN_SPEED, recall, rotated
from sitl_bridge.autopilot.estimation.records import (
    ACCELEROMETER,
    BAROMETER,
    GPS_DRIFT,
    GPS_SPEED,
    GROUND,
    MAGNETOMETER,
    POSITION,
    STATES,
    TILT,
    VELOCITY,
)
from sitl_bridge.autopilot.records import (
    GPS_POSITION,
    GPS_VELOCITY,
)
from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.world.atmosphere import LAPSE_RATE, PRESSURE_EXPONENT
from sitl_bridge.world.earth import ECCENTRICITY_SQUARED, SEMI_MAJOR_AXIS

GOOD_FIX = 3
GOOD_EPH = 3.0
"""m, EKF2_REQ_EPH (PX4)."""
GOOD_EPV = 5.0
"""m, EKF2_REQ_EPV (PX4)."""
ANY_GROUND = 1e4
"""m^2, variance of ground that nothing is known of."""
STEEPEST = 0.7071
"""Cosine of the greatest tilt at which the range finder's beam is taken to meet the ground below (PX4,
EKF2's vehicle tilt limit for range fusion)."""
NEAREST_FLOW = 0.03
"""m, distance from the ground below which flow says nothing."""
LEVEL_NOISE = 1.0
"""m/s^2, deviation of a flying vehicle's horizontal acceleration, EKF2_GRAV_NOISE (PX4)."""


@compiled
def _ecef(latitude: float, longitude: float, height: float) -> tuple[float, float, float]:
    """Earth-centred position in m of a geodetic point (rad, rad, m above the ellipsoid)."""
    s, c = math.sin(latitude), math.cos(latitude)
    normal = SEMI_MAJOR_AXIS / math.sqrt(1.0 - ECCENTRICITY_SQUARED * s * s)
    return (
        (normal + height) * c * math.cos(longitude),
        (normal + height) * c * math.sin(longitude),
        (normal * (1.0 - ECCENTRICITY_SQUARED) + height) * s,
    )


@compiled
def _adopt_origin(estimator: Any, latitude: float, longitude: float, altitude: float) -> None:
    """Make a fix the origin of the local frame, a plane tangent to the ellipsoid."""
    x, y, z = _ecef(latitude, longitude, altitude)
    estimator.origin_ecef[0], estimator.origin_ecef[1], estimator.origin_ecef[2] = x, y, z
    estimator.origin[0], estimator.origin[1], estimator.origin[2] = latitude, longitude, altitude
    s, c = math.sin(latitude), math.cos(latitude)
    t, u = math.sin(longitude), math.cos(longitude)
    r = estimator.ned_to_ecef
    r[0, 0], r[0, 1], r[0, 2] = -s * u, -t, -c * u
    r[1, 0], r[1, 1], r[1, 2] = -s * t, u, -c * t
    r[2, 0], r[2, 1], r[2, 2] = c, 0.0, -s
    estimator.origin_known = 1


@compiled
def _drive_drift(estimator: Any) -> None:
    """Bring the receiver's position drift up to this fix (hector eq. 11b)."""
    p = estimator.covariance
    periods = 1.0
    if math.isfinite(estimator.gps_at):
        periods = max(round((estimator.clock - estimator.gps_at) / estimator.gps_period), 1.0)
    estimator.gps_at = estimator.clock
    left = estimator.gps_fading**periods
    for i in range(3):
        k = GPS_DRIFT + i
        estimator.nominal[k] *= left
        for j in range(STATES):
            p[k, j] *= left
        for j in range(STATES):
            p[j, k] *= left
        p[k, k] += estimator.gps_drift_variance[i] * (1.0 - left * left)


@compiled
def gps_velocity_terms(estimator: Any, axis: int) -> None:
    """Velocity of the past: d v_past = d v + [f]x tilt + age R d accelerometer bias; and its own error."""
    f, age = estimator.past_force, estimator.past_age
    ahead, behind = (axis + 1) % 3, (axis + 2) % 3
    estimator.term_count = 0
    term(estimator, VELOCITY + axis, 1.0)
    term(estimator, TILT + behind, f[ahead])
    term(estimator, TILT + ahead, -f[behind])
    for j in range(3):
        column = rotated(
            estimator.past_attitude, 1.0 if j == 0 else 0.0, 1.0 if j == 1 else 0.0, 1.0 if j == 2 else 0.0
        )
        term(estimator, ACCELEROMETER + j, age * column[axis])
    term(estimator, GPS_SPEED + axis, 1.0)


@compiled
def gps_position_terms(estimator: Any, axis: int) -> None:
    """Position of the past: d p_past = d p - age d v - [second integral of f]x tilt; and its drift."""
    f, age = estimator.past_drop, estimator.past_age
    ahead, behind = (axis + 1) % 3, (axis + 2) % 3
    estimator.term_count = 0
    term(estimator, POSITION + axis, 1.0)
    term(estimator, VELOCITY + axis, -age)
    term(estimator, TILT + behind, -f[ahead])
    term(estimator, TILT + ahead, f[behind])
    term(estimator, GPS_DRIFT + axis, 1.0)


@compiled
def _lever(estimator: Any, position: Any) -> tuple[float, float, float, float, float, float]:
    """Place and velocity, NED, of a sensor relative to the inertial unit at the recalled time."""
    w, q = estimator.past_rate, estimator.past_attitude
    x, y, z = position[0], position[1], position[2]
    n, e, d = rotated(q, x, y, z)
    vn, ve, vd = rotated(q, w[1] * z - w[2] * y, w[2] * x - w[0] * z, w[0] * y - w[1] * x)
    return n, e, d, vn, ve, vd


@compiled
def _fix_ned(estimator: Any, measurement: Any) -> tuple[float, float, float]:
    """A fix in the local frame, m."""
    x, y, z = _ecef(measurement.latitude, measurement.longitude, measurement.altitude)
    o, r = estimator.origin_ecef, estimator.ned_to_ecef
    x, y, z = x - o[0], y - o[1], z - o[2]
    return (
        r[0, 0] * x + r[1, 0] * y + r[2, 0] * z,
        r[0, 1] * x + r[1, 1] * y + r[2, 1] * z,
        r[0, 2] * x + r[1, 2] * y + r[2, 2] * z,
    )


@compiled
def _gps_velocity(estimator: Any, estimate: Any, measurement: Any, source: int, lever: Any) -> None:
    """Velocity of a fix.  Its white noise drives the position's drift, so it corrects that too."""
    x, r, s = estimator.nominal, estimator.residual, estimator.spread
    for i in range(3):
        gps_velocity_terms(estimator, i)
        r[i] = measurement.gps_velocity[i] - estimator.past_velocity[i] - lever[3 + i] - x[GPS_SPEED + i]
        s[i] = project(estimator) + estimator.gps_velocity_variance[i]
    verdict = judge(estimator, estimate, source)
    if verdict == RESET:
        for i in range(3):
            forget(estimator, VELOCITY + i, UNKNOWN_SPEED)
    if verdict:
        for i in range(3):
            gps_velocity_terms(estimator, i)
            fuse(
                estimator,
                r[i],
                estimator.gps_velocity_variance[i],
                GPS_DRIFT + i,
                estimator.gps_coupling[i],
            )


@compiled
def _gps_position(estimator: Any, estimate: Any, measurement: Any, source: int, lever: Any) -> None:
    """Position of a fix; the first one is the origin.  Stated accuracies above the usual scale the noise."""
    x, r, s, c = estimator.nominal, estimator.residual, estimator.spread, estimator.correction
    if estimator.origin_known == 0:
        _adopt_origin(estimator, measurement.latitude, measurement.longitude, measurement.altitude)
        cast_off(estimator)
    fix = _fix_ned(estimator, measurement)
    horizontal = max(measurement.eph / estimator.gps_accuracy[0], 1.0)
    vertical = max(measurement.epv / estimator.gps_accuracy[1], 1.0)
    for i in range(3):
        gps_position_terms(estimator, i)
        growth = vertical if i == 2 else horizontal
        r[i] = fix[i] - estimator.past_position[i] - lever[i] - x[GPS_DRIFT + i]
        s[i] = project(estimator) + estimator.gps_position_variance[i] * growth * growth
        for k in range(estimator.term_count):
            # The velocity of the same fix has been taken in but not injected.
            r[i] -= estimator.term_value[k] * c[estimator.term_index[k]]
    verdict = judge(estimator, estimate, source)
    if verdict == RESET:
        cast_off(estimator)
        for i in range(3):
            forget(estimator, GPS_DRIFT + i, estimator.gps_drift_variance[i])
    if verdict:
        for i in range(3):
            gps_position_terms(estimator, i)
            growth = vertical if i == 2 else horizontal
            residual = fix[i] - estimator.past_position[i] - lever[i] - x[GPS_DRIFT + i]
            fuse(estimator, residual, estimator.gps_position_variance[i] * growth * growth, np.int64(-1), 0.0)


@compiled
def take_fix(estimator: Any, estimate: Any, measurement: Any, source: int, age: float) -> None:
    """Velocity and position of the satellite receiver, taken ``age`` s ago, where the fix is good enough."""
    good = measurement.fix >= GOOD_FIX and measurement.eph <= GOOD_EPH and measurement.epv <= GOOD_EPV
    if not good or not recall(estimator, age):
        return
    lever = _lever(estimator, estimator.gps_position)
    for i in range(3):
        # A tilt moves the antenna about the inertial unit: d (R r) = tilt x R r, as it does the second
        # integral of the force; likewise the velocity.
        estimator.past_drop[i] += lever[i]
        estimator.past_force[i] -= lever[3 + i]
    _drive_drift(estimator)
    _gps_velocity(estimator, estimate, measurement, source + GPS_VELOCITY - GPS_POSITION, lever)
    _gps_position(estimator, estimate, measurement, source, lever)


@compiled
def take_pressure(estimator: Any, estimate: Any, measurement: Any, source: int, age: float) -> None:
    """Height by the barometer above where it started: hypsometry of the standard atmosphere from there."""
    if measurement.pressure <= 0.0 or not recall(estimator, age):
        return
    x = estimator.nominal
    if estimator.pressure_start == 0.0:
        # A barometer that first speaks now starts from here.
        estimator.pressure_start = measurement.pressure
        x[BAROMETER] = estimator.past_position[2]
        variance = estimator.pressure_variance * estimator.pressure_slope * estimator.pressure_slope
        forget(estimator, np.int64(BAROMETER), variance + estimator.covariance[POSITION + 2, POSITION + 2])
        return
    ratio = math.pow(measurement.pressure / estimator.pressure_start, 1.0 / PRESSURE_EXPONENT)
    height = estimator.temperature / LAPSE_RATE * (1.0 - ratio)
    slope = estimator.temperature / LAPSE_RATE * ratio / (PRESSURE_EXPONENT * measurement.pressure)
    variance = estimator.pressure_variance * slope * slope
    estimator.term_count = 0
    term(estimator, np.int64(POSITION + 2), -1.0)
    term(estimator, np.int64(VELOCITY + 2), age)
    term(estimator, np.int64(BAROMETER), 1.0)
    _, _, below, _, _, _ = _lever(estimator, estimator.pressure_position)
    estimator.residual[0] = height + estimator.past_position[2] + below - x[BAROMETER]
    estimator.spread[0] = project(estimator) + variance
    verdict = judge(estimator, estimate, source)
    if verdict == RESET and estimator.clock - estimator.fused_at[GPS_POSITION] <= PATIENCE:
        forget(estimator, np.int64(BAROMETER), estimator.covariance[POSITION + 2, POSITION + 2] + variance)
        x[BAROMETER] += estimator.residual[0]
        estimator.residual[0] = 0.0
    elif verdict == RESET:
        # Nothing else tells the height: the inertial solution strayed, maybe by a bias learnt falsely.
        forget(estimator, np.int64(POSITION + 2), ANYWHERE)
        forget(estimator, np.int64(VELOCITY + 2), UNKNOWN_SPEED)
        for i in range(3):
            forget(estimator, ACCELEROMETER + i, estimator.prior[ACCELEROMETER + i])
            x[ACCELEROMETER + i] = 0.0
    if verdict:
        fuse(estimator, estimator.residual[0], variance, np.int64(-1), 0.0)


@compiled
def magnetic_terms(estimator: Any) -> None:
    """Field along magnetic east over the horizontal field, zero but for errors.

    With north and vertical parts h and v, R m turns by -tilt: its east part is -h tilt_d + v tilt_north.
    """
    north, east = estimator.magnetic_north[0], estimator.magnetic_north[1]
    estimator.term_count = 0
    term(estimator, np.int64(TILT), estimator.magnetic_slope * north)
    term(estimator, np.int64(TILT + 1), estimator.magnetic_slope * east)
    term(estimator, np.int64(TILT + 2), -1.0)
    for j in range(3):
        n, e, _ = rotated(
            estimator.past_attitude, 1.0 if j == 0 else 0.0, 1.0 if j == 1 else 0.0, 1.0 if j == 2 else 0.0
        )
        term(estimator, MAGNETOMETER + j, (north * e - east * n) / estimator.magnetic_strength)


@compiled
def take_field(estimator: Any, estimate: Any, measurement: Any, source: int, age: float) -> None:
    """Heading by the magnetometer: of its three axes the one along magnetic east, which tells the heading."""
    if not recall(estimator, age):
        return
    x, m = estimator.nominal, measurement.magnetometer
    n, e, _ = rotated(
        estimator.past_attitude,
        m[0] - x[MAGNETOMETER],
        m[1] - x[MAGNETOMETER + 1],
        m[2] - x[MAGNETOMETER + 2],
    )
    north, east = estimator.magnetic_north[0], estimator.magnetic_north[1]
    variance = estimator.magnetometer_variance / (estimator.magnetic_strength * estimator.magnetic_strength)
    magnetic_terms(estimator)
    estimator.residual[0] = math.atan2(north * e - east * n, north * n + east * e)
    estimator.spread[0] = project(estimator) + variance
    verdict = judge(estimator, estimate, source)
    if verdict == RESET:
        # Heading and field disagree for good; velocities from fixes hold the heading, so the field is bent.
        for i in range(3):
            forget(estimator, MAGNETOMETER + i, estimator.magnetic_strength * estimator.magnetic_strength)
    if verdict:
        fuse(estimator, estimator.residual[0], variance, np.int64(-1), 0.0)


@compiled
def take_range(estimator: Any, estimate: Any, measurement: Any, source: int, age: float) -> None:
    """Distance to the ground below along body down."""
    if math.isnan(measurement.range) or not recall(estimator, age):
        return
    x = estimator.nominal
    _, _, cosine = rotated(estimator.past_attitude, 0.0, 0.0, 1.0)
    if cosine < STEEPEST:
        return
    arm = _lever(estimator, estimator.range_position)
    distance = (x[GROUND] - estimator.past_position[2] - arm[2]) / cosine
    about_north, about_east = _distance_by_tilt(estimator, distance, arm)
    estimator.term_count = 0
    term(estimator, np.int64(GROUND), 1.0 / cosine)
    term(estimator, np.int64(POSITION + 2), -1.0 / cosine)
    term(estimator, np.int64(VELOCITY + 2), age / cosine)
    term(estimator, np.int64(TILT), about_north)
    term(estimator, np.int64(TILT + 1), about_east)
    estimator.residual[0] = measurement.range - distance
    estimator.spread[0] = project(estimator) + estimator.range_variance
    verdict = judge(estimator, estimate, source)
    if verdict == RESET:
        forget(estimator, np.int64(GROUND), estimator.covariance[POSITION + 2, POSITION + 2] + ANY_GROUND)
    if verdict:
        fuse(estimator, estimator.residual[0], estimator.range_variance, np.int64(-1), 0.0)
        estimator.range_at = estimator.clock


@compiled
def _distance_by_tilt(estimator: Any, distance: float, arm: Any) -> tuple[float, float]:
    """How the distance to the ground along body down changes with the tilt about north and east.

    Args:
        estimator: ESTIMATOR record.
        distance: m.
        arm: place of the sensor relative to the inertial unit, NED.
    """
    zn, ze, cosine = rotated(estimator.past_attitude, 0.0, 0.0, 1.0)
    return -(distance * ze + arm[1]) / cosine, (distance * zn + arm[0]) / cosine


@compiled
def flow_terms(estimator: Any, axis: int, sign: float, distance: float, arm: Any) -> None:
    """Angular rate of the ground along a body axis: sign times velocity along the axis over the distance."""
    column = rotated(estimator.past_attitude, 1.0 if axis == 0 else 0.0, 1.0 if axis == 1 else 0.0, 0.0)
    v = estimator.past_velocity
    along = 0.0
    for i in range(3):
        along += (v[i] + arm[3 + i]) * column[i]
    _, _, cosine = rotated(estimator.past_attitude, 0.0, 0.0, 1.0)
    scale = sign / distance
    nearer = -scale * along / distance
    about_north, about_east = _distance_by_tilt(estimator, distance, arm)
    estimator.term_count = 0
    for i in range(3):
        ahead, behind = (i + 1) % 3, (i + 2) % 3
        term(estimator, VELOCITY + i, scale * column[i])
        turning = -scale * (v[ahead] * column[behind] - v[behind] * column[ahead])
        if i < 2:
            turning += nearer * (about_north if i == 0 else about_east)
        term(estimator, TILT + i, turning)
    term(estimator, np.int64(GROUND), nearer / cosine)
    term(estimator, np.int64(POSITION + 2), -nearer / cosine)
    estimator.residual[axis] = -scale * along


@compiled
def take_flow(estimator: Any, estimate: Any, measurement: Any, source: int, age: float) -> None:
    """Velocity over ground by optical flow, the mean over its interval (MAVLink HIL_OPTICAL_FLOW's axes)."""
    span = measurement.flow_interval
    if measurement.flow_quality <= 0.0 or span <= 0.0 or not recall(estimator, age + 0.5 * span):
        return
    _, _, cosine = rotated(estimator.past_attitude, 0.0, 0.0, 1.0)
    if cosine < STEEPEST:
        return
    arm = _lever(estimator, estimator.flow_position)
    distance = (estimator.nominal[GROUND] - estimator.past_position[2] - arm[2]) / cosine
    if distance < NEAREST_FLOW:
        return
    r, s = estimator.residual, estimator.spread
    for axis in range(2):
        # Motion along x makes positive flow about y, motion along y negative flow about x.
        flow_terms(estimator, axis, 1.0 - 2.0 * axis, distance, arm)
        seen = measurement.flow[1 - axis] - measurement.flow_gyroscope[1 - axis]
        r[axis] += seen / span
        s[axis] = project(estimator) + estimator.flow_variance[1 - axis] / (span * span)
    verdict = judge(estimator, estimate, source)
    if verdict == RESET:
        for i in range(3):
            forget(estimator, VELOCITY + i, UNKNOWN_SPEED)
    if verdict:
        for axis in range(2):
            residual = r[axis]
            flow_terms(estimator, axis, 1.0 - 2.0 * axis, distance, arm)
            fuse(estimator, residual, estimator.flow_variance[1 - axis] / (span * span), np.int64(-1), 0.0)


@compiled
def assume_rest(estimator: Any, variance: float) -> None:
    """Take the velocity for zero."""
    estimator.past_age = 0.0
    for i in range(3):
        estimator.term_count = 0
        term(estimator, VELOCITY + i, 1.0)
        fuse(estimator, -estimator.nominal[VELOCITY + i], variance, np.int64(-1), 0.0)


@compiled
def assume_level_flight(estimator: Any) -> None:
    """Take the mean horizontal acceleration for zero: the specific force points up (EKF2's gravity fusion).

    0 = R (f - b) + tilt x R (f - b) - R d b, horizontal parts.
    """
    f = estimator.force_before
    estimator.past_age = 0.0
    for i in range(2):
        estimator.term_count = 0
        term(estimator, TILT + 1 - i, f[2] if i == 0 else -f[2])
        term(estimator, np.int64(TILT + 2), -f[1] if i == 0 else f[0])
        for j in range(3):
            column = rotated(
                estimator.attitude, 1.0 if j == 0 else 0.0, 1.0 if j == 1 else 0.0, 1.0 if j == 2 else 0.0
            )
            term(estimator, ACCELEROMETER + j, -column[i])
        fuse(estimator, -f[i], LEVEL_NOISE * LEVEL_NOISE, np.int64(-1), 0.0)
