"""Nine real PX4s in one world: one is killed in flight, one is stopped for five seconds, the rest go on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest
from support.paths import MISSIONS

from sitl_bridge.record.truth_log import read_truth
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions

pytestmark = pytest.mark.px4

INSTANCE = 30
HEIGHT = 6.0

SCENARIO = """
vehicles: [{{airframe: iris, count: 9, autopilot: px4, grid: {{spacing: 10, columns: 3}}}}]
mission: {script}
arguments: [--height, "6", --seconds, "30", --need, "7", --connect-limit, "120"]
events:
  - {{at: 20, kind: stack_killed, vehicles: [4]}}
  - {{at: 22, kind: stack_stopped, vehicles: [7], seconds: 5}}
time_limit: 600
"""


def test_of_nine_one_dies_and_one_stands_still_and_the_rest_hold_and_land(tmp_path: Path) -> None:
    file = tmp_path / "nine.yaml"
    file.write_text(SCENARIO.format(script=MISSIONS / "fleet_hover.py"))
    said: list[str] = []
    settings = scenario_settings(file, FlightOptions(instance=INSTANCE, speed=2.0, runs=tmp_path / "runs"))
    with Session(settings, said.append) as session:
        children = psutil.Process().children(recursive=True)
        succeeded = session.fly()
    outcome = session.conclude()
    told = "\n".join(said)
    print(f"{outcome.vehicles[0][0].simulated_seconds / outcome.vehicles[0][0].wall_seconds:.2f} x real time")
    assert succeeded, f"{outcome.reason}\n{told}"
    assert not any(child.is_running() for child in children), "nothing is left behind"
    assert "4: PX4 was ended by SIGKILL" in told
    assert f"port {4560 + INSTANCE + 7}: the flight stack does not answer for 1 s; the others fly on" in told
    assert outcome.collision_count == 0
    assert outcome.succeeded, "both were scheduled"
    assert any(n.startswith("7: the flight stack did not answer") for n in outcome.verdict.notes)

    table = read_truth(session.directory.truth)
    down = table["position_down"].reshape(-1, 9)
    time = table["time"].reshape(-1, 9)[:, 0] * 1e-6
    assert np.all(np.diff(time) == pytest.approx(0.004)), "time went on step by step"
    rest = [i for i in range(9) if i not in (4, 7)]
    stopped = (time > 22.0) & (time < 29.0)
    assert np.ptp(down[stopped][:, rest], axis=0).max() < 1.0, "the rest hold their height meanwhile"
    assert down[:, rest].min() == pytest.approx(-HEIGHT, abs=1.0)
    assert np.all(down[-1, rest] > -0.5), "they have landed"
    for i in rest:
        assert outcome.vehicles[i][0].impact_speed < 2.0
    assert outcome.vehicles[4][0].impact_speed > 2.0, "a vehicle without a flight stack falls"


def test_instances_from_ten_on_are_heard_on_a_port_each(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    script = tmp_path / "look.py"
    script.write_text(
        "import asyncio, sys\n"
        "from sitl_bridge.session.missions.fleet_script import connected, fleet_command_line, run_fleet\n"
        "async def look(members, options):\n"
        "    for member in members:\n"
        "        async with connected(member, 60.0) as vehicle:\n"
        "            print('heard', member.url, vehicle.system_id, flush=True)\n"
        "sys.exit(run_fleet(look, fleet_command_line(None)))\n"
    )
    file.write_text("vehicles: [{airframe: iris, count: 2, autopilot: px4}]\nmission: look.py\n")
    said: list[str] = []
    settings = scenario_settings(file, FlightOptions(instance=INSTANCE, runs=tmp_path / "runs"))
    with Session(settings, said.append) as session:
        assert session.fly()
    for instance in (INSTANCE, INSTANCE + 1):
        assert f"heard udpin://127.0.0.1:{15540 + instance} {instance + 1}" in said
