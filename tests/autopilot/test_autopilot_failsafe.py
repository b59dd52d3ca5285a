"""What happens when something is lost: links, batteries, estimates, the fence; and the way home."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.autopilot_point import ALL_VALID, ALTITUDE, PERIOD, Point, act, item, place

from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.commander_data import OffboardTarget
from sitl_bridge.autopilot.modes import flight_modes

SET_MODE, ARM, REPOSITION, RETURN = 176, 400, 192, 20
VERTEX_IN, VERTEX_OUT, CIRCLE_IN, CIRCLE_OUT = 5001, 5002, 5003, 5004


def at(point: Point, north: float, east: float, height: float = 10.0) -> Point:
    """Flown to a place."""
    latitude, longitude = place(north, east)
    assert point.do(REPOSITION, math.nan, 1.0, at={5: latitude, 6: longitude, 7: ALTITUDE + height}) == 0
    point.run(5.0)
    point.until(
        lambda: math.dist(point.position, (north, east, -height)) < 0.5 and math.hypot(*point.velocity) < 0.2,
        90.0,
    )
    return point


def sticks(point: Point, seconds: float) -> None:
    for _ in range(round(seconds * 1e6 / PERIOD)):
        point.commander.manual_control(0.0, 0.0, 0.5, 0.0, point.now)
        point.step()


def streaming(point: Point) -> Point:
    """In Offboard mode, holding."""
    for k in range(20):
        point.commander.offboard(OffboardTarget(velocity=(0.0, 0.0, 0.0), yaw=0.0), point.now)
        if k == 10:
            assert point.do(SET_MODE, 1.0, 6.0, 0.0) == 0
        point.step()
    assert point.commander.mode is flight_modes.OFFBOARD
    return point


# ---------------------------------------------------------------------- links


def test_a_lost_ground_station_changes_nothing_by_default() -> None:
    point = Point().airborne()
    point.commander.set_mission([item(0, 16, 60.0)])
    point.do(300, 0.0)
    point.run(2.0)
    point.station = False
    point.run(15.0)
    assert point.commander.failsafe is None
    assert point.commander.mode in (flight_modes.AUTO_MISSION, flight_modes.AUTO_LOITER)
    assert "Connection to ground control station lost" in point.texts


def test_a_lost_ground_station_returns_where_it_is_told_to() -> None:
    point = at(Point(NAV_DLL_ACT=2).airborne(), 30.0, 0.0)
    point.station = False
    # COM_DL_LOSS_T 10 s, then COM_FAIL_ACT_T 5 s of hold
    assert point.until(lambda: point.commander.failsafe is not None, 20.0) == pytest.approx(10.0, abs=1.1)
    assert point.commander.mode is flight_modes.AUTO_LOITER
    assert point.commander.failsafe == "GCS connection loss"
    assert point.until(lambda: point.commander.mode is flight_modes.AUTO_RTL, 20.0) == pytest.approx(
        5.0, abs=0.2
    )
    assert "GCS connection loss: switching to RTL in 5 seconds" in point.texts
    point.until(lambda: not point.commander.armed, 120.0)
    assert math.hypot(*point.position[:2]) < 0.2


def test_a_ground_station_that_must_be_there_is_waited_for() -> None:
    point = Point(NAV_DLL_ACT=2)
    point.station = False
    point.run(0.5)
    assert point.commander.arming_problems == ("No connection to the ground control station",)


def test_manual_control_that_was_there_and_is_lost_returns() -> None:
    point = Point()
    sticks(point, 0.5)
    point.do(22)
    point.do(ARM, 1.0)
    sticks(point, 20.0)
    # COM_RC_LOSS_T 0.5 s and COM_FAIL_ACT_T 5 s
    assert point.until(lambda: point.commander.mode is flight_modes.AUTO_RTL, 10.0) == pytest.approx(
        5.5, abs=0.3
    )
    assert point.commander.failsafe == "Manual control loss"


def test_manual_control_that_never_was_is_not_missed() -> None:
    point = Point().airborne()
    point.run(10.0)
    assert point.commander.failsafe is None


def test_manual_control_loss_can_be_excepted() -> None:
    point = Point(COM_RCL_EXCEPT=2)  # hold and take-off
    sticks(point, 0.5)
    point.do(22)
    point.do(ARM, 1.0)
    sticks(point, 20.0)
    point.run(15.0)
    assert point.commander.failsafe is None


def test_a_pilot_takes_over_from_a_failsafe_by_a_mode() -> None:
    point = at(Point(NAV_DLL_ACT=2).airborne(), 30.0, 0.0)
    point.station = False
    point.until(lambda: point.commander.mode is flight_modes.AUTO_RTL, 30.0)
    assert point.do(SET_MODE, 1.0, 4.0, 3.0) == 0
    point.run(5.0)
    assert point.commander.mode is flight_modes.AUTO_LOITER


@pytest.mark.parametrize(
    ("action", "mode"),
    [
        (3, flight_modes.AUTO_RTL),
        (4, flight_modes.AUTO_LAND),
        (5, flight_modes.AUTO_LOITER),
        (6, flight_modes.TERMINATION),
        (0, flight_modes.POSITION_CONTROL),
    ],
)
def test_lost_offboard_setpoints_are_answered_as_told(action: int, mode: flight_modes.Mode) -> None:
    point = streaming(Point(COM_OBL_RC_ACT=action).airborne())
    # COM_OF_LOSS_T
    assert point.until(lambda: point.commander.mode is not flight_modes.OFFBOARD, 5.0) == pytest.approx(
        1.0, abs=0.15
    )
    assert point.commander.mode is mode
    assert point.commander.failsafe == "Offboard control signal lost"


def test_position_mode_without_sticks_descends_and_lands() -> None:
    point = streaming(Point().airborne())
    point.run(1.5)
    assert point.commander.mode is flight_modes.POSITION_CONTROL
    point.run(3.0)
    assert point.velocity[2] == pytest.approx(0.7, abs=0.05)  # MPC_LAND_SPEED
    sticks(point, 3.0)
    held = point.position.copy()
    sticks(point, 10.0)
    assert np.allclose(point.position, held, atol=0.2)
    point.until(lambda: not point.commander.armed, 30.0)


def test_offboard_goes_on_when_the_setpoints_come_back() -> None:
    point = streaming(Point(COM_OBL_RC_ACT=5).airborne())
    point.run(2.0)
    assert point.commander.mode is flight_modes.AUTO_LOITER
    point.commander.offboard(OffboardTarget(velocity=(0.0, 0.0, 0.0)), point.now)
    point.run(0.1)
    assert point.commander.mode is flight_modes.OFFBOARD


# ---------------------------------------------------------------------- battery


def test_the_battery_is_warned_of_then_returned_for_then_landed_for() -> None:
    point = at(Point().airborne(), 30.0, 0.0)  # COM_LOW_BAT_ACT 3
    point.commander.battery(14.0, 10.0, 0.14, point.now)
    point.run(8.0)
    assert point.commander.mode is flight_modes.AUTO_LOITER
    assert "Low battery level, return advised" in point.texts
    point.commander.battery(13.5, 10.0, 0.069, point.now)
    assert point.until(lambda: point.commander.mode is flight_modes.AUTO_RTL, 10.0) == pytest.approx(
        5.0, abs=0.2
    )
    assert point.commander.failsafe == "Critical battery level"
    point.commander.battery(13.0, 10.0, 0.049, point.now)
    point.until(lambda: point.commander.mode is flight_modes.AUTO_LAND, 10.0)
    point.until(lambda: not point.commander.armed, 60.0)


def test_a_battery_does_not_recover_in_flight() -> None:
    point = at(Point().airborne(), 30.0, 0.0)
    point.commander.battery(13.5, 10.0, 0.069, point.now)
    point.run(6.0)
    point.commander.battery(15.5, 1.0, 0.5, point.now)
    point.run(2.0)
    assert point.commander.mode is flight_modes.AUTO_RTL


def test_a_battery_level_that_it_armed_with_only_warns_and_a_worse_one_lands() -> None:
    """PX4 v1.16 failsafe.cpp, checkStateAndMode: an action needs a warning worse than the one at arming."""
    point = Point(COM_ARM_BAT_MIN=0.05).ready()
    point.commander.battery(14.0, 1.0, 0.06, point.now)  # critical
    point.run(0.2)
    point.airborne()
    point.run(10.0)
    assert point.commander.mode is flight_modes.AUTO_LOITER
    assert point.commander.failsafe is None
    point.commander.battery(13.0, 10.0, 0.049, point.now)  # emergency
    point.until(lambda: point.commander.mode is flight_modes.AUTO_LAND, 10.0)


def test_the_battery_may_only_warn() -> None:
    point = Point(COM_LOW_BAT_ACT=0).airborne()
    point.commander.battery(13.0, 10.0, 0.04, point.now)
    point.run(10.0)
    assert point.commander.mode is flight_modes.AUTO_LOITER
    assert "Emergency battery level, land immediately" in point.texts


# ---------------------------------------------------------------------- estimates


def test_a_lost_position_lands_while_the_velocity_is_known() -> None:
    point = at(Point().airborne(), 20.0, 0.0)
    point.valid = ALL_VALID & ~(records.POSITION | records.GLOBAL)
    point.run(0.2)
    assert point.commander.mode is flight_modes.AUTO_LAND
    assert np.isnan(point.setpoint["position"]).all()
    assert point.setpoint["velocity"][:2] == pytest.approx((0.0, 0.0))
    point.until(lambda: not point.commander.armed, 60.0)
    assert point.commander.landed_state == 1


def test_a_lost_velocity_descends_level() -> None:
    point = at(Point().airborne(), 20.0, 0.0)
    point.valid = records.ATTITUDE | records.HEADING | records.HEIGHT
    point.run(0.2)
    assert point.commander.mode is flight_modes.DESCEND
    assert point.setpoint["acceleration"][:2] == pytest.approx((0.0, 0.0))
    assert point.setpoint["velocity"][2] == pytest.approx(0.7)  # MPC_LAND_SPEED
    point.until(lambda: not point.commander.armed, 60.0)


def test_a_lost_height_as_well_sinks_gently() -> None:
    point = Point().airborne()
    point.valid = records.ATTITUDE | records.HEADING
    point.run(0.2)
    assert point.commander.mode is flight_modes.DESCEND
    assert np.isnan(point.setpoint["velocity"]).all()
    assert point.setpoint["acceleration"] == pytest.approx((0.0, 0.0, 0.3))


@pytest.mark.parametrize("height", [2.5, 30.0])
def test_a_blind_descent_ends_on_the_ground_with_the_motors_off(height: float) -> None:
    point = Point().airborne(height)
    point.valid = records.ATTITUDE | records.HEADING
    # Falling at 0.3 m/s^2, and sinking at MPC_LAND_SPEED, 0.7 m/s.
    due = math.sqrt(2.0 * height / 0.3) + height / 0.7
    point.run(due - 0.5)
    assert point.commander.armed
    assert point.height < 0.1
    assert point.setpoint["acceleration"][2] == pytest.approx(0.3)
    # Two seconds to let the thrust go, 8 s without it, two stages of landing, COM_DISARM_LAND 2 s.
    point.until(lambda: not point.commander.armed, 14.0)


def test_without_an_attitude_it_terminates() -> None:
    point = Point().airborne()
    point.valid = 0
    point.run(0.2)
    assert point.commander.mode is flight_modes.TERMINATION
    assert point.setpoint["level"] == records.OFF


def test_a_position_that_comes_back_lets_the_mission_go_on() -> None:
    point = Point().airborne()
    point.commander.set_mission([item(0, 16, 60.0)])
    point.do(300, 0.0)
    point.run(3.0)
    point.valid = ALL_VALID & ~(records.POSITION | records.GLOBAL)
    point.run(1.0)
    assert point.commander.mode is flight_modes.AUTO_LAND
    point.valid = ALL_VALID
    point.run(0.2)
    assert point.commander.mode is flight_modes.AUTO_MISSION


def test_a_lost_position_in_position_mode_falls_back_to_altitude_mode() -> None:
    point = Point().airborne()
    sticks(point, 0.2)
    assert point.do(SET_MODE, 1.0, 3.0, 0.0) == 0
    sticks(point, 0.2)
    point.valid = records.ATTITUDE | records.HEADING | records.HEIGHT
    sticks(point, 0.2)
    assert point.commander.mode is flight_modes.ALTITUDE_CONTROL
    point.valid = records.ATTITUDE | records.HEADING
    sticks(point, 0.2)
    assert point.commander.mode is flight_modes.STABILIZED


def test_a_jump_of_the_estimate_does_not_make_the_vehicle_jump() -> None:
    point = at(Point().airborne(), 20.0, 0.0)
    point.position += (4.0, 0.0, 0.0)
    jumped = float(point.position[0])
    point.estimate["resets"] += 1
    point.step()
    assert point.setpoint["position"][0] == pytest.approx(jumped, abs=0.05)


# ---------------------------------------------------------------------- attitude, motors, time


def test_an_attitude_failure_after_take_off_disarms_and_later_warns() -> None:
    point = Point().ready()
    point.do(22)
    point.do(ARM, 1.0)
    point.run(2.0)
    point.roll = math.radians(70.0)  # FD_FAIL_R 60 deg for 0.3 s
    assert point.until(lambda: not point.commander.armed, 2.0) == pytest.approx(0.35, abs=0.1)
    point = Point().airborne()
    point.roll = math.radians(70.0)
    point.run(1.0)
    assert point.commander.armed  # CBRK_FLIGHTTERM
    assert "Failsafe warning: Attitude failure detected" in point.texts


def test_an_attitude_failure_terminates_where_the_circuit_breaker_is_off() -> None:
    point = Point(CBRK_FLIGHTTERM=0).airborne()
    point.roll = math.radians(70.0)
    point.run(1.0)
    assert point.commander.mode is flight_modes.TERMINATION


def test_a_failed_motor_is_answered_as_told() -> None:
    point = Point(COM_ACT_FAIL_ACT=2).airborne()
    assert point.do(420, 101.0, 1.0, 2.0) == 0
    assert point.commander.failures == {"motor": {2: "off"}}
    point.until(lambda: point.commander.mode is flight_modes.AUTO_LAND, 10.0)


def test_the_longest_flight_time_returns() -> None:
    point = Point(COM_FLT_TIME_MAX=40).airborne()
    point.until(lambda: point.commander.mode is flight_modes.AUTO_RTL, 60.0)
    assert point.commander.flight_time == pytest.approx(45.0, abs=0.3)


# ---------------------------------------------------------------------- fence


def fenced(action: int, *areas: object, **parameters: float) -> Point:
    point = Point(GF_ACTION=action, **parameters).airborne()
    assert point.commander.set_fence(list(areas)) is None  # type: ignore[arg-type]
    return point


CIRCLE = item(0, CIRCLE_IN, param1=40.0, mission_type=1)
SQUARE = [
    item(k, VERTEX_IN, *corner, param1=4.0, mission_type=1)
    for k, corner in enumerate([(-40.0, -40.0), (-40.0, 40.0), (40.0, 40.0), (40.0, -40.0)])
]


def leave(point: Point) -> None:
    """North without an end, past the fence: an offboard program asks for it."""
    target = OffboardTarget(velocity=(4.0, 0.0, 0.0), yaw=0.0)
    for k in range(400):
        point.commander.offboard(target, point.now)
        point.step()
        if k == 10:
            point.do(SET_MODE, 1.0, 6.0, 0.0)


@pytest.mark.parametrize(
    ("action", "mode"),
    [
        (0, flight_modes.OFFBOARD),
        (1, flight_modes.OFFBOARD),
        (2, flight_modes.AUTO_LOITER),
        (3, flight_modes.AUTO_RTL),
        (4, flight_modes.TERMINATION),
        (5, flight_modes.AUTO_LAND),
    ],
)
def test_a_broken_fence_is_answered_as_told(action: int, mode: flight_modes.Mode) -> None:
    point = fenced(action, CIRCLE)
    leave(point)
    assert point.commander.mode is mode
    said = "Geofence violation: approaching or outside geofence" in point.texts
    assert said == (action > 0)
    if action == 2:
        assert 40.0 < point.position[0] < 55.0


def test_polygons_and_exclusions_count() -> None:
    point = fenced(2, *SQUARE)
    leave(point)
    assert 40.0 < point.position[0] < 55.0
    island = item(0, CIRCLE_OUT, 60.0, param1=10.0, mission_type=1)
    point = fenced(2, island)
    leave(point)
    assert 50.0 < point.position[0] < 65.0


@pytest.mark.parametrize(
    ("name", "words"), [("GF_MAX_HOR_DIST", "distance"), ("GF_MAX_VER_DIST", "altitude")]
)
def test_distances_from_home_count(name: str, words: str) -> None:
    point = Point(**{name: 12.0}).airborne()
    target = OffboardTarget(velocity=(3.0, 0.0, -1.0), yaw=0.0)
    for k in range(200):
        point.commander.offboard(target, point.now)
        point.step()
        if k == 10:
            point.do(SET_MODE, 1.0, 6.0, 0.0)
    assert point.commander.mode is flight_modes.AUTO_LOITER
    assert any(f"exceeding maximum {words}" in text for text in point.texts)


def test_a_pilot_can_fly_back_over_the_fence() -> None:
    point = fenced(2, CIRCLE)
    leave(point)
    assert point.commander.mode is flight_modes.AUTO_LOITER
    assert point.do(RETURN) == 0
    point.until(lambda: not point.commander.armed, 150.0)
    assert math.hypot(*point.position[:2]) < 0.3


def test_a_goto_beyond_the_fence_is_not_flown() -> None:
    point = fenced(2, CIRCLE)
    latitude, longitude = place(60.0, 0.0)
    point.do(REPOSITION, math.nan, 1.0, at={5: latitude, 6: longitude, 7: ALTITUDE + 10.0})
    point.run(20.0)
    assert "Reposition is outside geofence" in point.texts
    assert math.hypot(*point.position[:2]) < 0.5


@pytest.mark.parametrize(
    ("areas", "words"),
    [
        ([item(0, CIRCLE_IN, param1=-1.0)], "item 0: invalid radius -1 m"),
        ([item(0, VERTEX_IN, 1.0, param1=2.0), item(1, VERTEX_IN, 2.0, param1=2.0)], "polygon of 2 vertices"),
        ([item(0, VERTEX_IN, 1.0, param1=3.0), item(1, VERTEX_OUT, 2.0, param1=3.0)], "incomplete"),
        ([item(0, 16, 1.0)], "command 16 is not supported"),
        ([act(0, CIRCLE_IN, 5.0)], "not supported in frame 2"),
    ],
)
def test_bad_fences_are_refused_with_reason(areas: list[object], words: str) -> None:
    point = Point().ready()
    point.run(0.5)
    fault = point.commander.set_fence(areas)  # type: ignore[arg-type]
    assert fault is not None
    assert words in fault.reason
    assert point.commander.plans.fence == ()


@pytest.mark.parametrize("bad", [item(4, CIRCLE_IN, 9e4, param1=0.0), item(4, CIRCLE_OUT, param1=5.0)])
def test_of_a_fence_what_home_breaks_is_discarded_and_the_rest_is_in_force(bad: object) -> None:
    # Geofence::_updateFence; MAVSDK's geofence example sends a circle of radius 0 beside its polygon.
    point = Point(GF_ACTION=2).airborne()
    assert point.commander.set_fence([*SQUARE, bad]) is None  # type: ignore[list-item]
    point.step()
    assert "Geofence invalid, doesn't contain Home position" in point.texts
    assert len(point.commander.plans.fence) == 5
    leave(point)
    assert 40.0 < point.position[0] < 55.0


def test_a_fence_that_is_broken_keeps_it_from_arming() -> None:
    point = Point().ready()
    point.run(0.2)
    assert point.commander.set_fence([CIRCLE]) is None
    point.commander.home_position.set_at(*place(0.0, 0.0), ALTITUDE)
    point.position[:] = (50.0, 0.0, 0.0)
    point.run(1.0)
    assert any("Geofence violation" in problem for problem in point.commander.arming_problems)


# ---------------------------------------------------------------------- return


def test_return_climbs_goes_home_and_lands() -> None:
    point = at(Point().airborne(), 50.0, 20.0)
    assert point.do(RETURN) == 0
    begun = len(point.trace)
    point.until(lambda: not point.commander.armed, 150.0)
    trace = np.array(point.trace[begun:])
    away = np.hypot(trace[:, 0], trace[:, 1])
    assert -trace[:, 2].min() == pytest.approx(30.0, abs=0.5)  # RTL_RETURN_ALT
    assert (away[-trace[:, 2] < 28.0] < 2.5).sum() + (away[-trace[:, 2] < 28.0] > 50.0).sum() == (
        -trace[:, 2] < 28.0
    ).sum()  # climbs over there, descends over home
    assert point.position == pytest.approx((0.0, 0.0, 0.0), abs=0.1)


def test_return_from_near_climbs_only_into_the_cone() -> None:
    # 8 m away, half angle 45 deg: 8 m high is enough, and 10 m it has already
    point = at(Point().airborne(), 8.0, 0.0)
    point.do(RETURN)
    begun = len(point.trace)
    point.until(lambda: not point.commander.armed, 150.0)
    assert -np.array(point.trace[begun:])[:, 2].min() < 10.5


def test_return_without_a_cone_always_climbs() -> None:
    point = at(Point(RTL_CONE_ANG=0).airborne(), 8.0, 0.0)
    point.do(RETURN)
    begun = len(point.trace)
    point.until(lambda: not point.commander.armed, 150.0)
    assert -np.array(point.trace[begun:])[:, 2].min() == pytest.approx(30.0, abs=0.5)


def test_return_from_above_does_not_climb() -> None:
    point = at(Point().airborne(), 40.0, 0.0, 45.0)
    point.do(RETURN)
    point.run(5.0)
    assert point.velocity[0] < -3.0
    assert point.height == pytest.approx(45.0, abs=0.5)


def test_return_ends_with_the_heading_of_home() -> None:
    point = at(Point().airborne(), 40.0, 40.0)
    assert point.yaw == pytest.approx(math.pi / 4.0, abs=0.1)
    point.do(RETURN)
    point.until(lambda: not point.commander.armed, 150.0)
    assert point.yaw == pytest.approx(0.3, abs=0.02)  # that in which it armed


def test_return_goes_to_the_nearest_rally_point() -> None:
    point = at(Point().airborne(), 60.0, 0.0)
    rally = [
        item(0, 5100, 50.0, 10.0, 5.0, mission_type=2),
        item(1, 5100, -50.0, 10.0, 5.0, mission_type=2),
    ]
    assert point.commander.plans.set_rally(rally) is None
    point.do(RETURN)
    point.until(lambda: not point.commander.armed, 150.0)
    assert point.position[:2] == pytest.approx((50.0, 10.0), abs=0.2)


def test_a_failsafe_does_not_begin_a_return_anew() -> None:
    point = at(Point().airborne(), 50.0, 0.0, 40.0)
    point.do(RETURN)
    point.run(3.0)
    point.commander.battery(13.5, 10.0, 0.069, point.now)
    point.run(1.0)
    assert point.commander.mode is flight_modes.AUTO_RTL
    assert point.velocity[0] < -3.0
