from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.flight.avoidance.layout import INPUTS, STATES
from sitl_bridge.flight.avoidance.model import predict
from sitl_bridge.flight.avoidance.settings import ControllerSettings

Floats = NDArray[np.float64]
X = np.array([1.0, -2.0, 3.0, 1.5, -0.7, 0.4, 0.15, -0.2])
U = np.array([-0.1, 0.25, 11.0])
DISTURBANCE = np.array([0.3, -0.2, 0.1, 0.02, -0.01])
YAW = 0.7


def advance(record: Any, x: Floats, u: Floats, seconds: float, steps: int) -> tuple[Floats, Floats, Floats]:
    after, a, b = np.zeros(STATES), np.zeros((STATES, STATES)), np.zeros((STATES, INPUTS))
    work = np.zeros((6, STATES, STATES + 1))
    predict(record[0], x, u, YAW, DISTURBANCE, seconds, steps, after, a, b, work)
    return after, a, b


@pytest.fixture(scope="module")
def record() -> Any:
    return ControllerSettings().record()


def test_a_steps_derivatives_are_those_of_finite_differences(record: Any) -> None:
    _, a, b = advance(record, X, U, 0.1, 1)
    h = 1e-6
    for given, exact in ((X, a), (U, b)):
        for j in range(len(given)):
            bump = np.zeros(len(given))
            bump[j] = h
            ends = [
                advance(record, X + s * bump, U, 0.1, 1)[0]
                if given is X
                else advance(record, X, U + s * bump, 0.1, 1)[0]
                for s in (1.0, -1.0)
            ]
            np.testing.assert_allclose(exact[:, j], (ends[0] - ends[1]) / (2 * h), atol=2e-8)


def test_the_integrator_is_of_fourth_order(record: Any) -> None:
    exact = advance(record, X, U, 0.4, 64)[0]
    errors = [np.abs(advance(record, X, U, 0.4, n)[0] - exact).max() for n in (4, 8, 16)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4.0, abs=0.3)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(4.0, abs=0.3)
