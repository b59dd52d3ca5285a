"""Formations over MAVSDK: three built-in stacks as processes of their own, flown from this one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from support.formation_flights import built_in, grounded, true_slot_errors

from sitl_bridge.analysis.evaluation.formation import write_result
from sitl_bridge.session.missions.formation_runner import fly_formation, main
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError
from sitl_bridge.session.missions.swarm_flight import instance_url
from sitl_bridge.session.scenario import load_formation

INSTANCES = (1, 2, 4)
THREE = """
seed: 3
formation:
  count: 3
  start: {pattern: grid, spacing: 3}
  leader: {speed: 2, yaw: 0, waypoints: [{position: [0, 0, -6], hold: 2}, {position: [8, 0, -6]}]}
  patterns:
    - {at: 0, pattern: column}
    - {at: 4, pattern: triangle}
"""


@pytest.fixture
def three(tmp_path: Path) -> Path:
    file = tmp_path / "three.yaml"
    file.write_text(THREE)
    return file


def test_three_built_in_stacks_change_their_pattern_and_land(three: Path, tmp_path: Path) -> None:
    plan = load_formation(three)
    said: list[str] = []
    with grounded(plan, INSTANCES, built_in, tmp_path / "stacks") as run:
        result = asyncio.run(
            fly_formation(
                plan, [instance_url(i) for i in INSTANCES], said.append, systems=[i + 1 for i in INSTANCES]
            )
        )
        states = run.server.simulation.states
        assert (states["position"][:, 2] > -0.3).all(), "not on the ground"
        assert (states["impact_speed"] < 1.0).all()
    assert sum("landed and disarmed" in line for line in said) == 3
    assert result.succeeded, result.summary()
    assert result.worst_settled_error < 0.5
    assert run.truth.least_separation > 1.0
    # What the receivers err by, 0.3 m of each axis (airframes/iris.yaml), comes on top of what they know of.
    errors = true_slot_errors(result, run.truth.at(result.time + result.start * 1e-6))
    assert errors[result.settled].max() < 1.5
    write_result(result, tmp_path / "result")
    assert json.loads((tmp_path / "result" / "summary.json").read_text())["succeeded"]


def test_the_next_in_line_leads_when_the_leaders_flight_stack_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "three.yaml"
    file.write_text(THREE.replace("formation:\n", "formation:\n  leader_loss: {policy: next}\n"))
    plan = load_formation(file)
    said: list[str] = []
    # A vehicle is gone after half a second of wall time, too: ten of simulated time at full speed.
    with grounded(plan, INSTANCES, built_in, tmp_path / "stacks", speed=3.0) as run:

        def hear(line: str) -> None:
            said.append(line)
            if start := re.search(r"\bstart at ([0-9.]+) s", line):
                run.server.at(float(start[1]) + 3.0, lambda: os.kill(run.processes[0].pid, signal.SIGKILL))

        result = asyncio.run(
            fly_formation(
                plan, [instance_url(i) for i in INSTANCES], hear, systems=[i + 1 for i in INSTANCES]
            )
        )
        states = run.server.simulation.states
        assert (states["position"][1:, 2] > -0.3).all(), "not on the ground"
        assert (states["position"][1:, 0] > 4.0).all(), "not at the end of the path"
    told = "\n".join(said)
    assert "vehicle 0 sends no telemetry any more" in told
    events = result.summary()["events"]
    assert isinstance(events, list)
    assert "vehicle 1: leads now" in "\n".join(events)
    assert sum("landed and disarmed" in line for line in said) == 2


@pytest.mark.slow
def test_one_lands_when_told_to_and_the_rest_fly_on_when_one_dies(tmp_path: Path) -> None:
    file = tmp_path / "three.yaml"
    file.write_text(THREE + "  duration: 25\nevents: [{at: 5, kind: leave_formation, vehicles: [2]}]\n")
    plan = load_formation(file)
    said: list[str] = []
    with grounded(plan, INSTANCES, built_in, tmp_path / "stacks", speed=4.0) as run:

        def hear(line: str) -> None:
            said.append(line)
            if "aborts: land" in line:
                run.processes[1].stop()

        result = asyncio.run(
            fly_formation(
                plan, [instance_url(i) for i in INSTANCES], hear, systems=[i + 1 for i in INSTANCES]
            )
        )
        assert (run.server.simulation.states["position"][:, 2] > -0.3).all(), "not on the ground"
    told = "\n".join(said)
    assert "vehicle 1 sends no telemetry any more" in told
    assert "vehicle 2 leaves the fleet: land" in told
    assert sum("landed and disarmed" in line for line in said) == 2
    late = result.time > 15.0
    assert np.isnan(result.error[late, 1:]).all()
    assert np.isfinite(result.error[late, 0]).all()


def test_a_number_of_vehicles_that_is_not_the_plans_is_refused(three: Path) -> None:
    with pytest.raises(MissionFailedError, match="formation has 3 vehicles, but 2 are given"):
        asyncio.run(fly_formation(load_formation(three), ["udpin://127.0.0.1:14541"] * 2))


def test_the_command_line_says_what_is_wrong_with_it(three: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--instances", "4..2"], ["--instances", "a..b"], [], ["--url", "x", "--system", "a"]):
        with pytest.raises(SystemExit) as ended:
            main([str(three), *words])
        assert ended.value.code == 2
    assert main([str(three), "--instances", "7"]) == 1
    assert "formation has 3 vehicles, but 1 are given" in capsys.readouterr().err
