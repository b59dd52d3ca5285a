"""Initial alignment of a vehicle at rest: attitude from gravity and the Earth's magnetic field."""

from __future__ import annotations

import math

from sitl_bridge.autopilot.estimation.records import (
    ACCELEROMETER,
    BAROMETER,
    GYROSCOPE,
    MAGNETOMETER,
    STATES,
    TILT,
    VELOCITY,
    Estimator,
)
from sitl_bridge.autopilot.records import BARO_HEIGHT, MAGNETIC_HEADING, Measurement
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled

WINDOW = 1.0
"""Averaging time at rest, s."""
UNKNOWN_HEADING = math.pi * math.pi / 3.0
"""Variance of an unknown heading (uniform over the circle), rad^2."""


@compiled
def is_at_rest(estimator: Estimator, measurement: Measurement) -> bool:
    """Return whether an inertial sample fits a vehicle at rest, within noise and biases."""
    f, w, x = measurement.accelerometer, measurement.gyroscope, estimator.nominal
    force = 0.0
    rate = 0.0
    for i in range(3):
        force += (f[i] - x[ACCELEROMETER + i]) ** 2
        rate = max(rate, abs(w[i] - x[GYROSCOPE + i]))
    return abs(math.sqrt(force) - estimator.gravity) <= estimator.force_rest and rate <= estimator.rate_rest


@compiled
def _add_samples(estimator: Estimator, measurement: Measurement) -> None:
    """Add the samples of this step to the sums; restart the averages if the vehicle moved."""
    if not is_at_rest(estimator, measurement):
        estimator.rest_count = 0
        estimator.field_count = 0
        estimator.pressure_count = 0
        estimator.rest_pressure = 0.0
        for i in range(3):
            estimator.rest_force[i] = 0.0
            estimator.rest_rate[i] = 0.0
            estimator.rest_field[i] = 0.0
        return
    estimator.rest_count += 1
    for i in range(3):
        estimator.rest_force[i] += measurement.accelerometer[i]
        estimator.rest_rate[i] += measurement.gyroscope[i]
    if measurement.magnetometer_fresh:
        estimator.field_count += 1
        for i in range(3):
            estimator.rest_field[i] += measurement.magnetometer[i]
    if measurement.barometer_fresh:
        estimator.pressure_count += 1
        estimator.rest_pressure += measurement.pressure


@compiled
def _set_rotation(estimator: Estimator, r: Floats) -> None:
    """Set the rotation body to NED (3, 3) from mean specific force and field (TRIAD, gravity first)."""
    f, m = estimator.rest_force, estimator.rest_field
    norm = -1.0 / math.sqrt(f[0] * f[0] + f[1] * f[1] + f[2] * f[2])
    x, y, z = f[0] * norm, f[1] * norm, f[2] * norm
    # Without a magnetometer, assume that body x points to magnetic north.
    found = estimator.field_count > 0
    mx, my, mz = (m[0], m[1], m[2]) if found else (1.0, 0.0, 0.0)
    down = mx * x + my * y + mz * z
    mx, my, mz = mx - down * x, my - down * y, mz - down * z
    norm = 1.0 / math.sqrt(mx * mx + my * my + mz * mz)
    mx, my, mz = mx * norm, my * norm, mz * norm
    ex, ey, ez = y * mz - z * my, z * mx - x * mz, x * my - y * mx
    n, e = estimator.magnetic_north[0], estimator.magnetic_north[1]
    r[0, 0], r[0, 1], r[0, 2] = n * mx - e * ex, n * my - e * ey, n * mz - e * ez
    r[1, 0], r[1, 1], r[1, 2] = e * mx + n * ex, e * my + n * ey, e * mz + n * ez
    r[2, 0], r[2, 1], r[2, 2] = x, y, z


@compiled
def _set_attitude(q: Floats, r: Floats) -> None:
    """Set a quaternion (4,) from a rotation matrix (Shepperd's method, for the largest component)."""
    trace = r[0, 0] + r[1, 1] + r[2, 2]
    if trace > 0.0:
        s = 2.0 * math.sqrt(1.0 + trace)
        q[0] = 0.25 * s
        q[1] = (r[2, 1] - r[1, 2]) / s
        q[2] = (r[0, 2] - r[2, 0]) / s
        q[3] = (r[1, 0] - r[0, 1]) / s
        return
    i = 0
    if r[1, 1] > r[0, 0]:
        i = 1
    if r[2, 2] > r[i, i]:
        i = 2
    j, k = (i + 1) % 3, (i + 2) % 3
    s = 2.0 * math.sqrt(1.0 + r[i, i] - r[j, j] - r[k, k])
    q[0] = (r[k, j] - r[j, k]) / s
    q[1 + i] = 0.25 * s
    q[1 + j] = (r[j, i] + r[i, j]) / s
    q[1 + k] = (r[k, i] + r[i, k]) / s


@compiled
def _set_covariance(estimator: Estimator, r: Floats, jacobian: Floats, span: float) -> None:
    """Set the covariance after alignment: attitude errors come from sensor biases and averaged noise.

    ``align`` sets the barometer's terms; its drift starts at the alignment.

    From the levelled specific force, tilt_north = (R b)_east/g and tilt_east = -(R b)_north/g.  tilt_down
    follows from setting the east component of the field to zero (``magnetic_terms`` in sensor_models.py).

    Args:
        r: (3, 3) rotation body to NED.
        jacobian: (3, 6) scratch: attitude error by accelerometer bias and by magnetometer bias.
        span: averaging time, s.
    """
    p, prior = estimator.covariance, estimator.prior
    for i in range(VELOCITY, STATES):
        # The biases have drifted since the start.
        fading = 2.0 * estimator.decay_rate[i]
        left = math.exp(-fading * estimator.clock)
        grown = (1.0 - left) / fading if fading > 0.0 else estimator.clock
        prior[i] = prior[i] * left + estimator.walk[i] * grown
    north, east = estimator.magnetic_north[0], estimator.magnetic_north[1]
    for j in range(3):
        jacobian[0, j] = r[1, j] / estimator.gravity
        jacobian[1, j] = -r[0, j] / estimator.gravity
        jacobian[2, j] = estimator.magnetic_slope * (north * jacobian[0, j] + east * jacobian[1, j])
        jacobian[0, 3 + j] = 0.0
        jacobian[1, 3 + j] = 0.0
        jacobian[2, 3 + j] = (north * r[1, j] - east * r[0, j]) / estimator.magnetic_strength
    for i in range(STATES):
        for j in range(STATES):
            p[i, j] = 0.0
        if i >= VELOCITY:
            p[i, i] = prior[i]
    for k in range(6):
        bias = ACCELEROMETER + k if k < 3 else MAGNETOMETER + k - 3
        noise = estimator.force_noise[k % 3] / span
        if k >= 3:
            noise = estimator.magnetometer_variance / max(estimator.field_count, 1)
        for i in range(3):
            for j in range(3):
                p[TILT + i, TILT + j] += jacobian[i, k] * jacobian[j, k] * (prior[bias] + noise)
            p[TILT + i, bias] = jacobian[i, k] * prior[bias]
            p[bias, TILT + i] = p[TILT + i, bias]
    if estimator.field_count == 0:
        p[TILT + 2, TILT + 2] += UNKNOWN_HEADING


@compiled
def align(estimator: Estimator, measurement: Measurement, dt: float) -> None:
    """Average the samples; after ``WINDOW`` at rest, set attitude, gyroscope bias and covariance.

    Alignment waits for the first samples of a magnetometer or barometer that the vehicle carries.
    """
    _add_samples(estimator, measurement)
    span = estimator.rest_count * dt
    waits = estimator.fitted[MAGNETIC_HEADING] == 1 and estimator.field_count == 0
    waits = waits or (estimator.fitted[BARO_HEIGHT] == 1 and estimator.pressure_count == 0)
    if span < WINDOW or (waits and span < 5.0 * WINDOW):
        return
    r = estimator.pending_rotation
    _set_rotation(estimator, r)
    _set_attitude(estimator.attitude, r)
    _set_covariance(estimator, r, estimator.ring[:3, :6], span)
    for i in range(3):
        k = GYROSCOPE + i
        noise = estimator.rate_noise[i] / span
        prior = estimator.prior[k]
        estimator.nominal[k] = prior / (prior + noise) * estimator.rest_rate[i] / estimator.rest_count
        estimator.covariance[k, k] = prior * noise / (prior + noise)
        estimator.rate_before[i] = measurement.gyroscope[i]
        estimator.force_before[i] = -estimator.gravity if i == 2 else 0.0
        for j in range(3):
            r[i, j] = 0.0
    if estimator.pressure_count > 0:
        count = estimator.pressure_count
        estimator.pressure_start = estimator.rest_pressure / count
        slope = estimator.pressure_slope
        estimator.covariance[BAROMETER, BAROMETER] = estimator.pressure_variance / count * slope * slope
    estimator.still_since = estimator.clock - span
    estimator.aligned = 1
