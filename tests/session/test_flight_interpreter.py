"""Missions in an interpreter of the user's own: found and checked before anything starts, and used."""

from __future__ import annotations

import ast
import sys
import time
from pathlib import Path

import pytest
from support.commands import run_command
from support.paths import MISSIONS

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.interpreter import check_interpreter, find_interpreter
from sitl_bridge.session.mission_file import check_mission_file, old_mavsdk
from sitl_bridge.session.mission_process import MissionProcess
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.settings import FlightOptions


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


MAVSDK_3 = """
import asyncio
from mavsdk import System

async def run():
    drone = System()
    await drone.connect("udpin://0.0.0.0:14540")

asyncio.run(run())
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (MAVSDK_3, 6),
        ("import mavsdk\ndrone = mavsdk.System(port=50051)\n", 2),
        ("from mavsdk.system import System as Drone\nDrone()\n", 2),
        ("from mavsdk import System\ndef f(s: System) -> None: ...\n", None),
        ("from mavsdk.asyncio.plugins.action import ActionAsync\n", None),
        ("from mavsdk.plugins.telemetry import FlightMode\n", None),
    ],
)
def test_a_line_that_only_mavsdk_3_understands_is_found(text: str, line: int | None) -> None:
    assert old_mavsdk(ast.parse(text)) == (line and (line, "mavsdk<4"))


def test_no_script_here_is_taken_for_one_of_mavsdk_3() -> None:
    scripts = sorted(MISSIONS.rglob("*.py"))
    assert len(scripts) > 10
    for script in scripts:
        assert old_mavsdk(ast.parse(script.read_text(encoding="utf-8"))) is None, script


def with_mavsdk(path: Path, version: str, package: str = "mavsdk") -> Path:
    """An interpreter that finds this version of MAVSDK first."""
    facts = path.parent / "site" / f"{package.replace('-', '_')}-{version}.dist-info" / "METADATA"
    facts.parent.mkdir(parents=True)
    facts.write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    return program(path, f'#!/bin/sh\nPYTHONPATH={path.parent / "site"} exec {sys.executable} "$@"\n')


def test_a_script_of_mavsdk_3_is_refused_with_the_commands_that_help_or_runs_in_its_environment(
    script: Path, tmp_path: Path
) -> None:
    script.write_text(MAVSDK_3)
    for python in (None, with_mavsdk(tmp_path / "four" / "python", "4.1.0")):
        with pytest.raises(UserError) as refused:
            check_mission_file(script, (), python)
        said = str(refused.value)
        assert f"{script}: line 6 needs mavsdk<4, and {python or 'this program'} has mavsdk 4." in said
        assert "python3 -m venv ~/mavsdk3" in said
        assert "~/mavsdk3/bin/pip install 'mavsdk<4'" in said
        assert f"sitl-bridge fly {script} --python ~/mavsdk3/bin/python" in said
        assert said.isprintable(), "line ends would be printed as escapes"
    check_mission_file(script, (), with_mavsdk(tmp_path / "three" / "python", "3.17.4"))


@pytest.mark.parametrize(
    "imports", ["from mavsdk_grpc import System\n", "import os\nimport mavsdk_grpc as mavsdk\n"]
)
def test_a_script_of_mavsdk_grpc_is_refused_with_the_commands_that_help_or_runs_in_its_environment(
    imports: str, script: Path, tmp_path: Path
) -> None:
    script.write_text(imports + "print(1)\n")
    with pytest.raises(UserError) as refused:
        check_mission_file(script, ())
    said = str(refused.value)
    line = imports.count("\n")
    assert f"{script}: line {line} needs mavsdk-grpc, and this program has no mavsdk-grpc; " in said
    assert "~/mavsdk3/bin/pip install 'mavsdk-grpc' &&" in said
    assert "--python ~/mavsdk3/bin/python" in said
    check_mission_file(script, (), with_mavsdk(tmp_path / "grpc" / "python", "4.0.5", "mavsdk-grpc"))


def test_a_failed_script_is_reported_by_its_error_and_line(tmp_path: Path) -> None:
    def reason(text: str) -> str:
        mission = tmp_path / "fails.py"
        mission.write_text(text)
        process = MissionProcess([str(mission)], {}, lambda _line: None)
        try:
            while process.poll() is None:
                time.sleep(0.02)
            return process.reason()
        finally:
            process.stop()

    assert reason(
        "def f():\n    raise TypeError('no such thing\\n  read the manual\\n  at home')\nf()\n"
    ) == ("the mission exited with 1: TypeError: no such thing (fails.py, line 2)")
    assert reason("import json\njson.loads('{')\n").startswith(
        "the mission exited with 1: json.decoder.JSONDecodeError: Expecting property name"
    )
    caught = (
        "import traceback\ntry: 1/0\nexcept Exception: traceback.print_exc()\nraise SystemExit('no fuel')\n"
    )
    assert reason(caught) == (
        "the mission exited with 1: ZeroDivisionError: division by zero (fails.py, line 2);"
        " its last line: no fuel"
    )
    assert reason("raise SystemExit('no fuel')\n") == "the mission exited with 1; its last line: no fuel"


def test_the_command_line_refuses_before_anything_starts(script: Path, tmp_path: Path) -> None:
    arguments = ["fly", str(script), "--python", "./no/python", "--runs-dir", str(tmp_path / "runs")]
    result = run_command(*arguments)
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
    assert scenario_settings(file, FlightOptions()).vehicles[0].python == environment
    file.write_text("vehicles: [{count: 2}]\nmission: mission.py\npython: env/bin/python\n")
    assert scenario_settings(file, FlightOptions()).python == environment
    other = Path(sys.executable)
    assert scenario_settings(file, FlightOptions(python=other)).python == other
    for text, words in (
        ("vehicles: [{mission: mission.py, python: env/no}]", "python: .*no such file"),
        ("vehicles: [{mission: mission.py}]\npython: env/bin/python", "which is not given"),
    ):
        file.write_text(text + "\n")
        with pytest.raises(UserError, match=words):
            scenario_settings(file, FlightOptions())
