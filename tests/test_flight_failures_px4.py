"""Every sensor failure PX4 can inject, in flight: the simulation goes on, also where PX4 stops answering.

PX4 makes these failures itself in its simulator module (SimulatorMavlink.cpp, MAV_CMD_INJECT_FAILURE).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sitl_bridge.config.airframe import load_airframe
from sitl_bridge.flight.session import FlightSession, FlightSettings
from sitl_bridge.record.truth_log import read_truth

pytestmark = pytest.mark.px4

INSTANCE = 7
SCRIPT = """
import asyncio, sys
from mavsdk.asyncio.plugins.failure import FailureAsync
from mavsdk.plugins.failure import FailureType, FailureUnit
from sitl_bridge.flight.script import command_line, run

async def fail(vehicle, options):
    await vehicle.wait_until_armable()
    await vehicle.arm()
    await vehicle.take_off(8.0)
    vehicle.say(f"injecting {options.unit} {options.type}")
    await FailureAsync(vehicle.system).inject(FailureUnit[options.unit], FailureType[options.type], 0)
    await asyncio.sleep(8.0)

parser = command_line(__doc__)
parser.add_argument("unit")
parser.add_argument("type")
sys.exit(run(fail, parser))
"""
FAILURES = [
    ("SENSOR_GPS", "OFF"),
    *((f"SENSOR_{name}", kind) for name in ("ACCEL", "GYRO", "MAG", "BARO") for kind in ("OFF", "STUCK")),
]


@pytest.mark.parametrize(("unit", "kind"), FAILURES)
def test_the_simulation_goes_on_through_a_failure(unit: str, kind: str, tmp_path: Path) -> None:
    script = tmp_path / "fail.py"
    script.write_text(f'"""Injects a failure."""\n{SCRIPT}')
    settings = FlightSettings(
        script,
        load_airframe("iris"),
        speed=4.0,
        instance=INSTANCE,
        runs=tmp_path / "runs",
        arguments=(unit, kind),
        time_limit=300.0,
    )
    with FlightSession(settings) as session:
        outcome = session.fly()
        assert session.server.failure is None
    assert outcome.succeeded, outcome.reason
    console = (session.directory.path / "console.log").read_text(encoding="utf-8")
    said = re.search(rf"\[ *([\d.]+) s\] injecting {unit} {kind}", console)
    assert said is not None
    table = read_truth(session.directory.truth)
    assert np.all(np.diff(table["time"]) == 4000), "time went on step by step"
    assert table["position_down"].min() < -6.0, "it was in the air"
    after = table["time"][-1] * 1e-6 - float(said[1])
    # 8 s of wall time less 1 s of patience, at real time where PX4 is silent; half of that on a busy machine.
    assert after > 3.5, "time went on after the failure"
    assert np.all(np.isfinite(table["position_down"]))
