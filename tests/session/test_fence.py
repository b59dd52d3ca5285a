"""A geofence beside what is flown: told before the start where it cannot be, in force before scripts fly."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from support.paths import MISSIONS

import sitl_bridge as sb
from sitl_bridge.analysis.evaluation.run_record import read_run
from sitl_bridge.analysis.report.flight_map import plan_outline
from sitl_bridge.api.in_process import FleetPool
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.cli.facts import derive_facts
from sitl_bridge.cli.options import StackOptions
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.world import Origin
from sitl_bridge.lab.campaign.flight_job import fly_here
from sitl_bridge.plan.plan import Plan
from sitl_bridge.plan.plan_file import load_fence
from sitl_bridge.session.running_session import SessionVehicles
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import Board, FlightOptions, FlightSettings

HOME = (47.397742, 8.545594)


@pytest.fixture
def fence(tmp_path: Path) -> Path:
    """A plan of QGroundControl with a circle of 20 m, and no mission."""
    circle = {"circle": {"center": [*HOME], "radius": 20.0}, "inclusion": True, "version": 1}
    data = {
        "fileType": "Plan",
        "version": 1,
        "mission": {"version": 2, "firmwareType": 12, "items": [], "plannedHomePosition": [*HOME, 488.0]},
        "geoFence": {"version": 2, "circles": [circle], "polygons": []},
        "rallyPoints": {"version": 2, "points": []},
    }
    file = tmp_path / "fence.plan"
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def test_check_says_what_it_is(fence: Path) -> None:
    facts = derive_facts(str(fence))
    assert "geofence without a mission" in facts["what"]
    assert (facts["items"], facts["fence_circles"]) == (0, 1)


def test_starts_and_plans_outside_are_told_before_the_start(fence: Path) -> None:
    options = StackOptions(fence=fence, autopilot="builtin").flight_options()
    FlightSettings.without_mission(options, 3).check()
    with pytest.raises(ConfigurationError, match="the start of vehicle 7 is outside the geofence"):
        FlightSettings.without_mission(options, 8).check()
    with pytest.raises(ConfigurationError, match=r"square\.plan: item 3 is outside the geofence"):
        FlightSettings.from_mission(MISSIONS / "square.plan", options).check()
    place = Origin(latitude=47.5, longitude=8.5, altitude=0.0)
    elsewhere = FlightOptions(fence=load_fence(fence), origin=place)
    with pytest.raises(ConfigurationError, match="the start of vehicle 0"):
        FlightSettings.without_mission(elsewhere).check()
    board = FlightOptions(fence=load_fence(fence), board=Board("udp:127.0.0.1:14600"))
    with pytest.raises(ConfigurationError, match="a board keeps its geofence"):
        FlightSettings.without_mission(board).check()


def test_a_script_flies_within_it(fence: Path, iris: Airframe, tmp_path: Path) -> None:
    lines: list[str] = []
    flown = sb.fly(
        MISSIONS / "offboard_square.py",
        airframe=iris,
        fence=fence,
        autopilot="builtin",
        arguments=["--side", "60"],
        instance=118,
        speed=math.inf,
        runs=tmp_path,
        notify=lines.append,
    )
    assert [line for line in lines if "the geofence is in force" in line]
    assert not flown.succeeded
    assert "eofence" in flown.reason + json.dumps(flown.summary)
    north, east = flown.truth.position[:, 0, :2].T
    assert math.hypot(max(abs(north)), max(abs(east))) < 40.0


def test_vehicles_wait_within_it(
    fence: Path, iris: Airframe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = FlightOptions(
        fence=load_fence(fence),
        airframe=iris,
        autopilot="builtin",
        instance=119,
        speed=math.inf,
        runs=tmp_path,
        time_limit=25.0,
    )
    given: list[tuple[int, int]] = []
    upload = SessionVehicles.upload

    def uploaded(self: SessionVehicles, vehicle: int, plan: Plan) -> None:
        given.append((vehicle, len(plan.circles)))
        upload(self, vehicle, plan)

    monkeypatch.setattr(SessionVehicles, "upload", uploaded)
    session = Session(FlightSettings.without_mission(options, 2))
    with session:
        session.fly()
    assert given == [(0, 1), (1, 1)]
    assert "time limit" in session.conclude().reason
    said = [message.text for vehicle in session.vehicles for message in vehicle.messages]
    assert not [text for text in said if "ground control station lost" in text]


def test_a_scenario_has_one_and_its_report_shows_it(fence: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "fenced.yaml"
    plan = {"airframe": "iris", "mission": str(MISSIONS / "campaigns" / "hop.plan"), "autopilot": "builtin"}
    scenario.write_text(json.dumps({"vehicles": [plan], "fence": fence.name}), encoding="utf-8")
    options = FlightOptions(runs=tmp_path, speed=math.inf)
    settings = scenario_settings(scenario, options)
    assert settings.fence is not None
    assert settings.fence.circles[0].radius == 20.0
    ((_, flown),) = settings.check()
    assert flown is not None
    run, verdict = fly_here(settings, [flown], FleetPool())
    assert verdict.succeeded, verdict
    (area,) = plan_outline(read_run(run.path))["fence"]
    assert max(north for north, _ in area["points"]) == pytest.approx(20.0, abs=0.1)
    assert len(plan_outline(run)["waypoints"]) > 1
    scenario.write_text(json.dumps({"vehicles": [plan], "fence": "none.plan"}), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"fence: .*none\.plan"):
        scenario_settings(scenario, options)


def test_a_flight_of_a_program_is_held_by_it(fence: Path, tmp_path: Path) -> None:
    with sb.Sitl("iris", fence=fence, parameters={"MPC_XY_VEL_MAX": 3.0}, runs=tmp_path) as sitl:
        sitl.arm()
        sitl.take_off(5.0)
        with pytest.raises(UserError, match="eofence"):
            sitl.go_to(north=60.0)
        assert abs(sitl.position[0]) < 30.0
    (area,) = plan_outline(read_run(sitl.stacks.directory))["fence"]
    assert area["inclusion"]
    with pytest.raises(ConfigurationError, match="the start of vehicle 0 is outside the geofence"):
        sb.Sitl("iris", fence=fence, positions=[[30.0, 0.0]])
