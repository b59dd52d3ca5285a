"""Real PX4 with the sensors that see the scene: it stops in front of walls, and flies on without GPS."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.px4_flights import (
    SPEEDS,
    WITHOUT_GPS,
    approach_the_wall,
    fly_scenario,
    fly_without_gps,
    follow_terrain,
    land_on_the_marker,
)

from sitl_bridge.link.px4.airframe_parameters import build_parameters
from sitl_bridge.link.px4.find import find_px4

pytestmark = [pytest.mark.px4, pytest.mark.timeout(1800)]


def test_collision_prevention_stops_it_from_twenty_speeds(tmp_path: Path) -> None:
    approach_the_wall("px4", tmp_path, SPEEDS)


@pytest.mark.parametrize("case", WITHOUT_GPS, ids=lambda case: case[0])
def test_it_hovers_and_flies_a_square_while_gps_is_jammed(
    case: tuple[str, float, float, int], tmp_path: Path
) -> None:
    fly_without_gps(case, "px4", tmp_path)


def test_it_follows_the_terrain_under_sticks_and_lands_on_it(tmp_path: Path) -> None:
    follow_terrain("px4", tmp_path)


def test_it_finds_a_way_past_objects_that_move_into_its_own(tmp_path: Path) -> None:
    _, outcome = fly_scenario("replan.yaml", "px4", tmp_path)
    assert outcome.succeeded, outcome.reason
    (vehicle, _), *_ = outcome.vehicles
    assert not vehicle.contacts


def test_it_lands_on_a_marker_beside_the_plans_place(tmp_path: Path) -> None:
    known = build_parameters(find_px4().etc)
    if known is not None and "LTEST_MODE" not in known:
        pytest.skip("this PX4 has no landing target estimator")
    land_on_the_marker("px4", tmp_path)
