"""The shipped airframes against the figures of their sources."""

from __future__ import annotations

import numpy as np
import pytest
from support.paths import AIRFRAMES

from sitl_bridge.cli.facts import derive_facts
from sitl_bridge.core.dynamics.performance import performance
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.vehicle.figure_sources import figure_paths
from sitl_bridge.core.world.world import World

NAMES = sorted(path.stem for path in AIRFRAMES.glob("*.yaml"))
SEA_LEVEL = 1.225
PUBLISHED_BUT_IMPOSSIBLE = {"firefly", "firefly_vi_sensor", "neo11"}
"""RotorS publishes inertia tensors for these that no rigid body can have."""


def test_all_airframes_that_are_promised_are_there() -> None:
    promised = "iris x500 hummingbird pelican firefly asymmetric_quadrotor neo11 hector ar100b ar100_x6 ar200"
    assert set(promised.split()) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_airframe_can_fly(name: str) -> None:
    airframe = load_airframe(name)
    result = performance(airframe.record, SEA_LEVEL, 9.80665)
    assert result.hover is not None
    assert result.thrust_to_weight > 1.5
    assert 0.2 < float(np.mean(result.hover.command)) < 0.8
    minutes = 6 if name.startswith("crazyflie") else 8  # Bitcraze's data sheet: 7 minutes
    assert result.endurance > minutes * 60


def test_a_vehicle_that_cannot_be_true_says_so() -> None:
    assert {name for name in NAMES if load_airframe(name).caveat} == {
        "crazyflie_identified", "hector", "hector_indoor", "iris_gazebo", "typhoon_h480_gazebo",
        "x500_gazebo",
    }  # fmt: skip
    assert derive_facts("hector")["warnings"][0] == load_airframe("hector").caveat


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_a_source_and_derived_ones_say_how(name: str) -> None:
    airframe = load_airframe(name)
    for path in figure_paths(airframe.model_dump(exclude_defaults=True)):
        assert airframe.source(path), path
    for source in airframe.sources.values():
        assert not source.startswith("derived") or len(source.removeprefix("derived:").strip()) > 10


@pytest.mark.parametrize("name", NAMES)
def test_inertia_is_that_of_a_body_except_where_the_published_one_is_not(name: str) -> None:
    assert load_airframe(name).inertia.of_a_body() == (name not in PUBLISHED_BUT_IMPOSSIBLE)


@pytest.mark.parametrize("name", NAMES)
def test_a_vehicle_stands_where_it_is_put_and_its_sensors_see_it_at_rest(name: str) -> None:
    airframe = load_airframe(name)
    simulation = Simulation(World(), [VehicleSetup(airframe.vehicle(), airframe.sensor_records())], seed=1)
    start = simulation.states[0]["position"].copy()
    simulation.advance(2500)
    state = simulation.states[0]
    assert np.abs(state["position"] - start).max() < 1e-3
    gravity = float(simulation.world.environment[0]["gravity"])
    np.testing.assert_allclose(np.linalg.norm(state["specific_force"]), gravity, rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "speed"),
    [
        ("firefly", 541.0),
        ("hummingbird", 453.2),
        ("pelican", 505.4),
        ("hector", 485.3),
        # 666.7 with upright rotors; canting them by 5 degrees takes cos(5 deg) of the thrust.
        ("neo11", 668.0),
    ],
)
def test_hover_speeds_are_those_of_the_sources(name: str, speed: float) -> None:
    hover = performance(load_airframe(name).record, SEA_LEVEL, 9.81).hover
    assert hover is not None
    assert float(np.mean(hover.rotor_speed)) == pytest.approx(speed, rel=1.5e-3)


def test_hector_hovers_at_the_power_of_its_source() -> None:
    hover = performance(load_airframe("hector").record, SEA_LEVEL, 9.80665).hover
    assert hover is not None
    assert hover.motor_power == pytest.approx(83.7, abs=0.15)
    np.testing.assert_allclose(hover.motor_current, 2.973, rtol=2e-3)
    np.testing.assert_allclose(hover.motor_voltage, 7.035, rtol=2e-3)


def test_the_full_x500_carries_every_kind_of_sensor_px4_can_take_here() -> None:
    sensors = load_airframe("x500_full").sensors
    count = {kind: sum(s.kind == kind for s in sensors) for kind in {s.kind for s in sensors}}
    assert count["imu"] == 3
    assert count["magnetometer"] == 2
    assert count["gps"] == 2
    assert {"barometer", "range_finder", "optical_flow", "battery"} <= set(count)
