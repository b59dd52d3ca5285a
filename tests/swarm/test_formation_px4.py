"""Real PX4s in formation: nine in one world, steered by one program, as fast as it goes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from pyulog import ULog
from support.paths import MISSIONS

from sitl_bridge.link.px4.startup import LOGGED
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions

pytestmark = [pytest.mark.px4, pytest.mark.slow, pytest.mark.timeout(900)]

FILE = MISSIONS / "formation_cube.yaml"
INSTANCE = 11


def test_nine_take_off_fly_cube_pyramid_triangle_and_cube_on_their_way_and_land(tmp_path: Path) -> None:
    choices = FlightOptions(instance=INSTANCE, speed=math.inf, autopilot="px4", runs=tmp_path / "runs")
    said: list[str] = []
    with Session(scenario_settings(FILE, choices), said.append) as session:
        session.fly()
        states = session.simulation.states
        assert (states["impact_speed"] < 1.0).all()
        assert (states["position"][:, 2] > -0.5).all(), "not on the ground"
    outcome = session.conclude()
    told = "\n".join(said)
    print(told)
    assert outcome.succeeded, outcome.reason
    assert outcome.collision_count == 0
    assert told.count("landed and disarmed") == 9
    directory = session.directory.path / "formation"
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["patterns"] == ["cube", "pyramid", "triangle", "cube", "grid"]
    assert summary["worst_slot_error_steady_m"] < 0.5
    assert summary["true_worst_slot_error_steady_m"] < 0.5
    assert summary["least_separation_m"] > 1.0
    assert summary["true_least_separation_m"] > 1.0
    # PX4's estimators take the RTK fixes: centimetres from the truth, and nothing rejected.
    whole = json.loads((session.directory.path / "summary.json").read_text())
    for flight in (one["flight"] for one in whole["vehicles"].values()):
        assert flight["estimate_error"]["rms"] < 0.05
        assert all(not estimator["rejected"] for estimator in flight["estimators"])
    # Each has logged the topics of its list, and events, which PX4 always logs.
    logs = [ULog(str(path)) for path in sorted(session.directory.path.rglob("*.ulg"))]
    assert len(logs) == 9
    for log in logs:
        assert {"vehicle_attitude", "vehicle_local_position"} <= {data.name for data in log.data_list}
        assert {data.name for data in log.data_list} <= {*LOGGED, "event"}
