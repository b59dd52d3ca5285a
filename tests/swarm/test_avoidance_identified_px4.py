"""The attitude models kept for the iris are those that a new flight gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyulog import ULog
from support.paths import MISSIONS
from support.px4_flights import fly

from sitl_bridge.lab.identification.attitude import identify, read_flight
from sitl_bridge.session.identified_models import Stack, identified_model

KEPT_GAIN = 6.5
"""1/s, MC_ROLL_P and MC_PITCH_P of v1.16.0, whose model is kept."""
INTERVAL = 1.0 / 30.0
"""s between the script's set-points."""


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
    # Later PX4s turn a vehicle with another gain, and send set-points through a critically damped model of
    # second order, which moves with each set-point as if that had come with the one before.
    parameters = ULog(str(record.path), []).initial_parameters
    lag = 1.0 / parameters.get("MC_ROLL_P", KEPT_GAIN) - 1.0 / KEPT_GAIN
    if "MC_REF_W_N" in parameters:
        steps = parameters["MC_REF_W_N"] * INTERVAL * np.arange(1, 100)
        lag += INTERVAL * float(np.sum((1.0 + steps) * np.exp(-steps)))
    # Setpoints are logged every 48 ms.
    assert found.roll_time_constant == pytest.approx(kept.model.roll_time_constant + lag, abs=0.024)
    assert found.pitch_time_constant == pytest.approx(kept.model.pitch_time_constant + lag, abs=0.024)
    assert found.drag == pytest.approx(kept.model.drag, rel=0.1)
