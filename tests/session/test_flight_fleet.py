"""Flights of several vehicles, with the built-in flight stack at the far ends of the simulator link."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest
from support.paths import MISSIONS

from sitl_bridge.analysis.evaluation.vehicle_distances import closest_distance
from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.record.truth_log import read_truth
from sitl_bridge.session.missions.fleet_script import read_members
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import ExternalStacks, FlightOptions, FlightSettings
from sitl_bridge.session.started_run import Progress

INSTANCE = 70


def scenario(directory: Path, arguments: str, events: str = "", count: int = 3) -> Path:
    file = directory / "small.yaml"
    file.write_text(
        f"vehicles: [{{airframe: iris, count: {count}, autopilot: builtin, grid: {{columns: 4}}}}]\n"
        f"mission: {MISSIONS / 'fleet_hover.py'}\narguments: {arguments}\nevents: [{events}]\n"
        "time_limit: 600\n"
    )
    return file


def choices(directory: Path) -> FlightOptions:
    return FlightOptions(instance=INSTANCE, speed=math.inf, runs=directory / "runs")


def test_three_vehicles_take_off_hold_and_land_and_one_that_dies_stops_nobody(tmp_path: Path) -> None:
    dies = "{at: 20, kind: stack_killed, vehicles: [1]}"
    file = scenario(tmp_path, '[--height, "3", --seconds, "8", --need, "2", --connect-limit, "100"]', dies)
    said: list[str] = []
    with Session(scenario_settings(file, choices(tmp_path)), said.append) as session:
        children = psutil.Process().children(recursive=True)
        succeeded = session.fly()
        assert session.missions is not None
        members = read_members(session.missions.members)
    outcome = session.conclude()
    assert succeeded, outcome.reason
    assert [member.system for member in members] == [71, 72, 73]
    assert members[0].url == "udpin://127.0.0.1:15610"
    assert any("1: the built-in flight stack was ended by SIGKILL" in line for line in said)
    for i, (one, record) in enumerate(outcome.vehicles):
        assert one.succeeded is (i != 1)
        if i != 1:
            assert record is not None
            assert record.max_height == pytest.approx(3.0, abs=0.4)
            assert one.impact_speed < 1.5
    assert outcome.vehicles[1][0].impact_speed > 2.0, "it fell"
    table = read_truth(session.directory.truth)
    assert np.array_equal(table["vehicle"].reshape(-1, 3)[-1], [0, 1, 2])
    assert np.all(np.diff(table["time"].reshape(-1, 3)[:, 0]) == 4000), "time went on step by step"
    assert outcome.collision_count == 0
    for name in ("summary.json", "fleet.json", "console.log"):
        assert (session.directory.path / name).is_file(), name
    assert not any(child.is_running() for child in children), "nothing is left behind"


@pytest.mark.slow
def test_a_frozen_flight_stack_is_left_behind_and_catches_up(tmp_path: Path) -> None:
    file = scenario(
        tmp_path, '[--height, "3", --seconds, "12", --need, "1", --connect-limit, "100"]', count=2
    )
    stopped: list[float] = []
    flown: list[float] = []
    with Session(scenario_settings(file, choices(tmp_path))) as session:

        def freeze(progress: Progress) -> None:
            stack = session.vehicles[0].flight_stack
            assert stack is not None
            now = progress.server.seconds
            if not stopped and np.all(progress.server.position[:, 2] < -2.5):
                stopped.append(now)
                os.kill(stack.pid, signal.SIGSTOP)
            elif len(stopped) == 1 and now > stopped[0] + 3.0:
                stopped.append(now)
                flown.append(float(progress.server.position[1, 2]))
                os.kill(stack.pid, signal.SIGCONT)

        succeeded = session.fly(freeze)
    outcome = session.conclude()
    assert succeeded, outcome.reason
    assert len(stopped) == 2, "time went on without it"
    assert flown[0] == pytest.approx(-3.0, abs=0.5), "the other held its height"
    console = (session.directory.path / "console.log").read_text(encoding="utf-8")
    assert "the others fly on without it" in console
    assert "answers again" in console
    assert outcome.vehicles[1][0].impact_speed < 1.5
    assert not outcome.succeeded, "it flew on with old commands"
    reason = next(line for line in outcome.verdict.reasons if "did not answer" in line)
    duration = float(reason.split(" did not answer for ")[1].split(" s ")[0])
    assert reason.startswith("0: the flight stack did not answer")
    assert stopped[1] - stopped[0] - 0.1 < duration < stopped[1] - stopped[0] + 5.0
    kept = json.loads((session.directory.path / "summary.json").read_text())
    assert kept["verdict"]["word"] == "failed"


def test_vehicles_that_touch_one_another_at_the_start_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "near.yaml"

    def check(apart: float, proximity: str = "") -> None:
        file.write_text(
            f"vehicles:\n  - {{name: a, count: 3, grid: {{spacing: 4}}}}\n"
            f"  - {{name: b, position: [{apart}, 4, 0], yaw: 45}}\n"
            f"mission: {MISSIONS / 'fleet_hover.py'}\n{proximity}"
        )
        scenario_settings(file, FlightOptions(autopilot="builtin")).check()

    with pytest.raises(ConfigurationError, match="a1 and b touch one another where they start"):
        check(0.4)
    check(1.0)
    check(0.4, "proximity: {collisions: false}\n")


def test_vehicles_of_serve_and_start_touch_one_another_as_those_of_a_scenario_do() -> None:
    for count, expected in ((1, None), (3, Proximity())):
        assert FlightSettings.without_mission(FlightOptions(), count).proximity == expected
        assert FlightSettings.for_external(ExternalStacks(), FlightOptions(), count).proximity == expected


def test_faults_of_all_vehicles_are_told_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "faulty.yaml"
    (tmp_path / "fly.py").write_text("")
    file.write_text(
        "vehicles:\n  - {airframe: iris, autopilot: builtin, controller: lie}\n"
        "  - {airframe: iris, autopilot: builtin, count: 3, mission: gone.plan}\n"
    )
    with pytest.raises(ConfigurationError, match=r"line 3: .*gone.plan: no such mission file"):
        scenario_settings(file, FlightOptions())
    (tmp_path / "gone.plan").write_bytes((MISSIONS / "square.plan").read_bytes())
    with pytest.raises(ConfigurationError, match=r"line 2: vehicles\[0\]\.controller: there is no 'lie'"):
        scenario_settings(file, FlightOptions())
    file.write_text(file.read_text().replace("controller: lie", "controller: lee"))
    with pytest.raises(ConfigurationError) as caught:
        scenario_settings(file, FlightOptions(instance=253, speed=-1.0)).check()
    for words in ("255 is not within", "--speed"):
        assert words in str(caught.value)


def test_the_nearest_two_are_those_in_the_air() -> None:
    places = np.zeros((2, 3, 3))
    places[1, :, 2] = (-5.0, -5.0, -0.1)
    places[1, :, 0] = (0.0, 3.0, 3.5)
    found = closest_distance(places)
    assert math.isnan(found[0])
    assert found[1] == pytest.approx(3.0)
