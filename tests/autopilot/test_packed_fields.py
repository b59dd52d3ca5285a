"""Fields of a record read in one call are the fields read one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sitl_bridge.autopilot.estimate import EstimatedState, packed_fields
from sitl_bridge.autopilot.records import ESTIMATE, GLOBAL


def random_estimates() -> np.ndarray[tuple[int], np.dtype[np.void]]:
    estimates = np.zeros(3, ESTIMATE)
    estimates.view(np.float64)[:] = np.random.default_rng(1).uniform(-1.0, 1.0, estimates.nbytes // 8)
    for name in ("time", "valid", "resets"):
        estimates[name] = (7, 11, GLOBAL)
    return estimates


def test_words_are_those_of_the_fields() -> None:
    names = ("time", "velocity", "origin", "test_ratio", "resets")
    estimate: Any
    for estimate in random_estimates():
        wanted = np.concatenate([np.ravel(estimate[name]) for name in names])
        assert packed_fields(ESTIMATE, names).unpack_from(estimate) == tuple(wanted.tolist())


def test_a_state_takes_every_figure_from_its_field() -> None:
    estimate: Any = random_estimates()[2]
    state = EstimatedState()
    state.read(estimate, GLOBAL)
    assert (state.time, state.valid, state.resets) == (GLOBAL, GLOBAL, GLOBAL)
    assert [state.x, state.y, state.z] == estimate["position"].tolist()
    assert [state.vx, state.vy, state.vz] == estimate["velocity"].tolist()
    assert [state.ax, state.ay, state.az] == estimate["acceleration"].tolist()
    assert [state.p, state.q, state.r] == estimate["angular_velocity"].tolist()
    assert state.height_above_ground == estimate["height_above_ground"]
    assert state.eph == math.hypot(*estimate["position_deviation"][:2])
    assert state.evh == math.hypot(*estimate["velocity_deviation"][:2])
    assert state.projection is not None
    assert list(state.projection.origin) == estimate["origin"].tolist()
