"""The command line: help, checks, messages and exit codes."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from support.airframe_texts import spell_out
from support.paths import AIRFRAMES, MISSIONS, ROOT

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.kernel_cache import file_of
from sitl_bridge.base.kernels.numba_internals import Kernel
from sitl_bridge.base.system.signals import SIGNALS
from sitl_bridge.cli import demo, doctor
from sitl_bridge.cli.exit_codes import MEANINGS, ExitCode
from sitl_bridge.cli.facts import derive_facts
from sitl_bridge.cli.main import COMMANDS, main, module
from sitl_bridge.cli.warm import PARTS
from sitl_bridge.record.records import ROW
from sitl_bridge.record.truth_log import TruthLog
from sitl_bridge.session.settings import choose_autopilot


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The program within this process, which has loaded everything already."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(ROOT),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["sitl-bridge", *arguments])
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The program as a shell starts it."""
    command = [sys.executable, "-m", "sitl_bridge", *arguments]
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


def test_the_help_of_commands_loads_nothing_that_flies() -> None:
    source = f"import sys, {', '.join(map(module, COMMANDS))}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout
    assert not {"numba", "pydantic", "scipy", "yaml"} & set(loaded.split())


def test_the_help_of_a_flight_loads_nothing_that_flies() -> None:
    source = "import sys, sitl_bridge.cli.demo, sitl_bridge.cli.start; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout
    assert not {"numpy", "numba", "pydantic", "asyncio"} & set(loaded.split())


def test_the_version_is_shown() -> None:
    assert start("--version").stdout.strip() == metadata.version("sitl-bridge")


def test_a_mistake_ends_the_program_with_a_message_and_a_code() -> None:
    result = start("check", "irsi")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("sitl-bridge: no airframe, world or scenario is called 'irsi'")


def test_checking_an_airframe_tells_what_follows_for_people_and_for_machines() -> None:
    assert "hover throttle" in run("check", "iris").stdout
    facts = json.loads(run("check", "airframes/hector.yaml", "--json").stdout)
    assert facts["mass_kg"] == 1.477
    assert facts["px4_parameters"]["CA_ROTOR_COUNT"] == 4


def test_checking_an_airframe_lists_what_is_still_its_bases_and_what_no_longer_fits(tmp_path: Path) -> None:
    file = tmp_path / "light.yaml"
    file.write_text(
        'base: x500\nname: light\ndescription: a lighter one\nsources: {mass: "weighed"}\nmass: 1.2\n',
        encoding="utf-8",
    )
    facts = json.loads(run("check", str(file), "--json").stdout)
    assert facts["base"] == "x500"
    assert {"inertia", "rotors", "rotor_model", "battery", "sensors"} <= set(facts["still_from_the_base"])
    assert "mass" not in facts["still_from_the_base"]
    assert "mass changed, but inertia is still of x500, which weighs 1.708 kg" in facts["warnings"]
    factor, hover = (facts["px4_parameters"][name] for name in ("THR_MDL_FAC", "MPC_THR_HOVER"))
    throttle = facts["hover_throttle"]
    assert hover == pytest.approx(factor * throttle**2 + (1.0 - factor) * throttle, abs=0.001)
    assert f"MPC_THR_HOVER {hover:g}" in facts["hover_thrust"]
    assert f"THR_MDL_FAC {factor:g}" in facts["hover_thrust"]


def test_checking_what_is_no_yaml_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"hover\.py: a Python file is checked with the file that names it"):
        derive_facts(str(MISSIONS / "hover.py"))
    (tmp_path / "notes.txt").write_text("Wind: from the west: strong\n")
    with pytest.raises(UserError, match=r"line 1: is not YAML: mapping values"):
        derive_facts(str(tmp_path / "notes.txt"))


def test_checking_a_plan_tells_what_it_holds() -> None:
    facts = json.loads(run("check", "missions/survey.plan", "--json").stdout)
    assert facts["items"] > 10
    assert facts["rally_points"] >= 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("check", "unheard_of"), "no airframe, world or scenario is called 'unheard_of'"),
        (("check", "ware_house"), "did you mean 'warehouse'?"),
        (("check", "irsi"), "did you mean 'iris'?"),
        (("check", "none.plan"), "none.plan"),
        (("fly", "none.plan"), "none.plan"),
        (("fly",), "sitl-bridge start"),
        (("fly", "missions/square.plan", "--speed", "0"), "--speed"),
        (("fly", "missions/square.plan", "--wind", "gale"), "--wind"),
        (("fly", "missions/square.plan", "--wind", "turbulence=-3"), "cannot read 'turbulence=-3'"),
        (("fly", "missions/square.plan", "--px4", "/nonexistent"), "/nonexistent"),
        (("serve", "--on-stall", "panic"), "--on-stall"),
        (("fly", "missions/hover.py", "--autopilot", "builtin", "--controller", "le"), "did you mean 'lee'?"),
        (
            ("fly", "missions/hover.py", "--autopilot", "builtin", "--controller", "my.py:Own"),
            "my.py: no such",
        ),
        (("export", "none"), "none: cannot be read: No such file"),
        (("export", "pyproject.toml"), "pyproject.toml: cannot be read as a truth log"),
    ],
)
def test_what_the_user_can_mend_is_one_message_before_anything_starts(
    arguments: tuple[str, ...], told: str
) -> None:
    result = run(*arguments)  # a traceback would come as its exception
    assert result.returncode == 2
    assert told in result.stderr


def test_a_faulty_airframe_is_refused_with_every_fault(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    text = (AIRFRAMES / "iris.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("mass: 1.55", "mass: -1").replace("  friction: 0.8", "  frictoin: 0.8"))
    result = run("check", str(path))
    assert result.returncode == 2
    assert "mass" in result.stderr
    assert "did you mean `friction`?" in result.stderr


def test_a_sensor_mounted_turned_is_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "turned.yaml"
    text = spell_out("iris")
    path.write_text(text.replace("  - kind: imu", "  - kind: imu\n    rotation: [0, 0, 90]", 1))
    result = run("check", str(path), "--json")
    assert result.returncode == 0, result.stderr
    (warning,) = [text for text in json.loads(result.stdout)["warnings"] if "rotated" in text]
    assert "sensors.imu is rotated by 0, 0, 90 deg" in warning
    assert not any("turned" in text for text in json.loads(run("check", "iris", "--json").stdout)["warnings"])


def test_the_doctor_tells_a_package_that_is_absent_or_of_a_version_that_does_not_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str) -> str:
        if name == "pyulog":
            raise metadata.PackageNotFoundError
        return "1.0" if name == "mavsdk" else metadata.version(name)

    assert doctor.check_packages().grade == "ok"
    monkeypatch.setattr(doctor, "version", version)
    finding = doctor.check_packages()
    assert finding.grade == "missing"
    assert "pyulog is not installed" in finding.text
    assert "mavsdk 1.0 is installed, mavsdk" in finding.text


def test_nothing_is_compiled_ahead_where_it_cannot_be_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cache").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    done = run("warm")
    assert done.returncode == 2
    assert "compiled code cannot be kept: Not a directory; set XDG_CACHE_HOME" in done.stderr
    assert "compiling" not in done.stdout


WARMED = """
from sitl_bridge.base.kernels.numba_internals import Kernel
from sitl_bridge.base.shipped_files import shipped_names
from sitl_bridge.cli.warm import PARTS
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World

used, prepare = [], Kernel.compile
Kernel.compile = lambda kernel, types: used.append(kernel.py_func.__name__) or prepare(kernel, types)
PARTS[0].run()
ahead = set(used)
for name in shipped_names("airframes"):
    frame = load_airframe(name)
    Simulation(World(), [VehicleSetup(frame.vehicle(), frame.sensor_records())]).advance(1)
assert ahead, "kernels are noted"
assert not set(used) - ahead, set(used) - ahead
"""


def test_what_any_airframe_that_is_included_needs_is_compiled_ahead() -> None:
    """In a process of its own, in which no kernel is loaded."""
    done = subprocess.run([sys.executable, "-c", WARMED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_doctor_says_which_parts_are_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for part in PARTS:
        finding = doctor.check_kernels()
        assert finding.grade == "note"
        assert part.name in finding.text
        assert "sitl-bridge warm" in finding.text
        kernel = getattr(importlib.import_module(f"sitl_bridge.{part.module}"), part.kernel)
        assert isinstance(kernel, Kernel)
        code = file_of(kernel.py_func, "any types")
        assert tmp_path in code.parents
        code.parent.mkdir(parents=True, exist_ok=True)
        code.with_name(f"{part.kernel}-0123456789abcdef-01234567.nbc").touch()  # of other sources
        assert not part.cached
        code.touch()
        assert part.cached
    assert doctor.check_kernels().grade == "ok"


def test_the_doctor_does_not_ask_for_px4_where_the_built_in_stack_flies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PX4_DIR", raising=False)
    finding = doctor.check_px4()
    if finding.grade != "ok":  # /opt/px4 holds one
        assert finding.grade == "note"
        assert "built-in flight stack is used instead" in finding.text
    monkeypatch.setenv("PX4_DIR", str(tmp_path))
    assert doctor.check_px4().grade == "missing"


def test_the_doctor_says_taken_of_what_is_taken_and_whether_dockers_engine_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", free_port()))
        holder.listen()
        monkeypatch.setattr("sitl_bridge.link.hil.ports.FIRST_PORT", holder.getsockname()[1])
        finding = doctor.check_ports()[0]
    assert finding.grade == "taken"
    assert f"(pid {os.getpid()})" in finding.text
    user = "a running flight (pid 7, started 09:00:00)"
    monkeypatch.setattr("sitl_bridge.link.px4.px4_process.user_of_instance", lambda _: user)
    finding = doctor.check_instance()
    assert finding.grade == "taken"
    assert "in use by a running flight (pid 7" in finding.text
    assert "kill" not in finding.text
    client = tmp_path / "docker"
    for status, grade in ((0, "ok"), (1, "note")):
        client.write_text(f"#!/bin/sh\nexit {status}\n")
        client.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        assert doctor.check_docker().grade == grade


def test_the_doctor_names_what_it_looked_at() -> None:
    result = run("doctor", "--json")
    assert result.returncode in (0, 1)
    findings = json.loads(result.stdout)
    assert {"Python", "packages", "PX4"} <= {finding["subject"] for finding in findings}
    assert (result.returncode == 1) == any(finding["grade"] in ("missing", "taken") for finding in findings)


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
    text = (tmp_path / "files" / "px4-rc.simulator").read_text()
    assert "param set-default CA_ROTOR_COUNT 6" in text
    assert "param set-default PWM_MAIN_FUNC6 106" in text


def test_every_exit_code_has_a_meaning_and_is_what_the_program_returns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert set(MEANINGS) == set(ExitCode)
    assert {128 + number for number in SIGNALS} <= set(ExitCode)
    assert run("check", "iris").returncode == ExitCode.SUCCESS
    assert run("check", "irsi").returncode == ExitCode.USER_ERROR
    assert run("fly", "--no-such-option").returncode == ExitCode.USER_ERROR
    monkeypatch.setenv("PX4_DIR", str(tmp_path))
    assert run("doctor").returncode == ExitCode.FAILED

    def defect() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(doctor, "examine", defect)
    assert run("doctor").returncode == ExitCode.DEFECT


@pytest.mark.parametrize(
    ("words", "wanted"), [("sitl-bridge ser", "serve"), ("sitl-bridge fly --air", "--airframe")]
)
def test_a_shell_completes_commands_and_their_options(
    words: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_SITL_BRIDGE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert run().stdout.split() == [wanted]


def test_a_missing_mission_names_the_shipped_ones() -> None:
    result = run("fly", "squar.plan")
    assert result.returncode == ExitCode.USER_ERROR
    assert "no such mission file, did you mean 'square.plan'?" in result.stderr


@pytest.mark.parametrize("mission", ["square.plan", "missions/square.plan"])
def test_a_scenario_names_shipped_missions_from_any_directory(mission: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"vehicles: [{{airframe: iris, mission: {mission}}}]\n", encoding="utf-8")
    result = run("check", str(file))
    assert result.returncode == 0, result.stderr
    (tmp_path / "missions").mkdir()
    (tmp_path / "missions" / "square.plan").touch()
    assert (run("check", str(file)).returncode == 0) == (mission == "square.plan")  # one's own comes first


def test_the_demonstration_passes_options_on_to_fly() -> None:
    result = run("demo", "--no-such-option")
    assert result.returncode == ExitCode.USER_ERROR
    assert "No such option" in result.stderr
    assert "sitl-bridge demo --help" in result.stderr


def test_the_demonstration_says_what_is_next_and_how_to_fly_px4_where_it_is_not_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def flown(status: int, *options: str) -> str:
        class Command:
            def main(self, words: list[str], **_name: str) -> None:
                assert words[0] == "square.plan"
                assert "--autopilot" not in words
                raise SystemExit(status)

        monkeypatch.setattr("typer.main.get_command", lambda _app: Command())
        with pytest.raises(SystemExit):
            demo.demo([*options])
        return capsys.readouterr().out

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PX4_DIR", raising=False)
    monkeypatch.setattr("sys.argv", ["/a b/.venv/bin/sitl-bridge"])
    assert flown(1) == ""
    said = flown(0)
    assert "\n  '/a b/.venv/bin/sitl-bridge' start" in said
    assert "runs/latest/report.html" in said
    assert " start " in said
    assert ("demo --px4 DIR" in said) == (choose_autopilot().px4 is None)
    for options in (("--px4", "a b", "--seed", "2"), ("--seed", "2", "--px4=a b")):
        said = flown(0, *options)
        assert "not found" not in said
        named = f"--speed 1 {shlex.join(word for word in options if 'a b' in word or word == '--px4')} "
        assert named in said


def test_check_lists_the_effects_of_moving_air_and_no_top_speed_without_them(tmp_path: Path) -> None:
    facts = json.loads(run("check", "firefly", "--json").stdout)
    assert 15.0 < facts["top_speed_m_s"] < 30.0
    assert "vortex ring state" in facts["rotors_in_moving_air"]
    assert facts["not_modelled"] == ["hub pitching moment of the uneven inflow", "flapping"]
    bare = tmp_path / "bare.yaml"
    bare.write_text(
        "base: firefly\nname: bare\ndescription: RotorS law\nrotor_model: {inflow: none}\n", encoding="utf-8"
    )
    facts = json.loads(run("check", str(bare), "--json").stdout)
    assert facts["top_speed_m_s"] is None
    assert "translational lift" in facts["not_modelled"]
    assert any("no top speed follows" in text for text in facts["warnings"])


@pytest.mark.parametrize(
    ("name", "merit"), [("hector", 1.8), ("iris_gazebo", 0.11), ("typhoon_h480_gazebo", 0.14)]
)
def test_check_warns_of_a_figure_of_merit_that_no_propeller_has(name: str, merit: float) -> None:
    facts = json.loads(run("check", name, "--json").stdout)
    assert facts["figure_of_merit"] == pytest.approx(merit, rel=0.04)
    assert any("the figure of merit is" in text for text in facts["warnings"])


@pytest.mark.parametrize(("factor", "warnings"), [(1.0, 0), (1e3, 1), (1e7, 1)])
def test_check_warns_of_moments_of_inertia_in_another_unit(
    factor: float, warnings: int, tmp_path: Path
) -> None:
    xx, yy, zz = (factor * moment for moment in (0.029, 0.03, 0.055))
    moments = f"{{xx: {xx}, yy: {yy}, zz: {zz}, xy: 0, xz: 0, yz: 0}}"
    file = tmp_path / "mine.yaml"
    file.write_text(f"base: iris\nname: mine\ndescription: an iris\ninertia: {moments}\n", encoding="utf-8")
    found = derive_facts(str(file))["warnings"]
    assert sum("is it in another unit than kg m²?" in text for text in found) == warnings


def test_a_terminal_without_the_characters_of_a_unit_shows_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = start("check", "iris")
    assert (done.returncode, done.stderr) == (0, "")
    assert "kg/m?" in done.stdout


def test_check_prints_figures_with_their_units() -> None:
    shown = run("check", "iris").stdout
    for name in (
        "inertia, kg m²",
        "hover rotor speed, rad/s",
        "hover power, W",
        "endurance, min",
        "top speed, m/s",
    ):
        assert name in shown
