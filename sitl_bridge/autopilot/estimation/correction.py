"""Kalman correction by one scalar measurement: innovation gate, update of covariance and state.

The measurement models are in sensor_models.py.
"""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.autopilot.estimation.inertial import rotate
from sitl_bridge.autopilot.estimation.records import (
    BAROMETER,
    GROUND,
    GYROSCOPE,
    POSITION,
    STATES,
    TILT,
    VELOCITY,
    Estimator,
)
from sitl_bridge.autopilot.records import (
    FLOW_VELOCITY,
    GPS_POSITION,
    GPS_VELOCITY,
    ODOMETRY_POSITION,
    ODOMETRY_VELOCITY,
    Estimate,
)
from sitl_bridge.base.kernels.compiled import compiled, on_demand

REJECTION_TIMEOUT = 7.0
"""Time after which the state is reset to a source that is rejected throughout, s (PX4 EKF2,
reset_timeout_max)."""
TINY = 1e-30
"""Least variance that is divided by."""
BLOW = 0.1
"""Share of the velocity's variance from which on jumps of the force since a measurement count as a blow."""
UNKNOWN_POSITION = 1e6
"""Variance of an unknown position, m^2."""
REJECTED, ACCEPTED, RESET = 0, 1, 2
"""Results of ``check_innovation``."""


@compiled
def set_term(estimator: Estimator, index: int | np.int64, value: float) -> None:
    """Set the derivative of the current measurement with respect to the error ``index``.

    Pass typed integers here and below, not literals: numba would compile a new kernel for each literal.
    """
    count = estimator.term_count
    estimator.term_index[count] = index
    estimator.term_value[count] = value
    estimator.term_count = count + 1


@compiled
def predict_variance(estimator: Estimator) -> float:
    """Return the predicted variance H P H^T of the current measurement; store P H^T in ``gain``.

    For a delayed measurement, P is reduced by the accelerometer's white noise accumulated since the
    measurement: q t in velocity, q t^2/2 in the cross terms and q t^3/3 in position; and by what jumps of the
    force added since.  Both are independent of the measurement and cancel when the state is carried back.
    After a blow that may take more than what was fused since has left of it; ``fuse`` then keeps the
    covariance one by ``least_variance``.
    """
    gain = estimator.gain
    index, value = estimator.term_index, estimator.term_value
    for i in range(STATES):
        gain[i] = 0.0
    for k in range(estimator.term_count):
        if index[k] < STATES:
            row = estimator.covariance[index[k]]
            for i in range(STATES):
                gain[i] += value[k] * row[i]
    age = estimator.past_age
    estimator.blow = 0
    if age > 0.0:
        force = estimator.force_noise
        since = (force[0] + force[1] + force[2]) / 3.0 * age
        for k in range(estimator.term_count):
            if VELOCITY <= index[k] < GYROSCOPE:
                axis = index[k] % 3
                jump = estimator.past_jump[axis]
                added = since + jump[0], since * 0.5 * age + jump[1], since * age * age / 3.0 + jump[2]
                # What was fused since, as rest on the ground is, has taken a part of it away already.
                v, p = VELOCITY + axis, POSITION + axis
                left = min(added[0], estimator.covariance[v, v]) / max(added[0], TINY)
                left = min(left, min(added[2], estimator.covariance[p, p]) / max(added[2], TINY))
                if jump[0] > BLOW * estimator.covariance[v, v]:
                    estimator.blow = 1
                if index[k] < POSITION:
                    gain[v] -= value[k] * left * added[0]
                    gain[p] -= value[k] * left * added[1]
                else:
                    gain[v] -= value[k] * left * added[1]
                    gain[p] -= value[k] * left * added[2]
    variance = 0.0
    if estimator.odometry_known == 1:
        variance = _predict_offset(estimator)
    for k in range(estimator.term_count):
        if index[k] < STATES:
            variance += value[k] * gain[index[k]]
    return max(variance, 0.0)


@on_demand
def least_variance(estimator: Estimator) -> float:
    """Return 2 g^T P^-1 g of ``gain`` g and the covariance P.

    The correction P - g g^T/S has no negative eigenvalue where S is at least g^T P^-1 g (Schur's complement);
    at twice that, half of the variance stays in every direction.  By the Cholesky factor L of P, it is the
    square of L^-1 g; errors without variance are left out.
    """
    p, lower = estimator.covariance, estimator.factor
    total = 0.0
    for i in range(STATES):
        solved = estimator.gain[i]
        for j in range(i + 1):
            rest = p[i, j]
            for k in range(j):
                rest -= lower[i, k] * lower[j, k]
            if j < i:
                lower[i, j] = rest * lower[j, j]
            else:
                lower[i, i] = 1.0 / math.sqrt(rest) if rest > TINY else 0.0
        # The last column, above the diagonal, holds the solution; diagonals are inverted.
        for j in range(i):
            solved -= lower[i, j] * lower[j, STATES - 1]
        solved *= lower[i, i]
        lower[i, STATES - 1] = solved
        total += solved * solved
    return 2.0 * total


@compiled
def _predict_offset(estimator: Estimator) -> float:
    """Store P H^T of the odometry's offset in ``odometry_gain``; return its share of H P H^T."""
    gain = estimator.odometry_gain
    cross, own = estimator.odometry_cross, estimator.odometry_covariance
    index, value = estimator.term_index, estimator.term_value
    for e in range(3):
        gain[e] = 0.0
        for k in range(estimator.term_count):
            at = index[k]
            gain[e] += value[k] * (own[e, at - STATES] if at >= STATES else cross[e, at])
    variance = 0.0
    for k in range(estimator.term_count):
        if index[k] >= STATES:
            variance += value[k] * gain[index[k] - STATES]
            for i in range(STATES):
                estimator.gain[i] += value[k] * cross[index[k] - STATES, i]
    return variance


@compiled
def _fuse_offset(estimator: Estimator, step: float, scale: float) -> None:
    """Update the odometry's offset and its covariance; ``gain`` is scaled already."""
    gain, first = estimator.gain, estimator.odometry_gain
    for e in range(3):
        estimator.odometry_correction[e] += first[e] * step
        first[e] *= scale
    for e in range(3):
        row = estimator.odometry_cross[e]
        for j in range(STATES):
            row[j] -= first[e] * gain[j]
        for f in range(3):
            estimator.odometry_covariance[e, f] -= first[e] * first[f]


@compiled
def fuse(
    estimator: Estimator, residual: float, variance: float, coupled: int | np.int64, coupling: float
) -> None:
    """Update ``correction`` and the covariance with the current measurement.

    Args:
        estimator: ESTIMATOR record with ``term_*`` set.
        residual: measured minus predicted value, excluding corrections that are not injected yet.
        variance: variance of the measurement noise.
        coupled: index of an error outside the terms that is correlated with this noise; -1 for none.
        coupling: covariance of that error with the noise (Simon, "Optimal State Estimation", eq. 7.11).
    """
    innovation_variance = predict_variance(estimator) + variance
    gain, correction = estimator.gain, estimator.correction
    if coupled >= 0:
        gain[coupled] += coupling
    if estimator.blow != 0:
        innovation_variance = max(innovation_variance, least_variance(estimator))
    for k in range(estimator.term_count):
        at = estimator.term_index[k]
        pending = estimator.odometry_correction[at - STATES] if at >= STATES else correction[at]
        residual -= estimator.term_value[k] * pending
    step = residual / innovation_variance
    scale = 1.0 / math.sqrt(innovation_variance)
    for i in range(STATES):
        correction[i] += gain[i] * step
        gain[i] *= scale
    for i in range(STATES):
        row = estimator.covariance[i]
        for j in range(STATES):
            row[j] -= gain[i] * gain[j]
    if estimator.odometry_known == 1:
        _fuse_offset(estimator, step, scale)


@compiled
def inject_correction(estimator: Estimator) -> None:
    """Add the pending corrections to the nominal state and to the sums that correct past states."""
    c = estimator.correction
    rotate(estimator.attitude, c[TILT], c[TILT + 1], c[TILT + 2], -1.0)
    for i in range(VELOCITY, STATES):
        estimator.nominal[i] += c[i]
    for i in range(3):
        push = c[VELOCITY + i]
        estimator.attitude_correction_sum[i] += c[TILT + i]
        estimator.velocity_correction_sum[i] += push
        estimator.position_correction_sum[i] += c[POSITION + i] - estimator.clock * push
    for i in range(STATES):
        c[i] = 0.0
    if estimator.odometry_known == 1:
        for i in range(3):
            estimator.odometry_offset[i] += estimator.odometry_correction[i]
            estimator.odometry_correction[i] = 0.0


@compiled
def check_innovation(estimator: Estimator, estimate: Estimate, source: int) -> int:
    """Test ``residual`` against the gate and ``innovation_variance`` on each axis; update the counters.

    Returns:
        REJECTED, ACCEPTED, or RESET if the source has been rejected for ``REJECTION_TIMEOUT``.
    """
    gate = estimator.gate[source]
    axes = 1
    if source in (GPS_POSITION, GPS_VELOCITY, ODOMETRY_POSITION, ODOMETRY_VELOCITY):
        axes = 3
    elif source == FLOW_VELOCITY:
        axes = 2
    ratio = 0.0
    for i in range(axes):
        residual, innovation_variance = estimator.residual[i], estimator.innovation_variance[i]
        estimate.innovation[source, i] = residual
        estimate.innovation_variance[source, i] = innovation_variance
        ratio = max(ratio, residual * residual / (gate * gate * innovation_variance))
    estimate.test_ratio[source] = ratio
    verdict = REJECTED
    if ratio <= 1.0:
        verdict = ACCEPTED
    elif math.isinf(estimator.rejected_since[source]):
        estimator.rejected_since[source] = estimator.clock
    elif estimator.clock - estimator.rejected_since[source] >= REJECTION_TIMEOUT:
        verdict = RESET
        estimate.resets += 1
    if verdict == REJECTED:
        estimate.rejected[source] += 1
        return verdict
    estimate.fused[source] += 1
    estimator.fused_at[source] = estimator.clock
    estimator.rejected_since[source] = math.inf
    return verdict


@compiled
def reset_variance(estimator: Estimator, index: int | np.int64, variance: float) -> None:
    """Remove an error's correlations with all other errors and set its variance."""
    p = estimator.covariance
    for j in range(STATES):
        p[index, j] = 0.0
        p[j, index] = 0.0
    p[index, index] = variance
    for e in range(3):
        estimator.odometry_cross[e, index] = 0.0


@compiled
def release_origin(estimator: Estimator) -> None:
    """Make the position of the local frame unknown: everything measured from its origin shifts together."""
    p = estimator.covariance
    p[POSITION, POSITION] += UNKNOWN_POSITION
    p[POSITION + 1, POSITION + 1] += UNKNOWN_POSITION
    for i in range(3):
        first = POSITION + 2 if i == 0 else (BAROMETER if i == 1 else GROUND)
        for j in range(3):
            second = POSITION + 2 if j == 0 else (BAROMETER if j == 1 else GROUND)
            p[first, second] += UNKNOWN_POSITION
    if estimator.odometry_known == 1:
        for e in range(3):
            estimator.odometry_covariance[e, e] += UNKNOWN_POSITION
            estimator.odometry_cross[e, POSITION + e] += UNKNOWN_POSITION
        estimator.odometry_cross[2, BAROMETER] += UNKNOWN_POSITION
        estimator.odometry_cross[2, GROUND] += UNKNOWN_POSITION
