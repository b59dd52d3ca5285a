"""What fails in flight, over the real dynamics, sensors, estimator and controllers; a vehicle a failure."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.autopilot.pilot import Pilot
from sitl_bridge.autopilot.stack import StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World

ARM, TAKE_OFF, TERMINATE, FAIL = 400, 22, 185, 420
GYROSCOPE, ACCELEROMETER, MAGNETOMETER, BAROMETER, GPS = 0, 1, 2, 3, 4
OFF, STUCK = 1, 2


class Flown:
    """Vehicles that hover at 2.5 m, 10 m apart."""

    def __init__(self, count: int, airframe: str = "iris", seed: int = 4) -> None:
        members = [
            StackVehicle(
                load_airframe(airframe),
                name=str(i),
                position=(0.0, 10.0 * i, 0.0),
                parameters={"SYS_FAILURE_EN": 1, "CBRK_FLIGHTTERM": 0},
            )
            for i in range(count)
        ]
        self.fleet = StackFleet(World(), members, seed=seed)
        self.run(8.0)
        for pilot in self.fleet.pilots:
            assert self.do(pilot, ARM, 1.0) == 0
            assert self.do(pilot, TAKE_OFF) == 0
        self.run(9.0)

    def do(self, pilot: Pilot, command: int, *params: float) -> int:
        full = [*params, *[math.nan] * (7 - len(params))]
        return pilot.commander.command(command, full, self.fleet.time)

    def run(self, seconds: float, each: Callable[[], None] = lambda: None) -> None:
        end = self.fleet.time + seconds * 1e6
        while self.fleet.time < end:
            self.fleet.advance()
            each()

    @property
    def height_errors(self) -> NDArray[np.float64]:
        """m, that the estimate is below the truth."""
        estimated = self.fleet.stacks.estimates["position"][:, 2]
        return np.array(estimated - self.fleet.simulation.states["position"][:, 2])


@pytest.mark.parametrize("seed", [4, 6, 11])
def test_a_fall_to_the_ground_beyond_the_accelerometers_range_carries_no_estimate_away(seed: int) -> None:
    """In these, vehicles bounce while a fix from before the blow is on its way."""
    flown = Flown(5, seed=seed)
    worst = np.zeros(5)
    fastest = np.zeros(5)

    def look() -> None:
        np.maximum(worst, np.abs(flown.height_errors), out=worst)
        np.maximum(fastest, flown.fleet.simulation.states["velocity"][:, 2], out=fastest)

    before = flown.height_errors
    for pilot in flown.fleet.pilots:
        assert flown.do(pilot, TERMINATE, 1.0) == 0
    flown.run(20.0, look)
    assert fastest.min() > 5.0
    assert worst.max() < np.abs(before).max() + 1.0
    assert np.abs(flown.fleet.stacks.estimates["velocity"][:, 2]).max() < 0.2
    assert not any(pilot.commander.armed for pilot in flown.fleet.pilots)


@pytest.mark.parametrize("how", [OFF, STUCK])
def test_without_inertial_sensors_the_motors_are_stopped(how: int) -> None:
    flown = Flown(2)
    for pilot, unit in zip(flown.fleet.pilots, (GYROSCOPE, ACCELEROMETER), strict=True):
        assert flown.do(pilot, FAIL, unit, how, 0) == 0
    flown.run(1.5)
    assert [pilot.commander.mode.name for pilot in flown.fleet.pilots] == ["Termination"] * 2
    assert (flown.fleet.simulation.controls == 0.0).all()
    flown.run(6.0)
    assert not any(pilot.commander.armed for pilot in flown.fleet.pilots)


@pytest.mark.parametrize("how", [OFF, STUCK])
def test_a_lost_aiding_sensor_brings_no_vehicle_down_hard(how: int) -> None:
    flown = Flown(3)
    units = (GPS, BAROMETER, MAGNETOMETER)
    before = flown.fleet.simulation.states["position"].copy()
    for pilot, unit in zip(flown.fleet.pilots, units, strict=True):
        assert flown.do(pilot, FAIL, unit, how, 0) == 0
    fastest = 0.0

    def look() -> None:
        nonlocal fastest
        fastest = max(fastest, float(flown.fleet.simulation.states["velocity"][:, 2].max()))

    flown.run(25.0, look)  # to notice what is stuck takes 2 s, to give the position up another 5 s
    assert fastest < 1.2  # MPC_LAND_SPEED 0.7 m/s
    commanders = [pilot.commander for pilot in flown.fleet.pilots]
    assert [commander.armed for commander in commanders] == [False, True, True]
    assert [commander.mode.name for commander in commanders[1:]] == ["Hold", "Hold"]
    assert np.abs(flown.height_errors).max() < 2.0
    away = np.linalg.norm(flown.fleet.simulation.states["position"] - before, axis=1)[1:]
    assert away.max() < 1.0


def test_a_vehicle_that_has_lost_position_and_height_ends_on_the_ground_with_its_motors_off() -> None:
    flown = Flown(3)
    before = flown.fleet.simulation.states["position"].copy()
    for pilot in flown.fleet.pilots:
        for unit in (GPS, BAROMETER):
            assert flown.do(pilot, FAIL, unit, OFF, 0) == 0
    flown.run(32.0)
    assert not any(pilot.commander.armed for pilot in flown.fleet.pilots)
    states = flown.fleet.simulation.states
    assert np.abs(states["velocity"]).max() < 0.05
    # It drifts as it likes for the 5 s in which the velocity is still believed and some 10 s of descent.
    assert np.hypot(*(states["position"] - before).T[:2]).max() < 20.0


@pytest.mark.slow
def test_a_stuck_magnetometer_moves_none_of_many_vehicles() -> None:
    flown = Flown(24)
    before = flown.fleet.simulation.states["position"].copy()
    for pilot in flown.fleet.pilots:
        assert flown.do(pilot, FAIL, MAGNETOMETER, STUCK, 0) == 0
    flown.run(25.0)
    assert np.linalg.norm(flown.fleet.simulation.states["position"] - before, axis=1).max() < 1.0
    assert not flown.fleet.stacks.estimates["resets"].any()
