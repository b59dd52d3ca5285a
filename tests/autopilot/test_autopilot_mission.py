"""Missions: what is refused and why, and how the rest is flown by a point with a first-order lag."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.autopilot_point import ALTITUDE, Point, act, item, place
from support.paths import MISSIONS

from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.plan.plan_file import load_plan
from sitl_bridge.plan.plan_upload import MissionItem, fence_items, mission_items, rally_items

UNSUPPORTED_FRAME, UNSUPPORTED, NO_SPACE, INVALID = 2, 3, 4, 5  # MAV_MISSION_RESULT
WAYPOINT, LOITER_UNLIMITED, LOITER_TIME, RETURN, LAND, TAKEOFF, LOITER_TO_ALT = 16, 17, 19, 20, 21, 22, 31
DELAY, JUMP, SPEED, HOME, LAND_START = 93, 177, 178, 179, 189


def start(*items: MissionItem, **parameters: float) -> Point:
    """A vehicle that has armed and begun a mission."""
    point = Point(**parameters).ready()
    point.run(1.0)
    assert point.commander.set_mission(items) is None
    assert point.do(300, 0.0) == 0
    point.step()
    assert point.commander.mode is flight_modes.AUTO_MISSION
    return point


def finish(point: Point, limit: float = 300.0) -> Point:
    point.until(lambda: point.commander.flight.finished or not point.commander.armed, limit)
    return point


def passed(point: Point, north: float, east: float) -> float:
    """How near the vehicle came to a place."""
    trace = np.array(point.trace)
    return float(np.hypot(trace[:, 0] - north, trace[:, 1] - east).min())


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("bad", "result", "words"),
    [
        (item(1, 18, 5.0), UNSUPPORTED, "item 1: command 18 is not supported"),  # loiter turns
        (item(1, 82, 5.0), UNSUPPORTED, "item 1: command 82"),  # spline
        (act(1, 31_000), UNSUPPORTED, "item 1: command 31000"),
        (act(1, WAYPOINT), UNSUPPORTED, "item 1: command 16 is not supported in frame 2"),
        (MissionItem(1, 9, WAYPOINT), UNSUPPORTED_FRAME, "item 1: frame 9"),
        (MissionItem(1, 6, WAYPOINT, x=91.0, y=8.5, z=10.0), 10, "item 1: 91 is not a latitude"),
        (MissionItem(1, 6, WAYPOINT, x=math.nan, y=8.5, z=10.0), 10, "not a latitude"),
        (MissionItem(1, 6, WAYPOINT, x=47.4, y=181.0, z=10.0), 11, "not a longitude"),
        (MissionItem(1, 6, WAYPOINT, x=47.4, y=8.5, z=math.nan), 12, "altitude missing"),
        (MissionItem(5, 6, WAYPOINT, x=47.4, y=8.5, z=10.0), 13, "item 1 has the sequence number 5"),
        (act(1, 201, 7.0), 6, "region of interest"),
        # taken by the transfer, refused by the feasibility check
        (act(1, 112, 5.0), UNSUPPORTED, "item 2: unsupported command: 112"),  # condition delay
        (item(1, 84, 5.0), UNSUPPORTED, "VTOL"),
        (item(1, TAKEOFF, 5.0), INVALID, "takeoff not first waypoint item"),
        (act(1, JUMP, 7.0, 1.0), INVALID, "jump to item 8 of 2"),
    ],
)
def test_bad_items_are_refused_with_number_and_reason(bad: MissionItem, result: int, words: str) -> None:
    point = Point().ready()
    good = [item(0, WAYPOINT, 10.0)]
    assert point.commander.set_mission(good) is None
    fault = point.commander.set_mission([item(0, WAYPOINT), bad])
    assert fault is not None
    assert fault.result == result
    assert words in fault.reason
    assert fault.seq == 1
    assert point.commander.flight.items == tuple(good)  # the one before stays
    point.step()
    assert fault.reason in point.texts


def test_a_mission_that_begins_with_a_landing_or_a_take_off_below_home_is_refused() -> None:
    point = Point().ready()
    fault = point.commander.set_mission([item(0, LAND)])
    assert fault is not None
    assert "starts with landing" in fault.reason
    fault = point.commander.set_mission([item(0, TAKEOFF, height=0.0)])
    assert fault is not None
    assert "Takeoff altitude below home" in fault.reason


def test_more_items_than_can_be_stored_are_refused() -> None:
    fault = Point().ready().commander.set_mission([item(k, WAYPOINT, 0.1 * k) for k in range(501)])
    assert fault is not None
    assert fault.result == NO_SPACE


def test_a_first_waypoint_far_away_is_only_warned_of() -> None:
    point = Point(MIS_DIST_1WP=50.0).ready()
    point.run(0.2)
    assert point.commander.set_mission([item(0, WAYPOINT, 60.0)]) is None
    point.step()
    assert "First waypoint far away from home: 60m. Correct mission loaded?" in point.texts


def test_a_mission_that_leaves_the_fence_is_refused() -> None:
    point = Point().ready()
    point.run(0.2)
    circle = item(0, 5003, param1=30.0, mission_type=1)
    assert point.commander.set_fence([circle]) is None
    fault = point.commander.set_mission([item(0, TAKEOFF), item(1, WAYPOINT, 29.0), item(2, WAYPOINT, 31.0)])
    assert fault is not None
    assert (fault.seq, fault.result) == (2, INVALID)
    assert "Geofence violation for waypoint 3" in fault.reason
    point.parameters.set("GF_MAX_VER_DIST", 15.0)
    fault = point.commander.set_mission([item(0, WAYPOINT, height=20.0)])
    assert fault is not None
    assert "maximum altitude" in fault.reason


def test_a_fence_uploaded_later_makes_the_mission_unavailable() -> None:
    point = Point().ready()
    point.run(0.2)
    assert point.commander.set_mission([item(0, WAYPOINT, 50.0)]) is None
    assert point.commander.set_fence([item(0, 5003, param1=30.0, mission_type=1)]) is None
    assert point.do(300, 0.0) == 2  # MAV_RESULT_DENIED
    point.step()
    assert "Geofence violation for waypoint 1: approaching or outside geofence" in point.texts
    assert point.commander.set_fence([]) is None
    assert point.do(300, 0.0) == 0


def test_a_mission_uploaded_before_home_is_known_waits_for_it() -> None:
    point = Point()
    point.valid = 0
    point.run(0.5)
    assert point.commander.set_mission([item(0, WAYPOINT, 20.0)]) is None
    assert point.do(300, 0.0) == 2
    point.valid = Point().valid
    point.run(1.0)
    assert point.do(300, 0.0) == 0


def test_no_items_clear_the_mission() -> None:
    point = Point().ready()
    point.commander.set_mission([item(0, WAYPOINT, 20.0)])
    assert point.commander.set_mission([]) is None
    assert point.commander.flight.items == ()
    assert point.do(300, 0.0) == 2
    point.step()
    assert "Mission start denied! No valid mission" in point.texts


# ---------------------------------------------------------------------- flying


def test_a_square_is_flown_corner_by_corner_and_ends_in_hold() -> None:
    corners = [(30.0, 0.0), (30.0, 30.0), (0.0, 30.0), (0.0, 0.0)]
    point = start(item(0, TAKEOFF), *(item(k, WAYPOINT, *c) for k, c in enumerate(corners, 1)))
    finish(point)
    point.run(10.0)
    assert point.reached == [0, 1, 2, 3, 4]
    assert point.commander.mode is flight_modes.AUTO_LOITER
    assert point.commander.flight.current == 4
    for corner in corners:
        assert passed(point, *corner) <= 2.0  # NAV_ACC_RAD
    trace = np.array(point.trace)
    flown = trace[trace[:, 2] < -9.0]
    # between the corners it keeps to the sides, once it has come round
    inside = (flown[:, 0] > 5) & (flown[:, 0] < 25) & (flown[:, 1] > 5) & (flown[:, 1] < 25)
    assert not inside.any()
    assert point.position == pytest.approx((0.0, 0.0, -10.0), abs=0.2)
    assert "Mission finished, loitering" in point.texts


def test_corners_are_rounded_and_not_stopped_at() -> None:
    point = start(item(0, TAKEOFF), item(1, WAYPOINT, 40.0), item(2, WAYPOINT, 40.0, 40.0))
    point.until(lambda: point.commander.flight.current == 2, 60.0)
    # circle through a corner of 90 degrees at 2 m: r = 2 m, v = sqrt(0.5 * 3 m/s^2 * 2 m) = 1.7 m/s
    slowest = math.inf
    for _ in range(60):
        slowest = min(slowest, math.hypot(*point.velocity[:2]))
        point.step()
    assert slowest > 1.0


def test_a_straight_way_is_flown_through_without_slowing_down() -> None:
    point = start(item(0, TAKEOFF), *(item(k, WAYPOINT, 30.0 * k) for k in (1, 2, 3)))
    point.until(lambda: point.position[0] > 20.0, 60.0)
    slowest = math.inf
    while point.position[0] < 65.0:
        point.step()
        slowest = min(slowest, float(point.velocity[0]))
    assert slowest > 4.8


def test_a_waypoint_waits_its_time_and_for_its_heading() -> None:
    held = item(1, WAYPOINT, 20.0, param1=5.0, param4=-90.0)
    point = start(item(0, TAKEOFF), held, item(2, WAYPOINT, 20.0, 20.0))
    point.until(lambda: math.hypot(point.position[0] - 20.0, point.position[1]) < 2.0, 60.0)
    took = point.until(lambda: point.commander.flight.current == 2, 20.0)
    assert 5.0 <= took < 10.0
    assert math.degrees(point.yaw) == pytest.approx(-90.0, abs=12.0)  # MIS_YAW_ERR


def test_loiter_time_stays_and_loiter_unlimited_stays_for_good() -> None:
    point = start(item(0, TAKEOFF), item(1, LOITER_TIME, 20.0, param1=8.0), item(2, LOITER_UNLIMITED, 0.0))
    point.until(lambda: math.hypot(point.position[0] - 20.0, point.position[1]) < 2.0, 60.0)
    assert point.until(lambda: point.commander.flight.current == 2, 20.0) == pytest.approx(8.0, abs=0.3)
    point.run(60.0)
    assert point.commander.mode is flight_modes.AUTO_MISSION
    assert not point.commander.flight.finished
    assert point.position == pytest.approx((0.0, 0.0, -10.0), abs=0.1)


@pytest.mark.parametrize(("radius", "beside"), [(0.0, 82.0), (30.0, 32.0), (math.nan, 82.0)])
def test_loiter_to_altitude_changes_height_within_its_circle(radius: float, beside: float) -> None:
    # mission_block.cpp: NAV_ACC_RAD and the loiter radius from the place
    far = item(1, LOITER_TO_ALT, 200.0, height=30.0, param2=radius)
    point = start(item(0, TAKEOFF), far, item(2, WAYPOINT, 200.0, height=30.0))
    point.until(lambda: 1 in point.reached, 120.0)
    climbing = next(n for n, _, down in point.trace if -down > 10.7)
    assert 200.0 - climbing == pytest.approx(beside, abs=8.0)
    assert point.height == pytest.approx(30.0, abs=1.0)


def test_a_mission_along_the_ground_does_not_take_off() -> None:
    # As a rover's plan has it: MissionBase climbs to higher items only.
    point = start(item(0, WAYPOINT, 20.0, height=0.0), item(1, WAYPOINT, 20.0, 20.0, height=0.0))
    point.run(8.0)
    assert point.commander.mode.name == "Mission"
    assert point.height < 0.1
    assert point.reached == []
    point.until(lambda: not point.commander.armed, 10.0)  # COM_DISARM_PRFLT


def test_speed_changes_hold_for_what_follows() -> None:
    point = start(
        item(0, TAKEOFF),
        act(1, SPEED, 1.0, 3.0, -1.0),
        item(2, WAYPOINT, 50.0),
        act(3, SPEED, 1.0, 7.0, -1.0),
        item(4, WAYPOINT, 110.0),
    )
    top: dict[int, float] = {}
    while not point.commander.flight.finished:
        point.step()
        current = point.commander.flight.current
        top[current] = max(top.get(current, 0.0), math.hypot(*point.velocity[:2]))
    assert top[2] == pytest.approx(3.0, abs=0.1)
    assert top[4] == pytest.approx(7.0, abs=0.2)


def test_jumps_are_made_as_often_as_they_say() -> None:
    point = start(
        item(0, TAKEOFF),
        item(1, WAYPOINT, 10.0),
        item(2, WAYPOINT, 0.0),
        act(3, JUMP, 1.0, 2.0),
        item(4, LAND),
    )
    finish(point)
    assert point.reached == [0, 1, 2, 1, 2, 1, 2, 4]


def test_jumps_in_circles_end_in_a_return() -> None:
    point = start(item(0, TAKEOFF), act(1, JUMP, 2.0, -1.0), act(2, JUMP, 1.0, -1.0))
    point.until(lambda: point.commander.mode is flight_modes.AUTO_RTL, 60.0)
    assert any("jumps form an endless loop" in text for text in point.texts)


def test_a_delay_stops_at_the_waypoint_before() -> None:
    point = start(item(0, TAKEOFF), item(1, WAYPOINT, 30.0), act(2, DELAY, 6.0), item(3, WAYPOINT, 60.0))
    point.until(lambda: point.commander.flight.current == 2, 60.0)
    assert point.until(lambda: point.commander.flight.current == 3, 20.0) == pytest.approx(6.0, abs=0.1)
    assert point.position[0] == pytest.approx(30.0, abs=0.5)


@pytest.mark.parametrize(
    "command", [187, 200, 203, 205, 206, 211, 214, 530, 1000, 1001, 2000, 2001, 2500, 2501]
)
def test_cameras_gimbals_and_the_like_are_passed_over(command: int) -> None:
    point = start(item(0, TAKEOFF), act(1, command), item(2, WAYPOINT, 15.0))
    finish(point)
    assert point.reached == [0, 1, 2]


def test_the_nose_points_at_a_region_of_interest() -> None:
    interest = MissionItem(1, 6, 195, x=place(0.0, 60.0)[0], y=place(0.0, 60.0)[1], z=0.0)
    point = start(item(0, TAKEOFF), interest, item(2, WAYPOINT, 40.0), act(3, 197), item(4, WAYPOINT, 80.0))
    point.until(lambda: point.position[0] > 25.0, 60.0)
    towards = math.atan2(60.0 - point.position[1], -point.position[0])
    assert math.degrees(abs(math.remainder(point.yaw - towards, 2.0 * math.pi))) < 12.0
    finish(point)
    assert abs(math.degrees(point.yaw)) < 15.0


def test_home_can_be_set_by_an_item() -> None:
    point = start(item(0, TAKEOFF), item(1, WAYPOINT, 20.0), act(2, HOME, 1.0), item(3, WAYPOINT, 40.0))
    finish(point)
    home = point.commander.home
    assert home is not None
    assert home[0] == pytest.approx(place(20.0, 0.0)[0], abs=3e-5)


def test_landing_is_flown_to_at_height_and_disarms() -> None:
    point = start(item(0, TAKEOFF), item(1, WAYPOINT, 20.0), item(2, LAND, 40.0, 10.0, 0.0))
    finish(point)
    trace = np.array(point.trace)
    low = trace[(trace[:, 2] > -8.0) & (trace[:, 0] > 15.0)]
    assert np.hypot(low[:, 0] - 40.0, low[:, 1] - 10.0).max() < 2.1
    point.until(lambda: not point.commander.armed, 10.0)
    assert point.position == pytest.approx((40.0, 10.0, 0.0), abs=0.1)
    assert point.reached == [0, 1, 2]
    assert "Mission finished, landed" in point.texts


def test_a_mission_ends_in_a_return_where_it_asks_for_one() -> None:
    point = start(item(0, TAKEOFF), item(1, WAYPOINT, 30.0), act(2, RETURN))
    point.until(lambda: point.commander.mode is flight_modes.AUTO_RTL, 60.0)
    point.until(lambda: not point.commander.armed, 120.0)
    assert point.position == pytest.approx((0.0, 0.0, 0.0), abs=0.1)
    assert point.reached == [0, 1, 2]


def test_a_vehicle_on_the_ground_climbs_before_it_goes_to_a_waypoint() -> None:
    point = start(item(0, WAYPOINT, 30.0))
    point.until(lambda: point.commander.flight.finished, 60.0)
    trace = np.array(point.trace)
    low = trace[trace[:, 2] > -9.0]
    assert np.hypot(low[:, 0], low[:, 1]).max() < 0.5
    assert point.reached == [0]


def test_altitudes_above_sea_level_and_above_home_mean_the_same_place() -> None:
    latitude, longitude = place(20.0, 0.0)
    point = start(item(0, TAKEOFF), MissionItem(1, 5, WAYPOINT, x=latitude, y=longitude, z=ALTITUDE + 14.0))
    finish(point)
    point.run(5.0)
    assert point.height == pytest.approx(14.0, abs=0.1)


def test_the_acceptance_radius_of_an_item_counts() -> None:
    point = start(item(0, TAKEOFF), item(1, WAYPOINT, 40.0, param2=8.0), item(2, WAYPOINT, 40.0, 40.0))
    point.until(lambda: point.commander.flight.current == 2, 60.0)
    assert point.position[0] == pytest.approx(32.0, abs=0.5)


def test_an_item_that_does_not_go_on_by_itself_waits() -> None:
    point = start(item(0, TAKEOFF), item(1, WAYPOINT, 15.0, autocontinue=False), item(2, WAYPOINT, 30.0))
    point.run(40.0)
    assert point.commander.flight.current == 1
    assert point.position[0] == pytest.approx(15.0, abs=0.2)
    assert point.commander.flight.set_current(2)
    finish(point)
    assert point.reached[-1] == 2


# ---------------------------------------------------------------------- pausing and going on


def test_a_paused_mission_is_taken_up_where_it_was_left() -> None:
    point = start(item(0, TAKEOFF), *(item(k, WAYPOINT, 20.0 * k) for k in (1, 2, 3)), act(4, RETURN))
    point.until(lambda: point.commander.flight.current == 2, 60.0)
    assert point.do(176, 1.0, 4.0, 3.0) == 0
    point.run(10.0)
    held = point.position.copy()
    point.run(5.0)
    assert np.allclose(point.position, held, atol=0.1)
    assert point.commander.flight.current == 2
    assert point.do(176, 1.0, 4.0, 4.0) == 0
    point.until(lambda: point.commander.mode is flight_modes.AUTO_RTL, 60.0)
    assert point.reached == [0, 1, 2, 3, 4]


def test_the_current_item_can_be_chosen() -> None:
    point = start(item(0, TAKEOFF), *(item(k, WAYPOINT, 20.0 * k) for k in (1, 2, 3)))
    point.run(10.0)
    assert not point.commander.flight.set_current(4)
    assert point.do(224, 3.0) == 0
    finish(point)
    assert point.reached == [3]


def test_the_way_to_a_chosen_item_is_straight() -> None:
    places = ((20.0, 0.0), (20.0, 20.0), (0.0, 20.0))
    point = start(item(0, TAKEOFF), *(item(k, WAYPOINT, *places[k - 1], param1=1.0) for k in (1, 2, 3)))
    point.until(lambda: point.commander.flight.current == 3, 60.0)
    assert point.do(224, 1.0) == 0
    point.until(lambda: point.position[1] < 10.0, 20.0)
    assert point.position[0] == pytest.approx(20.0, abs=1.0)


def test_a_mission_flown_to_its_end_begins_anew_after_disarming() -> None:
    point = start(item(0, TAKEOFF), item(1, WAYPOINT, 10.0), item(2, LAND, 10.0, height=0.0))
    point.until(lambda: not point.commander.armed, 90.0)
    assert point.commander.flight.current == 2
    point.do(176, 1.0, 4.0, 4.0)
    point.run(0.2)
    point.do(400, 1.0)
    point.until(lambda: point.height > 5.0, 30.0)
    assert point.commander.flight.current < 2


def test_clearing_a_mission_in_flight_holds() -> None:
    point = start(item(0, TAKEOFF), item(1, WAYPOINT, 80.0))
    point.run(15.0)
    assert point.commander.set_mission([]) is None
    point.run(0.2)
    assert point.commander.mode is flight_modes.AUTO_LOITER


def test_a_new_mission_in_flight_is_begun() -> None:
    point = start(item(0, TAKEOFF), item(1, WAYPOINT, 80.0))
    point.run(15.0)
    assert point.commander.set_mission([item(0, WAYPOINT, 0.0, 30.0)]) is None
    finish(point)
    point.run(5.0)
    assert point.position == pytest.approx((0.0, 30.0, -10.0), abs=0.2)


# ---------------------------------------------------------------------- shipped plans


@pytest.mark.parametrize("name", ["square.plan", "survey.plan"])
def test_shipped_plans_fly_to_the_end(name: str) -> None:
    plan = load_plan(MISSIONS / name)
    point = Point().ready()
    point.run(1.0)
    assert point.commander.set_fence(fence_items(plan)) is None
    assert point.commander.plans.set_rally(rally_items(plan)) is None
    assert point.commander.set_mission(mission_items(plan)) is None
    assert point.do(400, 1.0) == 0
    assert point.do(176, 1.0, 4.0, 4.0) == 0
    point.until(lambda: not point.commander.armed, 300.0)
    assert point.reached == list(range(len(plan.items)))
    assert "Failsafe activated" not in point.texts
    assert point.position == pytest.approx((0.0, 0.0, 0.0), abs=0.2)


def test_parameters_that_are_not_set_mean_nothing() -> None:
    blank = item(1, WAYPOINT, 15.0, param1=math.nan, param2=math.nan, param3=math.nan)
    point = start(item(0, TAKEOFF, param1=math.nan), blank, act(2, DELAY, math.nan), item(3, WAYPOINT, 0.0))
    finish(point)
    assert point.reached == [0, 1, 2, 3]
