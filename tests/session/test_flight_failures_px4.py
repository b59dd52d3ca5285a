"""Every sensor failure PX4 can inject, in flight: the simulation goes on, also where PX4 stops answering.

PX4 makes these failures itself in its simulator module (SimulatorMavlink.cpp, MAV_CMD_INJECT_FAILURE).
"""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from support.paths import MISSIONS

from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.record.truth_log import read_truth
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions, FlightSettings
from sitl_bridge.session.started_run import Progress

pytestmark = pytest.mark.px4

INSTANCE = 27
SCRIPT = """
import asyncio, sys
from pathlib import Path
from mavsdk.asyncio.plugins.failure import FailureAsync
from mavsdk.plugins.failure import FailureType, FailureUnit
from sitl_bridge.session.missions.mission_script import command_line, run

async def fail(vehicle, options):
    await vehicle.wait_until_armable()
    await vehicle.arm()
    await vehicle.take_off(8.0)
    vehicle.say(f"injecting {options.unit} {options.type}")
    await FailureAsync(vehicle.system).inject(FailureUnit[options.unit], FailureType[options.type], 0)
    Path(options.injected).touch()
    async with asyncio.timeout(120.0):
        while not Path(options.done).exists():
            await asyncio.sleep(0.1)

parser = command_line(__doc__)
for name in ("unit", "type", "injected", "done"):
    parser.add_argument(name)
sys.exit(run(fail, parser))
"""
FAILURES = [
    ("SENSOR_GPS", "OFF"),
    *((f"SENSOR_{name}", kind) for name in ("ACCEL", "GYRO", "MAG", "BARO") for kind in ("OFF", "STUCK")),
]


def stack_of(session: Session) -> ChildProcess:
    stack = session.vehicles[0].flight_stack
    assert stack is not None
    return stack


@pytest.mark.parametrize(("unit", "kind"), FAILURES)
def test_the_simulation_goes_on_through_a_failure(unit: str, kind: str, tmp_path: Path) -> None:
    script = tmp_path / "fail.py"
    script.write_text(f'"""Injects a failure."""\n{SCRIPT}')
    injected, done = tmp_path / "injected", tmp_path / "done"
    options = FlightOptions(
        speed=4.0,
        autopilot="px4",
        instance=INSTANCE,
        runs=tmp_path / "runs",
        arguments=(unit, kind, str(injected), str(done)),
        time_limit=300.0,
    )
    begun: list[float] = []
    with Session(FlightSettings.from_mission(script, options)) as session:

        def end_after_5_s(progress: Progress) -> None:
            if injected.exists() and not begun:
                begun.append(progress.server.seconds)
            if begun and progress.server.seconds - begun[0] > 5.0:
                done.touch()

        session.fly(end_after_5_s)
        assert session.server.failure is None
    outcome = session.outcome_of(session.vehicles[0])
    assert outcome.succeeded, outcome.reason
    assert done.exists(), "time went on after the failure"
    console = (session.directory.path / "console.log").read_text(encoding="utf-8")
    assert re.search(rf"injecting {unit} {kind}", console)
    table = read_truth(session.directory.truth)
    assert np.all(np.diff(table["time"]) == 4000), "time went on step by step"
    assert table["position_down"].min() < -6.0, "it was in the air"
    assert np.all(np.isfinite(table["position_down"]))
    verdict = session.conclude().verdict
    assert verdict.succeeded, "what follows an injected failure is no fault of the flight"
    unanswered = [note for note in verdict.notes if "did not answer" in note]
    assert all("after an injected failure" in note for note in unanswered)
    if (unit, kind) == ("SENSOR_GYRO", "OFF"):
        assert unanswered, "its rate loop has stopped"


def test_the_flight_goes_on_after_px4_stood_still_for_5_s(tmp_path: Path) -> None:
    options = FlightOptions(speed=4.0, instance=INSTANCE, runs=tmp_path, autopilot="px4")
    stood: list[tuple[float, float]] = []
    with Session(FlightSettings.from_mission(MISSIONS / "hover.py", options)) as session:

        def stop_in_the_air(progress: Progress) -> None:
            if progress.server.position[0, 2] < -4.0 and not stood:
                os.kill(stack_of(session).pid, signal.SIGSTOP)
                time.sleep(0.2)  # what was under way has arrived
                begun = session.server.status().seconds
                time.sleep(4.8)
                stood.append((begun, session.server.status().seconds))
                os.kill(stack_of(session).pid, signal.SIGCONT)

        session.fly(stop_in_the_air)
        assert session.server.failure is None
    outcome = session.outcome_of(session.vehicles[0])
    assert outcome.succeeded, outcome.reason
    assert stood
    assert stood[0][1] - stood[0][0] < 0.5, "time stood still with it"
    flown = session.conclude()
    assert flown.succeeded, flown.reason
    assert any(
        "did not answer at" in note and "simulated time waited" in note for note in flown.verdict.notes
    )
    _, record = flown.vehicles[0]
    assert record is not None
    assert record.air_time > 30.0
    assert record.failsafes == []
    table = read_truth(session.directory.truth)
    assert np.all(np.diff(table["time"]) == 4000), "time went on step by step"
