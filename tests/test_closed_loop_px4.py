"""Real PX4 with the sensors that see the scene: it stops in front of walls, and flies on without GPS."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from px4_flights import INSTANCE, MISSIONS, fly, follow_terrain, places

from sitl_bridge.files.airframe_file import load_airframe
from sitl_bridge.files.world_file import load_world
from sitl_bridge.px4.perception_parameters import reach
from sitl_bridge.record.truth_log import read_truth
from sitl_bridge.run.fleet_outcome import FleetOutcome
from sitl_bridge.run.flight_choices import Choices
from sitl_bridge.run.scenario_settings import scenario_settings
from sitl_bridge.run.session import FleetSession

pytestmark = [pytest.mark.px4, pytest.mark.timeout(1800)]

WALL = 30.0
"""m north of the start, missions/worlds/wall.yaml."""
SPEEDS = tuple(0.25 * k for k in range(1, 21))
"""m/s"""
HOLD = 40.0 + 15.0
"""s from the start of missions/without_gps*.yaml at which the hover begins: GPS is jammed at 40 s."""


def flown(scenario: str, runs: Path) -> tuple[FleetSession, FleetOutcome]:
    choices = Choices(speed=math.inf, runs=runs, autopilot="px4", instance=INSTANCE)
    with FleetSession(scenario_settings(MISSIONS / scenario, choices)) as session:
        session.fly_fleet()
    return session, session.conclude_fleet()


def test_collision_prevention_stops_it_from_twenty_speeds(tmp_path: Path) -> None:
    outcome, _, session = fly(
        MISSIONS / "stick_approach.py",
        tmp_path,
        "iris_scanner",
        world=load_world(MISSIONS / "worlds" / "wall.yaml"),
        arguments=("--speeds", *(f"{speed:g}" for speed in SPEEDS)),
        speed=math.inf,
        time_limit=2000.0,
    )
    assert outcome.succeeded, outcome.reason
    truth = read_truth(session.directory.truth)
    nearest = WALL - float(truth["position_north"].max()) - reach(load_airframe("iris_scanner"))
    print(f"nearest {nearest:.2f} m, fastest {float(truth['velocity_north'].max()):.2f} m/s")
    assert nearest > 0.3
    # At 5 m/s of stick, PX4 slows down on the way: 4.6 to 4.8 m/s were measured.
    assert float(truth["velocity_north"].max()) > 4.5


@pytest.mark.parametrize(
    ("scenario", "limit", "side", "axes"),
    [
        ("without_gps.yaml", 0.5, 10.0, 3),
        ("without_gps_flow.yaml", 1.5, 10.0, 3),  # flow measures velocity alone
        ("without_gps_lidar.yaml", 0.5, 4.0, 3),
    ],
)
def test_it_hovers_and_flies_a_square_while_gps_is_jammed(
    scenario: str, limit: float, side: float, axes: int, tmp_path: Path
) -> None:
    session, outcome = flown(scenario, tmp_path)
    assert outcome.succeeded, outcome.reason
    truth = read_truth(session.directory.truth)
    seconds = (truth["time"] - truth["time"][0]) * 1e-6
    hover = places(truth[(seconds > HOLD) & (seconds < HOLD + 60.0)])
    off = float(np.linalg.norm((hover - hover[0])[:, :axes], axis=1).max())
    print(f"{off:.2f} m off in a minute")
    assert off < limit
    square = places(truth[seconds > HOLD + 60.0])
    for corner in [(side, 0.0), (side, side), (0.0, side), (0.0, 0.0)]:
        assert np.linalg.norm(square[:, :2] - hover[0, :2] - corner, axis=1).min() < 1.0


def test_it_follows_the_terrain_under_sticks_and_lands_on_it(tmp_path: Path) -> None:
    follow_terrain("px4", tmp_path)


def test_it_finds_a_way_past_objects_that_move_into_its_own(tmp_path: Path) -> None:
    _, outcome = flown("replan.yaml", tmp_path)
    assert outcome.succeeded, outcome.reason
    (vehicle, _), *_ = outcome.vehicles
    assert not vehicle.contacts


def test_it_lands_on_a_marker_beside_the_plans_place(tmp_path: Path) -> None:
    outcome, _, session = fly(MISSIONS / "land_on_marker.plan", tmp_path, "iris_marker", seed=2)
    assert outcome.succeeded, outcome.reason
    landed = places(read_truth(session.directory.truth))[-1, :2]
    print(f"{math.dist(landed, (10.0, 5.0)):.2f} m off the marker")
    assert math.dist(landed, (10.0, 5.0)) < 0.3
