"""Terminal cost: the infinite-horizon cost of the linearised problem, from the Riccati equation."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sitl_bridge.swarm.avoidance.prediction_model import GRAVITY, predict
from sitl_bridge.swarm.avoidance.records import DISTURBANCES, INPUTS, STATES


def hover_model(settings: NDArray[np.void]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A (8, 8) and B (8, 3) of one grid step about hover at yaw 0.

    Args:
        settings: (1,) SETTINGS.
    """
    a, b, after = np.zeros((STATES, STATES)), np.zeros((STATES, INPUTS)), np.zeros(STATES)
    s = settings[0]
    inputs = np.array([0.0, 0.0, GRAVITY])
    predict(
        s, np.zeros(STATES), inputs, 0.0, np.zeros(DISTURBANCES), s["step"], s["substeps"],
        after, a, b, np.zeros((6, STATES, STATES + 1)),
    )  # fmt: skip
    return a, b


def terminal_hessian(settings: NDArray[np.void]) -> NDArray[np.float64]:
    """(8, 8) solution of the discrete algebraic Riccati equation about hover at yaw 0.

    Certain from the text: a terminal cost function is there; from the brief of its companion code: the
    Riccati equation, there the continuous one of position and velocity alone.  The discrete equation of
    the whole state and this grid is the exact cost to go of the linear problem beyond the horizon.

    Args:
        settings: (1,) SETTINGS with model and weights.

    Raises:
        numpy.linalg.LinAlgError: where weights leave no stabilising solution.
    """
    a, b = hover_model(settings)
    s = settings[0]
    solution = scipy.linalg.solve_discrete_are(a, b, np.diag(s["state_weight"]), np.diag(s["input_weight"]))
    return np.asarray(0.5 * (solution + solution.T), dtype=np.float64)
