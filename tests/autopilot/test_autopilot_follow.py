"""Follow mode: beside a target that reports where it is, by PX4's parameters."""

from __future__ import annotations

import math

import pytest
from support.autopilot_point import ALTITUDE, Point, place

from sitl_bridge.autopilot.modes import flight_modes

SET_MODE = 176
FOLLOW = (1.0, 4.0, 8.0)


def follow(point: Point, seconds: float, speed: float = 0.0, every: float = 1.0) -> None:
    """The target drives north from 30 m north of home and reports itself."""
    begun = point.now
    reported = -math.inf
    while (point.now - begun) * 1e-6 < seconds:
        t = (point.now - begun) * 1e-6
        if t - reported >= every:
            reported = t
            where = (*place(30.0 + speed * t, 0.0), ALTITUDE)
            point.commander.follow.report(where, (speed, 0.0, 0.0), point.now)
        point.step()


def test_it_stays_while_nothing_is_heard_of_a_target() -> None:
    point = Point().airborne()
    assert point.do(SET_MODE, *FOLLOW) == 0
    point.run(5.0)
    assert point.commander.mode is flight_modes.AUTO_FOLLOW
    assert point.position == pytest.approx((0.0, 0.0, -10.0), abs=0.3)


@pytest.mark.parametrize(("angle", "north", "east"), [(180.0, -8.0, 0.0), (90.0, 0.0, 8.0), (0.0, 8.0, 0.0)])
def test_it_flies_beside_a_moving_target_at_the_angle_and_looks_at_it(
    angle: float, north: float, east: float
) -> None:
    point = Point(FLW_TGT_FA=angle).airborne()
    assert point.do(SET_MODE, *FOLLOW) == 0
    follow(point, 40.0, speed=3.0)
    target = 30.0 + 3.0 * 40.0
    assert point.position[0] - target == pytest.approx(north, abs=2.0)
    assert point.position[1] == pytest.approx(east, abs=1.0)
    assert point.height == pytest.approx(8.0, abs=0.5)  # FLW_TGT_HT over home
    to_target = math.atan2(-point.position[1], target - point.position[0])
    assert math.remainder(point.yaw - to_target, 2.0 * math.pi) == pytest.approx(0.0, abs=0.3)


def test_the_velocity_that_a_target_does_not_tell_is_estimated() -> None:
    point = Point().airborne()
    point.do(SET_MODE, *FOLLOW)
    for second in range(20):
        where = (*place(20.0 + 4.0 * second, 0.0), ALTITUDE)
        point.commander.follow.report(where, (math.nan, math.nan, math.nan), point.now)
        point.run(1.0)
    assert point.position[0] == pytest.approx(92.0, abs=1.0)  # PX4 v1.16.0 was at 92.0


def test_the_vehicle_comes_from_in_front_of_the_target_round_the_west_to_its_place_behind() -> None:
    point = Point().airborne()
    point.do(SET_MODE, *FOLLOW)
    follow(point, 5.0, speed=4.0)
    assert point.position[1] < -3.0  # PX4 v1.16.0: -5.6


def test_a_target_that_falls_silent_stands_still() -> None:
    point = Point().airborne()
    point.do(SET_MODE, *FOLLOW)
    follow(point, 20.0, speed=3.0)
    point.run(30.0)
    assert math.hypot(*point.velocity[:2]) < 0.1
    assert point.position[0] == pytest.approx(30.0 + 3.0 * (19.0 + 3.0) - 8.0, abs=3.0)


def test_the_height_follows_the_target_if_it_is_asked_to() -> None:
    point = Point(FLW_TGT_ALT_M=2.0, FLW_TGT_HT=12.0).airborne()
    point.do(SET_MODE, *FOLLOW)
    for _ in range(20):
        point.commander.follow.report((*place(20.0, 0.0), ALTITUDE + 6.0), (0.0, 0.0, 0.0), point.now)
        point.run(1.0)
    assert point.height == pytest.approx(18.0, abs=0.5)


def test_a_target_far_away_is_caught_up_with_at_the_greatest_speed() -> None:
    point = Point().airborne()
    point.do(SET_MODE, *FOLLOW)
    fastest = 0.0
    for _ in range(40):
        point.commander.follow.report((*place(100.0, 0.0), ALTITUDE), (0.0, 0.0, 0.0), point.now)
        point.run(0.5)
        fastest = max(fastest, math.hypot(*point.velocity[:2]))
    assert fastest == pytest.approx(12.0, abs=0.5)  # MPC_XY_VEL_MAX, not MPC_XY_CRUISE
    assert point.position[:2] == pytest.approx((92.0, 0.0), abs=1.0)
