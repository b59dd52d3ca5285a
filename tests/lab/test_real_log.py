"""The log of a real quadrotor: simulated and measured motion, and the wind beside PX4's own estimate.

The log is tests/fixtures/esc_status_log.ulg of https://github.com/Auterion/px4-ulog-rs (MIT licence, commit
a11df05): 40 s in the air with PX4 v1.9 on an FMUv3 and four CAN speed controllers, a loop of 28 m by 18 m at
5 m/s.  It is not part of this repository.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support.paths import DATA

from sitl_bridge.analysis.replay.vehicle_log import VehicleLog, read_vehicle_log
from sitl_bridge.analysis.replay.vehicle_replay import replay_log
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.lab.identification.airframe_identification import identify_airframe

AIRFRAME = DATA / "esc_status_log.yaml"
NAME = "REAL_ULOG"


@pytest.fixture(scope="module")
def log() -> VehicleLog:
    named = os.environ.get(NAME)
    if not named:
        pytest.skip(f"{NAME} names no copy of esc_status_log.ulg of github.com/Auterion/px4-ulog-rs")
    return read_vehicle_log(Path(named), 4)


def test_the_motors_are_found_among_the_outputs_of_a_gimbal_and_a_lamp(log: VehicleLog) -> None:
    assert log.source == "actuator_outputs 1, UAVCAN"
    flying = log.commands.values[log.commands.values.min(axis=1) > 0.1]
    assert 0.4 < flying.mean() < 0.7
    assert log.speeds is not None
    # 203 rpm + 0.486 rpm per count
    reported = log.speeds.values[10:-20] * 30.0 / np.pi
    commanded = 203.0 + 0.486 * 8191.0 * log.commands.at(log.speeds.time[10:-20] - 0.1)
    assert np.sqrt(np.mean((reported - commanded) ** 2)) < 100.0


def test_the_simulated_velocity_is_the_measured_one(log: VehicleLog) -> None:
    result = replay_log(log, load_airframe(AIRFRAME), wind="fit")
    assert not result.turning
    assert result.windows == 34
    velocity = [error for error in result.errors if error.unit == "m/s"]
    assert max(error.rms for error in velocity) < 0.35
    assert min(error.correlation for error in velocity[:2]) > 0.99


def test_thrust_and_wind_are_identified(log: VehicleLog) -> None:
    airframe = load_airframe(AIRFRAME)
    found = identify_airframe([log], airframe, fit=("thrust", "drag", "body_drag", "wind"))
    thrust = next(e for e in found.estimates if e.parameter.path == "rotor_model.thrust_c2")
    # Hover: the pull of gravity at 2,400 rpm.
    assert thrust.value == pytest.approx(7.0 * 9.81 / 4.0 / (2400.0 * np.pi / 30.0) ** 2, rel=0.05)
    assert log.wind is not None
    theirs = log.wind.at(np.linspace(*log.airborne[0], 50)).mean(axis=0)
    assert np.linalg.norm(found.wind[0].mean - theirs) < 1.0
    velocity = {e.name: e for e in found.after}["velocity"].long
    assert velocity < 0.75 * {e.name: e for e in found.before}["velocity"].long
