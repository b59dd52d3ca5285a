"""Every shipped mission on real PX4 through the bridge, and what happens when something breaks on the way."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from support.paths import MISSIONS

from sitl_bridge.analysis.evaluation.flight_record import FlightRecord
from sitl_bridge.analysis.evaluation.summary import Outcome
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.link.hil.ports import offboard_port
from sitl_bridge.link.px4.startup import write_startup_files
from sitl_bridge.record.truth_log import read_truth
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions, FlightSettings

pytestmark = pytest.mark.px4

IN_SCENES = {"stick_approach.py"}
"""Need another vehicle and obstacles: test_closed_loop_px4.py flies them."""
FLOWN = [
    path for path in sorted([*MISSIONS.glob("*.plan"), *MISSIONS.glob("*.py")]) if path.name not in IN_SCENES
]
INSTANCE = 3
SPEED = 10.0


def settings(mission: Path, runs: Path, **changes: Any) -> FlightSettings:
    values: dict[str, Any] = {"speed": SPEED, "instance": INSTANCE, "runs": runs, "time_limit": 600.0}
    airframe = load_airframe(changes.pop("airframe", "iris"))
    return FlightSettings.from_mission(mission, FlightOptions(airframe=airframe, **(values | changes)))


def flown(mission: Path, runs: Path, **changes: Any) -> tuple[Outcome, FlightRecord | None, Session]:
    with Session(settings(mission, runs, **changes)) as session:
        session.fly()
    outcome, record = session.conclude().vehicles[0]
    return outcome, record, session


def left_behind(directory: Path) -> list[str]:
    """Processes that work in a run's directory."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(directory) in " ".join(process.cmdline()) or process.cwd().startswith(str(directory)):
                found.append(f"{process.pid} {process.name()}")
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("mission", FLOWN, ids=lambda path: path.name)
def test_every_shipped_mission_succeeds_with_a_healthy_estimator(mission: Path, tmp_path: Path) -> None:
    # A script of MAVSDK alone is told where its vehicle is.
    url = (f"udpin://0.0.0.0:{offboard_port(INSTANCE)}",) if mission.name == "plain_mavsdk.py" else ()
    outcome, record, session = flown(mission, tmp_path, arguments=url)
    assert outcome.succeeded, outcome.reason
    assert record is not None
    assert record.air_time > 15.0
    assert record.failsafes == []
    assert [failure for estimator in record.estimators for failure in estimator.failures] == []
    assert outcome.impact_speed < 1.5
    assert "Geofence invalid" not in (session.directory.path / "console.log").read_text()
    data = json.loads((session.directory.path / "summary.json").read_text())
    assert data["succeeded"] is True
    assert left_behind(tmp_path) == []


def test_a_parameter_that_does_not_reach_px4_ends_the_flight_on_the_ground_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_two(directory: Path, parameters: dict[str, int | float], **others: Any) -> Path:
        lost = ("RTL_TIME_MARGIN", "CA_ROTOR1_PX")
        return write_startup_files(
            directory, {n: v for n, v in parameters.items() if n not in lost}, **others
        )

    monkeypatch.setattr("sitl_bridge.link.px4.px4_process.write_startup_files", without_two)
    with Session(settings(MISSIONS / "square.plan", tmp_path, airframe="hector")) as session:
        assert not session.fly()
    outcome = session.conclude()
    assert re.match(r"2 of \d+ parameters did not reach PX4", outcome.reason)
    assert "RTL_TIME_MARGIN is 100, not" in outcome.reason
    assert "CA_ROTOR1_PX is -0.1515, not" in outcome.reason
    assert float(np.ptp(read_truth(session.directory.truth)["position_down"])) < 0.1, (
        "it stayed on the ground"
    )


def test_the_hover_stays_within_0_3_m_by_px4s_own_estimate(tmp_path: Path) -> None:
    outcome, record, _ = flown(MISSIONS / "hover.py", tmp_path, arguments=("--seconds", "60"))
    assert outcome.succeeded, outcome.reason
    assert record is not None
    assert record.deviations["hold"].max < 0.3
    assert record.deviations["hold"].seconds > 55.0


def test_the_height_of_a_take_off_holds_right_after_other_parameters(tmp_path: Path) -> None:
    script = tmp_path / "busy_parameters.py"
    script.write_text(
        "import sys\n"
        "from sitl_bridge.session.missions.mission_script import command_line, run\n"
        "async def fly(vehicle, options):\n"
        "    await vehicle.arm()\n"
        "    for height in range(20, 26):\n"
        "        await vehicle.action.set_return_to_launch_altitude(float(height))\n"
        "        await vehicle.sleep(0.1)\n"
        "    await vehicle.take_off(6.0)\n"
        "    await vehicle.land()\n"
        "sys.exit(run(fly, command_line(__doc__ or 'take-off')))\n"
    )
    outcome, record, _ = flown(script, tmp_path / "runs")
    assert outcome.succeeded, outcome.reason
    assert record is not None
    assert record.max_height == pytest.approx(6.0, abs=1.0)


def test_px4_takes_its_battery_from_the_simulation(tmp_path: Path) -> None:
    with Session(settings(MISSIONS / "hover.py", tmp_path)) as session:
        seen = []

        def look(progress: Any) -> None:
            if progress.vehicles[0].armed:
                seen.append((progress.vehicles[0].battery_voltage, float(progress.server.battery[0, 0])))

        session.fly(look)
    assert seen
    px4, true = seen[len(seen) // 2]
    assert px4 == pytest.approx(true, abs=0.3)


def test_a_px4_that_is_killed_in_flight_is_reported_with_its_log(tmp_path: Path) -> None:
    with Session(settings(MISSIONS / "hover.py", tmp_path)) as session:

        def kill_in_the_air(progress: Any) -> None:
            stack = session.vehicles[0].flight_stack
            if progress.server.position[0, 2] < -3.0 and stack is not None and stack.poll() is None:
                os.kill(stack.pid, signal.SIGKILL)

        assert not session.fly(kill_in_the_air)
        assert "PX4 was ended by SIGKILL" in session.outcome_of(session.vehicles[0]).reason
    _, record = session.conclude().vehicles[0]
    assert record is not None
    assert record.max_height > 1.0  # of 3 m: what PX4 had not written yet is lost
    assert left_behind(tmp_path) == []


def test_a_script_that_fails_is_reported_with_its_last_words(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text("raise SystemExit('the payload is missing')\n")
    outcome, _, _ = flown(script, tmp_path / "runs")
    assert not outcome.succeeded
    assert "the payload is missing" in outcome.reason
    assert left_behind(tmp_path) == []


def test_a_script_that_hangs_is_ended_by_the_time_limit(tmp_path: Path) -> None:
    script = tmp_path / "hanging.py"
    script.write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1000)\n"
    )
    outcome, _, _ = flown(script, tmp_path / "runs", time_limit=20.0)
    assert "the time limit of 20 s of simulated time has passed" in outcome.reason
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("seconds", [2.0, 4.0, 6.0])
def test_ctrl_c_leaves_nothing_behind(seconds: float, tmp_path: Path) -> None:
    options = ["--speed", "10", "--instance", str(INSTANCE), "--headless", "--runs-dir", str(tmp_path)]
    command = [sys.executable, "-m", "sitl_bridge.cli.main", "fly", str(MISSIONS / "hover.py"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20.0)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("speed", [1.0, SPEED])
def test_px4_is_ready_to_arm_within_15_s_of_its_start(speed: float, tmp_path: Path) -> None:
    """Its estimator drops out for 50 s where PX4 takes the first sample's time for a sampling interval."""
    script = tmp_path / "wait.py"
    script.write_text(
        "import sys\n"
        "from sitl_bridge.session.missions.mission_script import command_line, run\n"
        "async def wait(vehicle, options):\n"
        "    await vehicle.wait_until_armable(limit=40.0)\n"
        "    vehicle.say('armable')\n"
        "sys.exit(run(wait, command_line('Waits.')))\n"
    )
    for attempt in range(3):
        outcome, _, session = flown(script, tmp_path / str(attempt), speed=speed)
        assert outcome.succeeded, outcome.reason
        console = (session.directory.path / "console.log").read_text(encoding="utf-8")
        assert float(re.findall(r"\[ *([\d.]+) s\] armable", console)[0]) < 15.0


COMPANION = """
import asyncio
from mavsdk.asyncio import ComponentType, Configuration, Mavsdk
from mavsdk.asyncio.plugins.action import ActionAsync
from mavsdk.asyncio.plugins.telemetry import TelemetryAsync

async def fly():
    mavsdk = Mavsdk(Configuration.create_with_component_type(ComponentType.COMPANION_COMPUTER))
    await mavsdk.add_any_connection("udpin://127.0.0.1:14543")
    system = await mavsdk.first_autopilot(timeout_s=30)
    action, telemetry = ActionAsync(system), TelemetryAsync(system)
    async for healthy in telemetry.subscribe_health_all_ok():
        if healthy:
            break
    await action.arm()
    await action.takeoff()
    await asyncio.sleep(10.0)
    await action.land()
    async for armed in telemetry.subscribe_armed():
        if not armed:
            break

asyncio.run(fly())
"""


def test_a_companion_computer_that_beats_by_wall_time_is_not_missed_at_any_speed(tmp_path: Path) -> None:
    """From v1.18 on PX4 misses it after 5 s of its own clock, whatever its parameters: 22 times at 6.5 times
    real time before the heartbeats were repeated."""
    script = tmp_path / "companion.py"
    script.write_text(COMPANION)
    outcome, _, session = flown(script, tmp_path / "runs", speed=math.inf)
    print(f"{outcome.simulated_seconds / outcome.wall_seconds:.1f} x real time")
    assert outcome.succeeded, outcome.reason
    console = (session.directory.path / "console.log").read_text()
    assert "mission computer lost" not in console
