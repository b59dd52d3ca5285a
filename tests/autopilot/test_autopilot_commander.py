"""The commander from outside: commands, modes and setpoints, flown by a point with a first-order lag."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from support.autopilot_point import (
    ALTITUDE,
    GRAVITY,
    HOVER,
    LATITUDE,
    LONGITUDE,
    PERIOD,
    Point,
    item,
    place,
)

from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.commander import HANDLERS
from sitl_bridge.autopilot.commander_data import OffboardTarget
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.parameters import Parameters, load_built_in
from sitl_bridge.autopilot.safety import arming_checks
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.world.geography import Projection

ACCEPTED, REJECTED, DENIED, UNSUPPORTED = 0, 1, 2, 3  # MAV_RESULT
TAKEOFF, LAND, RETURN, SET_MODE, ARM, REPOSITION, ORBIT = 22, 21, 20, 176, 400, 192, 34
FORCE = 21196


def set_mode(point: Point, main: int, sub: int = 0) -> int:
    return point.do(SET_MODE, 1.0, main, sub)


# ---------------------------------------------------------------------- arming


def test_an_estimate_that_is_not_there_keeps_it_from_arming_and_is_named() -> None:
    point = Point()
    point.valid = records.ATTITUDE | records.HEIGHT
    point.run(1.0)
    assert point.do(ARM, 1.0) == REJECTED
    assert not point.commander.armed
    assert "Navigation error: No valid position estimate" in point.commander.arming_problems
    assert "Heading estimate not stable" in point.commander.arming_problems
    point.run(0.1)
    assert "Arming denied: Resolve system health failures first" in point.texts
    assert "Preflight Fail: Navigation error: No valid position estimate" in point.texts


def test_prearm_bit_follows_what_keeps_it_from_arming() -> None:
    point = Point()
    point.valid = 0
    point.run(0.5)
    assert not point.commander.health_bits.healthy & arming_checks.PREARM
    assert point.commander.system_status == 0  # MAV_STATE_UNINIT
    point.valid = records.ATTITUDE | records.HEADING | records.HEIGHT | 56
    point.run(0.5)
    bits = point.commander.health_bits
    assert bits.healthy == bits.present
    assert bits.healthy & arming_checks.PREARM
    assert point.commander.system_status == 3  # MAV_STATE_STANDBY


def test_a_position_less_accurate_than_the_limit_counts_only_while_it_was_never_good() -> None:
    # COM_POS_FS_EPH is 5 m, 2.5 times that once the estimate was good
    point = Point()
    point.eph = 6.0
    point.run(0.5)
    assert point.commander.arming_problems
    point.eph = 4.0
    point.run(0.5)
    assert not point.commander.arming_problems
    point.eph = 12.0
    point.run(0.5)
    assert not point.commander.arming_problems
    point.eph = 13.0
    point.run(0.5)
    assert point.commander.arming_problems


def test_modes_that_cannot_start_a_flight_are_not_armed_in() -> None:
    point = Point().ready()
    assert set_mode(point, 4, 6) == ACCEPTED  # land
    point.run(0.2)
    assert point.commander.arming_problems == ("Mode not suitable for arming",)
    assert point.do(ARM, 1.0) == REJECTED


def test_a_low_battery_keeps_it_from_arming() -> None:
    point = Point().ready()
    point.commander.battery(14.0, 1.0, 0.06, point.now)
    point.run(0.2)
    assert point.commander.arming_problems == ("Critical battery",)
    point.parameters.set("COM_ARM_BAT_MIN", 0.05)
    point.run(0.2)
    assert not point.commander.arming_problems


def test_throttle_must_be_low_to_arm_by_hand() -> None:
    point = Point()
    for throttle, main, text in ((0.6, 3, "throttle above center"), (0.3, 7, "high throttle")):
        set_mode(point, main)
        for _ in range(10):
            point.commander.manual_control(0.0, 0.0, throttle, 0.0, point.now)
            point.step()
        assert point.do(ARM, 1.0) == REJECTED
        point.commander.manual_control(0.0, 0.0, throttle, 0.0, point.now)
        point.step()
        assert f"Arming denied: {text}" in point.texts
        point.commander.manual_control(0.0, 0.0, 0.0, 0.0, point.now)
        point.step()
        assert point.do(ARM, 1.0) == ACCEPTED
        assert point.do(ARM, 0.0) == ACCEPTED


def test_manual_modes_need_sticks() -> None:
    point = Point().ready()
    set_mode(point, 3)
    point.run(0.2)
    assert point.commander.arming_problems == ("No manual control input",)


def test_arming_sets_home_where_it_stands() -> None:
    point = Point().ready()
    point.position[:] = (30.0, 40.0, 0.0)
    point.step()
    assert point.do(ARM, 1.0) == ACCEPTED
    point.run(0.2)
    home = point.commander.home
    assert home is not None
    north, east = place(30.0, 40.0)
    assert home == pytest.approx((north, east, ALTITUDE), abs=5e-8)


def test_it_disarms_when_it_is_not_taken_off() -> None:
    point = Point().ready()
    point.do(ARM, 1.0)
    # COM_SPOOLUP_TIME 1 s + COM_DISARM_PRFLT 10 s
    assert point.until(lambda: not point.commander.armed, 20.0) == pytest.approx(11.0, abs=0.2)
    assert "Disarmed by auto disarm preflight" in point.texts


def test_disarming_in_the_air_is_refused_unless_forced() -> None:
    point = Point().airborne()
    assert point.do(ARM, 0.0) == REJECTED
    point.step()
    assert point.setpoint["level"] == records.TRAJECTORY
    assert point.do(ARM, 0.0, FORCE) == ACCEPTED
    point.step()
    assert not point.commander.armed
    assert point.setpoint["level"] == records.OFF
    assert "Disarming denied: not landed" in point.texts


def test_an_arming_parameter_that_means_nothing_is_not_supported() -> None:
    assert Point().ready().do(ARM, 2.0) == UNSUPPORTED


def test_flight_termination_stops_the_motors_for_good() -> None:
    point = Point().ready()
    assert point.do(185, 1.0) == DENIED  # on the ground
    point.airborne()
    assert point.do(185, 1.0) == ACCEPTED
    point.step()
    assert point.setpoint["level"] == records.OFF
    assert point.commander.system_status == 8  # MAV_STATE_FLIGHT_TERMINATION
    assert set_mode(point, 4, 3) == REJECTED
    point.until(lambda: not point.commander.armed, 6.0)


# ---------------------------------------------------------------------- modes


@pytest.mark.parametrize(
    ("mode", "custom_mode"),
    [
        # px4_custom_mode.h: main mode in bits 16..23, sub mode in bits 24..31
        (flight_modes.MANUAL, 1 << 16),
        (flight_modes.ALTITUDE_CONTROL, 2 << 16),
        (flight_modes.POSITION_CONTROL, 3 << 16),
        (flight_modes.ORBIT, 3 << 16 | 1 << 24),
        (flight_modes.AUTO_TAKEOFF, 4 << 16 | 2 << 24),
        (flight_modes.AUTO_LOITER, 4 << 16 | 3 << 24),
        (flight_modes.AUTO_MISSION, 4 << 16 | 4 << 24),
        (flight_modes.AUTO_RTL, 4 << 16 | 5 << 24),
        (flight_modes.AUTO_LAND, 4 << 16 | 6 << 24),
        (flight_modes.DESCEND, 4 << 16 | 6 << 24),
        (flight_modes.ACRO, 5 << 16),
        (flight_modes.OFFBOARD, 6 << 16),
        (flight_modes.STABILIZED, 7 << 16),
    ],
)
def test_modes_have_the_numbers_of_px4(mode: flight_modes.Mode, custom_mode: int) -> None:
    assert mode.custom_mode == custom_mode
    if mode not in (flight_modes.ORBIT, flight_modes.DESCEND):
        assert flight_modes.mode_of(custom_mode >> 16 & 0xFF, custom_mode >> 24) is mode


def test_unknown_modes_are_refused() -> None:
    point = Point().ready()
    assert set_mode(point, 4, 99) == REJECTED
    assert set_mode(point, 33) == REJECTED


def test_a_mode_that_cannot_be_flown_is_refused_in_the_air() -> None:
    point = Point().airborne()
    assert set_mode(point, 4, 4) == REJECTED  # there is no mission
    assert set_mode(point, 3) == REJECTED  # there are no sticks
    point.step()
    assert point.commander.mode is flight_modes.AUTO_LOITER
    assert "Switching to Mission is currently not available" in point.texts


def test_unknown_commands_are_not_supported() -> None:
    assert Point().do(31_999) == UNSUPPORTED


# ---------------------------------------------------------------------- take-off, hold, land


def test_take_off_climbs_to_the_height_of_its_parameter_and_holds() -> None:
    point = Point().ready()
    point.parameters.set("MIS_TAKEOFF_ALT", 8.0)
    assert point.do(TAKEOFF) == ACCEPTED
    assert point.do(ARM, 1.0) == ACCEPTED
    point.step()
    assert point.commander.mode is flight_modes.AUTO_TAKEOFF
    climbs: list[float] = []

    def there() -> bool:
        climbs.append(-float(point.velocity[2]))
        return point.commander.mode is flight_modes.AUTO_LOITER

    point.until(there, 30.0)
    point.run(5.0)
    assert point.height == pytest.approx(8.0, abs=0.1)
    assert max(climbs) == pytest.approx(1.5, abs=0.05)  # MPC_TKO_SPEED
    assert point.commander.landed_state == 2
    assert "Takeoff detected" in point.texts


def test_a_command_at_the_very_end_of_the_take_off_is_not_undone_by_the_hold_after_it() -> None:
    point = Point().ready()
    point.do(TAKEOFF)
    point.do(ARM, 1.0)
    navigator = point.commander.navigator
    point.until(lambda: navigator.requested_mode is flight_modes.AUTO_LOITER, 20.0)
    assert point.do(LAND) == ACCEPTED
    point.run(1.0)
    assert point.commander.mode is flight_modes.AUTO_LAND


def test_take_off_goes_to_the_altitude_of_the_command() -> None:
    point = Point().ready()
    point.do(TAKEOFF, at={7: ALTITUDE + 6.0})
    point.do(ARM, 1.0)
    point.step()
    point.until(lambda: point.commander.mode is flight_modes.AUTO_LOITER, 30.0)
    point.run(5.0)
    assert point.height == pytest.approx(6.0, abs=0.1)


def test_motors_only_idle_until_they_have_spun_up() -> None:
    point = Point().ready()
    point.do(TAKEOFF)
    point.do(ARM, 1.0)
    point.step()
    assert point.setpoint["level"] == records.IDLE
    # COM_SPOOLUP_TIME
    assert point.until(lambda: point.setpoint["level"] == records.TRAJECTORY, 5.0) == pytest.approx(
        1.0, abs=0.15
    )
    # thrust is built up from nothing: at first the whole weight is to be felt
    assert point.setpoint["acceleration"][2] > 0.9 * GRAVITY


def test_landing_slows_down_near_the_ground_and_disarms() -> None:
    point = Point().airborne(15.0)
    assert point.do(LAND) == ACCEPTED
    fastest = {"high": 0.0, "low": 0.0}

    def landed() -> bool:
        where = "high" if point.height > 11.0 else "low" if point.height < 4.5 else "between"
        if where in fastest and point.height > 0.0:
            fastest[where] = max(fastest[where], float(point.velocity[2]))
        return point.commander.landed_state == 1

    point.until(landed, 60.0)
    assert fastest["high"] == pytest.approx(1.5, abs=0.05)  # MPC_Z_VEL_MAX_DN
    assert fastest["low"] == pytest.approx(0.7, abs=0.08)  # MPC_LAND_SPEED
    # COM_DISARM_LAND
    assert point.until(lambda: not point.commander.armed, 5.0) == pytest.approx(2.0, abs=0.15)
    assert point.texts[-2:] == ["Landing detected", "Disarmed by auto disarm land"]
    assert point.commander.mode is flight_modes.AUTO_LOITER


def test_a_vehicle_that_hovers_never_counts_as_landed() -> None:
    point = Point().airborne(3.0)
    for _ in range(600):
        point.step()
        assert not point.commander.land.landed
        assert not point.commander.land.maybe_landed


def test_a_controller_that_keeps_thrust_on_the_ground_is_told_to_let_go() -> None:
    # The ground holds the vehicle; thrust stays at 60 % of hover until a downward acceleration is asked for.
    point = Point().airborne(2.0)
    point.do(LAND)
    point.until(lambda: point.height == 0.0, 20.0)

    def landed() -> bool:
        point.thrust = max(point.thrust, 0.6 * HOVER)
        return point.commander.landed_state == 1

    assert point.until(landed, 10.0) < 4.0


# ---------------------------------------------------------------------- smoothness


def test_setpoints_change_within_the_limits_of_speed_acceleration_and_jerk() -> None:
    point = Point().airborne()
    point.do(REPOSITION, math.nan, 1.0, at={5: place(60.0, 30.0)[0], 6: place(60.0, 30.0)[1]})
    velocities, accelerations = [], []
    for _ in range(500):
        point.step()
        velocities.append(np.array(point.setpoint["velocity"]))
        accelerations.append(np.array(point.setpoint["acceleration"]))
    speed = [math.hypot(v[0], v[1]) for v in velocities]
    level = [math.hypot(a[0], a[1]) for a in accelerations]
    jerk = [math.hypot(*(b - a)[:2]) / 0.05 for a, b in itertools.pairwise(accelerations)]
    assert max(speed) == pytest.approx(5.0, abs=0.05)  # MPC_XY_CRUISE
    assert max(level) <= 3.0 + 1e-6  # MPC_ACC_HOR
    assert max(jerk) <= 4.0 + 1e-6  # MPC_JERK_AUTO
    # velocity is the setpoint position's derivative, acceleration the velocity's
    change = [math.hypot(*(b - a)[:2]) / 0.05 for a, b in itertools.pairwise(velocities)]
    assert change == pytest.approx(level[1:], abs=0.01)
    assert np.allclose(point.position[:2], (60.0, 30.0), atol=0.1)


def test_the_setpoint_waits_for_a_vehicle_that_cannot_follow() -> None:
    point = Point().airborne()
    point.do(REPOSITION, math.nan, 1.0, at={5: place(50.0, 0.0)[0], 6: place(50.0, 0.0)[1]})
    for _ in range(400):
        held = point.position.copy()
        point.step()
        point.position[:], point.velocity[:] = held, 0.0
    ahead = float(point.setpoint["position"][0] - point.position[0])
    assert 0.5 < ahead < 2.0 + 0.05  # MPC_XY_ERR_MAX


def test_hold_brakes_without_turning_back() -> None:
    point = Point().airborne()
    point.do(REPOSITION, math.nan, 1.0, at={5: place(200.0, 0.0)[0], 6: place(200.0, 0.0)[1]})
    point.run(10.0)
    assert point.velocity[0] > 4.5
    assert point.do(REPOSITION, math.nan, 1.0) == ACCEPTED  # no place: pause
    point.step()
    begun = float(point.position[0])
    slowest = 0.0
    for _ in range(200):
        point.step()
        slowest = min(slowest, float(point.velocity[0]))
    assert slowest > -0.3
    # braking from 5 m/s with 3 m/s^2 and 4 m/s^3 takes v (a/j) / 2 + v^2 / (2 a) = 6.0 m and the lag
    assert 4.0 < point.position[0] - begun < 10.0


# ---------------------------------------------------------------------- commands in flight


def test_goto_flies_to_a_place_and_looks_where_it_is_told() -> None:
    point = Point().airborne()
    latitude, longitude = place(20.0, -10.0)
    assert point.do(REPOSITION, 2.0, 1.0, 0.0, 1.0, latitude, longitude, ALTITUDE + 12.0) == ACCEPTED
    fastest = 0.0
    for _ in range(600):
        point.step()
        fastest = max(fastest, math.hypot(point.velocity[0], point.velocity[1]))
    assert point.position == pytest.approx((20.0, -10.0, -12.0), abs=0.1)
    assert point.yaw == pytest.approx(1.0, abs=0.01)
    assert fastest == pytest.approx(2.0, abs=0.1)
    assert point.commander.mode is flight_modes.AUTO_LOITER


def test_goto_without_the_mode_flag_is_not_supported() -> None:
    assert Point().airborne().do(REPOSITION, math.nan, 0.0) == UNSUPPORTED


def test_speed_can_be_changed_on_the_way() -> None:
    point = Point().airborne()
    point.do(REPOSITION, math.nan, 1.0, at={5: place(100.0, 0.0)[0], 6: place(100.0, 0.0)[1]})
    point.run(6.0)
    assert point.velocity[0] == pytest.approx(5.0, abs=0.1)
    assert point.do(178, 1.0, 3.0) == ACCEPTED
    point.run(4.0)
    assert point.velocity[0] == pytest.approx(3.0, abs=0.1)


def test_nose_points_along_the_way() -> None:
    point = Point().airborne()
    point.do(REPOSITION, math.nan, 1.0, at={5: place(-40.0, 40.0)[0], 6: place(-40.0, 40.0)[1]})
    turns = []
    for _ in range(160):
        before = point.yaw
        point.step()
        turns.append(abs(math.remainder(point.yaw - before, 2.0 * math.pi)) / 0.05)
    assert math.degrees(point.yaw) == pytest.approx(135.0, abs=2.0)
    assert max(turns) <= math.radians(45.0) + 1e-6  # MPC_YAWRAUTO_MAX


def test_orbit_keeps_its_radius_and_speed_and_looks_at_the_centre() -> None:
    point = Point().airborne(8.0)
    latitude, longitude = place(0.0, 0.0)
    assert point.do(ORBIT, 10.0, 3.0, 0.0, math.nan, latitude, longitude, ALTITUDE + 8.0) == ACCEPTED
    point.step()
    assert point.commander.mode.custom_mode == 3 << 16 | 1 << 24
    point.until(lambda: math.hypot(*point.position[:2]) > 9.5, 30.0)
    point.run(10.0)
    angles, radii = [], []
    for _ in range(400):
        point.step()
        angles.append(math.atan2(point.position[1], point.position[0]))
        radii.append(math.hypot(*point.position[:2]))
        towards = math.atan2(-point.position[1], -point.position[0])
        assert abs(math.remainder(point.yaw - towards, 2.0 * math.pi)) < 0.15
    assert min(radii) > 9.0
    assert max(radii) < 11.0
    turned = sum(math.remainder(b - a, 2.0 * math.pi) for a, b in itertools.pairwise(angles))
    assert turned == pytest.approx(3.0 / 10.0 * 20.0, rel=0.05)  # clockwise, 3 m/s on 10 m


def test_an_orbit_can_be_selected_on_the_ground_but_not_armed_in() -> None:
    point = Point().ready()
    assert point.do(ORBIT, 10.0, 3.0) == ACCEPTED
    point.run(0.5)
    assert point.commander.mode is flight_modes.ORBIT
    assert point.do(ARM, 1.0) == REJECTED


def test_home_can_be_set_to_a_place_or_here() -> None:
    point = Point().airborne()
    assert point.do(179, 0.0, at={5: 47.4, 6: 8.5, 7: 500.0}) == ACCEPTED
    assert point.commander.home == (47.4, 8.5, 500.0)
    assert point.do(179, 0.0, at={5: 99.0, 6: 8.5, 7: 500.0}) == DENIED
    assert point.do(179, 1.0) == ACCEPTED
    assert point.commander.home is not None
    assert point.commander.home[2] == pytest.approx(ALTITUDE + 10.0, abs=0.3)


# ---------------------------------------------------------------------- offboard


def stream(point: Point, target: OffboardTarget, seconds: float) -> None:
    for _ in range(round(seconds * 1e6 / PERIOD)):
        point.commander.offboard(target, point.now)
        point.step()


def offboard(point: Point, target: OffboardTarget) -> Point:
    stream(point, target, 0.5)
    assert set_mode(point, 6) == ACCEPTED
    stream(point, target, 0.1)
    assert point.commander.mode is flight_modes.OFFBOARD
    return point


def test_offboard_is_rejected_in_the_air_without_setpoints() -> None:
    point = Point().airborne()
    assert set_mode(point, 6) == REJECTED
    stream(point, OffboardTarget(velocity=(0.0, 0.0, 0.0)), 0.5)
    assert set_mode(point, 6) == ACCEPTED


def test_offboard_is_accepted_right_after_its_first_setpoint() -> None:
    point = Point().airborne()
    point.commander.offboard(OffboardTarget(velocity=(1.0, 0.0, 0.0)), point.now)
    assert set_mode(point, 6) == ACCEPTED


def test_position_mode_is_accepted_right_after_the_first_sticks() -> None:
    point = Point().airborne()
    point.commander.manual_control(0.0, 0.0, 0.5, 0.0, point.now)
    assert set_mode(point, 3) == ACCEPTED


def test_arming_in_offboard_is_accepted_right_after_its_first_setpoint() -> None:
    point = Point().ready()
    set_mode(point, 6)
    point.run(0.5)
    point.commander.offboard(OffboardTarget(position=(0.0, 0.0, -5.0)), point.now)
    assert point.do(ARM, 1.0) == ACCEPTED


def test_arming_in_offboard_needs_setpoints() -> None:
    point = Point().ready()
    set_mode(point, 6)
    point.run(0.2)
    assert point.commander.arming_problems == ("No offboard signal",)


def test_offboard_takes_off_towards_a_position_above() -> None:
    point = Point().ready()
    ground = OffboardTarget(position=(0.0, 0.0, 0.0), yaw=0.0)
    offboard(point, ground)
    assert point.do(ARM, 1.0) == ACCEPTED
    stream(point, ground, 3.0)
    assert point.setpoint["level"] == records.IDLE
    stream(point, OffboardTarget(position=(3.0, -2.0, -5.0), yaw=0.5), 15.0)
    assert point.position == pytest.approx((3.0, -2.0, -5.0), abs=0.1)


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        (
            OffboardTarget(position=(1.0, 2.0, -9.0), velocity=(0.5, 0.0, 0.1), yaw=0.2),
            {"position": (1.0, 2.0, -9.0), "velocity": (0.5, 0.0, 0.1), "yaw": 0.2},
        ),
        (
            OffboardTarget(velocity=(1.0, -1.0, 0.0), yaw_rate=0.3),
            {"velocity": (1.0, -1.0, 0.0), "yaw_rate": 0.3},
        ),
        (
            OffboardTarget(acceleration=(0.2, 0.0, -0.1), yaw=0.0),
            {"acceleration": (0.2, 0.0, -0.1), "yaw": 0.0},
        ),
        (
            OffboardTarget(position=(math.nan, math.nan, -9.0), velocity=(1.0, 0.0, math.nan), yaw=0.1),
            {"position": (math.nan, math.nan, -9.0), "velocity": (1.0, 0.0, math.nan), "yaw": 0.1},
        ),
    ],
)
def test_offboard_trajectories_reach_the_controller_as_they_are(
    target: OffboardTarget, fields: dict[str, object]
) -> None:
    point = offboard(Point().airborne(), target)
    assert point.setpoint["level"] == records.TRAJECTORY
    for name in ("position", "velocity", "acceleration", "yaw", "yaw_rate"):
        nothing = math.nan if name.startswith("yaw") else (math.nan,) * 3
        assert point.setpoint[name] == pytest.approx(fields.get(name, nothing), nan_ok=True)


def test_offboard_velocity_of_the_body_turns_with_the_heading() -> None:
    target = OffboardTarget(velocity=(2.0, 0.5, -0.2), yaw_rate=0.0, body_frame=True)
    point = offboard(Point().airborne(), target)
    point.yaw = math.radians(90.0)
    stream(point, target, 0.05)
    # nose to the east: forward is east, right is south
    assert point.setpoint["velocity"] == pytest.approx((-0.5, 2.0, -0.2), abs=0.02)


def test_offboard_attitude_and_rates_go_with_thrust() -> None:
    tilt = (math.cos(0.05), math.sin(0.05), 0.0, 0.0)
    point = offboard(Point().airborne(), OffboardTarget(attitude=tilt, thrust=0.5, yaw_rate=0.1))
    assert point.setpoint["level"] == records.LEVEL_ATTITUDE
    assert point.setpoint["attitude"] == pytest.approx(tilt)
    assert point.setpoint["thrust"] == 0.5
    stream(point, OffboardTarget(angular_velocity=(0.1, 0.2, 0.3), thrust=0.4), 0.1)
    assert point.setpoint["level"] == records.LEVEL_RATES
    assert point.setpoint["angular_velocity"] == pytest.approx((0.1, 0.2, 0.3))
    assert point.setpoint["thrust"] == 0.4


# ---------------------------------------------------------------------- by hand


def fly_by_hand(
    point: Point,
    seconds: float,
    pitch: float = 0.0,
    roll: float = 0.0,
    throttle: float = 0.5,
    yaw: float = 0.0,
) -> None:
    for _ in range(round(seconds * 1e6 / PERIOD)):
        point.commander.manual_control(pitch, roll, throttle, yaw, point.now)
        point.step()


def in_hand(main: int) -> Point:
    point = Point().airborne()
    fly_by_hand(point, 0.2)
    assert set_mode(point, main) == ACCEPTED
    fly_by_hand(point, 0.2)
    assert point.commander.mode.main == main
    return point


def test_position_mode_flies_where_the_stick_points_and_stays_when_let_go() -> None:
    point = in_hand(3)
    point.yaw = 0.0
    fly_by_hand(point, 8.0, pitch=1.0)
    assert math.hypot(*point.velocity[:2]) == pytest.approx(10.0, abs=0.3)  # MPC_VEL_MANUAL
    fly_by_hand(point, 8.0)
    stopped = point.position.copy()
    fly_by_hand(point, 10.0)
    assert np.allclose(point.position, stopped, atol=0.1)
    assert np.isfinite(point.setpoint["position"]).all()


def test_position_mode_climbs_and_lands_by_throttle() -> None:
    point = in_hand(3)
    fly_by_hand(point, 4.0, throttle=1.0)
    assert -point.velocity[2] == pytest.approx(3.0, abs=0.1)  # MPC_Z_VEL_MAX_UP
    fly_by_hand(point, 40.0, throttle=0.0)
    assert not point.commander.armed
    assert point.height == 0.0


def test_position_mode_takes_off_by_throttle() -> None:
    point = Point().ready()
    fly_by_hand(point, 0.3, throttle=0.0)
    set_mode(point, 3)
    fly_by_hand(point, 0.3, throttle=0.0)
    assert point.do(ARM, 1.0) == ACCEPTED
    fly_by_hand(point, 3.0, throttle=0.0)
    assert point.height == 0.0
    fly_by_hand(point, 5.0, throttle=0.8)
    assert point.height > 2.0


def test_altitude_mode_tilts_by_the_stick_and_keeps_the_height() -> None:
    point = in_hand(2)
    height = point.height
    point.yaw = 0.0
    fly_by_hand(point, 0.5, roll=0.5)
    wanted = GRAVITY * math.tan(math.radians(35.0)) * 0.5  # MPC_MAN_TILT_MAX
    assert math.hypot(*point.setpoint["acceleration"][:2]) == pytest.approx(wanted, rel=1e-6)
    assert np.isnan(point.setpoint["velocity"][:2]).all()
    fly_by_hand(point, 3.0)
    assert point.height == pytest.approx(height, abs=0.1)


def test_stabilized_mode_passes_angles_and_thrust() -> None:
    point = in_hand(7)
    fly_by_hand(point, 0.1, pitch=1.0, throttle=0.5)
    w, x, y, z = point.setpoint["attitude"]
    pitch = math.asin(2.0 * (w * y - x * z))
    assert math.degrees(pitch) == pytest.approx(-35.0, abs=0.1)  # nose down, MPC_MAN_TILT_MAX
    assert point.setpoint["thrust"] == pytest.approx(HOVER)
    fly_by_hand(point, 0.1, throttle=0.0)
    assert point.setpoint["thrust"] == pytest.approx(0.08)  # MPC_MANTHR_MIN
    fly_by_hand(point, 0.1, throttle=1.0)
    assert point.setpoint["thrust"] == pytest.approx(1.0)


def test_acro_passes_rates() -> None:
    point = in_hand(5)
    fly_by_hand(point, 0.1, pitch=0.5, roll=-1.0, yaw=0.25)
    # MC_ACRO_*_MAX 100 deg/s; stick forward is nose down
    assert np.degrees(point.setpoint["angular_velocity"]) == pytest.approx((-100.0, -50.0, 25.0))


def test_yaw_stick_turns_the_heading() -> None:
    point = in_hand(3)
    before = point.yaw
    fly_by_hand(point, 1.0, yaw=1.0)
    turned = math.degrees(math.remainder(point.yaw - before, 2.0 * math.pi))
    assert turned == pytest.approx(150.0, abs=10.0)  # MPC_MAN_Y_MAX for 1 s


def test_sticks_take_over_from_automatic_flight() -> None:
    point = Point().airborne()
    fly_by_hand(point, 0.5)
    assert point.commander.mode is flight_modes.AUTO_LOITER
    fly_by_hand(point, 0.2, pitch=0.5)  # more than COM_RC_STICK_OV
    assert point.commander.mode is flight_modes.POSITION_CONTROL
    assert "Pilot took over using sticks" in point.texts


# ---------------------------------------------------------------------- failures and parameters


def test_injected_failures_are_listed_by_kind_and_instance() -> None:
    point = Point().ready()
    assert point.do(420, 4.0, 1.0, 0.0) == ACCEPTED  # GPS off
    assert point.commander.failures == {"gps": {0: "off"}}
    assert point.do(420, 2.0, 2.0, 1.0) == ACCEPTED  # magnetometer 1 stuck
    assert point.commander.failures["magnetometer"] == {1: "stuck"}
    point.run(0.2)
    assert "Gps failure" in point.commander.arming_problems
    assert not point.commander.health_bits.healthy & arming_checks.GPS
    assert point.do(420, 4.0, 0.0, 0.0) == ACCEPTED  # GPS ok
    assert "gps" not in point.commander.failures
    assert point.do(420, 101.0, 1.0, 9.0) == DENIED  # a ninth motor
    assert point.do(420, 101.0, 2.0, 1.0) == UNSUPPORTED  # a stuck motor
    assert point.do(420, 100.0, 1.0, 0.0) == UNSUPPORTED  # the battery
    point.parameters.set("SYS_FAILURE_EN", 0)
    assert point.do(420, 4.0, 1.0, 0.0) == DENIED


def test_parameters_refuse_what_they_cannot_take() -> None:
    parameters = Parameters()
    with pytest.raises(UserError, match="no parameter MPC_NONSENSE"):
        parameters.set("MPC_NONSENSE", 1.0)
    with pytest.raises(UserError, match="21 is not within 3 to 20 m/s"):
        parameters.set("MPC_XY_CRUISE", 21.0)
    with pytest.raises(UserError, match="not a whole number"):
        parameters.set("GF_ACTION", 1.5)
    assert parameters.version == 0
    assert parameters.set("MPC_XY_CRUISE", 5.1) == pytest.approx(5.1, abs=1e-6)
    assert parameters.get("MPC_XY_CRUISE") == np.float32(5.1)


def test_every_parameter_does_something() -> None:
    sources = Path(flight_modes.__file__).parent.parent
    text = "".join(path.read_text() for path in sources.rglob("*.py") if path.name != "parameters.py")
    changeable = [info.name for info in load_built_in() if info.minimum < info.maximum]
    assert [name for name in changeable if f'"{name}"' not in text] == []


def test_projection_agrees_with_published_degree_lengths() -> None:
    # One degree at 45 degrees of latitude on WGS-84 (NGA): 111,132 m of latitude, 78,847 m of longitude
    projection = Projection.from_degrees(45.0, 10.0)
    north, _ = projection.local(45.05, 10.0)
    south, _ = projection.local(44.95, 10.0)
    assert (north - south) * 10.0 == pytest.approx(111_132, abs=3)
    _, east = projection.local(45.0, 10.1)
    assert east * 10.0 == pytest.approx(78_847, abs=3)
    assert projection.point(*projection.local(45.01, 9.98)) == pytest.approx((45.01, 9.98), abs=1e-9)


def test_two_flights_of_the_same_inputs_are_the_same_to_the_last_bit() -> None:
    traces = []
    for _ in range(2):
        point = Point().airborne()
        point.commander.set_mission([item(0, 16, 20.0), item(1, 16, 20.0, 20.0)])
        point.do(300, 0.0)
        point.run(20.0)
        traces.append(point.trace)
    assert traces[0] == traces[1]


def test_origin_is_where_the_estimate_says() -> None:
    point = Point().airborne()
    assert point.commander.state.projection is not None
    assert point.commander.state.projection.point(0.0, 0.0) == pytest.approx((LATITUDE, LONGITUDE))


@pytest.mark.parametrize(
    "target",
    [
        OffboardTarget(velocity=(math.inf, 0.0, 0.0)),
        OffboardTarget(attitude=(0.0, 0.0, 0.0, 0.0), thrust=0.5),
        OffboardTarget(attitude=(math.nan, 0.0, 0.0, 0.0), thrust=0.5),
        OffboardTarget(angular_velocity=(0.0, math.nan, 0.0), thrust=0.5),
        OffboardTarget(),
    ],
)
def test_offboard_setpoints_without_meaning_do_not_count(target: OffboardTarget) -> None:
    point = Point().airborne()
    stream(point, target, 0.5)
    assert set_mode(point, 6) == REJECTED


def test_malformed_commands_are_answered_and_break_nothing() -> None:
    results = {0, 1, 2, 3, 4}  # MAV_RESULT
    random = np.random.default_rng(4)
    strange = [math.nan, math.inf, -math.inf, -1.0, 0.0, 1.0, 2.0, 1e30, 4.0, 47.4, 8.5, ALTITUDE]
    point = Point().airborne()
    point.commander.set_mission([item(0, 16, 20.0), item(1, 16, 20.0, 20.0)])
    for _ in range(1500):
        command = int(random.choice(sorted({*HANDLERS, 16, 999}))) if random.random() < 0.9 else -1
        params = [float(random.choice(strange)) for _ in range(7)]
        assert point.commander.command(command, params, point.now) in results
        point.step()
        assert np.isfinite(point.position).all()


def test_the_nose_turns_to_where_it_flies() -> None:
    point = Point().airborne()
    point.do(REPOSITION, math.nan, 1.0, at={5: place(0.0, 80.0)[0], 6: place(0.0, 80.0)[1]})
    point.run(12.0)
    assert math.degrees(point.yaw) == pytest.approx(90.0, abs=3.0)


def test_sticks_are_ignored_where_they_are_turned_off() -> None:
    point = Point(COM_RC_IN_MODE=4).airborne()
    fly_by_hand(point, 0.5, pitch=1.0)
    assert point.commander.mode is flight_modes.AUTO_LOITER
    assert set_mode(point, 3) == REJECTED
