"""Roots against their closed forms, and what importing the stack does without."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitl_bridge.base.root import root


@given(st.floats(1e-6, 1e6), st.floats(1e-12, 1e-3))
def test_cube_roots_are_as_close_as_was_asked(value: float, tolerance: float) -> None:
    found = root(lambda x: x**3 - value, 0.0, 1e3, tolerance)
    assert found == pytest.approx(math.cbrt(value), rel=1e-15, abs=tolerance)


@given(st.floats(-0.999, 0.999))
def test_a_jump_and_a_flat_root_are_found(place: float) -> None:
    assert root(lambda x: math.copysign(1.0, x - place), -1.0, 1.0) == pytest.approx(place, abs=1e-11)
    assert root(lambda x: (x - place) ** 9, -1.0, 1.0) == pytest.approx(place, abs=1e-2)


def test_an_end_may_be_the_root_and_equal_signs_are_refused() -> None:
    assert root(lambda x: x, 0.0, 1.0) == 0.0
    assert root(lambda x: x - 1.0, 0.0, 1.0) == 1.0
    with pytest.raises(ValueError, match="one sign at 1 and 2"):
        root(lambda x: x, 1.0, 2.0)


def test_a_flight_stack_starts_without_scipy() -> None:
    program = "import sys, sitl_bridge.autopilot.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "scipy.optimize" not in done.stdout
    assert "scipy.linalg" not in done.stdout
