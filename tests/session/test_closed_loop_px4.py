"""Real PX4 with the sensors that see the scene: it stops in front of walls, and flies on without GPS."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from support.px4_flights import (
    SPEEDS,
    WITHOUT_GPS,
    approach_the_wall,
    fly_without_gps,
    follow_terrain,
    land_on_the_marker,
)

import sitl_bridge as sb
from sitl_bridge.base.rotations import heading
from sitl_bridge.link.px4.find import find_px4
from sitl_bridge.link.px4.given_parameters import build_parameters

pytestmark = [pytest.mark.px4, pytest.mark.timeout(1800)]


def test_collision_prevention_stops_it_from_twenty_speeds(tmp_path: Path) -> None:
    approach_the_wall("px4", tmp_path, SPEEDS)


@pytest.mark.parametrize("case", WITHOUT_GPS, ids=lambda case: case[0])
def test_it_hovers_and_flies_a_square_while_gps_is_jammed(
    case: tuple[str, float, float, int], tmp_path: Path
) -> None:
    fly_without_gps(case, "px4", tmp_path)


def test_it_has_its_heading_from_motion_capture_without_a_magnetometer(tmp_path: Path) -> None:
    capture = {"kind": "visual_odometry", "world_axes": True, "drift": 0.0, "yaw_drift": 0.0}
    removed = {"kind": "magnetometer", "remove": True}
    airframe = sb.Airframe.load("iris_rtk").changed(sensors=[removed, capture])
    with sb.Sitl(airframe, autopilot="px4", yaw=2.0, runs=tmp_path) as sitl:
        drone = sitl.vehicle
        drone.arm()
        drone.take_off(3.0)
        drone.go_to([4.0, -3.0, -3.0], yaw=-1.0)
        drone.run(5.0)
        assert math.dist(drone.position, (4.0, -3.0, -3.0)) < 0.3
        assert heading(*drone.attitude) == pytest.approx(-1.0, abs=0.05)


def test_it_follows_the_terrain_under_sticks_and_lands_on_it(tmp_path: Path) -> None:
    follow_terrain("px4", tmp_path)


def test_it_lands_on_a_marker_beside_the_plans_place(tmp_path: Path) -> None:
    known = build_parameters(find_px4().etc)
    if known is not None and "LTEST_MODE" not in known:
        pytest.skip("this PX4 has no landing target estimator")
    land_on_the_marker("px4", tmp_path)
