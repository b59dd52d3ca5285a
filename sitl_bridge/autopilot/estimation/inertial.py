"""Prediction: integration of inertial samples, covariance propagation, and the ring of past states.

RotorS section 2.3 (eqs 12 to 16) in discrete form; error dynamics after Solà, section 7.2 (global errors).
"""

from __future__ import annotations

import math

from sitl_bridge.autopilot.estimation.records import (
    ACCELEROMETER,
    GROUND,
    GYROSCOPE,
    POSITION,
    RING,
    STATES,
    TILT,
    VELOCITY,
    Estimator,
)
from sitl_bridge.autopilot.records import Measurement
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.rotations import axis_in_ned, to_ned

COVARIANCE_INTERVAL = 0.02
"""Longest time between covariance updates, s."""
DECAY_INTERVAL = 0.2
"""Interval at which slow changes are applied, s: decaying biases, unevenness of the ground."""
GROUND_SLOPE = 0.5
"""Assumed slope of the ground, m/m: PX4's EKF2_TERR_GRAD."""
VIBRATION_SHARE = 0.01
"""Share of a sample in the mean difference of successive ones: of PX4's vibration metric (VehicleIMU.cpp)."""
VIBRATION_JUMPS = 6.0
"""Mean differences within which one is vibration; white noise exceeds them once in a million samples."""
UNKNOWN_VELOCITY = 100.0
"""Variance of an unknown velocity, (m/s)^2."""
MOTION_ERRORS = 9
"""Number of errors with coupled dynamics: tilt, velocity, position."""


@compiled
def rotate(q: Floats, x: float, y: float, z: float, side: float) -> None:
    """Rotate a quaternion (4,) in place by a rotation vector in rad, in body axes (side 1) or NED (side -1).

    q exp(r/2) or exp(r/2) q (Solà, eqs 101 and 214), normalised.
    """
    angle = math.sqrt(x * x + y * y + z * z)
    half = 0.5 - angle * angle / 48.0 if angle < 1e-4 else math.sin(0.5 * angle) / angle
    c, x, y, z = math.cos(0.5 * angle), x * half, y * half, z * half
    w0, x0, y0, z0 = q[0], q[1], q[2], q[3]
    w1 = w0 * c - x0 * x - y0 * y - z0 * z
    x1 = w0 * x + x0 * c + side * (y0 * z - z0 * y)
    y1 = w0 * y + y0 * c + side * (z0 * x - x0 * z)
    z1 = w0 * z + z0 * c + side * (x0 * y - y0 * x)
    norm = 1.0 / math.sqrt(w1 * w1 + x1 * x1 + y1 * y1 + z1 * z1)
    q[0] = w1 * norm
    q[1] = x1 * norm
    q[2] = y1 * norm
    q[3] = z1 * norm


@compiled
def integrate(estimator: Estimator, measurement: Measurement, dt: float) -> None:
    """Advance the nominal state by one inertial sample.

    Trapezoidal rule over this sample and the previous one: second order, because the simulated unit reports
    instantaneous values.  Where the force jumps, as at touch-down, it is not: the samples in contact are
    means, which lag by half a step, so that the velocity is off by half a step times the difference of the
    samples.  That counts as noise.  Vibration does not: its differences come again and again, and add up to
    nothing.
    """
    x = estimator.nominal
    m = measurement
    before = estimator.rate_before
    wx, wy, wz = m.gyroscope[0], m.gyroscope[1], m.gyroscope[2]
    rotate(
        estimator.attitude,
        (0.5 * (wx + before[0]) - x[GYROSCOPE]) * dt,
        (0.5 * (wy + before[1]) - x[GYROSCOPE + 1]) * dt,
        (0.5 * (wz + before[2]) - x[GYROSCOPE + 2]) * dt,
        1.0,
    )
    before[0], before[1], before[2] = wx, wy, wz
    q = estimator.attitude
    for axis in range(3):
        n, e, d = axis_in_ned(q, axis)
        estimator.pending_rotation[0, axis] += n * dt
        estimator.pending_rotation[1, axis] += e * dt
        estimator.pending_rotation[2, axis] += d * dt
    force = to_ned(
        q,
        m.accelerometer[0] - x[ACCELEROMETER],
        m.accelerometer[1] - x[ACCELEROMETER + 1],
        m.accelerometer[2] - x[ACCELEROMETER + 2],
    )
    for axis in range(3):
        push = 0.5 * (force[axis] + estimator.force_before[axis]) * dt
        jump = force[axis] - estimator.force_before[axis]
        usual = estimator.force_vibration[axis]
        most = max(estimator.force_jump, VIBRATION_JUMPS * usual)
        if abs(jump) > most:
            variance = 0.25 * jump * jump * dt * dt
            estimator.pending_jump[axis] += variance
            estimator.ring_jump[axis] += variance
        estimator.force_vibration[axis] += VIBRATION_SHARE * (min(abs(jump), most) - usual)
        estimator.force_before[axis] = force[axis]
        estimator.pending_force[axis] += push
        speed = x[VELOCITY + axis]
        x[VELOCITY + axis] = speed + push + (estimator.gravity * dt if axis == 2 else 0.0)
        x[POSITION + axis] += 0.5 * (speed + x[VELOCITY + axis]) * dt
    estimator.pending_time += dt
    estimator.slow_time += dt
    estimator.clock += dt


@compiled
def handle_saturation(estimator: Estimator, measurement: Measurement) -> None:
    """While the accelerometer is saturated, as in a crash, reset the velocity variance along its axis.

    The force beyond the limit is not measured, so the earlier velocity does not predict the later one.
    """
    p = estimator.covariance
    for axis in range(3):
        if abs(measurement.accelerometer[axis]) < estimator.force_limit[axis]:
            continue
        propagate_covariance(estimator)
        along = axis_in_ned(estimator.attitude, axis)
        for i in range(3):
            for j in range(3):
                p[VELOCITY + i, VELOCITY + j] += UNKNOWN_VELOCITY * along[i] * along[j]
        estimator.saturated_at = estimator.clock


@compiled
def _add_process_noise(estimator: Estimator) -> None:
    """Add the process noise of the pending time: white noise and jumps of the inertial unit, bias walks."""
    p = estimator.covariance
    time = estimator.pending_time
    rate, force, r = estimator.rate_noise, estimator.force_noise, estimator.pending_rotation
    scale = 1.0 / time
    for i in range(3):
        for j in range(i + 1):
            turned = 0.0
            pushed = 0.0
            for k in range(3):
                both = r[i, k] * r[j, k] * scale
                turned += both * rate[k]
                pushed += both * force[k]
            p[TILT + i, TILT + j] += turned
            p[VELOCITY + i, VELOCITY + j] += pushed
            if j < i:
                p[TILT + j, TILT + i] = p[TILT + i, TILT + j]
                p[VELOCITY + j, VELOCITY + i] = p[VELOCITY + i, VELOCITY + j]
    for i in range(3):
        p[VELOCITY + i, VELOCITY + i] += estimator.pending_jump[i]
        estimator.pending_jump[i] = 0.0
    for i in range(MOTION_ERRORS, STATES):
        p[i, i] += estimator.walk[i] * time


@compiled
def _propagate_row(row: Floats, u: Floats, f: Floats, half: float) -> None:
    """Propagate a row, or a column, of the covariance with the others: see ``propagate_covariance``."""
    for part in range(2):
        for k in range(3):
            row[POSITION + k] += half * row[VELOCITY + k]
            row[TILT + k] -= 0.5 * (
                u[k, 0] * row[GYROSCOPE] + u[k, 1] * row[GYROSCOPE + 1] + u[k, 2] * row[GYROSCOPE + 2]
            )
        if part == 0:
            a, b, c = row[ACCELEROMETER], row[ACCELEROMETER + 1], row[ACCELEROMETER + 2]
            x, y, z = row[TILT], row[TILT + 1], row[TILT + 2]
            row[VELOCITY] -= f[1] * z - f[2] * y + u[0, 0] * a + u[0, 1] * b + u[0, 2] * c
            row[VELOCITY + 1] -= f[2] * x - f[0] * z + u[1, 0] * a + u[1, 1] * b + u[1, 2] * c
            row[VELOCITY + 2] -= f[0] * y - f[1] * x + u[2, 0] * a + u[2, 1] * b + u[2, 2] * c


@compiled
def propagate_covariance(estimator: Estimator) -> None:
    """Propagate the covariance to the time of the nominal state: P = F P F^T + Q.

    F is a product of four sparse factors, exact to second order in the pending time: half of the position and
    tilt propagation, the velocity propagation, then the other halves.  For each factor, d tilt = -U d
    gyroscope bias, d velocity = -[f]x tilt - U d accelerometer bias and d position = T velocity (Solà, eqs
    316 to 318 without their higher powers; U, f and T are ``pending_rotation``, ``pending_force`` and
    ``pending_time``).
    """
    time = estimator.pending_time
    if time <= 0.0:
        return
    p = estimator.covariance
    u = estimator.pending_rotation
    f = estimator.pending_force
    half = 0.5 * time
    for j in range(STATES):
        _propagate_row(p[:, j], u, f, half)
    for i in range(MOTION_ERRORS):
        _propagate_row(p[i], u, f, half)
    for i in range(MOTION_ERRORS):
        for j in range(i):
            p[i, j] = p[j, i]
        for j in range(MOTION_ERRORS, STATES):
            p[j, i] = p[i, j]
    _add_process_noise(estimator)
    if estimator.odometry_known == 1:  # whose offset does not move
        for e in range(3):
            _propagate_row(estimator.odometry_cross[e], u, f, half)
    estimator.pending_time = 0.0
    for i in range(3):
        estimator.pending_force[i] = 0.0
        for j in range(3):
            u[i, j] = 0.0


@compiled
def decay_state(estimator: Estimator, i: int, left: float) -> None:
    """Leave a share ``left`` of a Gauss-Markov state and its covariances; of its variance, the square."""
    p = estimator.covariance
    estimator.nominal[i] *= left
    for j in range(STATES):
        p[i, j] *= left
    for j in range(STATES):
        p[j, i] *= left
    for e in range(3):
        estimator.odometry_cross[e, i] *= left


@compiled
def decay_biases(estimator: Estimator) -> None:
    """Decay the Gauss-Markov biases over ``slow_time``; add the slope to the ground-height variance."""
    p = estimator.covariance
    x = estimator.nominal
    speed = math.sqrt(x[VELOCITY] * x[VELOCITY] + x[VELOCITY + 1] * x[VELOCITY + 1])
    p[GROUND, GROUND] += (GROUND_SLOPE * speed * estimator.slow_time) ** 2
    for i in range(MOTION_ERRORS, STATES):
        if estimator.decay_rate[i] > 0.0:
            decay_state(estimator, i, math.exp(-estimator.decay_rate[i] * estimator.slow_time))
    estimator.slow_time = 0.0


@compiled
def store_state(estimator: Estimator) -> None:
    """Store the state in the ring, without the corrections so far; ``recall_state`` adds the later ones."""
    estimator.ring_skip += 1
    if estimator.ring_skip < estimator.stride:
        return
    estimator.ring_skip = 0
    estimator.ring_head = (estimator.ring_head + 1) % RING
    estimator.ring_count = min(estimator.ring_count + 1, RING)
    row = estimator.ring[estimator.ring_head]
    x = estimator.nominal
    row[0] = estimator.clock
    for i in range(4):
        row[1 + i] = estimator.attitude[i]
    for i in range(3):
        row[5 + i] = estimator.attitude_correction_sum[i]
        row[8 + i] = x[VELOCITY + i] - estimator.velocity_correction_sum[i]
        row[11 + i] = (
            x[POSITION + i]
            - estimator.position_correction_sum[i]
            - estimator.clock * estimator.velocity_correction_sum[i]
        )
        row[14 + i] = estimator.rate_before[i] - x[GYROSCOPE + i]
        row[17 + i] = estimator.ring_jump[i]
        estimator.ring_jump[i] = 0.0


@compiled
def _sum_jumps(estimator: Estimator, count: int) -> None:
    """Sum what the jumps of the force in the newest ``count`` entries did to velocity and position."""
    for i in range(3):
        variance = 0.0
        covariance = 0.0
        spread = 0.0
        for k in range(count):
            row = estimator.ring[(estimator.ring_head - k + RING) % RING]
            since = estimator.clock - row[0]
            variance += row[17 + i]
            covariance += since * row[17 + i]
            spread += since * since * row[17 + i]
        estimator.past_jump[i, 0] = variance
        estimator.past_jump[i, 1] = covariance
        estimator.past_jump[i, 2] = spread


@compiled
def recall_state(estimator: Estimator, age: float) -> bool:
    """Load the corrected state of ``age`` seconds ago, for a delayed measurement.

    Corrections made since then are carried back along the inertial solution.  The present covariance, carried
    back by ``past_force`` and ``past_displacement`` in the measurement terms, then equals the past covariance
    except for the noise in between.  ``predict_variance`` removes the accelerometer's noise and jumps; the
    gyroscope's stays in (0.3 % of the tilt variance for the iris and 0.12 s).

    Returns:
        False if the ring does not reach back that far, or if the accelerometer was saturated in between.
    """
    x = estimator.nominal
    q = estimator.past_attitude
    steps = 0.0
    newest = estimator.ring[estimator.ring_head, 0]
    before = estimator.ring[(estimator.ring_head + RING - 1) % RING, 0]
    then = estimator.clock - age
    if then < estimator.saturated_at:
        return False
    if age > 0.0:
        if estimator.ring_count < 2:
            return False
        steps = max((newest - then) / (newest - before), 0.0)
        # Ages that are whole steps, up to rounding, need no interpolation.
        if abs(steps - round(steps)) < 1e-6:
            steps = float(round(steps))
    low = math.ceil(steps)
    if low >= estimator.ring_count:
        return False
    part = low - steps
    late = estimator.ring[(estimator.ring_head - low + 2 * RING) % RING]
    soon = estimator.ring[(estimator.ring_head - max(low - 1, 0) + 2 * RING) % RING]
    estimator.past_age = age
    _sum_jumps(estimator, low)
    for i in range(4):
        q[i] = estimator.attitude[i] if age <= 0.0 else late[1 + i]
    for i in range(3):
        velocity = late[8 + i] + part * (soon[8 + i] - late[8 + i]) + estimator.velocity_correction_sum[i]
        position = late[11 + i] + part * (soon[11 + i] - late[11 + i])
        position += estimator.position_correction_sum[i] + then * estimator.velocity_correction_sum[i]
        rate = late[14 + i]
        if age <= 0.0:
            velocity = x[VELOCITY + i]
            position = x[POSITION + i]
            rate = estimator.rate_before[i] - x[GYROSCOPE + i]
        fall = estimator.gravity if i == 2 else 0.0
        estimator.past_velocity[i] = velocity
        estimator.past_position[i] = position
        estimator.past_rate[i] = rate
        estimator.past_force[i] = x[VELOCITY + i] - velocity - fall * age
        estimator.past_displacement[i] = (
            age * x[VELOCITY + i] - (x[POSITION + i] - position) - 0.5 * fall * age * age
        )
    if age > 0.0:
        sums = estimator.attitude_correction_sum
        rotate(q, sums[0] - late[5], sums[1] - late[6], sums[2] - late[7], -1.0)
    return True
