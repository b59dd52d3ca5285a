"""Vibration of rotors at the inertial unit, damaged propellers, and the unit's own errors on a vehicle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import stream
from sitl_bridge.core.dynamics.records import MAX_ROTORS, STATE
from sitl_bridge.core.dynamics.vibration import Vibration, damage, vibration
from sitl_bridge.core.sensors.imu import IMU
from sitl_bridge.core.simulation.events import PropellerDamage
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World

IMBALANCE = 2.0e-6


@compiled
def _feel(vehicles: Any, states: Any, position: Any, bandwidth: float, random: Any, drawn: Any) -> Any:
    out = np.zeros(6)
    vibration(vehicles[0], states[0], position, bandwidth, random, drawn, out)
    return out


def felt(
    airframe: Airframe,
    state: NDArray[np.void],
    position: tuple[float, float, float],
    bandwidth: float = math.inf,
) -> Any:
    """(6,) specific force and rate by vibration at a place of the body."""
    vehicles, states = airframe.vehicle().reshape(1), state.reshape(1)
    return _feel(vehicles, states, np.array(position), bandwidth, stream(0, "test"), np.zeros(6))


def shaking(ripple: float = 0.0, **changes: Any) -> Airframe:
    """An iris whose rotors vibrate."""
    iris = load_airframe("iris")
    sources = {**iris.sources, "vibration": "derived: figures of a test"}
    shake = Vibration(imbalance=IMBALANCE, thrust_ripple=ripple)
    return iris.model_copy(update={"sources": sources, "vibration": shake, **changes})


def simulation(airframe: Airframe, seed: int = 0) -> Simulation:
    """One vehicle that hovers above the origin, its motors as in a hover."""
    made = Simulation(World(), [VehicleSetup(airframe.vehicle(), airframe.sensor_records())], seed=seed)
    made.states["position"][0, 2] = -50.0
    made.armed[:] = 1
    made.controls[0, :4] = 0.56
    made.states["rotor_speed"][0, :4] = 660.0
    return made


def imu_samples(s: Simulation, steps: int) -> NDArray[np.float64]:
    """(steps, 7) samples of the first inertial unit, the vehicle held in its place."""
    row = int(np.flatnonzero(s.sensors[0]["kind"] == IMU)[0])
    found = np.zeros((steps, 7))
    for k in range(steps):
        s.advance(1)
        s.states["velocity"], s.states["angular_velocity"] = 0.0, 0.0
        found[k] = s.sensor_states[0, row]["values"][:7]
    return found


def test_an_unbalanced_rotor_pulls_with_its_imbalance_times_the_square_of_its_speed() -> None:
    airframe, state = shaking(), np.zeros((), STATE)
    state["rotor_speed"][0] = 600.0
    expected = IMBALANCE * 600.0**2
    for phase in np.linspace(0.0, 6.0, 7):
        state["rotor_phase"][0] = phase
        force = felt(airframe, state, (0.0, 0.0, 0.0))[:3] * airframe.mass
        assert np.linalg.norm(force) == pytest.approx(expected)
        assert force[2] == pytest.approx(0.0, abs=1e-9)
        assert force[0] == pytest.approx(expected * math.cos(phase), abs=1e-9)


def test_the_rate_is_the_integral_of_the_angular_acceleration() -> None:
    """The acceleration a metre off the centre differs by J^-1 (r x F) x place."""
    airframe, state = shaking(ripple=0.1), np.zeros((), STATE)
    speed = 500.0
    state["rotor_speed"][2], state["rotor_thrust"][2] = speed, 4.0
    phases = np.linspace(0.0, 2.0 * math.pi, 721)
    rates, turning = [], []
    for phase in phases:
        state["rotor_phase"][2] = phase
        here = felt(airframe, state, (0.0, 0.0, 0.0))
        above, right = felt(airframe, state, (0.0, 0.0, 1.0)), felt(airframe, state, (0.0, 1.0, 0.0))
        turning.append((here[1] - above[1], above[0] - here[0], here[0] - right[0]))
        rates.append(here[3:])
    slopes = np.gradient(np.array(rates), phases, axis=0) * speed
    scale = np.abs(turning).max()
    np.testing.assert_allclose(slopes[2:-2], np.array(turning)[2:-2], atol=2e-3 * scale)


def test_thrust_ripples_as_often_as_blades_pass() -> None:
    airframe, state = shaking(ripple=0.1), np.zeros((), STATE)
    state["rotor_speed"][:4], state["rotor_thrust"][:4] = 500.0, 4.0
    for phase, expected in ((0.0, -1.6), (math.pi / 2, 1.6), (math.pi, -1.6)):
        state["rotor_phase"][:4] = phase
        assert felt(airframe, state, (0.0, 0.0, 0.0))[2] * airframe.mass == pytest.approx(expected)


def test_a_filter_of_second_order_passes_half_the_power_at_its_bandwidth() -> None:
    airframe, state = shaking(ripple=0.1), np.zeros((), STATE)
    state["rotor_speed"][0], state["rotor_thrust"][0] = 600.0, 4.0
    turns = 600.0 / (2.0 * math.pi)
    whole = felt(airframe, state, (0.0, 0.0, 0.0))
    for bandwidth in (turns, 2.0 * turns):  # of the imbalance, and of the passing of two blades
        passed = felt(airframe, state, (0.0, 0.0, 0.0), bandwidth)
        for axis, frequency in ((0, turns), (2, 2.0 * turns)):
            share = 1.0 / math.sqrt(1.0 + (frequency / bandwidth) ** 4)
            assert passed[axis] == pytest.approx(share * whole[axis])


def test_shaking_faster_than_the_samples_has_its_deviation_and_a_bounded_integral() -> None:
    """v = n_k - n_(k-1): its deviation is sqrt(2) of the white noise's, its sum the first minus the last."""
    airframe, state = shaking(), np.zeros((), STATE)
    shake = Vibration(imbalance=0.0, shake=(3.0, 0.1))
    vehicles = airframe.model_copy(update={"vibration": shake}).vehicle().reshape(1)
    state["rotor_speed"][:4], state["rotor_thrust"][:4] = 600.0, airframe.mass * STANDARD_GRAVITY / 4.0
    drawn, random = np.zeros(6), stream(0, "test")
    rows = [_feel(vehicles, state.reshape(1), np.zeros(3), math.inf, random, drawn) for _ in range(4000)]
    expected = math.sqrt(2.0) * np.repeat([3.0, 0.1], 3)
    np.testing.assert_allclose(np.std(rows, axis=0), expected, rtol=0.06)
    np.testing.assert_allclose(np.sum(rows, axis=0), drawn, atol=1e-9)


def test_a_broken_blade_loses_lift_by_its_cube_and_unbalances_the_rotor() -> None:
    """A tenth of a blade of 2.5 g and 128 mm: 0.25 g at 121.6 mm, 13 N at 660 rad/s."""
    vehicle = load_airframe("iris").vehicle()
    health, imbalance = damage(vehicle, 0, 0.1)
    assert health == pytest.approx((1.0 + 0.9**3) / 2.0)
    assert imbalance == pytest.approx(0.25e-3 * 0.1216, rel=2e-3)
    assert damage(vehicle, 0, 0.0) == (1.0, 0.0)
    assert damage(vehicle, 0, 1.0)[0] == pytest.approx(0.5)


def test_an_airframe_without_vibration_has_the_same_bytes_as_one_whose_mount_keeps_all_away() -> None:
    quiet = simulation(load_airframe("iris"))
    shaken = shaking(ripple=0.1)
    mounts = tuple(s.model_copy(update={"isolation": 1.0}) if s.kind == "imu" else s for s in shaken.sensors)
    isolated = simulation(shaken.model_copy(update={"sensors": mounts}))
    np.testing.assert_array_equal(imu_samples(quiet, 50), imu_samples(isolated, 50))


def test_vibration_grows_with_damage_and_ends_with_it() -> None:
    levels = []
    for lost in (0.0, 0.05, 0.1):
        s = simulation(shaking())
        PropellerDamage(kind="propeller_damage", at=0.0, motor=1, lost=lost).begin(s, 0)
        levels.append(np.std(imu_samples(s, 500)[:, :2]))
    assert levels[0] < 0.5 * levels[1] < 0.5 * levels[2]
    s = simulation(load_airframe("iris"))
    event = PropellerDamage(kind="propeller_damage", at=0.0, motor=3, lost=0.2)
    event.begin(s, 0)
    assert s.states[0]["rotor_health"][2] == pytest.approx((1.0 + 0.8**3) / 2.0)
    assert s.states[0]["vibrating"] == 1
    event.end(s, 0)
    assert s.states[0]["rotor_health"][2] == 1.0
    assert s.states[0]["vibrating"] == 0
    assert not s.states[0]["damage_imbalance"].any()


def test_an_unbalanced_rotor_beyond_the_range_clips() -> None:
    airframe = shaking()
    narrow = tuple(
        s.model_copy(update={"accelerometer_range": 15.0}) if s.kind == "imu" else s for s in airframe.sensors
    )
    s = simulation(airframe.model_copy(update={"sensors": narrow}))
    PropellerDamage(kind="propeller_damage", at=0.0, motor=1, lost=0.4).begin(s, 0)
    samples = np.abs(imu_samples(s, 300)[:, :3])
    assert samples.max() == 15.0
    assert np.mean(samples == 15.0) > 0.02


def with_imu(**changes: Any) -> Airframe:
    """An iris with a unit without noise, but with these errors."""
    iris = load_airframe("iris")
    still = {"noise_density": 0.0}
    made = tuple(
        type(s).model_validate(
            {"kind": "imu", "rate": 250, "accelerometer": still, "gyroscope": still, **changes}
        )
        if s.kind == "imu"
        else s
        for s in iris.sensors
    )
    return iris.model_copy(update={"sensors": made})


def test_a_misaligned_unit_feels_gravity_across() -> None:
    """Over seeds, the small angles have the deviation that the file gives."""
    across = []
    for seed in range(30):
        sample = imu_samples(simulation(with_imu(misalignment=1.0), seed), 1)[0]
        across += (sample[:2] / sample[2]).tolist()
    assert np.std(across) == pytest.approx(math.radians(1.0), rel=0.25)


def test_biases_drift_as_the_unit_warms_up() -> None:
    drift = 0.01
    ideal = imu_samples(simulation(with_imu()), 500)
    warmed = imu_samples(
        simulation(with_imu(accelerometer_drift=drift, self_heating=20.0, warm_up_time=0.5)), 500
    )
    air = ideal[0, 6]
    seconds = 0.004 * np.arange(1, 501)
    np.testing.assert_allclose(warmed[:, 6], air + 20.0 * (1.0 - np.exp(-seconds / 0.5)), atol=0.2)
    error = warmed[:, :3] - ideal[:, :3]
    coefficient = error[-1] / (warmed[-1, 6] - 25.0)
    assert 0.0 < np.abs(coefficient).max() < 4.0 * drift
    np.testing.assert_allclose(error, coefficient * (warmed[:, 6:7] - 25.0), atol=1e-9)


def test_phases_of_rotors_that_do_not_vibrate_stand_still(make_simulation: Callable[..., Simulation]) -> None:
    s = make_simulation("iris")
    before = s.states["rotor_phase"].copy()
    s.armed[:], s.controls[:, :4] = 1, 0.5
    s.advance(20)
    np.testing.assert_array_equal(s.states["rotor_phase"], before)
    assert before.shape == (1, MAX_ROTORS)
