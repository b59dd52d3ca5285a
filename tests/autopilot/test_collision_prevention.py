"""Collision prevention of the built-in stack: its rules, and approaches of a wall by the sticks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from pymavlink.dialects.v20 import common as mavlink
from support.mavlink_vehicle import Station, source
from support.paths import MISSIONS
from support.px4_flights import SPEEDS, WALL, approach_the_wall

from sitl_bridge.autopilot.mavlink.services import Services
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.collision_prevention import UNKNOWN, CollisionPrevention
from sitl_bridge.autopilot.parameters import Parameters
from sitl_bridge.autopilot.stack_fleet import StackFleet, StackVehicle
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.vehicle.perception_settings import reach
from sitl_bridge.core.world.world import World
from sitl_bridge.core.world.world_file import load_world

NAN = math.nan
SECOND = 1_000_000
FREE, LIMITS, BODY, LOCAL_NED = 3001, (20, 3000), 12, 1
STILL = (0.0, 0.0)
AHEAD = (6.0, 0.0)


class Flight:
    """A vehicle that heads north, with CP_DIST 2 m and MPC_VEL_MANUAL 10 m/s."""

    def __init__(self, **parameters: float) -> None:
        known = Parameters()
        for name, value in ({"CP_DIST": 2.0, "CP_GUIDE_ANG": 0.0} | parameters).items():
            known.set(name, value)
        self.prevention = CollisionPrevention(known.values)
        self.now = 10 * SECOND

    def see(self, obstacles: dict[int, int], others: int = FREE, frame: int = BODY, yaw: float = 0.0) -> None:
        distances = [obstacles.get(k, others) for k in range(72)]
        assert self.prevention.report(distances, 5.0, 0.0, LIMITS, frame, yaw, self.now)

    def ask(
        self,
        wanted: tuple[float, float] = AHEAD,
        velocity: tuple[float, float] = STILL,
        yaw: float = 0.0,
    ) -> tuple[float, float]:
        return self.prevention.limit(wanted, velocity, yaw, self.now)


def test_the_acceleration_towards_an_obstacle_fades_with_the_distance() -> None:
    """((d - CP_DIST)/(MPC_VEL_MANUAL/MPC_XY_P))^2 of it; below CP_DIST it pushes back, 1 m/s^2 a metre."""
    flight = Flight()
    for distance, share in ((2000, 1.0), (700, (5.0 / (10.0 / 0.95)) ** 2), (200, 0.0), (150, -0.5)):
        flight.see(dict.fromkeys((71, 0, 1), distance))
        assert flight.ask() == pytest.approx((6.0 * share, 0.0), abs=1e-9)


def test_the_acceleration_along_and_away_from_an_obstacle_stays() -> None:
    flight = Flight()
    flight.see({0: 200})
    assert flight.ask((-6.0, 0.0)) == (-6.0, 0.0)
    assert flight.ask((3.0, 4.0)) == pytest.approx((0.0, 4.0))


def test_it_brakes_as_early_as_the_stopping_distance_asks_for() -> None:
    """By MPC_ACC_HOR 3, MPC_JERK_MAX 8, CP_DELAY 0.4 s and the age of the data, times 1.8/s."""
    flight = Flight()
    flight.see(dict.fromkeys((71, 0, 1), 1000))
    flight.now += SECOND // 10
    left = 10.0 - 2.0 - 6.0 * (0.4 + 0.1)
    reaction = 2.0 * 9.0 / 8.0
    most = math.sqrt(reaction**2 + 2.0 * 3.0 * left) - reaction
    share = (8.0 / (10.0 / 0.95)) ** 2
    assert flight.ask(velocity=(6.0, 0.0))[0] == pytest.approx(6.0 * share - 1.8 * (6.0 - most))
    assert flight.ask(velocity=(1.0, 0.0))[0] == pytest.approx(6.0 * share)


def test_sectors_turn_with_the_vehicle_unless_they_are_counted_from_north() -> None:
    east = (0.0, 6.0)
    flight = Flight()
    flight.see(dict.fromkeys((71, 0, 1), 200))
    assert flight.ask(east, yaw=0.5 * math.pi) == pytest.approx((0.0, 0.0), abs=1e-9)
    flight = Flight()
    flight.see(dict.fromkeys((17, 18, 19), 200), frame=LOCAL_NED, yaw=0.5 * math.pi)
    assert flight.ask(east, yaw=0.5 * math.pi) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_coarse_sectors_cover_all_that_they_overlap() -> None:
    flight = Flight()
    distances = [200] + [FREE] * 35
    flight.prevention.report(distances, 10.0, 0.0, LIMITS, BODY, 0.0, flight.now)
    for angle in (-5.0, 0.0, 5.0):
        wanted = (6.0 * math.cos(math.radians(angle)), 6.0 * math.sin(math.radians(angle)))
        assert math.hypot(*flight.ask(wanted)) < 0.6
    assert flight.ask((0.0, 6.0)) == pytest.approx((0.0, 6.0))


def test_it_does_not_fly_where_there_are_no_data_unless_it_may() -> None:
    flight = Flight()
    flight.see({0: UNKNOWN})
    assert flight.ask() == (0.0, 0.0)
    flight = Flight(CP_GO_NO_DATA=1)
    flight.see({0: UNKNOWN})
    assert flight.ask() == AHEAD
    # Where a sensor has looked before, data are expected.
    flight.see({})
    flight.now += SECOND
    flight.see({0: UNKNOWN})
    assert flight.ask() == (0.0, 0.0)


def test_without_data_it_stands_and_asks_for_hold_after_five_seconds() -> None:
    flight = Flight()
    flight.see({})
    assert flight.ask() == AHEAD
    flight.now += SECOND
    assert flight.ask() == (0.0, 0.0)
    assert not flight.prevention.wants_hold
    flight.now += 5 * SECOND
    assert flight.ask() == (0.0, 0.0)
    assert flight.prevention.wants_hold


def test_the_direction_turns_towards_free_space_by_the_guidance_angle_at_most() -> None:
    flight = Flight(CP_GUIDE_ANG=30.0)
    ahead = dict.fromkeys([*range(40, 72), 0, 1, 2], 1500)  # free from 12.5 deg to the right on
    flight.see(ahead)
    north, east = flight.ask()
    assert math.degrees(math.atan2(east, north)) in (pytest.approx(20.0), pytest.approx(25.0))
    flight = Flight()
    flight.see(ahead)
    assert flight.ask() == pytest.approx(AHEAD)


def test_the_message_reaches_it_over_mavlink_and_a_wrong_frame_is_reported() -> None:
    station = Station(Services(source()))
    prevention = station.commander.prevention
    station.commander.parameters.set("CP_DIST", 2.0)
    distances = [200, 200] + [FREE] * 69 + [200]

    def tell(frame: int) -> None:
        message = mavlink.MAVLink_obstacle_distance_message(0, 0, distances, 0, *LIMITS, 5.0, 0.0, frame)
        station.services.handle(station.key, message, SECOND, SECOND)

    tell(mavlink.MAV_FRAME_GLOBAL_INT)
    assert prevention.limit(AHEAD, STILL, 0.0, SECOND) == (0.0, 0.0)
    assert "unsupported frame 5" in station.commander.texts[-1][1]
    tell(mavlink.MAV_FRAME_BODY_FRD)
    assert prevention.limit((0.0, 6.0), STILL, 0.0, SECOND) == pytest.approx((0.0, 6.0))


# ------------------------------------------------------------------ flights


def approaching(speeds: tuple[float, ...], **parameters: float) -> tuple[StackFleet, float]:
    """Vehicles that fly north against the wall with the full stick; and the least distance of a hull in m."""
    airframe = load_airframe("iris_scanner")
    members = [
        StackVehicle(
            airframe,
            name=str(k),
            position=(WALL - 5.0 - 3.0 * speed, 50.0 * (k - 1), 0.0),
            parameters={"MPC_VEL_MANUAL": speed, "CP_GUIDE_ANG": 0.0, **parameters},
        )
        for k, speed in enumerate(speeds)
    ]
    fleet = StackFleet(World(load_world(MISSIONS / "worlds" / "wall.yaml")), members, seed=3)

    def order(command: int, *first: float) -> None:
        for pilot in fleet.pilots:
            assert pilot.commander.command(command, [*first, *[NAN] * (7 - len(first))], fleet.time) == 0

    with fleet:
        fleet.advance(170)
        order(400, 1.0)
        fleet.advance(20)
        order(22)
        fleet.advance(130)
        nearest = math.inf
        for tick in range(260):
            for pilot in fleet.pilots:
                pilot.commander.manual_control(1.0, 0.0, 0.5, 0.0, fleet.time)
            if tick == 1:
                order(176, 1.0, 3.0)
            fleet.advance()
            away = WALL - fleet.simulation.states["position"][:, 0].max()
            nearest = min(nearest, float(away) - reach(airframe))
    return fleet, nearest


def test_vehicles_under_sticks_stop_in_front_of_a_wall() -> None:
    fleet, nearest = approaching((3.0, 5.0))
    assert nearest > 0.5
    away = WALL - fleet.simulation.states["position"][:, 0] - reach(load_airframe("iris_scanner"))
    # CP_DIST keeps the hull 1 m off.
    assert np.all(away < 1.6)
    assert all(pilot.commander.mode is flight_modes.POSITION_CONTROL for pilot in fleet.pilots)


def test_without_collision_prevention_the_vehicle_hits_the_wall() -> None:
    assert approaching((3.0,), CP_DIST=-1.0)[1] < 0.1


def test_the_mission_that_approaches_a_wall_flies_on_the_built_in_stack(tmp_path: Path) -> None:
    approach_the_wall("builtin", tmp_path, (5.0,))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_it_stops_from_twenty_speeds(tmp_path: Path) -> None:
    approach_the_wall("builtin", tmp_path, SPEEDS)


@pytest.mark.parametrize("increment", [1e30, 3e38, 400.0, 1e-45, 5e-324])
def test_a_report_with_absurd_angles_is_taken_in_a_moment(increment: float) -> None:
    flight = Flight()
    for offset in (0.0, 3e38, -1e30):
        for frame in (BODY, 0):
            assert flight.prevention.report([100] * 72, increment, offset, LIMITS, frame, 1.0, flight.now)
    flight.ask()
