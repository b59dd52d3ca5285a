"""Events of a scenario, each by what the physics does then: a simulation is flown through it, open loop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.core.simulation import events
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe, Payload
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import World

GRAVITY = 9.8066
EARTH_RADIUS = 6_371_000.0
HOVER = 0.475
"""The control at which the thrust of the iris is nearly its weight; what is left over is measured."""


def flying(airframe: Airframe, control: float = HOVER) -> Simulation:
    """High above the ground, at rest, its motors at speed."""
    simulation = Simulation(World(), [VehicleSetup.from_airframe(airframe)])
    simulation.states["position"][0] = (0.0, 0.0, -500.0)
    simulation.armed[:] = 1
    simulation.controls[0, : len(airframe.rotors)] = control
    simulation.advance(50)
    simulation.states["velocity"][0] = 0.0
    simulation.states["angular_velocity"][0] = 0.0
    return simulation


def act(simulation: Simulation, *happening: Any) -> None:
    """Fly until the events are over: each action at its time, between two steps."""
    start = simulation.time
    actions = events.actions(happening, simulation, lambda _line: None)
    for seconds, action in sorted(actions, key=lambda a: a[0]):
        simulation.advance((start + round(1e6 * seconds) - simulation.time) // simulation.step)
        action()


def seconds(simulation: Simulation, time: float) -> NDArray[np.float64]:
    """Advance; the mean acceleration (3,) m/s^2 NED meanwhile."""
    before = simulation.states["velocity"][0].copy()
    simulation.advance(round(1e6 * time / simulation.step))
    change: NDArray[np.float64] = (simulation.states["velocity"][0] - before) / time
    return change


def fix(simulation: Simulation) -> NDArray[np.float64]:
    """The last latitude and longitude in rad, height, velocity, eph, epv, fix and satellites."""
    receiver = events.find_sensor(simulation.sensors[0], "gps")
    values: NDArray[np.float64] = simulation.sensor_states[0, receiver]["values"].copy()
    return values


def test_jamming_takes_satellites_and_accuracy_then_the_fix_and_passes(iris: Airframe) -> None:
    s = flying(iris)
    seconds(s, 1.0)
    assert fix(s)[8:10].tolist() == [3.0, 10.0]
    weak = events.GpsJamming(kind="gps_jamming", at=0.0, level=0.65)
    act(s, weak)
    seconds(s, 1.0)
    assert fix(s)[8:10].tolist() == [2.0, 3.0]
    assert fix(s)[6] > 3.0, "beyond EKF2_REQ_EPH"
    act(s, events.GpsJamming(kind="gps_jamming", at=0.0, level=1.0, lasts=1.0))
    seconds(s, 1.0)
    assert fix(s)[8:10].tolist() == [2.0, 3.0], "the weaker jamming goes on"
    events.apply_event(weak, False, s, [0])
    seconds(s, 1.0)
    assert fix(s)[8:10].tolist() == [3.0, 10.0]


def test_of_rtk_jamming_leaves_an_ordinary_fix_at_first() -> None:
    airframe = load_airframe("iris_rtk")
    s = flying(airframe)
    seconds(s, 1.0)
    assert fix(s)[6:9].tolist() == [0.01, 0.01, 6.0]
    act(s, events.GpsJamming(kind="gps_jamming", at=0.0, level=0.1))
    seconds(s, 1.0)
    assert fix(s)[8] == 3.0
    assert fix(s)[6] == pytest.approx(0.029)


def test_the_fix_jumps_by_an_offset_and_back_and_its_velocity_does_not(iris: Airframe) -> None:
    honest, fooled = flying(iris), flying(iris)
    jump = {"velocity": (0.0, 0.0, 0.0), "offset": (0.0, 0.0, -3.0)}
    event = events.GpsSpoofing.model_validate({"kind": "gps_spoofing", "at": 0.0, "lasts": 5.0, **jump})
    begin, end = (action for _, action in events.actions((event,), fooled, lambda _line: None))
    for act_now, off in ((begin, 3.0), (end, 0.0)):
        act_now()
        for s in (honest, fooled):
            seconds(s, 1.0)
        assert fix(fooled)[2] - fix(honest)[2] == pytest.approx(off, abs=1e-6)
        assert fix(fooled)[3:6] == pytest.approx(fix(honest)[3:6], abs=1e-12)


def test_spoofing_walks_the_fix_away_and_not_the_vehicle(iris: Airframe) -> None:
    honest, fooled = flying(iris), flying(iris)
    event = events.GpsSpoofing(kind="gps_spoofing", at=1.0, velocity=(2.0, 0.0, 0.0), lasts=10.0)
    begin, end = (action for _, action in events.actions((event,), fooled, lambda _line: None))
    for s in (honest, fooled):
        seconds(s, 1.0)
    begin()
    for s in (honest, fooled):
        seconds(s, 10.0)
    away = (fix(fooled)[0] - fix(honest)[0]) * EARTH_RADIUS
    # The last fix is of up to 0.2 s and 0.12 s of latency ago.
    assert 2.0 * 9.6 < away < 2.0 * 10.1
    assert fix(fooled)[3] - fix(honest)[3] == pytest.approx(2.0)
    assert np.array_equal(fooled.states["position"], honest.states["position"])
    end()
    for s in (honest, fooled):
        seconds(s, 1.0)
    assert fix(fooled)[:6] == pytest.approx(fix(honest)[:6], abs=1e-12)


def test_another_wind_pushes_with_the_drag_it_makes(iris: Airframe) -> None:
    s = flying(iris)
    # Falling with its motors stopped, so that all that drags is the body.
    s.armed[:] = 0
    s.advance(500)
    s.states["velocity"][0] = 0.0
    still = seconds(s, 0.2)
    blow = events.WindEvent(
        kind="wind_change", at=0.0, wind=WindSpecification(steady=SteadyWind(speed=12.0, direction=270.0))
    )
    act(s, blow)
    pushed = seconds(s, 0.2)
    assert abs(still[1]) < 1e-3
    assert pushed[1] > 0.0, "from the west it blows east"
    # Force of drag along a body axis: coefficient times speed times that of the air past it (drag.force).
    fall = float(s.states["velocity"][0, 2])
    expected = 0.0077 * 12.0 * math.hypot(12.0, fall) / iris.mass
    assert pushed[1] == pytest.approx(expected, rel=0.25)


def test_a_lost_motor_tips_the_vehicle_over_its_corner_and_lets_it_sink(iris: Airframe) -> None:
    whole, lame = flying(iris), flying(iris)
    act(lame, events.MotorLoss(kind="motor_loss", at=0.0, motor=1, thrust=0.0))
    seconds(whole, 0.1)
    seconds(lame, 0.1)
    assert np.abs(whole.states["angular_velocity"][0]).max() < 0.1
    # Motor 1 is front right: without it the vehicle rolls right and pitches down towards it.
    roll, pitch, _ = lame.states["angular_velocity"][0]
    assert roll > 1.0
    assert pitch < -0.5
    x, y, _ = iris.rotors[0].position
    thrust = iris.mass * GRAVITY / 4.0
    limit = 0.1 * thrust * y / iris.inertia.xx, 0.1 * thrust * x / iris.inertia.yy
    # Less than with an instant loss, for the rotor takes its time constant to stop.
    assert 0.4 * limit[0] < roll < 1.1 * limit[0]
    assert 0.4 * limit[1] < -pitch < 1.1 * limit[1]
    sink = lame.states["velocity"][0, 2] - whole.states["velocity"][0, 2]
    assert 0.05 < sink < 0.1 * GRAVITY / 4.0 * 1.3


def test_a_motor_that_is_mended_pulls_again(iris: Airframe) -> None:
    s = flying(iris)
    act(s, events.MotorLoss(kind="motor_loss", at=0.0, motor=2, thrust=0.5, lasts=0.1))
    assert np.all(s.states["rotor_health"][0, :4] == 1.0)
    s.states["angular_velocity"][0] = 0.0
    seconds(s, 0.05)
    assert np.abs(s.states["angular_velocity"][0]).max() < 0.5


def test_without_its_payload_the_same_thrust_lifts_the_vehicle_by_what_it_weighed(iris: Airframe) -> None:
    cargo = Payload(mass=0.5, position=(0.0, 0.0, 0.1))
    sources = {**iris.sources, "payload": "derived: for a test"}
    loaded = iris.model_copy(update={"payload": cargo, "sources": sources}).include_payload()
    s = flying(loaded)
    heavy = seconds(s, 0.1)[2]
    s.states["velocity"][0] = 0.0
    act(s, events.PayloadDrop(kind="payload_drop", at=0.0))
    light = seconds(s, 0.1)[2]
    # m a = m g - T, with one thrust T for both.
    thrust = loaded.mass * (GRAVITY - heavy)
    assert light == pytest.approx(GRAVITY - thrust / iris.mass, abs=0.1)
    assert heavy - light > 1.0


def test_a_gust_blows_at_its_time(iris: Airframe) -> None:
    gust = events.GustEvent(
        kind="gust", at=2.0, speed=10.0, direction=180.0, length=1.0, passing_speed=10.0, hold=1.0
    )
    wind = World(gusts=events.gusts_of((gust,))).specification.wind
    simulation = Simulation(World(), [VehicleSetup(iris.vehicle(), iris.sensor_records())])
    simulation.world.set_wind(wind, simulation.time)
    simulation.states["position"][0] = (0.0, 0.0, -500.0)
    assert abs(seconds(simulation, 1.9)[0]) < 1e-6
    assert seconds(simulation, 1.0)[0] > 0.1, "from the south it blows north"
