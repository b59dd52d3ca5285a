"""A flight from Python and from the command line: what is checked before it starts, and what is told."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from mavsdk.plugins.telemetry import FlightMode, LandedState
from support.made_up_px4 import make_build
from support.paths import MISSIONS
from support.standing_vehicle import Reports, standing_vehicle

from sitl_bridge.autopilot.parameters import Parameters
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.base.system.signals import delay_signals
from sitl_bridge.cli.flight_display import live_line
from sitl_bridge.cli.options import parse_speed
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import Origin, WorldSpecification
from sitl_bridge.link.hil.link_state import LinkState
from sitl_bridge.link.hil.link_status import LinkStatus, ServerStatus
from sitl_bridge.link.px4.vehicle_status import VehicleStatus
from sitl_bridge.session import run as run_module
from sitl_bridge.session.missions import mavsdk_vehicle as vehicle_module
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError, Vehicle
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions, FlightSettings
from sitl_bridge.session.started_run import Progress, StartedRun

SCRIPTS = sorted(path for path in MISSIONS.glob("*.py") if path.name != "plain_mavsdk.py")  # takes no options


@pytest.fixture
def px4_directory(tmp_path: Path) -> Path:
    """Looks like a PX4 build to the search for one."""
    return make_build(tmp_path, "#!/bin/sh\nexit 3\n")


def from_mission(mission: Path, airframe: Airframe, **options: Any) -> FlightSettings:
    return FlightSettings.from_mission(mission, FlightOptions(airframe=airframe, **options))


# ------------------------------------------------------------------ before anything starts


def test_all_faults_of_the_settings_are_told_at_once(iris: Airframe, tmp_path: Path) -> None:
    settings = from_mission(
        tmp_path / "none.plan",
        iris,
        seed=-1,
        speed=0.0,
        instance=255,
        px4=tmp_path / "nowhere",
        time_limit=-2.0,
    )
    with pytest.raises(ConfigurationError) as caught:
        settings.check()
    text = str(caught.value)
    for words in (
        "--seed",
        "--speed",
        "--instance",
        "no such mission file",
        "nowhere (--px4)",
        "--time-limit",
    ):
        assert words in text


def test_faults_inside_the_mission_are_told_before_px4_starts(
    iris: Airframe, px4_directory: Path, tmp_path: Path
) -> None:
    script = tmp_path / "broken.py"
    script.write_text("def fly(:\n")
    with pytest.raises(ConfigurationError, match="is not a Python program"):
        from_mission(script, iris, px4=px4_directory).check()
    plan = tmp_path / "broken.plan"
    plan.write_text('{"fileType": "Plan", "version": 1, "mission": {"version": 2, "items": []}}')
    with pytest.raises(ConfigurationError, match="is empty; add items"):
        from_mission(plan, iris, px4=px4_directory).check()
    other = tmp_path / "mission.txt"
    other.write_text("")
    with pytest.raises(ConfigurationError, match=r"\.plan of QGroundControl or a \.py"):
        from_mission(other, iris, px4=px4_directory).check()


def test_a_plan_for_another_place_is_refused_with_what_to_do(iris: Airframe, px4_directory: Path) -> None:
    world = WorldSpecification(origin=Origin(latitude=-35.363, longitude=149.165, altitude=584.0))
    settings = from_mission(MISSIONS / "square.plan", iris, world=world, px4=px4_directory)
    with pytest.raises(ConfigurationError, match=r"km from the world's origin.*--home"):
        settings.check()
    assert from_mission(MISSIONS / "square.plan", iris, px4=px4_directory).check()[0][1] is not None


def test_a_taken_port_is_named_before_anything_starts(
    iris: Airframe, px4_directory: Path, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 14540 + 9))
        settings = from_mission(
            MISSIONS / "hover.py", iris, px4=px4_directory, instance=9, runs=tmp_path / "runs"
        )
        with pytest.raises(UserError, match=r"UDP port 14549.*--instance"), Session(settings):
            pass
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("first", "link"), [(18570, "ground station"), (14580, "offboard"), (14280, "payload")]
)
def test_a_taken_port_of_the_built_in_stack_is_named_with_its_holder_before_anything_starts(
    iris: Airframe, tmp_path: Path, first: int, link: str
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", first + 79))
        settings = from_mission(
            MISSIONS / "hover.py", iris, autopilot="builtin", instance=79, runs=tmp_path / "runs"
        )
        told = rf"UDP port {first + 79}, the flight stack's {link} link, is taken by .*pid {os.getpid()}"
        with pytest.raises(UserError, match=told), Session(settings):
            pass
    assert not (tmp_path / "runs").exists()


def test_speeds_are_factors_or_max() -> None:
    assert parse_speed("max") == math.inf
    assert parse_speed("0.5") == 0.5
    for text in ("fast", "0", "-1", "nan", "inf", ""):
        with pytest.raises(UserError, match="--speed"):
            parse_speed(text)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own handling of Ctrl-C; a shell starts programs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_a_signal_inside_an_unbroken_block_comes_after_it() -> None:
    done = []

    def interrupted() -> None:
        with delay_signals():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("the block went on")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["the block went on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ------------------------------------------------------------------ the live line


def progress(*, connected: bool = True, **vehicle: object) -> Progress:
    state = LinkState.LOCKSTEP if connected else LinkState.DISCONNECTED
    link = LinkStatus(4560, state, 10, armed=False)
    server = ServerStatus(
        elapsed=12_300_000,
        steps=100,
        real_time_factor=19.9,
        paused=False,
        links=(link,),
        position=np.array([[1.0, -2.0, -5.0]]),
        velocity=np.array([[3.0, 4.0, 0.0]]),
        battery=np.array([[15.9, 12.0, 0.87]]),
    )
    return Progress(server, (VehicleStatus(heard=True, **vehicle),), (False,))  # type: ignore[arg-type]


def test_the_live_line_tells_what_a_pilot_wants_to_know() -> None:
    line = live_line(progress(mode="Hold", armed=True, waits_for=())).plain
    for words in ("12.3 s", "19.9 x", "Hold", "armed", "N 1.0 E -2.0 up 5.0 m", "5.0 m/s", "15.9 V", "87%"):
        assert words in line
    assert "waits" not in line


def test_the_live_line_tells_what_px4_waits_for_and_when_it_is_gone() -> None:
    assert "cannot arm yet: GPS fix too low" in live_line(progress(waits_for=("GPS fix too low",))).plain
    assert "flight stack disconnected" in live_line(progress(connected=False)).plain
    assert "no telemetry" in live_line(progress(silent=True)).plain


# ------------------------------------------------------------------ waiting for a vehicle


async def tick(vehicle: Vehicle, reports: Reports, seconds: float) -> None:
    await reports.attitude(vehicle.time + seconds)


def test_waiting_ends_on_the_vehicles_clock_and_says_for_what_it_waited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with standing_vehicle(monkeypatch) as (vehicle, reports):
            waiting = asyncio.create_task(vehicle.wait("the moon", lambda: False, 60.0, state=lambda: "half"))
            for _ in range(7):
                await tick(vehicle, reports, 10.0)
            with pytest.raises(
                MissionFailedError, match=r"waited 60 s .* for the moon; half .*Motor failure"
            ):
                await waiting

    asyncio.run(scenario())


def test_waiting_ends_when_px4_takes_over_or_disarms(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with standing_vehicle(monkeypatch) as (vehicle, reports):
            waiting = asyncio.create_task(vehicle.wait("x", lambda: False, 60.0, modes={FlightMode.HOLD}))
            await tick(vehicle, reports, 1.0)
            reports.mode = FlightMode.RETURN_TO_LAUNCH
            await tick(vehicle, reports, 1.0)
            with pytest.raises(
                MissionFailedError, match="the autopilot changed to RETURN_TO_LAUNCH, by itself or"
            ):
                await waiting
            waiting = asyncio.create_task(vehicle.wait("x", lambda: False, 60.0, must_stay_armed=True))
            await tick(vehicle, reports, 1.0)
            reports.is_armed = False
            await tick(vehicle, reports, 1.0)
            with pytest.raises(MissionFailedError, match="the autopilot disarmed"):
                await waiting

    asyncio.run(scenario())


def test_a_mode_that_is_not_reported_yet_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with standing_vehicle(monkeypatch) as (vehicle, reports):
            reports.mode = FlightMode.OFFBOARD  # of the phase before
            landed = asyncio.create_task(
                vehicle.wait("x", lambda: vehicle.time > 104.0, 60.0, modes={FlightMode.LAND})
            )
            await tick(vehicle, reports, 1.0)
            reports.mode = FlightMode.LAND
            for _ in range(4):
                await tick(vehicle, reports, 1.0)
            await landed

    asyncio.run(scenario())


def test_a_vehicle_whose_clock_stands_still_is_told_from_one_that_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vehicle_module, "SILENCE_LIMIT", 0.5)

    async def scenario() -> None:
        async with standing_vehicle(monkeypatch) as (vehicle, reports):
            waiting = asyncio.create_task(vehicle.wait("x", lambda: False, 60.0))
            for _ in range(12):
                await asyncio.sleep(0.06)
                await tick(vehicle, reports, 0.001)
            assert not waiting.done()
            with pytest.raises(MissionFailedError, match="has not advanced"):
                await waiting

    asyncio.run(scenario())


def test_a_program_that_stood_still_listens_before_the_vehicle_counts_as_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vehicle_module, "SILENCE_LIMIT", 0.2)
    monkeypatch.setattr(vehicle_module, "HEARING", 1.0)

    async def scenario() -> None:
        async with standing_vehicle(monkeypatch) as (vehicle, reports):
            waiting = asyncio.create_task(vehicle.wait("x", lambda: vehicle.time > 101.0, 60.0))
            await tick(vehicle, reports, 0.5)
            time.sleep(1.5)  # noqa: ASYNC251  (a breakpoint)
            for _ in range(5):  # telemetry comes later than the loop's timers
                await asyncio.sleep(0)
            await tick(vehicle, reports, 1.0)
            await waiting

    asyncio.run(scenario())


def test_lidar_odometry_over_level_ground_alone_is_noted() -> None:
    airframe = load_airframe("iris_lidar_odometry")
    (note,) = from_mission(MISSIONS / "hover.py", airframe).notes()
    assert "iris_lidar_odometry takes its position from lidar odometry" in note
    box = {"kind": "box", "position": [5, 0, -1], "size": [1, 1, 2]}
    world = WorldSpecification.model_validate({"scene": {"objects": [box]}})
    assert from_mission(MISSIONS / "hover.py", airframe, world=world).notes() == []
    assert from_mission(MISSIONS / "hover.py", load_airframe("iris_lidar")).notes() == []


def test_take_off_waits_until_px4_has_read_its_height(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with standing_vehicle(monkeypatch) as (vehicle, reports):
            reports.landed = LandedState.ON_GROUND
            requests: list[tuple[str, float]] = []

            async def set_takeoff_altitude(height: float) -> None:
                assert height == 10.0
                requests.append(("height", vehicle.time))

            async def takeoff() -> None:
                requests.append(("take-off", vehicle.time))

            vehicle.action = SimpleNamespace(set_takeoff_altitude=set_takeoff_altitude, takeoff=takeoff)
            flying = asyncio.create_task(vehicle.take_off(10.0))
            for _ in range(20):
                await tick(vehicle, reports, 0.1)
            flying.cancel()
            (first, set_at), (second, taken_off_at) = requests
            assert (first, second) == ("height", "take-off")
            assert taken_off_at - set_at > 1.05  # PX4's interval, and one of 20 Hz of its navigator

    asyncio.run(scenario())


# ------------------------------------------------------------------ scripts by themselves


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_mission_explains_itself(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    assert "udpin://127.0.0.1:14540" in done.stdout
    assert "SITL_BRIDGE_URL" in done.stdout


def run_hover(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(MISSIONS / "hover.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_mission_that_hears_no_vehicle_fails_and_says_where_it_listened() -> None:
    done = run_hover("udpin://127.0.0.1:15999", "--connect-limit", "0.3")
    assert done.returncode == 1
    assert "found no autopilot on udpin://127.0.0.1:15999" in done.stderr


def test_a_wrong_url_or_number_is_told_in_words() -> None:
    wrong_url = run_hover("udp//14540")
    assert wrong_url.returncode == 1
    assert "udpin://HOST:PORT" in wrong_url.stderr
    assert "Traceback" not in wrong_url.stderr
    wrong_number = run_hover("--height", "-3")
    assert wrong_number.returncode == 2
    assert "finite number above 0" in wrong_number.stderr


def test_a_faulty_plan_is_refused_before_a_vehicle_is_looked_for(tmp_path: Path) -> None:
    plan = tmp_path / "bad.plan"
    plan.write_text("{}")
    command = [sys.executable, "-m", "sitl_bridge", "mission", str(plan)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "bad.plan" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_built_in_stack_gives_its_reason_for_a_parameter_that_it_lacks() -> None:
    reason = "its estimator takes the sensors' settings from the airframe"
    with pytest.raises(UserError, match=f"has no parameter EKF2_EV_DELAY: {reason}"):
        Parameters().set("EKF2_EV_DELAY", 1.0)


@pytest.mark.parametrize(("mission", "told"), [(True, "PX4 has not answered for 60 s"), (False, "")])
def test_a_mission_ends_whose_flight_stack_answers_no_more(mission: bool, told: str) -> None:
    """Main of July 2026 goes silent for ever where a geofence terminates the flight."""
    stack = SimpleNamespace(describe_end=lambda: "")
    run = SimpleNamespace(
        vehicles=(SimpleNamespace(flight_stack=stack, autopilot=SimpleNamespace(name="PX4")),),
        server=SimpleNamespace(failure=None, running=True, ports=[4560]),
        settings=SimpleNamespace(time_limit=math.inf, has_mission=mission),
        begun=time.monotonic(),
        _answered=0.0,
    )

    def reason(seconds: float, *, stalled: bool) -> str:
        link = SimpleNamespace(connected=True, stalled=stalled)
        progress = SimpleNamespace(server=SimpleNamespace(links=[link], seconds=seconds, steps=1000))
        return StartedRun.failure(cast("Any", run), cast("Any", progress), 0.0)

    assert reason(100.0, stalled=False) == ""
    assert reason(159.0, stalled=True) == ""
    assert reason(161.0, stalled=True).startswith(told)
    assert bool(reason(161.0, stalled=True)) is mission
    assert reason(162.0, stalled=False) == ""
    assert reason(170.0, stalled=True) == ""


def test_an_interrupt_while_the_simulation_is_built_leaves_no_flight_to_conclude(
    iris: Airframe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_given: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "Simulation", interrupted)
    settings = from_mission(MISSIONS / "hover.py", iris, autopilot="builtin", instance=93, runs=tmp_path)
    session = Session(settings)
    with pytest.raises(KeyboardInterrupt), session:
        pytest.fail("it was not interrupted")
    assert not session.started
