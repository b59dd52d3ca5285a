"""How well the whole built-in stack holds a place for five minutes, against the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.autopilot.stack import TICK, StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.plan.plan_upload import MissionItem

ARM, TAKE_OFF, WAYPOINT, LAND, START, RELATIVE = 400, 22, 16, 21, 300, 6
VEHICLES = 20


def places_to_hold(fleet: StackFleet, world: World) -> NDArray[np.float64]:
    """(n, 3) m NED of the world, where the vehicles are to be by latitude, longitude and altitude."""
    places = []
    for pilot in fleet.pilots:
        target = pilot.commander.navigator.target
        latitude, longitude, altitude = pilot.estimate["origin"].tolist()
        projection = Projection(latitude, longitude, altitude)
        places.append(world.ned(*projection.place((target.x, target.y, target.z))))
    return np.array(places)


@pytest.mark.slow
@pytest.mark.parametrize("wind", [0.0, 8.0])
def test_a_hover_of_five_minutes_stays_half_a_metre_around_its_place_on_earth(wind: float) -> None:
    blowing = (
        WindSpecification(steady=SteadyWind(speed=wind, direction=200.0)) if wind else WindSpecification()
    )
    world = World(WorldSpecification(wind=blowing))
    members = [
        StackVehicle(load_airframe("iris"), name=str(i), position=(0.0, 10.0 * i, 0.0))
        for i in range(VEHICLES)
    ]
    fleet = StackFleet(world, members, seed=7)
    second = round(1e6 / TICK)
    fleet.advance(10 * second)
    for pilot in fleet.pilots:
        for command, first in ((ARM, 1.0), (TAKE_OFF, math.nan)):
            assert pilot.commander.command(command, [first, *[math.nan] * 6], fleet.time) == 0
    fleet.advance(20 * second)
    places = places_to_hold(fleet, world)
    away = []
    for _ in range(300):
        fleet.advance(second)
        away.append(fleet.simulation.states["position"] - places)
    assert [pilot.commander.mode.name for pilot in fleet.pilots] == ["Hold"] * VEHICLES
    distance = np.linalg.norm(away, axis=2)
    assert np.sqrt(np.mean(distance**2, axis=0)).max() < 0.25
    # The filter knows the place to 0.10 m an axis at best; moving towards it takes 0.08 m more.  Of 6000
    # seconds, horizontal errors that Gaussian with 0.13 m together exceed 0.5 m in four.
    assert np.mean(distance > 0.5) < 0.002
    assert distance.max() < 0.7


@pytest.mark.slow
def test_a_hundred_vehicles_fly_a_mission_and_all_land_and_disarm() -> None:
    world = World(WorldSpecification())
    members = [
        StackVehicle(load_airframe("iris"), name=str(i), position=(20.0 * (i // 10), 20.0 * (i % 10), 0.0))
        for i in range(100)
    ]
    fleet = StackFleet(world, members, seed=3)
    second = round(1e6 / TICK)
    fleet.advance(10 * second)
    stood = fleet.simulation.states["position"].copy()
    for pilot in fleet.pilots:
        projection = Projection(*pilot.estimate["origin"].tolist())
        items = []
        for seq, (command, north) in enumerate([(TAKE_OFF, 0.0), (WAYPOINT, 10.0), (LAND, 10.0)]):
            here = pilot.estimate["position"]
            latitude, longitude, _ = projection.place((here[0] + north, here[1], 0.0))
            height = 0.0 if command == LAND else 5.0
            items.append(MissionItem(seq, RELATIVE, command, x=latitude, y=longitude, z=height))
        assert pilot.commander.set_mission(items) is None
        assert pilot.commander.command(START, [math.nan] * 7, fleet.time) == 0
        assert pilot.commander.command(ARM, [1.0, *[math.nan] * 6], fleet.time) == 0
    fleet.advance(8 * second)
    assert fleet.simulation.states["position"][:, 2].max() < -2.0
    fleet.advance(30 * second)
    assert not any(pilot.commander.armed for pilot in fleet.pilots)
    moved = fleet.simulation.states["position"] - stood
    assert moved[:, 0] == pytest.approx(10.0, abs=1.5)
    assert np.abs(moved[:, 2]).max() < 0.05
