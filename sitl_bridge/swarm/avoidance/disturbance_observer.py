"""The disturbance observer: an extended Kalman filter that makes tracking free of offset.

It estimates the state and, with it, what the model does not know: the acceleration of external forces (wind,
a wrong mass or thrust) and what roll and pitch settle at when level is commanded.  With as many disturbances
as measured outputs that are to be free of offset, and a steady state of the target that takes them in,
none remains
(Pannocchia and Rawlings 2003, AIChE J. 49(2)).
"""

from __future__ import annotations

import numpy as np

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.swarm.avoidance.prediction_model import predict
from sitl_bridge.swarm.avoidance.records import DISTURBANCES, STATES

SIZE = STATES + DISTURBANCES

# What the observer takes for the model's unrest, as densities; our choice, not the paper's.
ACCELERATION = 0.2  # m/s^2/sqrt(Hz), of gusts and vibration
ATTITUDE = 0.02  # rad/sqrt(s), of roll and pitch against the first-order model
FORCE = 0.3  # m/s^2/sqrt(s), walk of the disturbance: with it a step of wind is known within about 1 s
ATTITUDE_OFFSET = 0.01  # rad/sqrt(s), walk of the attitude's rest
LARGEST_FORCE, LARGEST_OFFSET = 5.0, 0.2  # m/s^2 and rad, bounds of the estimate


@compiled
def _propagate(
    settings_array: Records,
    estimate: Floats,
    covariance: Floats,
    u: Floats,
    yaw: float,
    seconds: float,
    density: Floats,
) -> None:
    """Predict estimate and covariance over ``seconds``; arguments as of ``observe``."""
    settings = settings_array[0]
    size = estimate.shape[0]
    f = np.zeros((size, size))
    after, by_state, by_input = np.empty(8), np.empty((8, 8)), np.empty((8, 3))
    predict(
        settings, estimate[:8], u, yaw, estimate[8:], seconds, 1,
        after, by_state, by_input, np.empty((6, 8, 9)),
    )  # fmt: skip
    for i in range(8):
        for j in range(8):
            f[i, j] = by_state[i, j]
    for i in range(3):
        f[i, 8 + i] = 0.5 * seconds * seconds
        f[3 + i, 8 + i] = seconds
    for i in range(2):
        for j in range(8):
            f[j, 11 + i] = by_input[j, i] / settings.gain[i]
    for i in range(5):
        f[8 + i, 8 + i] = 1.0
    for i in range(8):
        estimate[i] = after[i]
    moved = np.zeros((size, size))  # f @ covariance; BLAS would round it as the processor has it
    for i in range(size):
        for k in range(size):
            for j in range(size):
                moved[i, j] += f[i, k] * covariance[k, j]
    for i in range(size):
        for j in range(size):
            total = density[i] * seconds if i == j else 0.0
            for k in range(size):
                total += moved[i, k] * f[j, k]
            covariance[i, j] = total


@compiled
def observe(
    settings_array: Records,
    estimate: Floats,
    covariance: Floats,
    u: Floats,
    yaw: float,
    seconds: float,
    density: Floats,
    measurement: Floats,
    variance: Floats,
    bound: Floats,
) -> None:
    """Predict over ``seconds`` and correct with a measured state, one scalar after the other.

    Args:
        settings_array: (1,) SETTINGS.
        estimate: (13,) state and disturbances, changed.
        covariance: (13, 13), changed.
        u: (3,) input since the last call.
        yaw: rad.
        seconds: since the last call; 0 only corrects.
        density: (13,) variances per second.
        measurement: (8,) state.
        variance: (8,) of it.
        bound: (5,) largest disturbances.
    """
    size = estimate.shape[0]
    if seconds > 0.0:
        _propagate(settings_array, estimate, covariance, u, yaw, seconds, density)
    gain = np.empty(size)
    for row in range(8):
        total = covariance[row, row] + variance[row]
        innovation = measurement[row] - estimate[row]
        for i in range(size):
            gain[i] = covariance[i, row] / total
        for i in range(size):
            estimate[i] += gain[i] * innovation
        for j in range(size):
            known = covariance[row, j]
            if j != row:
                for i in range(size):
                    covariance[i, j] -= gain[i] * known
        for i in range(size):
            covariance[i, row] *= variance[row] / total
    for i in range(5):
        estimate[8 + i] = min(max(estimate[8 + i], -bound[i]), bound[i])
    for i in range(size):
        for j in range(i):
            mean = 0.5 * (covariance[i, j] + covariance[j, i])
            covariance[i, j] = covariance[j, i] = mean


class Observer:
    """The filter of one vehicle.

    Args:
        settings: (1,) SETTINGS.

    Attributes:
        estimate: (13,) state (8), acceleration of external forces NED, m/s^2 (3), rest of roll and pitch (2).
        covariance: (13, 13) of it.
    """

    def __init__(self, settings: Records) -> None:
        self._settings = settings
        self._density = np.square(
            [0.0] * 3 + [ACCELERATION] * 3 + [ATTITUDE] * 2 + [FORCE] * 3 + [ATTITUDE_OFFSET] * 2
        )
        self._bound = np.array([LARGEST_FORCE] * 3 + [LARGEST_OFFSET] * 2)
        self.estimate = np.zeros(SIZE)
        self.covariance = np.zeros((SIZE, SIZE))
        self._started = False

    @property
    def state(self) -> Floats:
        """(8,) estimated state."""
        return self.estimate[:STATES]

    @property
    def disturbance(self) -> Floats:
        """(5,) estimated disturbances."""
        return self.estimate[STATES:]

    def update(
        self, measured: Floats, variance: Floats, u: Floats | None, yaw: float, seconds: float
    ) -> None:
        """Take in a measured state.

        Args:
            measured: (8,) state.
            variance: (8,) of it.
            u: (3,) commanded since the last call; None where nobody followed a command, which keeps the
                disturbances.
            yaw: rad.
            seconds: since the last call.
        """
        if not self._started or u is None:
            self.estimate[:STATES] = measured
            if not self._started:
                np.fill_diagonal(self.covariance, np.concatenate([variance, [1.0] * 3, [0.01] * 2]))
            self._started = True
            return
        observe(
            self._settings, self.estimate, self.covariance, u, yaw, seconds,
            self._density, measured, variance, self._bound,
        )  # fmt: skip
