"""Fields of a record read in one call are the fields read one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sitl_bridge.autopilot.estimate import EstimatedState, make_unpacker
from sitl_bridge.autopilot.records import ESTIMATE, GLOBAL, SETPOINT
from sitl_bridge.autopilot.setpoint_output import Output


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
        assert make_unpacker(ESTIMATE, names).unpack_from(estimate) == tuple(wanted.tolist())


def test_a_state_takes_every_figure_from_its_field() -> None:
    estimate: Any = random_estimates()[2]
    state = EstimatedState()
    state.read(estimate)
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


def test_every_figure_of_an_output_goes_into_its_field() -> None:
    output = Output()
    output.level, output.x, output.y, output.z = 3, 1.0, 2.0, 3.0
    output.vx, output.vy, output.vz, output.ax, output.ay, output.az = 4.0, 5.0, 6.0, 7.0, 8.0, 9.0
    output.yaw, output.yaw_rate, output.thrust, output.on_ground = 0.5, 0.6, 0.7, 0.8
    output.attitude, output.rates = (0.1, 0.2, 0.3, 0.4), (0.01, 0.02, 0.03)
    output.max_horizontal, output.max_up, output.max_down, output.max_tilt = 11.0, 12.0, 13.0, 14.0
    setpoints = np.zeros(3, SETPOINT)
    output.write(setpoints[1, ...])
    setpoint: Any = setpoints[1]
    assert (setpoint["level"], setpoint["thrust"], setpoint["on_ground"]) == (3, 0.7, 0.8)
    assert [setpoint[name].tolist() for name in ("position", "velocity", "acceleration")] == [
        [1.0, 2.0, 3.0],
        [4.0, 5.0, 6.0],
        [7.0, 8.0, 9.0],
    ]
    assert (setpoint["yaw"], setpoint["yaw_rate"]) == (0.5, 0.6)
    assert setpoint["attitude"].tolist() == [0.1, 0.2, 0.3, 0.4]
    assert setpoint["angular_velocity"].tolist() == [0.01, 0.02, 0.03]
    limits = ("max_horizontal_speed", "max_up_speed", "max_down_speed", "max_tilt")
    assert [setpoint[name] for name in limits] == [11.0, 12.0, 13.0, 14.0]
    assert setpoints[0] == setpoints[2] == np.zeros((), SETPOINT)
