"""The command line: help, checks, messages and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sitl_bridge.cli.main import COMMANDS
from sitl_bridge.record.layout import ROW
from sitl_bridge.record.truth_log import TruthLog

ROOT = Path(__file__).parent.parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sitl_bridge.cli.main", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


def test_help_names_every_command() -> None:
    result = run("--help")
    assert result.returncode == 0
    for name in COMMANDS:
        assert name in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    result = run(name, "--help")
    assert result.returncode == 0
    assert "Usage" in result.stdout


def test_the_version_is_shown() -> None:
    assert run("--version").stdout.strip() == "0.1.0"


def test_checking_an_airframe_tells_what_follows_for_people_and_for_machines() -> None:
    assert "hover throttle" in run("check", "iris").stdout
    facts = json.loads(run("check", "airframes/hector.yaml", "--json").stdout)
    assert facts["mass_kg"] == 1.477
    assert facts["px4_parameters"]["CA_ROTOR_COUNT"] == 4


def test_checking_a_plan_tells_what_it_holds() -> None:
    facts = json.loads(run("check", "missions/survey.plan", "--json").stdout)
    assert facts["items"] > 10
    assert facts["rally_points"] >= 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("check", "unheard_of"), "no airframe is called 'unheard_of'"),
        (("check", "none.plan"), "none.plan"),
        (("fly", "none.plan"), "none.plan"),
        (("fly", "missions/square.plan", "--speed", "0"), "--speed"),
        (("fly", "missions/square.plan", "--wind", "gale"), "--wind"),
        (("fly", "missions/square.plan", "--wind", "turbulence=-3"), "cannot read 'turbulence=-3'"),
        (("fly", "missions/square.plan", "--px4", "/nonexistent"), "/nonexistent"),
        (("serve", "--on-stall", "panic"), "--on-stall"),
        (("export", "none"), "none"),
    ],
)
def test_what_the_user_can_mend_is_one_message_without_a_traceback(
    arguments: tuple[str, ...], told: str
) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert told in result.stderr
    assert "Traceback" not in result.stderr


def test_a_faulty_airframe_is_refused_with_every_fault(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    text = (ROOT / "airframes" / "iris.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("mass: 1.55", "mass: -1").replace("  friction: 0.8", "  frictoin: 0.8"))
    result = run("check", str(path))
    assert result.returncode == 2
    assert "mass" in result.stderr
    assert "did you mean `friction`?" in result.stderr


def test_the_doctor_names_what_it_looked_at() -> None:
    result = run("doctor", "--json")
    assert result.returncode in (0, 1)
    findings = json.loads(result.stdout)
    assert {"Python", "packages", "PX4"} <= {finding["subject"] for finding in findings}
    assert (result.returncode == 1) == any(finding["grade"] == "missing" for finding in findings)


def test_truth_is_exported_as_a_table(tmp_path: Path) -> None:
    with TruthLog(tmp_path / "truth.npy") as log:
        rows = np.zeros(10, ROW)
        rows["time"] = np.arange(10) * 4000
        rows["position"][:, 2] = -1.5
        log.write(rows)
    result = run("export", str(tmp_path), "--every", "2")
    assert result.returncode == 0
    lines = (tmp_path / "truth.csv").read_text().splitlines()
    assert len(lines) == 6
    row = dict(zip(lines[0].split(","), lines[2].split(","), strict=True))
    assert row["time"] == "8000"
    assert float(row["position_down"]) == -1.5


def test_start_up_files_are_written_for_a_px4_that_someone_else_starts(tmp_path: Path) -> None:
    assert run("px4-files", str(tmp_path / "files"), "--airframe", "firefly").returncode == 0
    text = (tmp_path / "files" / "px4-rc.params").read_text()
    assert "param set-default CA_ROTOR_COUNT 6" in text
    assert "param set-default PWM_MAIN_FUNC6 106" in text
