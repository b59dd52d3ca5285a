"""Scenario files of formations, and flying them on the quick simulator."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.paths import MISSIONS
from support.swarm_scenarios import load_formation

from sitl_bridge.analysis.evaluation.formation import write_result
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.session.formation_flight import verdict
from sitl_bridge.swarm.formation.files import read_csv, write_csv
from sitl_bridge.swarm.formation.trajectory import path_through
from sitl_bridge.swarm.quick_simulation import fly_quick

SMALL = """
seed: 3
formation:
  count: 4
  duration: 14
  leader:
    yaw: 0
    waypoints: [{position: [0, 0, -10], hold: 5}, {position: [5, 0, -10]}]
  heading: 0
  patterns:
    - {at: 0, pattern: v}
"""


def scenario(directory: Path, *changes: tuple[str, str]) -> Path:
    text = SMALL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = directory / "scenario.yaml"
    file.write_text(text)
    return file


def test_xtdrones_mission_flies_on_the_quick_simulator(tmp_path: Path) -> None:
    result = fly_quick(load_formation(MISSIONS / "formation_cube.yaml"))
    assert result.summary()["patterns"] == ["cube", "pyramid", "triangle", "cube", "grid"]
    assert result.worst_settled_error < 0.5
    assert result.least_separation > 1.0
    assert result.succeeded
    assert not replace(result, error=np.full_like(result.error, math.nan)).succeeded
    landed_at_once = replace(result, time=result.time - result.time[-1] - 1.0)
    assert landed_at_once.succeeded
    assert verdict(landed_at_once) == f"least separation {result.least_separation:.2f} m"
    write_result(result, tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["succeeded"] is True
    tracks = np.load(tmp_path / "tracks.npz")
    assert tracks["position"].shape == (len(tracks["time"]), 9, 3)
    plan = read_csv(tmp_path / "plan" / "vehicle_008.csv")
    assert np.linalg.norm(plan.at(50.0).position - result.position[result.time >= 50.0][0, 8]) < 0.5


def test_a_formation_without_count_is_of_all_vehicles(tmp_path: Path) -> None:
    both = ("seed: 3", "seed: 3\nvehicles: [{airframe: iris}, {airframe: iris_rtk, count: 3}]")
    file = scenario(tmp_path, both, ("  count: 4\n", ""))
    plan = load_formation(file)
    assert (plan.seed, plan.choreography.count) == (3, 4)
    assert load_formation(scenario(tmp_path, ("seed: 3", "seed: 3\nvehicles: [{airframe: iris}]"))).seed == 3
    with pytest.raises(
        ConfigurationError, match=r"formation.count: has 3 vehicles, but the section vehicles has 4"
    ):
        load_formation(scenario(tmp_path, both, ("count: 4", "count: 3")))
    with pytest.raises(ConfigurationError, match=r"line \d+: formation: give count"):
        load_formation(scenario(tmp_path, ("  count: 4\n", "")))


def test_offsets_may_stand_in_the_scenario_itself(tmp_path: Path) -> None:
    offsets = "[[0, 0, 0], [-3, 3, 0], [-3, -3, 0], [-6, 0, 0]]"
    plan = load_formation(scenario(tmp_path, ("pattern: v}", f"offsets: {offsets}, name: kite}}")))
    move = plan.choreography.moves[-1]
    assert move.name == "kite"
    assert sorted(map(tuple, move.end.tolist())) == [(-6, 0, 0), (-3, -3, 0), (-3, 3, 0), (0, 0, 0)]
    with pytest.raises(ConfigurationError, match=r"formation.patterns\[0\]: 2 offsets for 4 vehicles"):
        load_formation(scenario(tmp_path, ("pattern: v}", "offsets: [[0, 0, 0], [-3, 3, 0]]}")))


def test_every_fault_of_the_section_is_told_with_its_line(tmp_path: Path) -> None:
    file = scenario(
        tmp_path, ("count: 4", "count: 0"), ("heading: 0", "headin: 0"), ("{at: 0, pattern: v}", "{at: 0}")
    )
    with pytest.raises(ConfigurationError) as caught:
        load_formation(file)
    told = "\n".join(caught.value.faults)
    assert "line 4: formation.count" in told
    assert "formation.headin: unknown field; did you mean `heading`?" in told
    assert "line 11: formation.patterns[0]: takes either pattern or offsets" in told


def test_a_plan_that_breaks_its_limits_is_refused_before_it_flies(tmp_path: Path) -> None:
    low = scenario(tmp_path, ("  heading: 0", "  heading: 0\n  limits: {height: [12, 50]}"))
    with pytest.raises(
        ConfigurationError, match=r"vehicle 0: height 10.00 m at 0.0 s; 12 m is the least allowed"
    ):
        load_formation(low)
    fast = scenario(tmp_path, ("  heading: 0", "  heading: 0\n  limits: {speed: 1}"))
    with pytest.raises(ConfigurationError, match="speed"):
        load_formation(fast)
    near = scenario(tmp_path, ("pattern: v}", "pattern: v, spacing: 0.8}"))
    with pytest.raises(UserError, match=r"v: slots 0 and 1 are 0.80 m apart, below the limit of 1 m"):
        load_formation(near)


def test_the_leaders_path_comes_from_a_csv_file_or_a_plan(tmp_path: Path) -> None:
    waypoints = "    yaw: 0\n    waypoints: [{position: [0, 0, -10], hold: 5}, {position: [5, 0, -10]}]\n"
    path = path_through(np.array([[0.0, 0, -10], [5, 0, -10]]), speed=2.0, acceleration=1.0, yaw=0.0)
    write_csv(tmp_path / "leader.csv", path)
    by_csv = load_formation(scenario(tmp_path, (waypoints, "    csv: leader.csv\n")))
    assert by_csv.path.at(2.0).position == pytest.approx(path.at(2.0).position)
    plan = load_formation(scenario(tmp_path, (waypoints, f"    plan: {MISSIONS / 'square.plan'}\n")))
    north, east, _ = np.ptp(plan.path.position, axis=0)
    assert 10.0 < north < 200.0
    assert 10.0 < east < 200.0
    assert plan.path.position[-1, 2] < 0.0


def test_roles_come_from_a_file_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from sitl_bridge.swarm.formation.roles import Follower\n"
        "class Lower(Follower):\n"
        "    def __init__(self, depth):\n"
        "        self.depth = depth\n"
        "    def steer(self, view):\n"
        "        told = view.slot\n"
        "        told.position[:, 2] += self.depth\n"
        "        return told\n"
    )
    file = scenario(
        tmp_path,
        ("pattern: v}", "offsets: [[0, 0, 0], [3, 0, 0], [-3, 0, 0], [0, 4, 0]]}"),
        ("heading: 0", "heading: 0\n  roles: {file: mine.py, follower: Lower, options: {depth: 2.5}}"),
    )
    result = fly_quick(load_formation(file))
    last = result.position[-1]
    assert last[1:, 2] - last[0, 2] == pytest.approx(np.full(3, 2.5), abs=0.05)
    assert {tuple(p) for p in np.round(last[:, :2] - last[0, :2]).tolist()} == {
        (0, 0),
        (3, 0),
        (-3, 0),
        (0, 4),
    }
    fails = scenario(
        tmp_path,
        ("heading: 0", "heading: 0\n  roles: {file: mine.py, follower: Lower, options: {depth: low}}"),
    )
    with pytest.raises(UserError, match=r"follower Lower failed: .*ufunc"):
        fly_quick(load_formation(fails))
    wrong = scenario(tmp_path, ("heading: 0", "heading: 0\n  roles: {file: mine.py, follower: Lower}"))
    with pytest.raises(UserError, match="invalid arguments of the formation's roles"):
        fly_quick(load_formation(wrong))


EVENTS = """seed: 3
events:
  - {at: 5, kind: vehicle_lost, vehicles: [0]}
  - {at: 7, kind: leave_formation, vehicles: [2], action: hold}
  - {at: 3, kind: vehicle_stalled, vehicles: ["3"], lasts: 2}
"""


def test_a_formation_flies_on_when_vehicles_leave_it_or_fall_silent(tmp_path: Path) -> None:
    result = fly_quick(load_formation(scenario(tmp_path, ("seed: 3\n", EVENTS))))
    told = [text.split(": ", 1)[1] for text in result.summary()["events"]]  # type: ignore[union-attr]
    assert "vehicle 0: is gone" in told
    assert "vehicle 1: leads now" in told
    assert "vehicle 2: aborts: hold" in told
    assert told.index("vehicle 3: is gone") < told.index("vehicle 3: is back")
    other = ("vehicles: [0]", "vehicles: [4]")
    with pytest.raises(ConfigurationError, match=r"line 4: events\[0\]: there is no vehicle 4; there are 4"):
        load_formation(scenario(tmp_path, ("seed: 3\n", EVENTS.replace(*other))))


def test_patience_with_silence_follows_from_the_graph(tmp_path: Path) -> None:
    def timeout(graph: str) -> float:
        file = scenario(tmp_path, ("seed: 3", f"seed: 3\nradio: {graph}"))
        return load_formation(file).formation().behaviour.timeout * 1e-6

    assert timeout("{rate: 20}") == 1.0
    # 12 beacons of 50 ms lost in a row have a probability of 5e-7 at 30 %.
    assert math.ceil(math.log(1e-6) / math.log(0.3)) == 12
    assert timeout("{graph: star, rate: 20, delay: 0.5, loss: 0.3}") == pytest.approx(
        0.5 + (1 + 1 / 0.7 + 12) * 0.05, abs=1e-6
    )
    assert timeout("{graph: chain, delay: 0.5}") > 3 * 0.5


def test_a_graph_that_leaves_somebody_out_is_refused(tmp_path: Path) -> None:
    radio = "seed: 3\nradio: {graph: links, links: [[0, 1], [1, 2]]}"
    with pytest.raises(
        ConfigurationError, match=r"line 3: radio: with the graph links, vehicle 3 receives nothing"
    ):
        load_formation(scenario(tmp_path, ("seed: 3", radio)))


def test_a_long_chain_with_delay_does_not_take_its_leader_for_lost(tmp_path: Path) -> None:
    radio = "seed: 3\nradio: {graph: chain, rate: 20, delay: 0.2, loss: 0.3}"
    result = fly_quick(load_formation(scenario(tmp_path, ("seed: 3", radio), ("count: 4", "count: 9"))))
    assert not [event for event in result.events if "leads" in event.text]
    assert result.worst_settled_error < 0.5
