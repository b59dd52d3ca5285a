"""Landing on a marker by the built-in stack: the marker's place, the states of the landing, and flights."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.px4_flights import land_on_the_marker

from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.modes.mission_items import LAND, TAKEOFF, WAYPOINT, MissionItem
from sitl_bridge.autopilot.modes.position_target import GO, GROUND, PositionTarget
from sitl_bridge.autopilot.modes.precision_landing import (
    APPROACH,
    DESCEND,
    FALLBACK,
    OPPORTUNISTIC,
    REQUIRED,
    SEARCH,
    START,
    TOUCH_DOWN,
    LandingTarget,
    PrecisionLanding,
)
from sitl_bridge.autopilot.parameters import Parameters
from sitl_bridge.autopilot.stack_fleet import StackFleet, StackVehicle
from sitl_bridge.core.sensors.perception.marker_detector import MarkerDetectorSpecification
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.core.world.world import World, WorldSpecification

NAN = math.nan
TICK = 48_000
SECOND = 1_000_000


# ------------------------------------------------------------------ the marker's place


class Sight:
    """A vehicle 5 m above ground, and the marker's filter."""

    def __init__(self, **parameters: float) -> None:
        known = Parameters()
        for name, value in ({"LTEST_SENS_ROT": 0} | parameters).items():
            known.set(name, value)
        self.state = EstimatedState()
        self.state.x, self.state.y, self.state.z = 3.0, -4.0, -5.0
        self.state.height_above_ground = 5.0
        self.target = LandingTarget(known.values, self.state)
        self.now = SECOND

    def see(self, forward: float, right: float, times: int = 40) -> tuple[float, float, float]:
        for _ in range(times):
            self.now += TICK
            self.target.report(forward, right)
            self.target.update(self.now)
        return self.target.x, self.target.y, self.target.z


def test_the_markers_place_follows_from_angles_height_and_attitude() -> None:
    assert Sight().see(0.2, -0.1) == pytest.approx((3.0 + 1.0, -4.0 - 0.5, 0.0), abs=1e-3)
    turned = Sight()
    turned.state.yaw = 0.5 * math.pi
    assert turned.see(0.2, -0.1) == pytest.approx((3.0 + 0.5, -4.0 + 1.0, 0.0), abs=1e-3)
    tilted = Sight()
    tilted.state.pitch = -math.atan(0.2)  # nose down: the marker straight below appears ahead of body down
    assert tilted.see(-0.2, 0.0)[:2] == pytest.approx((3.0 - 10.0 / 4.8, -4.0), abs=0.01)
    assert Sight(LTEST_SENS_ROT=2).see(0.2, 0.0) == pytest.approx((3.0, -3.0, 0.0), abs=1e-3)


def test_a_wrong_sighting_is_rejected_and_a_lost_marker_starts_again() -> None:
    sight = Sight()
    sight.see(0.1, 0.0)
    before = sight.target.time
    assert sight.see(0.9, 0.0, 1)[0] == pytest.approx(3.5, abs=0.01)
    assert sight.target.time == before
    sight.now += 3 * SECOND
    assert sight.see(0.9, 0.0, 10)[0] == pytest.approx(7.5, abs=0.01)


def test_without_a_height_above_ground_there_is_no_place() -> None:
    sight = Sight()
    sight.state.height_above_ground = NAN
    sight.see(0.1, 0.0)
    assert sight.target.time == -1


# ------------------------------------------------------------------ states


class Landing:
    """A vehicle at (0, 0, -7) that is to land there, and a marker at (1, 0.5, 0) that may be seen."""

    def __init__(self, mode: int, **parameters: float) -> None:
        known = Parameters()
        for name, value in parameters.items():
            known.set(name, value)
        self.state = EstimatedState()
        land: Any = SimpleNamespace(landed=False)
        self.target = PositionTarget()
        self.target.z = self.state.z = -7.0
        self.marker = LandingTarget(known.values, self.state)
        self.marker.x, self.marker.y, self.marker.z = 1.0, 0.5, 0.0
        self.landing = PrecisionLanding(known.values, self.state, land, self.target, self.marker)
        self.now = 100 * SECOND
        self.landing.begin(mode, self.now)

    def wait(self, seconds: float, seen: bool = False) -> int:
        for _ in range(round(seconds * 1e6 / TICK)):
            self.now += TICK
            if seen:
                self.marker.time = self.now
            self.landing.update(self.now)
        return self.landing.stage

    def above(self) -> None:
        self.state.x, self.state.y = 1.0, 0.5


def test_it_lands_where_it_is_if_the_marker_is_not_seen_and_not_required() -> None:
    landing = Landing(OPPORTUNISTIC)
    assert landing.wait(0.1) == FALLBACK
    assert landing.target.kind == GROUND


def test_it_flies_above_the_marker_and_descends_on_it() -> None:
    for mode in (OPPORTUNISTIC, REQUIRED):
        landing = Landing(mode)
        assert landing.wait(0.1, seen=True) == APPROACH
        assert (landing.target.x, landing.target.y, landing.target.z) == (1.0, 0.5, -7.0)
        assert landing.target.kind == GO
        landing.above()
        assert landing.wait(1.9, seen=True) == APPROACH
        assert landing.wait(0.3, seen=True) == DESCEND
        assert landing.target.kind == GROUND
        # Near the ground it lands without seeing the marker.
        landing.state.z = -0.05
        assert landing.wait(0.7) == TOUCH_DOWN


def test_it_climbs_to_look_for_a_required_marker_and_gives_up_in_time() -> None:
    landing = Landing(REQUIRED)
    assert landing.wait(1.9) == START
    assert landing.wait(0.3) == SEARCH
    assert (landing.target.kind, landing.target.z) == (GO, -10.0)
    assert landing.wait(9.5) == SEARCH
    assert landing.wait(1.0) == FALLBACK
    landing = Landing(REQUIRED, PLD_SRCH_TOUT=0.0)
    assert landing.wait(0.1) == FALLBACK


def test_a_marker_found_in_the_search_stops_the_climb() -> None:
    landing = Landing(REQUIRED)
    landing.wait(2.3)
    landing.state.z = -8.5
    assert landing.wait(0.2, seen=True) == SEARCH
    assert landing.target.z == -9.5
    assert landing.wait(1.0, seen=True) == APPROACH


def test_a_marker_lost_in_the_descent_is_looked_for_as_often_as_allowed() -> None:
    landing = Landing(REQUIRED, PLD_MAX_SRCH=0)
    landing.wait(0.1, seen=True)
    landing.above()
    landing.wait(2.5, seen=True)
    landing.state.z = -4.0
    assert landing.wait(4.9) == DESCEND
    assert landing.wait(0.3) == FALLBACK
    landing = Landing(REQUIRED, PLD_MAX_SRCH=1)
    landing.wait(0.1, seen=True)
    landing.above()
    landing.wait(2.5, seen=True)
    landing.state.z = -4.0
    assert landing.wait(5.2) == START
    assert (landing.target.x, landing.target.z) == (1.0, -4.0)


# ------------------------------------------------------------------ flights


def landed(precision: int, marker: tuple[float, float] = (10.0, 5.0), seed: int = 1) -> np.ndarray[Any, Any]:
    """Where a vehicle lands, m north and east, that is to land at (11.5, 4), 7 m above ground before."""
    airframe = load_airframe("iris_marker")
    sensors = tuple(
        s.model_copy(update={"marker": (*marker, 0.0)}) if isinstance(s, MarkerDetectorSpecification) else s
        for s in airframe.sensors
    )
    airframe = airframe.model_copy(update={"sensors": sensors})
    world = World(WorldSpecification())
    place = world.environment[0]
    projection = Projection(float(place["latitude"]), float(place["longitude"]), float(place["height"]))
    latitude, longitude = projection.point(11.5, 4.0)
    items = [
        MissionItem(0, 6, TAKEOFF, x=latitude, y=longitude, z=7.0),
        MissionItem(1, 6, WAYPOINT, x=latitude, y=longitude, z=7.0),
        MissionItem(2, 6, LAND, param2=float(precision), x=latitude, y=longitude),
    ]
    fleet = StackFleet(world, [StackVehicle(airframe, parameters={"NAV_DLL_ACT": 0})], seed=seed)
    commander = fleet.pilots[0].commander
    with fleet:
        fleet.advance(200)
        assert commander.set_mission(items) is None
        assert commander.command(176, [1.0, 4.0, 4.0, *[NAN] * 4], fleet.time) == 0
        assert commander.command(400, [1.0, *[NAN] * 6], fleet.time) == 0
        for _ in range(100):
            fleet.advance(21)
            if not commander.armed:
                break
        assert not commander.armed
        return np.asarray(fleet.simulation.states[0]["position"][:2].copy())


@pytest.mark.parametrize("precision", [OPPORTUNISTIC, REQUIRED])
def test_it_lands_on_a_marker_beside_the_missions_place(precision: int) -> None:
    assert math.dist(landed(precision), (10.0, 5.0)) < 0.25


def test_without_the_parameter_it_lands_at_the_missions_place() -> None:
    assert math.dist(landed(0), (11.5, 4.0)) < 0.5


def test_it_finds_a_marker_from_the_height_of_the_search() -> None:
    """At 7 m the field of view of 60 deg ends 4.0 m away, at 10 m 5.8 m away."""
    marker = (11.5, 4.0 + 4.7)
    assert math.dist(landed(REQUIRED, marker), marker) < 0.25
    # Not required, the landing is where the vehicle is, within NAV_ACC_RAD of the mission's place.
    assert math.dist(landed(OPPORTUNISTIC, marker), (11.5, 4.0)) < 2.2


def test_the_shipped_plan_lands_on_the_marker(tmp_path: Path) -> None:
    land_on_the_marker("builtin", tmp_path)
