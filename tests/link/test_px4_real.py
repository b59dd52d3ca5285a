"""The real PX4 takes what it is told, and is started and stopped without leaving anything behind."""

from __future__ import annotations

import math
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.link.hil.ports import FIRST_PORT
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.px4.airframe_parameters import DDS_CLOCK, Parameters, parameters_for
from sitl_bridge.link.px4.find import Px4Build, find_px4
from sitl_bridge.link.px4.given_parameters import build_parameters
from sitl_bridge.link.px4.px4_process import Px4Process, lock_file, require_free_instance, user_of_instance
from sitl_bridge.link.px4.startup import LOGGING, write_links_file
from sitl_bridge.link.px4.versions import not_everywhere, release, rename_for

pytestmark = pytest.mark.px4
INSTANCE = 11
WaitFor = Callable[..., None]


@pytest.fixture
def build() -> Px4Build:
    return find_px4()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[LockstepServer]:
    """A simulation of the airframe named by the parameter (the iris by default), served to the instance."""
    make: Callable[..., Simulation] = request.getfixturevalue("make_simulation")
    name = getattr(request, "param", "iris")
    served = LockstepServer(make(name), ports=[FIRST_PORT + INSTANCE], speed=math.inf)
    served.prepare()
    with served:
        yield served


def command(build: Px4Build, directory: Path, module: str, *words: str) -> str:
    """What the running PX4 answers to a command of its shell."""
    client = [str(build.root / "bin" / f"px4-{module}"), "--instance", str(INSTANCE), *words]
    return subprocess.run(client, capture_output=True, text=True, cwd=directory, timeout=20).stdout


def shown(build: Px4Build, name: str, directory: Path) -> float:
    """A parameter's value as the running PX4 has it."""
    return float(command(build, directory, "param", "show", "-q", name).split()[-1])


@pytest.mark.parametrize("server", ["ar100_x6"], indirect=True)
def test_running_px4_has_the_parameters_of_the_airframe(
    build: Px4Build, tmp_path: Path, wait_for: WaitFor, server: LockstepServer
) -> None:
    airframe: Airframe = load_airframe("ar100_x6")
    known = build_parameters(build.etc) or {}
    told: Parameters = rename_for(parameters_for(airframe, speed=math.inf), known)
    assert set(told) - set(known) <= not_everywhere() | {DDS_CLOCK}  # a build may lack the client
    with Px4Process(build, INSTANCE, tmp_path / "run", told) as px4:
        log = tmp_path / "run" / "console.log"
        # A stop within the start-up script makes PX4 report an error.
        done = ("Ready for takeoff", "Startup script returned successfully")
        wait_for(
            lambda: all(line in log.read_text() for line in done) or bool(px4.describe_end()),
            "PX4 to be ready",
        )
        assert px4.describe_end() == ""
        assert "not found" not in "".join(
            line for line in log.read_text().splitlines() if any(name in line for name in told)
        )
        # One of each kind: geometry, gains, defaults that the start script gives again later, time-outs.
        for name in (
            "CA_ROTOR_COUNT",
            "CA_ROTOR5_KM",
            "PWM_MAIN_FUNC6",
            "MC_ROLLRATE_K",
            "MPC_THR_HOVER",
            *({"EKF2_GPS_DELAY", "SENS_GPS0_DELAY", "FD_ACT_MOT_C2T", "MOTFAIL_OFF"} & set(known)),
            "EKF2_MULTI_IMU",
            "COM_DISARM_PRFLT",
            "MAV_TYPE",
        ):
            assert shown(build, name, tmp_path) == pytest.approx(told[name], abs=1e-4), name
        assert "not running" in command(build, tmp_path, "battery_simulator", "status")
        if (build.root / "bin" / "px4-failure_injection_manager").exists():
            assert "not running" not in command(build, tmp_path, "failure_injection_manager", "status")
        status = px4.stop()
    assert status == 0
    assert server.failure is None
    assert px4.ulogs()
    require_free_instance(INSTANCE)
    assert not lock_file(INSTANCE).exists()


def test_every_parameter_that_this_px4_removed_is_known_as_such(build: Px4Build) -> None:
    """Against the lists of all older builds of PX4_DIRS; names of DroneCAN devices are in lower case."""
    this, known = release(build.version), set(build_parameters(build.etc) or {})
    builds = [find_px4(Path(name)) for name in os.environ.get("PX4_DIRS", "").split(os.pathsep) if name]
    older = [other for other in builds if (release(other.version) or (99,)) < (this or ())]
    if not older:
        pytest.skip("PX4_DIRS names no older build")
    gone = {name for other in older for name in build_parameters(other.etc) or {} if name.isupper()} - known
    assert gone
    assert gone - not_everywhere() == set()


def test_every_change_to_px4s_own_scripts_finds_its_line(build: Px4Build, tmp_path: Path) -> None:
    assert write_links_file(tmp_path, build.etc, lean=True) == []
    assert "LOGGER_ARGS" in (build.etc / LOGGING).read_text(encoding="utf-8")


def test_px4_that_waits_for_a_simulator_is_stopped_with_its_start_script(
    build: Px4Build, tmp_path: Path, iris: Airframe, wait_for: WaitFor
) -> None:
    with Px4Process(build, INSTANCE, tmp_path / "run", parameters_for(iris)) as px4:
        wait_for(lambda: "Waiting for simulator" in px4.last_lines(), "PX4 to wait for a simulator")
        family = psutil.Process(px4.pid).children(recursive=True)
        assert family  # the shell of the start script
    _, alive = psutil.wait_procs(family, timeout=5.0)
    assert alive == []
    require_free_instance(INSTANCE)


def test_px4_without_its_simulator_is_killed(
    build: Px4Build, tmp_path: Path, iris: Airframe, wait_for: WaitFor, server: LockstepServer
) -> None:
    with Px4Process(build, INSTANCE, tmp_path / "run", parameters_for(iris)) as px4:
        log = tmp_path / "run" / "console.log"
        wait_for(lambda: "Ready for takeoff" in log.read_text(), "PX4 to be ready")
        server.close()
    assert px4.poll() is not None
    require_free_instance(INSTANCE)


def test_a_px4_that_runs_is_named_and_its_instance_is_free_after_its_end(
    build: Px4Build, tmp_path: Path, iris: Airframe, wait_for: WaitFor
) -> None:
    parameters = parameters_for(iris)
    with Px4Process(build, INSTANCE, tmp_path / "first", parameters) as first:
        wait_for(lambda: bool(user_of_instance(INSTANCE)), "PX4 to take its lock")
        with pytest.raises(UserError, match=rf"in use by px4 \(pid {first.pid}, "):
            Px4Process(build, INSTANCE, tmp_path / "second", parameters)
        os.kill(first.pid, signal.SIGKILL)
        wait_for(lambda: first.poll() is not None, "PX4 to end")
        assert "SIGKILL" in first.describe_end()
        require_free_instance(INSTANCE)


def test_unknown_airframe_number_ends_px4_with_its_reason(
    build: Px4Build, tmp_path: Path, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        __import__("sitl_bridge.link.px4.startup", fromlist=["SELECTION"]).SELECTION,
        "PX4_SYS_AUTOSTART",
        "31999",
    )
    with Px4Process(build, INSTANCE, tmp_path / "run", {}) as px4:
        wait_for(lambda: px4.poll() is not None, "PX4 to give up")
        console = tmp_path / "run" / "console.log"
        wait_for(lambda: "no autostart file found" in console.read_text(), "the console to be written")
        assert "exited with status" in px4.describe_end()
