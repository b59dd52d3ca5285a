"""Measurement models: the predicted reading of each sensor, the errors it depends on, and its noise.

The error indices are those of records.py.  A delayed measurement is compared with the state at its time
(``recall_state``); its terms carry the present errors back to that time.
"""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.autopilot.estimation.correction import (
    REJECTED,
    REJECTION_TIMEOUT,
    RESET,
    UNKNOWN_POSITION,
    check_innovation,
    fuse,
    predict_variance,
    release_origin,
    reset_variance,
    set_term,
)
from sitl_bridge.autopilot.estimation.inertial import UNKNOWN_VELOCITY, decay_state, recall_state
from sitl_bridge.autopilot.estimation.records import (
    ACCELEROMETER,
    BAROMETER,
    GPS_DRIFT,
    GPS_SPEED,
    GROUND,
    MAGNETOMETER,
    POSITION,
    TILT,
    VELOCITY,
    Estimator,
)
from sitl_bridge.autopilot.records import GPS_POSITION, GPS_VELOCITY, Estimate, Measurement
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.rotations import axis_in_ned, to_ned, transposed_product
from sitl_bridge.core.world.atmosphere import LAPSE_RATE, PRESSURE_EXPONENT
from sitl_bridge.core.world.earth import ECCENTRICITY_SQUARED, SEMI_MAJOR_AXIS

REQUIRED_FIX = 3
REQUIRED_EPH = 3.0
"""Largest eph of a usable fix, m: PX4's EKF2_REQ_EPH."""
REQUIRED_EPV = 5.0
"""Largest epv of a usable fix, m: PX4's EKF2_REQ_EPV."""
UNKNOWN_GROUND = 1e4
"""Variance of an unknown ground height, m^2."""
MIN_TILT_COSINE = 0.7071
"""Cosine of the largest tilt at which the range finder is used for the ground below (PX4 EKF2, tilt limit of
range fusion)."""
MIN_FLOW_DISTANCE = 0.03
"""Smallest distance to the ground at which optical flow is used, m."""
REST_VARIANCE = 1e-4
"""Variance of the zero velocity assumed at rest, (m/s)^2."""
LEVEL_NOISE = 1.0
"""Standard deviation of a flying vehicle's horizontal acceleration, m/s^2: PX4's EKF2_GRAV_NOISE."""
LeverArm = tuple[float, float, float, float, float, float]
"""Position, m, and velocity, m/s, NED, of a sensor from the inertial unit."""


@compiled
def _ecef(latitude: float, longitude: float, height: float) -> tuple[float, float, float]:
    """Return the Earth-centred position in m of a geodetic point (rad, rad, m above the ellipsoid)."""
    s, c = math.sin(latitude), math.cos(latitude)
    normal = SEMI_MAJOR_AXIS / math.sqrt(1.0 - ECCENTRICITY_SQUARED * s * s)
    return (
        (normal + height) * c * math.cos(longitude),
        (normal + height) * c * math.sin(longitude),
        (normal * (1.0 - ECCENTRICITY_SQUARED) + height) * s,
    )


@compiled
def _set_origin(estimator: Estimator, latitude: float, longitude: float, altitude: float) -> None:
    """Set a fix as origin of the local frame, a plane tangent to the ellipsoid."""
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
def _propagate_drift(estimator: Estimator) -> None:
    """Propagate the GNSS position drift to this fix (hector eq. 11b)."""
    p = estimator.covariance
    periods = 1.0
    if math.isfinite(estimator.gps_at):
        periods = max(round((estimator.clock - estimator.gps_at) / estimator.gps_period), 1.0)
    estimator.gps_at = estimator.clock
    left = estimator.gps_drift_decay**periods
    for i in range(3):
        k = GPS_DRIFT + i
        decay_state(estimator, k, left)
        p[k, k] += estimator.gps_drift_variance[i] * (1.0 - left * left)


@compiled
def velocity_terms(estimator: Estimator, axis: int) -> None:
    """Set the terms d v_past = d v + [f]x tilt + age R d accelerometer bias."""
    f, age = estimator.past_force, estimator.past_age
    ahead, behind = (axis + 1) % 3, (axis + 2) % 3
    estimator.term_count = 0
    set_term(estimator, VELOCITY + axis, 1.0)
    set_term(estimator, TILT + behind, f[ahead])
    set_term(estimator, TILT + ahead, -f[behind])
    for j in range(3):
        column = axis_in_ned(estimator.past_attitude, j)
        set_term(estimator, ACCELEROMETER + j, age * column[axis])


@compiled
def gps_velocity_terms(estimator: Estimator, axis: int) -> None:
    """Set the terms of the velocity, and the GNSS error."""
    velocity_terms(estimator, axis)
    set_term(estimator, GPS_SPEED + axis, 1.0)


@compiled
def position_terms(estimator: Estimator, axis: int) -> None:
    """Set the terms d p_past = d p - age d v - [second integral of f]x tilt."""
    f, age = estimator.past_displacement, estimator.past_age
    ahead, behind = (axis + 1) % 3, (axis + 2) % 3
    estimator.term_count = 0
    set_term(estimator, POSITION + axis, 1.0)
    set_term(estimator, VELOCITY + axis, -age)
    set_term(estimator, TILT + behind, -f[ahead])
    set_term(estimator, TILT + ahead, f[behind])


@compiled
def gps_position_terms(estimator: Estimator, axis: int) -> None:
    """Set the terms of the position, and the GNSS drift."""
    position_terms(estimator, axis)
    set_term(estimator, GPS_DRIFT + axis, 1.0)


@compiled
def lever_arm(estimator: Estimator, position: Floats) -> LeverArm:
    """Return position (m) and velocity (m/s), NED, of a sensor from the inertial unit, at recall time."""
    w, q = estimator.past_rate, estimator.past_attitude
    x, y, z = position[0], position[1], position[2]
    n, e, d = to_ned(q, x, y, z)
    vn, ve, vd = to_ned(q, w[1] * z - w[2] * y, w[2] * x - w[0] * z, w[0] * y - w[1] * x)
    return n, e, d, vn, ve, vd


@compiled
def _fix_ned(estimator: Estimator, measurement: Measurement) -> tuple[float, float, float]:
    """Return a fix in the local frame, m NED."""
    x, y, z = _ecef(measurement.latitude, measurement.longitude, measurement.altitude)
    o, r = estimator.origin_ecef, estimator.ned_to_ecef
    return transposed_product(r, x - o[0], y - o[1], z - o[2])


@compiled
def _fuse_gps_velocity(
    estimator: Estimator, estimate: Estimate, measurement: Measurement, source: int, lever: LeverArm
) -> None:
    """Fuse the velocity of a fix; its white noise drives the position drift, which is corrected too.

    A single velocity beyond the gate may be noise, which moves the drift by a period of it: that much of the
    drift is unknown then.  Two in a row are no noise.
    """
    x, r, s = estimator.nominal, estimator.residual, estimator.innovation_variance
    for i in range(3):
        gps_velocity_terms(estimator, i)
        r[i] = measurement.gps_velocity[i] - estimator.past_velocity[i] - lever[3 + i] - x[GPS_SPEED + i]
        s[i] = predict_variance(estimator) + estimator.gps_velocity_variance[i]
    single = math.isinf(estimator.rejected_since[source])
    verdict = check_innovation(estimator, estimate, source)
    if verdict == REJECTED and single:
        for i in range(3):
            estimator.covariance[GPS_DRIFT + i, GPS_DRIFT + i] += (estimator.gps_period * r[i]) ** 2
    if verdict == RESET:
        for i in range(3):
            reset_variance(estimator, VELOCITY + i, UNKNOWN_VELOCITY)
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
def _fuse_gps_position(
    estimator: Estimator, estimate: Estimate, measurement: Measurement, source: int, lever: LeverArm
) -> None:
    """Fuse the position of a fix; the first sets the origin.  Large reported accuracies scale the noise."""
    x, r, s, c = estimator.nominal, estimator.residual, estimator.innovation_variance, estimator.correction
    if estimator.origin_known == 0:
        _set_origin(estimator, measurement.latitude, measurement.longitude, measurement.altitude)
        release_origin(estimator)
    fix = _fix_ned(estimator, measurement)
    horizontal = max(measurement.eph / estimator.gps_accuracy[0], 1.0)
    vertical = max(measurement.epv / estimator.gps_accuracy[1], 1.0)
    for i in range(3):
        gps_position_terms(estimator, i)
        growth = vertical if i == 2 else horizontal
        r[i] = fix[i] - estimator.past_position[i] - lever[i] - x[GPS_DRIFT + i]
        s[i] = predict_variance(estimator) + estimator.gps_position_variance[i] * growth * growth
        for k in range(estimator.term_count):
            # The velocity of the same fix is fused but not injected yet.
            r[i] -= estimator.term_value[k] * c[estimator.term_index[k]]
    verdict = check_innovation(estimator, estimate, source)
    if verdict == RESET:
        release_origin(estimator)
        for i in range(3):
            reset_variance(estimator, GPS_DRIFT + i, estimator.gps_drift_variance[i])
    if verdict:
        for i in range(3):
            gps_position_terms(estimator, i)
            growth = vertical if i == 2 else horizontal
            residual = fix[i] - estimator.past_position[i] - lever[i] - x[GPS_DRIFT + i]
            fuse(estimator, residual, estimator.gps_position_variance[i] * growth * growth, np.int64(-1), 0.0)


@compiled
def fuse_fix(
    estimator: Estimator, estimate: Estimate, measurement: Measurement, source: int, age: float
) -> None:
    """Fuse velocity and position of a GNSS fix that is ``age`` s old, if it is accurate enough."""
    good = (
        measurement.fix >= REQUIRED_FIX
        and measurement.eph <= REQUIRED_EPH
        and measurement.epv <= REQUIRED_EPV
    )
    if not good or not recall_state(estimator, age):
        return
    lever = lever_arm(estimator, estimator.gps_position)
    for i in range(3):
        # A tilt error rotates the antenna's lever arm, d (R r) = tilt x R r, and likewise the second integral
        # of the force and the velocity.
        estimator.past_displacement[i] += lever[i]
        estimator.past_force[i] -= lever[3 + i]
    _propagate_drift(estimator)
    _fuse_gps_velocity(estimator, estimate, measurement, source + GPS_VELOCITY - GPS_POSITION, lever)
    _fuse_gps_position(estimator, estimate, measurement, source, lever)


@compiled
def fuse_pressure(
    estimator: Estimator, estimate: Estimate, measurement: Measurement, source: int, age: float
) -> None:
    """Fuse the barometric height above the start, from the pressure by the standard atmosphere."""
    if measurement.pressure <= 0.0 or not recall_state(estimator, age):
        return
    x = estimator.nominal
    if estimator.pressure_start == 0.0:
        # A barometer that delivers its first sample now starts from the present height.
        estimator.pressure_start = measurement.pressure
        x[BAROMETER] = estimator.past_position[2]
        variance = estimator.pressure_variance * estimator.pressure_slope * estimator.pressure_slope
        reset_variance(
            estimator, np.int64(BAROMETER), variance + estimator.covariance[POSITION + 2, POSITION + 2]
        )
        return
    ratio = math.pow(measurement.pressure / estimator.pressure_start, 1.0 / PRESSURE_EXPONENT)
    height = estimator.temperature / LAPSE_RATE * (1.0 - ratio)
    slope = estimator.temperature / LAPSE_RATE * ratio / (PRESSURE_EXPONENT * measurement.pressure)
    variance = estimator.pressure_variance * slope * slope
    estimator.term_count = 0
    set_term(estimator, np.int64(POSITION + 2), -1.0)
    set_term(estimator, np.int64(VELOCITY + 2), age)
    set_term(estimator, np.int64(BAROMETER), 1.0)
    _, _, below, _, _, _ = lever_arm(estimator, estimator.pressure_position)
    estimator.residual[0] = height + estimator.past_position[2] + below - x[BAROMETER]
    estimator.innovation_variance[0] = predict_variance(estimator) + variance
    verdict = check_innovation(estimator, estimate, source)
    if verdict == RESET and estimator.clock - estimator.fused_at[GPS_POSITION] <= REJECTION_TIMEOUT:
        reset_variance(
            estimator, np.int64(BAROMETER), estimator.covariance[POSITION + 2, POSITION + 2] + variance
        )
        x[BAROMETER] += estimator.residual[0]
        estimator.residual[0] = 0.0
    elif verdict == RESET:
        # Nothing else measures the height: the inertial solution drifted, possibly because of a wrong bias
        # estimate.
        reset_variance(estimator, np.int64(POSITION + 2), UNKNOWN_POSITION)
        reset_variance(estimator, np.int64(VELOCITY + 2), UNKNOWN_VELOCITY)
        for i in range(3):
            reset_variance(estimator, ACCELEROMETER + i, estimator.prior[ACCELEROMETER + i])
            x[ACCELEROMETER + i] = 0.0
    if verdict:
        fuse(estimator, estimator.residual[0], variance, np.int64(-1), 0.0)


@compiled
def magnetic_terms(estimator: Estimator) -> None:
    """Set the terms of the magnetic-east component over the horizontal field; its prediction is 0.

    With north and vertical components h and v, R m rotates by -tilt: the east component is -h tilt_d + v
    tilt_north.
    """
    north, east = estimator.magnetic_north[0], estimator.magnetic_north[1]
    estimator.term_count = 0
    set_term(estimator, np.int64(TILT), estimator.magnetic_slope * north)
    set_term(estimator, np.int64(TILT + 1), estimator.magnetic_slope * east)
    set_term(estimator, np.int64(TILT + 2), -1.0)
    for j in range(3):
        n, e, _ = axis_in_ned(estimator.past_attitude, j)
        set_term(estimator, MAGNETOMETER + j, (north * e - east * n) / estimator.magnetic_strength)


@compiled
def fuse_magnetic_field(
    estimator: Estimator, estimate: Estimate, measurement: Measurement, source: int, age: float
) -> None:
    """Fuse the heading: the magnetic-east component of the magnetometer reading."""
    if not recall_state(estimator, age):
        return
    x, m = estimator.nominal, measurement.magnetometer
    n, e, _ = to_ned(
        estimator.past_attitude,
        m[0] - x[MAGNETOMETER],
        m[1] - x[MAGNETOMETER + 1],
        m[2] - x[MAGNETOMETER + 2],
    )
    north, east = estimator.magnetic_north[0], estimator.magnetic_north[1]
    variance = estimator.magnetometer_variance / (estimator.magnetic_strength * estimator.magnetic_strength)
    magnetic_terms(estimator)
    estimator.residual[0] = math.atan2(north * e - east * n, north * n + east * e)
    estimator.innovation_variance[0] = predict_variance(estimator) + variance
    verdict = check_innovation(estimator, estimate, source)
    if verdict == RESET:
        # Heading and field disagree persistently.  GNSS velocities observe the heading, so the field is
        # disturbed.
        for i in range(3):
            reset_variance(
                estimator, MAGNETOMETER + i, estimator.magnetic_strength * estimator.magnetic_strength
            )
    if verdict:
        fuse(estimator, estimator.residual[0], variance, np.int64(-1), 0.0)


@compiled
def fuse_range(
    estimator: Estimator, estimate: Estimate, measurement: Measurement, source: int, age: float
) -> None:
    """Fuse the distance to the ground along body down."""
    if math.isnan(measurement.range) or not recall_state(estimator, age):
        return
    x = estimator.nominal
    _, _, cosine = to_ned(estimator.past_attitude, 0.0, 0.0, 1.0)
    if cosine < MIN_TILT_COSINE:
        return
    arm = lever_arm(estimator, estimator.range_position)
    distance = (x[GROUND] - estimator.past_position[2] - arm[2]) / cosine
    about_north, about_east = _tilt_derivatives(estimator, distance, arm)
    estimator.term_count = 0
    set_term(estimator, np.int64(GROUND), 1.0 / cosine)
    set_term(estimator, np.int64(POSITION + 2), -1.0 / cosine)
    set_term(estimator, np.int64(VELOCITY + 2), age / cosine)
    set_term(estimator, np.int64(TILT), about_north)
    set_term(estimator, np.int64(TILT + 1), about_east)
    estimator.residual[0] = measurement.range - distance
    estimator.innovation_variance[0] = predict_variance(estimator) + estimator.range_variance
    verdict = check_innovation(estimator, estimate, source)
    if verdict == RESET:
        reset_variance(
            estimator, np.int64(GROUND), estimator.covariance[POSITION + 2, POSITION + 2] + UNKNOWN_GROUND
        )
    if verdict:
        fuse(estimator, estimator.residual[0], estimator.range_variance, np.int64(-1), 0.0)
        estimator.range_at = estimator.clock


@compiled
def _tilt_derivatives(estimator: Estimator, distance: float, arm: LeverArm) -> tuple[float, float]:
    """Return the derivative of the distance along body down with respect to tilt about north and east.

    Args:
        distance: m.
        arm: position of the sensor relative to the inertial unit, m NED.
    """
    zn, ze, cosine = to_ned(estimator.past_attitude, 0.0, 0.0, 1.0)
    return -(distance * ze + arm[1]) / cosine, (distance * zn + arm[0]) / cosine


@compiled
def flow_terms(estimator: Estimator, axis: int, sign: float, distance: float, arm: LeverArm) -> None:
    """Set the terms of the flow about a body axis: sign times velocity along the axis over distance."""
    column = axis_in_ned(estimator.past_attitude, axis)
    v = estimator.past_velocity
    along = 0.0
    for i in range(3):
        along += (v[i] + arm[3 + i]) * column[i]
    _, _, cosine = to_ned(estimator.past_attitude, 0.0, 0.0, 1.0)
    scale = sign / distance
    nearer = -scale * along / distance
    about_north, about_east = _tilt_derivatives(estimator, distance, arm)
    estimator.term_count = 0
    for i in range(3):
        ahead, behind = (i + 1) % 3, (i + 2) % 3
        set_term(estimator, VELOCITY + i, scale * column[i])
        turning = -scale * (v[ahead] * column[behind] - v[behind] * column[ahead])
        if i < 2:
            turning += nearer * (about_north if i == 0 else about_east)
        set_term(estimator, TILT + i, turning)
    set_term(estimator, np.int64(GROUND), nearer / cosine)
    set_term(estimator, np.int64(POSITION + 2), -nearer / cosine)
    estimator.residual[axis] = -scale * along


@compiled
def fuse_flow(
    estimator: Estimator, estimate: Estimate, measurement: Measurement, source: int, age: float
) -> None:
    """Fuse the velocity over ground from optical flow, a mean over its interval (HIL_OPTICAL_FLOW)."""
    span = measurement.flow_interval
    if measurement.flow_quality <= 0.0 or span <= 0.0 or not recall_state(estimator, age + 0.5 * span):
        return
    _, _, cosine = to_ned(estimator.past_attitude, 0.0, 0.0, 1.0)
    if cosine < MIN_TILT_COSINE:
        return
    arm = lever_arm(estimator, estimator.flow_position)
    distance = (estimator.nominal[GROUND] - estimator.past_position[2] - arm[2]) / cosine
    if distance < MIN_FLOW_DISTANCE:
        return
    r, s = estimator.residual, estimator.innovation_variance
    for axis in range(2):
        # Motion along x gives positive flow about y, motion along y negative flow about x.
        flow_terms(estimator, axis, 1.0 - 2.0 * axis, distance, arm)
        seen = measurement.flow[1 - axis] - measurement.flow_gyroscope[1 - axis]
        r[axis] += seen / span
        s[axis] = predict_variance(estimator) + estimator.flow_variance[1 - axis] / (span * span)
    verdict = check_innovation(estimator, estimate, source)
    if verdict == RESET:
        for i in range(3):
            reset_variance(estimator, VELOCITY + i, UNKNOWN_VELOCITY)
    if verdict:
        for axis in range(2):
            residual = r[axis]
            flow_terms(estimator, axis, 1.0 - 2.0 * axis, distance, arm)
            fuse(estimator, residual, estimator.flow_variance[1 - axis] / (span * span), np.int64(-1), 0.0)


@compiled
def fuse_zero_velocity(estimator: Estimator) -> None:
    """Fuse a velocity of zero."""
    estimator.past_age = 0.0
    for i in range(3):
        estimator.term_count = 0
        set_term(estimator, VELOCITY + i, 1.0)
        fuse(estimator, -estimator.nominal[VELOCITY + i], REST_VARIANCE, np.int64(-1), 0.0)


@compiled
def fuse_level_flight(estimator: Estimator) -> None:
    """Fuse a mean horizontal acceleration of zero: the specific force points up (EKF2's gravity fusion).

    0 = R (f - b) + tilt x R (f - b) - R d b, horizontal components.
    """
    f = estimator.force_before
    estimator.past_age = 0.0
    for i in range(2):
        estimator.term_count = 0
        set_term(estimator, TILT + 1 - i, f[2] if i == 0 else -f[2])
        set_term(estimator, np.int64(TILT + 2), -f[1] if i == 0 else f[0])
        for j in range(3):
            column = axis_in_ned(estimator.attitude, j)
            set_term(estimator, ACCELEROMETER + j, -column[i])
        fuse(estimator, -f[i], LEVEL_NOISE * LEVEL_NOISE, np.int64(-1), 0.0)
