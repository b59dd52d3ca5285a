"""A flight of real PX4 repeated: to the bit from its recording, in simulation and by EKF2 from its ULog."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from support.paths import MISSIONS
from support.px4_flights import fly

from sitl_bridge.analysis.export.mcap_file import write_mcap
from sitl_bridge.analysis.replay.estimator_replay import run_estimator_replay, write_replay_files
from sitl_bridge.analysis.replay.run_replay import replay_run
from sitl_bridge.analysis.replay.vehicle_log import read_vehicle_log
from sitl_bridge.analysis.replay.vehicle_replay import replay_log
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.link.px4.find import find_px4
from sitl_bridge.record.run_reader import RecordedRun

pytestmark = pytest.mark.px4
WIND, ORIGIN = 5.0, 240.0
"""m/s, and deg where it comes from."""
AIRFRAME = """
base: iris
name: logged
description: iris that logs all motor commands
px4:
  parameters: {SDLOG_PROFILE: 147}
"""


@pytest.mark.timeout(1800)
def test_a_flight_is_repeated_to_the_bit_in_simulation_and_by_the_estimator(tmp_path: Path) -> None:
    airframe = tmp_path / "logged.yaml"
    airframe.write_text(AIRFRAME)
    world = WorldSpecification(wind=WindSpecification(steady=SteadyWind(speed=WIND, direction=ORIGIN)))
    outcome, record, session = fly(MISSIONS / "square.plan", tmp_path, str(airframe), world=world, seed=3)
    assert outcome.succeeded, outcome.reason
    run = RecordedRun(session.directory.path)
    result = replay_run(run)
    assert result.difference is None
    assert result.frame_bytes > 50 * result.steps
    assert write_mcap(run, tmp_path / "flight.mcap") > result.steps

    log = read_vehicle_log(record.path, 4)
    print(f"{log.source}, {log.commands.rate:.0f} Hz")
    assert log.commands.rate > 100.0
    replayed = replay_log(log, load_airframe("iris"))
    for error in replayed.errors:
        print(error)
    north, east = (-WIND * f(math.radians(ORIGIN)) for f in (math.cos, math.sin))
    print(f"wind {replayed.wind}, {replayed.wind_error}; true {north:.2f}, {east:.2f}")
    assert np.hypot(replayed.wind[0] - north, replayed.wind[1] - east) < 0.5
    limits = {"rad/s": 0.1, "m/s^2": 0.5, "m/s": 0.15}
    assert all(error.rms < limits[error.unit] for error in replayed.errors)

    write_replay_files(record.path, tmp_path / "again", find_px4())
    again = run_estimator_replay(record.path, tmp_path / "again")
    print(f"EKF2 again: RMS {again.rms:.3f} m, at most {again.largest:.3f} m of {again.samples} positions")
    assert again.rms < 0.3
