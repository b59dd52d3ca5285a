"""``sitl-bridge simulate`` flies what it is given and refuses what it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sitl_bridge.cli.main import build
from sitl_bridge.errors import ConfigurationError, UserError

MISSIONS = Path(__file__).parent.parent / "missions"


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and output."""
    result = CliRunner().invoke(build(["simulate"]), ["simulate", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_a_formation_leaves_tracks_picture_and_summary(tmp_path: Path) -> None:
    code, output = run(str(MISSIONS / "formation_cube.yaml"), "--runs-dir", str(tmp_path))
    assert code == 0, output
    directory = tmp_path / "latest"
    assert (directory / "formation.png").is_file()
    assert (directory / "tracks.npz").is_file()
    assert json.loads((directory / "summary.json").read_text())["succeeded"] is True


def test_an_avoidance_scenario_leaves_figures_and_a_table(tmp_path: Path) -> None:
    code, output = run(str(MISSIONS / "crossing_pair.yaml"), "--method", "nmpc", "--runs-dir", str(tmp_path))
    assert code == 0, output
    assert "1/1" in (tmp_path / "latest" / "table.txt").read_text()
    assert list((tmp_path / "latest" / "nmpc").glob("*.png"))


def test_what_cannot_be_flown_is_refused_before_a_run_directory_is_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such scenario"):
        run(str(tmp_path / "nothing.yaml"), "--runs-dir", str(tmp_path / "runs"))
    with pytest.raises(UserError, match="no method is called"):
        run(str(MISSIONS / "crossing_pair.yaml"), "--method", "luck", "--runs-dir", str(tmp_path / "runs"))
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: broken\nduration: -1\n")
    with pytest.raises(ConfigurationError):
        run(str(broken), "--runs-dir", str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()
