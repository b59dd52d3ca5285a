"""Missions in an interpreter of the user's own: found and checked before anything starts, and used."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sitl_bridge.cli.main import build
from sitl_bridge.errors import UserError
from sitl_bridge.run.flight_choices import Choices
from sitl_bridge.run.mission_process import MissionProcess
from sitl_bridge.run.scenario_settings import scenario_settings
from sitl_bridge.system.interpreter import check_interpreter, find_interpreter


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "mission.py"
    path.write_text("import sys\nprint(sys.prefix)\n")
    return path


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment's interpreter, which says that it is used."""
    text = f'#!/bin/sh\nUSED=mine exec {sys.executable} "$@"\n'
    return program(tmp_path / "env" / "bin" / "python", text)


def test_interpreters_are_found_by_path_and_by_name(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_interpreter(str(environment)) == environment
    assert find_interpreter("env/bin/python", environment.parent.parent.parent) == environment
    monkeypatch.setenv("PATH", str(environment.parent))
    assert find_interpreter("python") == environment


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no-such-python", "there is no program no-such-python on PATH"),
        ("./nothing/python", "no such file"),
        ("./env", "is a directory, not a Python interpreter; give "),
        ("./mission.py", "is not executable"),
    ],
)
def test_what_is_no_interpreter_is_refused(
    environment: Path, script: Path, name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert environment.exists()
    monkeypatch.chdir(script.parent)
    with pytest.raises(UserError, match=words):
        find_interpreter(name)


def test_an_interpreter_reads_the_script_before_anything_starts(
    environment: Path, script: Path, tmp_path: Path
) -> None:
    check_interpreter(environment, script)
    with pytest.raises(UserError, match=r"is not a Python interpreter: it ended with exit code 3 \(no\)"):
        check_interpreter(program(tmp_path / "bad", "#!/bin/sh\necho no >&2; exit 3\n"), script)
    with pytest.raises(UserError, match="is not a Python interpreter: it ended with exit code 0"):
        check_interpreter(program(tmp_path / "true", "#!/bin/sh\n"), script)
    with pytest.raises(UserError, match="cannot be run"):
        check_interpreter(program(tmp_path / "odd", "neither a script nor a program"), script)
    script.write_text("def no(:\n")
    with pytest.raises(UserError, match=r"mission.py: .* cannot parse it: SyntaxError"):
        check_interpreter(environment, script)


def test_the_command_line_refuses_before_anything_starts(script: Path, tmp_path: Path) -> None:
    arguments = ["fly", str(script), "--python", "./no/python", "--runs-dir", str(tmp_path / "runs")]
    result = CliRunner().invoke(build(["fly"]), arguments)
    assert isinstance(result.exception, UserError)
    assert "--python: " in str(result.exception)
    assert not (tmp_path / "runs").exists()


def test_a_mission_runs_in_its_interpreter(environment: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    mission = tmp_path / "say.py"
    mission.write_text("import os\nprint(os.environ['USED'])\n")
    process = MissionProcess([str(mission)], {}, lines.append, python=environment)
    try:
        while process.poll() is None:
            time.sleep(0.02)
        process.reason()  # waits for its last lines
    finally:
        process.stop()
    assert lines == ["mine"]


def test_scenarios_name_interpreters_of_their_scripts(environment: Path, script: Path) -> None:
    file = script.parent / "scenario.yaml"
    file.write_text("vehicles: [{mission: mission.py, python: env/bin/python}]\n")
    assert scenario_settings(file, Choices()).vehicles[0].python == environment
    file.write_text("vehicles: [{count: 2}]\nmission: mission.py\npython: env/bin/python\n")
    assert scenario_settings(file, Choices()).python == environment
    other = Path(sys.executable)
    assert scenario_settings(file, Choices(python=other)).python == other
    for text, words in (
        ("vehicles: [{mission: mission.py, python: env/no}]", "python: .*no such file"),
        ("vehicles: [{mission: mission.py}]\npython: env/bin/python", "which is not given"),
    ):
        file.write_text(text + "\n")
        with pytest.raises(UserError, match=words):
            scenario_settings(file, Choices())
