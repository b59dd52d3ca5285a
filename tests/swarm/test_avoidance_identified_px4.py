"""The attitude models kept for the iris are those that a new flight gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyulog import ULog
from support.paths import MISSIONS
from support.px4_flights import fly

from sitl_bridge.lab.identification.attitude import identify, read_flight
from sitl_bridge.session.identified_models import Stack, identified_model


@pytest.mark.px4
def test_a_new_flight_of_px4_gives_the_model_that_is_kept(tmp_path: Path) -> None:
    compare_with_the_model_that_is_kept("px4", tmp_path)


@pytest.mark.slow
def test_a_new_flight_of_the_built_in_stack_gives_the_model_that_is_kept(tmp_path: Path) -> None:
    compare_with_the_model_that_is_kept("builtin", tmp_path)


def compare_with_the_model_that_is_kept(stack: Stack, tmp_path: Path) -> None:
    # At four times real time: a script's setpoints come late by wall time, which is no part of the response.
    outcome, record, _ = fly(MISSIONS / "offboard_attitude.py", tmp_path, autopilot=stack, speed=4.0)
    assert outcome.succeeded, outcome.reason
    flight = read_flight(record.path)
    found = identify(flight.time, flight.truth, flight.commands, airframe="iris", stack=flight.stack).model
    kept = identified_model("iris", stack)
    assert kept is not None
    assert found.roll_gain == pytest.approx(kept.model.roll_gain, abs=0.02)
    assert found.pitch_gain == pytest.approx(kept.model.pitch_gain, abs=0.02)
    # Later PX4s send set-points through a critically damped model of second order, which lags by 2 / w.
    bandwidth = ULog(str(record.path), []).initial_parameters.get("MC_REF_W_N")
    lag = 2.0 / bandwidth if bandwidth else 0.0
    # Setpoints are logged every 48 ms.
    assert found.roll_time_constant == pytest.approx(kept.model.roll_time_constant + lag, abs=0.024)
    assert found.pitch_time_constant == pytest.approx(kept.model.pitch_time_constant + lag, abs=0.024)
    assert found.drag == pytest.approx(kept.model.drag, rel=0.1)
