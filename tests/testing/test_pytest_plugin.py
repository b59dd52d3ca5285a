"""The pytest plug-in: what its fixtures fly, what a failing test prints, what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import psutil
import pytest
import yaml
from support.paths import DOCS, ROOT

import sitl_bridge as sb
import sitl_bridge.testing.flights
from sitl_bridge.session.instances import claim_instance

PLUGIN = ("-p", "sitl_bridge.testing.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture(scope="module", autouse=True)
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Loads what flies and reports: pytester forgets what is first imported within it, numba, too."""
    numba.njit(lambda: 0)()  # the compiler
    with sb.Sitl(["iris", "hector"], runs=tmp_path_factory.mktemp("loaded")) as fleet:
        fleet.arm()
        fleet.take_off(3)
        fleet.land()
        sitl_bridge.testing.flights.finish(fleet, "")


def test_one_vehicle_flies_within_the_test_and_statements_read_as_a_flight(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.wind("3@270")
        @pytest.mark.seed(4)
        def test_square(sitl):
            sitl.arm()
            sitl.take_off(4)
            sitl.go_to((8, 0, -5))
            sitl.run(3)
            assert sitl.armed and sitl.mode == "OFFBOARD" or sitl.mode == "Offboard"
            assert sitl.reached((8, 0, -5), within=1.0)
            assert sitl.within(1.5, of=(8, 0, -5))
            assert not sitl.reached((18, 0, -5), within=1.0)
            assert sitl.stayed_inside(north=(-2, 10), height=(-0.5, 6.5), speed=(0, 9))
            assert sitl.said("takeoff detected")
            assert sitl.url()
        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*UserError: url: this flight of the built-in stack is within*"])


def test_goto_returns_when_the_vehicle_has_stopped_or_at_a_fly_by_earlier(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import numpy as np

        def test_legs(sitl):
            sitl.arm()
            sitl.take_off(4)
            sitl.go_to((12, 0, -4), within=2.0, fly_by=True)
            assert np.linalg.norm(sitl.velocity) > 1.0
            sitl.go_to((0, 0, -4))
            assert np.linalg.norm(sitl.velocity) < 0.5
            sitl.land()
            assert sitl.landed_within(1.5)
        """
    )
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)


def test_a_failing_test_names_run_directory_summary_and_messages(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_far(sitl):
            sitl.arm()
            sitl.take_off(3)
            assert sitl.reached((50, 0, -5), within=1.0)

        def test_fine(sitl):
            sitl.run(1)
            assert sitl.stayed_inside(height=(-1, 1))
        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN, "--basetemp", str(pytester.path / "temp"))
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "*<NO: came within * m of (50.00, 0.00, -5.00) at * s*",
            "*run directory: *",
            "*summary: *summary.json",
            "*report: *report.html",
            "*verdict: failed",
            "*flown by the built-in flight stack, not PX4, seed 1",
            "*Takeoff detected",
        ]
    )
    end = next(n for n, line in enumerate(result.outlines) if "short test summary" in line)
    said = [line for line in result.outlines[:end] if "came within" in line]
    assert len(said) == 1, "one sentence; pytest's own list of failures repeats it, under CI=1 in full"
    kept = [path.parent.name for path in (pytester.path / "temp").rglob("summary.json")]
    assert [name.endswith("test_far") for name in kept] == [True]
    runs = [path for path in (pytester.path / "temp" / "sitl0").iterdir() if path.name != "latest"]
    assert len(runs) == 1


def test_a_fleet_keeps_apart_and_lands(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.airframe("iris", "hector", "iris")
        def test_three(fleet):
            fleet.arm()
            fleet.take_off(3)
            fleet.go_to([[4, 0, -3], [4, 5, -3], [4, 10, -3]])
            fleet.land()
            assert fleet.position.shape == (3, 3)
            assert fleet.kept_apart(3)
            assert not fleet.kept_apart(30)
            assert fleet.landed_within(1.5, of=[[4, 0], [4, 5], [4, 10]])
            assert not fleet["1"].landed_within(1.0)

        @pytest.mark.airframe("iris", "iris")
        def test_two(sitl):
            pass
        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*sitl is one vehicle, not 2; take the fixture fleet*"])


def test_faults_happen_in_the_tests_own_time_and_do_not_reach_the_next_test(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.faults({"at": 12.0, "kind": "motor_loss", "motor": 1})
        def test_motor(sitl):
            sitl.arm()
            sitl.take_off(10)
            assert sitl.time < 12.0
            sitl.run(8.0)
            assert sitl.position[2] > -8.0

        def test_next(sitl):
            sitl.arm()
            sitl.take_off(10)
            sitl.run(8.0)
            assert sitl.within(2.0, of=(0, 0, -10))

        @pytest.mark.faults({"at": 1.0, "kind": "motor_los", "motor": 1})
        def test_typing_error(sitl):
            pass

        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*faults*motor_loss*"])


def test_a_faulty_marker_is_an_error_of_its_test_alone_in_one_line(pytester: pytest.Pytester) -> None:
    wrong = {
        "seed('7')": "seed: '7' is not a whole number of 0 or more",
        "speed('x')": "speed: 'x' is not a number above 0",
        "airframe(3)": "airframe: 3 is neither a name, a file nor an Airframe",
        "airframe(name='x500')": "marker airframe: takes no names, not name=",
        "faults('x')": "faults: faults*0*: 'x' is neither of sb.faults nor an event as in a scenario",
        "faults(at=1, kind='motor_loss', motor=1)": "marker faults: takes no names, not at, kind, motor=",
        "parameters({'MPC_XY_CRUISE': 3})": "marker parameters: takes names, as in *",
        "parameters(MPC_XY_CRUISE='3')": "parameters: MPC_XY_CRUISE: '3' is not a number",
    }
    tests = "\n".join(
        f"@pytest.mark.{marker}\ndef test_{number}(sitl):\n    pass\n" for number, marker in enumerate(wrong)
    )
    first = "def test_sound(sitl):\n    sitl.arm()\n"
    pytester.makepyfile(f"import pytest\n\n{first}\n{tests}")
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(passed=1, errors=len(wrong))
    result.stdout.fnmatch_lines(list(wrong.values()))


def test_markers_of_faults_and_parameters_add_up(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        def wind(at, direction):
            return {"at": at, "kind": "wind_change", "wind": {"steady": {"speed": 5, "direction": direction}}}

        @pytest.mark.parameters(MPC_XY_VEL_MAX=2.0, MPC_Z_VEL_MAX_UP=1.0)
        @pytest.mark.faults(wind(1, 0))
        class TestSlow:
            @pytest.mark.parameters(MPC_XY_VEL_MAX=4.0)
            @pytest.mark.faults(wind(2, 90))
            def test_both(self, sitl):
                assert sitl.parameter("MPC_XY_VEL_MAX") == 4.0
                assert sitl.parameter("MPC_Z_VEL_MAX_UP") == 1.0
                sitl.run(1.5)
                assert sitl.wind.round().tolist() == [-5.0, 0.0, 0.0]
                sitl.run(1.0)
                assert sitl.wind.round().tolist() == [0.0, -5.0, 0.0]
        """
    )
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)


def test_an_overridden_world_and_the_marker_wind_go_together(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import sitl_bridge as sb

        @pytest.fixture
        def world():
            return sb.World(origin=(47.0, 8.0, 300.0))

        @pytest.mark.wind((0.0, 3.0, 0.0))
        def test_windy(sitl):
            sitl.run(1.0)
            assert sitl.stacks.settings.world.origin.altitude == 300.0
            assert abs(sitl.truth.wind[-1, 1] - 3.0) < 2.0
        """
    )
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)


def test_px4_that_is_not_there_skips_with_the_reason(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PX4_DIR", str(pytester.path / "nowhere"))
    pytester.makepyfile("def test_fly(sitl):\n    sitl.arm()\n")
    result = pytester.runpytest_inprocess(*PLUGIN, "--sitl-autopilot", "px4", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*needs PX4: *nowhere (PX4_DIR) does not exist*"])


@pytest.mark.timeout(900)
def test_the_template_flies(tmp_path: Path) -> None:
    """The example of docs, by the task of its editor: statements, faults, seeds, a MAVSDK program."""
    place = tmp_path / "flight-tests"
    shutil.copytree(DOCS / "examples" / "flight-tests", place)
    tasks = json.loads((place / ".vscode" / "tasks.json").read_text(encoding="utf-8"))["tasks"]
    (task,) = (task for task in tasks if task["group"] == {"kind": "test", "isDefault": True})
    command = [sys.executable, "-m", task["command"], *task["args"]]
    command += [*PLUGIN, "--basetemp", str(tmp_path / "temp")]
    root = Path(sb.__file__).parent.parent
    run = subprocess.run(
        command,
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "5 passed" in run.stdout
    assert len(list((place / "runs").rglob("summary.json"))) >= 4


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_template_flies_from_a_git_address_with_nothing_but_what_it_installs(tmp_path: Path) -> None:
    """The steps of its workflow, outside the checkout, where no index has the package."""
    place = tmp_path / "flight-tests"
    shutil.copytree(DOCS / "examples" / "flight-tests", place)
    workflow = yaml.safe_load((place / ".github/workflows/flight-tests.yml").read_text(encoding="utf-8"))
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    environment |= {
        "PATH": f"{tmp_path / 'venv' / 'bin'}:/usr/bin:/bin",
        "SITL_BRIDGE": f"sitl-bridge @ git+file://localhost{Path(sb.__file__).parent.parent}",
    }
    for step in workflow["jobs"]["built-in"]["steps"]:
        if "run" in step:
            command = ["sh", "-e", "-c", step["run"]]
            run = subprocess.run(
                command, cwd=place, env=environment, capture_output=True, text=True, check=False
            )
            assert run.returncode == 0, run.stdout + run.stderr
    assert "5 passed" in run.stdout


def test_ctrl_c_ends_the_processes_of_the_flight(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_interrupted(sitl):
            assert sitl.url().startswith("udpin://127.0.0.1:")
            raise KeyboardInterrupt
        """
    )
    before = set(psutil.Process().children(recursive=True))
    result = pytester.runpytest_inprocess(*PLUGIN, no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    left = set(psutil.Process().children(recursive=True)) - before
    assert [p.pid for p in left if p.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.slow
def test_workers_of_xdist_fly_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "test_side_by_side.py").write_text(
        "import pytest\n\n\n"
        "@pytest.mark.parametrize('height', [3, 4, 5, 6])\n"
        "def test_climb(sitl, height):\n"
        "    assert sitl.url()\n    sitl.arm()\n    sitl.take_off(height)\n"
        "    assert sitl.within(1.5, of=(0, 0, -height))\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", *PLUGIN, "-n", "2", "--sitl-runs", str(tmp_path / "runs")]
    environment = os.environ | {"PYTHONPATH": str(Path(sb.__file__).parent.parent)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "4 passed" in run.stdout, run.stdout + run.stderr
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["gw0", "gw1"]
    assert len(list((tmp_path / "runs").glob("gw?/*-test_climb*/summary.json"))) == 4


def test_a_compilation_is_reported_on_the_terminal_while_the_test_runs(tmp_path: Path) -> None:
    (tmp_path / "test_compiles.py").write_text(
        "import time\nfrom numba.core import event\n\n\n"
        "def test_compiles(sitl):\n"
        "    with event.trigger_event('numba:compile'):\n        time.sleep(2.0)\n",
        encoding="utf-8",
    )
    (tmp_path / "test_others.py").write_text(
        "import time\nfrom numba.core import event\n\n\n"
        "def test_compiles_what_is_no_part_of_flights():\n"
        "    with event.trigger_event('numba:compile'):\n        time.sleep(0.1)\n",
        encoding="utf-8",
    )
    environment = os.environ | {"PYTHONPATH": str(Path(sb.__file__).parent.parent)}
    command = [sys.executable, "-m", "pytest", *PLUGIN]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in run.stdout, run.stdout + run.stderr
    assert "\nsitl-bridge: compiling the simulation of flight tests, once for this version; " in run.stderr
    assert "\nsitl-bridge: compiled the simulation of flight tests: 1 kernel in 2 s\n" in run.stderr


def test_instances_differ_while_they_are_claimed() -> None:
    first, second = claim_instance(2), claim_instance(2)
    assert first.number != second.number
    first.release()
    third = claim_instance(2)
    assert third.number == first.number
    second.release()
    third.release()


def test_projects_that_do_not_fly_pay_nothing(pytester: pytest.Pytester) -> None:
    """Loading the plug-in loads no other module of the package, and neither numpy nor numba."""
    program = (
        "import sys, pytest; before = set(sys.modules); import sitl_bridge.testing.pytest_plugin;"
        "print(sorted(m for m in set(sys.modules) - before))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found.strip() == str(["sitl_bridge", "sitl_bridge.testing", "sitl_bridge.testing.pytest_plugin"])
    del pytester


def test_the_plug_in_is_announced_to_pytest() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '"sitl_bridge.testing.pytest_plugin" = "sitl_bridge.testing.pytest_plugin"' in text
