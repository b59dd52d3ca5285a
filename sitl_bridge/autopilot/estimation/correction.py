"""Correction: how a scalar measurement changes state and covariance, and whether it is believed.

What a measurement says of the state is in sources.py.
"""

from __future__ import annotations

import math
from typing import Any

from sitl_bridge.autopilot.estimation.inertial import turn
from sitl_bridge.autopilot.estimation.records import (
    BAROMETER,
    GROUND,
    GYROSCOPE,
    POSITION,
    STATES,
    TILT,
    VELOCITY,
)
from sitl_bridge.autopilot.records import FLOW_VELOCITY, GPS_POSITION, GPS_VELOCITY
from sitl_bridge.kernels.compiled import compiled

PATIENCE = 7.0
"""s for which a source may be refused before the state is reset to it (PX4 EKF2, reset_timeout_max)."""
ANYWHERE = 1e6
"""m^2, variance of a position that nothing is known of."""
REFUSED, BELIEVED, RESET = 0, 1, 2
"""What ``judge`` says."""


@compiled
def term(estimator: Any, index: Any, value: float) -> None:
    """Say that the measurement at hand changes by ``value`` with the error ``index``.

    Integers here and below are never literals: numba compiles a kernel anew for each.
    """
    count = estimator.term_count
    estimator.term_index[count] = index
    estimator.term_value[count] = value
    estimator.term_count = count + 1


@compiled
def project(estimator: Any) -> float:
    """Variance H P H^T of the terms at hand; leaves P H^T in ``gain``.

    For a late measurement P is less what the accelerometer's white noise has since added to velocity and
    position, q t, q t^2/2 and q t^3/3: the measurement knows nothing of it, and carried back it cancels.
    """
    gain = estimator.gain
    index, value = estimator.term_index, estimator.term_value
    for i in range(STATES):
        gain[i] = 0.0
    for k in range(estimator.term_count):
        row = estimator.covariance[index[k]]
        for i in range(STATES):
            gain[i] += value[k] * row[i]
    age = estimator.past_age
    if age > 0.0:
        force = estimator.force_noise
        since = (force[0] + force[1] + force[2]) / 3.0 * age
        for k in range(estimator.term_count):
            if VELOCITY <= index[k] < GYROSCOPE:
                first = 1.0 if index[k] < POSITION else 0.5 * age
                second = 0.5 * age if index[k] < POSITION else age * age / 3.0
                axis = index[k] % 3
                gain[VELOCITY + axis] -= value[k] * since * first
                gain[POSITION + axis] -= value[k] * since * second
    variance = 0.0
    for k in range(estimator.term_count):
        variance += value[k] * gain[index[k]]
    return variance


@compiled
def fuse(estimator: Any, residual: float, variance: float, coupled: Any, coupling: float) -> None:
    """Kalman update by the terms at hand, into ``correction`` and covariance.

    Args:
        estimator: ESTIMATOR record with ``term_*`` set.
        residual: measured less predicted value, without the corrections not yet injected.
        variance: of the measurement's noise.
        coupled: an error whose last step was driven by this same noise, outside of the terms; -1: none.
        coupling: covariance of that error with the noise (Simon, "Optimal State Estimation", eq. 7.11).
    """
    spread = project(estimator) + variance
    gain, correction = estimator.gain, estimator.correction
    if coupled >= 0:
        gain[coupled] += coupling
    for k in range(estimator.term_count):
        residual -= estimator.term_value[k] * correction[estimator.term_index[k]]
    step = residual / spread
    scale = 1.0 / math.sqrt(spread)
    for i in range(STATES):
        correction[i] += gain[i] * step
        gain[i] *= scale
    for i in range(STATES):
        row = estimator.covariance[i]
        for j in range(STATES):
            row[j] -= gain[i] * gain[j]


@compiled
def inject(estimator: Any) -> None:
    """Move the nominal state by the corrections gathered, and keep their sums for states of the past."""
    c = estimator.correction
    turn(estimator.attitude, c[TILT], c[TILT + 1], c[TILT + 2], -1.0)
    for i in range(VELOCITY, STATES):
        estimator.nominal[i] += c[i]
    for i in range(3):
        push = c[VELOCITY + i]
        estimator.turned[i] += c[TILT + i]
        estimator.pushed[i] += push
        estimator.shifted[i] += c[POSITION + i] - estimator.clock * push
    for i in range(STATES):
        c[i] = 0.0


@compiled
def judge(estimator: Any, estimate: Any, source: int) -> int:
    """Hold ``residual`` against ``spread`` (variances), axis by axis; note how it went.

    Returns:
        REFUSED, BELIEVED, or RESET where the source was refused for so long that the state is to follow it.
    """
    gate = estimator.gate[source]
    axes = 1
    if source in (GPS_POSITION, GPS_VELOCITY):
        axes = 3
    elif source == FLOW_VELOCITY:
        axes = 2
    ratio = 0.0
    for i in range(axes):
        residual, spread = estimator.residual[i], estimator.spread[i]
        estimate.innovation[source, i] = residual
        estimate.innovation_variance[source, i] = spread
        ratio = max(ratio, residual * residual / (gate * gate * spread))
    estimate.test_ratio[source] = ratio
    verdict = REFUSED
    if ratio <= 1.0:
        verdict = BELIEVED
    elif math.isinf(estimator.refused_since[source]):
        estimator.refused_since[source] = estimator.clock
    elif estimator.clock - estimator.refused_since[source] >= PATIENCE:
        verdict = RESET
        estimate.resets += 1
    if verdict == REFUSED:
        estimate.rejected[source] += 1
        return verdict
    estimate.fused[source] += 1
    estimator.fused_at[source] = estimator.clock
    estimator.refused_since[source] = math.inf
    return verdict


@compiled
def forget(estimator: Any, index: Any, variance: float) -> None:
    """Cut an error off from all others and give it a variance."""
    p = estimator.covariance
    for j in range(STATES):
        p[index, j] = 0.0
        p[j, index] = 0.0
    p[index, index] = variance


@compiled
def cast_off(estimator: Any) -> None:
    """Let the local frame lie anywhere on Earth: all that is measured from its origin moves with it."""
    p = estimator.covariance
    p[POSITION, POSITION] += ANYWHERE
    p[POSITION + 1, POSITION + 1] += ANYWHERE
    for i in range(3):
        first = POSITION + 2 if i == 0 else (BAROMETER if i == 1 else GROUND)
        for j in range(3):
            second = POSITION + 2 if j == 0 else (BAROMETER if j == 1 else GROUND)
            p[first, second] += ANYWHERE
