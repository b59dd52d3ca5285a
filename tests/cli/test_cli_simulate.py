"""``sitl-bridge simulate`` flies what it is given and refuses what it cannot."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.commands import run_command
from support.paths import MISSIONS

from sitl_bridge.base.errors import ConfigurationError, UserError


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and output."""
    result = run_command("simulate", *arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_a_formation_leaves_tracks_and_summary(tmp_path: Path) -> None:
    code, output = run(str(MISSIONS / "formation_cube.yaml"), "--runs-dir", str(tmp_path))
    assert code == 0, output
    assert "wind" not in output
    directory = tmp_path / "latest"
    assert (directory / "tracks.npz").is_file()
    assert json.loads((directory / "summary.json").read_text())["succeeded"] is True


def test_vehicles_that_return_without_their_leader_do_not_fail_by_the_slots_they_left(tmp_path: Path) -> None:
    lost = tmp_path / "lost.yaml"
    lost.write_text(
        "world: {scene: {objects: [{kind: sphere, radius: 1, position: [50, 50, -9]}]}}\n"
        "events: [{at: 12, kind: vehicle_lost, vehicles: [0]}]\n"
        "formation:\n  count: 4\n  leader: {waypoints: [{position: [0, 0, -9], hold: 30}]}\n"
        "  patterns: [{at: 0, pattern: v}]\n  leader_loss: {policy: return}\n"
    )
    code, output = run(str(lost), "--runs-dir", str(tmp_path))
    assert "all return" in output
    assert "point masses fly through the scene's objects" in output.replace("\n", " ")
    assert code == 0, output


def test_an_avoidance_scenario_leaves_a_table(tmp_path: Path) -> None:
    short = tmp_path / "short.yaml"
    short.write_text("avoidance: {duration: 6, routes: [{name: a, points: [[0, 0, -5], [2, 0, -5]]}]}\n")
    code, output = run(str(MISSIONS / "crossing_pair.yaml"), str(short), "--runs-dir", str(tmp_path))
    assert code == 0, output
    assert "attitude model unless the scenario sets one: iris" in output
    assert (tmp_path / "latest" / "table.txt").read_text().count("1/1") == 2
    rows = json.loads((tmp_path / "latest" / "summary.json").read_text())["rows"]
    assert all(row["cpu_worst"] >= row["cpu_mean"] > 0.0 for row in rows)


def test_a_failed_avoidance_is_told_why_and_events_after_its_end_are_noted(tmp_path: Path) -> None:
    late = tmp_path / "late.yaml"
    late.write_text(
        "events: [{at: 9, kind: gust, speed: 3, direction: 0}]\n"
        "avoidance: {duration: 3, tolerance: 0.01, routes: [{name: a, points: [[0, 0, -5], [2, 0, -5]]}]}\n"
    )
    code, output = run(str(late), "--on", "full", "--runs-dir", str(tmp_path))
    assert code == 1
    assert "late: 1 of 1 flights failed: with seed 0 a did not arrive" in output
    assert "events[0]: gust at 9 s is after the end, 3 s" in output.replace("\n", " ")


def test_what_cannot_be_flown_is_refused_before_a_run_directory_is_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such mission"):
        run(str(tmp_path / "nothing.yaml"), "--runs-dir", str(tmp_path / "runs"))
    both = [str(MISSIONS / f"{name}.yaml") for name in ("crossing_pair", "formation_cube")]
    with pytest.raises(UserError, match="one at a time"):
        run(*both, "--runs-dir", str(tmp_path / "runs"))
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: broken\nduration: -1\n")
    with pytest.raises(ConfigurationError):
        run(str(broken), "--runs-dir", str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


SWARM = re.compile(r"^(formation|avoidance):", re.MULTILINE)
SHIPPED = sorted(file.stem for file in MISSIONS.glob("*.yaml") if SWARM.search(file.read_text()))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_scenario_is_simulated_with_full_dynamics(name: str, tmp_path: Path) -> None:
    code, output = run(str(MISSIONS / f"{name}.yaml"), "--on", "full", "--runs-dir", str(tmp_path))
    assert code == 0, output
