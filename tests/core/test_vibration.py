"""Vibration of rotors at the inertial unit, damaged propellers, and the unit's own errors on a vehicle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import csd, welch

from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.dynamics.records import MAX_ROTORS, STATE
from sitl_bridge.core.dynamics.vibration import (
    AIR_DENSITY,
    LARGEST_GAIN,
    Arms,
    Vibration,
    damage_propeller,
    vibration,
)
from sitl_bridge.core.sensors.error_model import ErrorSpecification
from sitl_bridge.core.sensors.imu import IMU, MORE
from sitl_bridge.core.simulation.events import PropellerDamage
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World

IMBALANCE = 2.0e-6
ARMS = Arms(frequency=100.0, damping=0.03, length=0.185, height=0.035)


@compiled
def _feel(vehicles: Any, states: Any, position: Any, bandwidth: float, interval: float) -> Any:
    out = np.zeros(9)
    vibration(vehicles[0], states[0], position, bandwidth, interval, 0.0, out)
    return out[:6]


def felt(
    airframe: Airframe,
    state: NDArray[np.void],
    position: tuple[float, float, float],
    bandwidth: float = math.inf,
    interval: float = 0.0,
) -> Any:
    """(6,) specific force and rate by vibration at a place of the body."""
    vehicles, states = airframe.vehicle().reshape(1), state.reshape(1)
    return _feel(vehicles, states, np.array(position), bandwidth, interval)


def shaking(
    ripple: float = 0.0,
    *,
    imbalance: float = IMBALANCE,
    turbulence: float = 0.0,
    arms: Arms | None = None,
    **changes: Any,
) -> Airframe:
    """An iris whose rotors vibrate."""
    iris = load_airframe("iris")
    sources = {**iris.sources, "vibration": "derived: figures of a test"}
    shake = Vibration(imbalance=imbalance, thrust_ripple=ripple, turbulence=turbulence, arms=arms)
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


def test_the_mean_over_an_interval_is_that_of_the_vibration_within_it() -> None:
    airframe, state = shaking(ripple=0.1, arms=ARMS), np.zeros((), STATE)
    state["rotor_speed"][1], state["rotor_thrust"][1], interval = 600.0, 4.0, 0.004
    state["rotor_phase"][1] = 2.0
    mean = felt(airframe, state, (0.1, 0.0, 0.2), interval=interval)
    rows = []
    for before in (np.arange(400) + 0.5) / 400.0 * interval:
        state["rotor_phase"][1] = 2.0 - 600.0 * before
        rows.append(felt(airframe, state, (0.1, 0.0, 0.2)))
    np.testing.assert_allclose(mean, np.mean(rows, axis=0), rtol=1e-4, atol=1e-5)


def integrated_arm(along: float, side: float, up: float, speed: float) -> NDArray[np.float64]:
    """Amplitudes (3,) of an arm's force on the body, by integrating the mass at its end in time.

    A turning force of 1 N acts at a height of ARMS above the mass; its part along the arm bends it upwards by
    its moment.  All arguments but the last switch a part of the force on.
    """
    natural, mass = 2.0 * math.pi * ARMS.frequency, 0.09
    stiffness, damping = mass * natural**2, 2.0 * ARMS.damping * mass * natural
    lever = 1.5 * ARMS.height / ARMS.length
    place, velocity, step = np.zeros(2), np.zeros(2), 2e-6
    largest, steps = np.zeros(3), round(0.6 / step)
    for k in range(steps):
        phase = speed * k * step
        pulls = np.array([side * math.sin(phase), 0.0])
        bent = np.array([0.0, up * lever * math.cos(phase) / stiffness])
        bending = np.array([0.0, -up * lever * speed * math.sin(phase) / stiffness])
        spring = stiffness * (place - bent) + damping * (velocity - bending)
        velocity = velocity + (pulls - spring) / mass * step
        place = place + velocity * step
        if k > steps - 2.0 * math.pi / speed / step:
            largest = np.maximum(largest, np.abs([along * math.cos(phase), spring[0], spring[1]]))
    return largest


@pytest.mark.parametrize("share", [0.5, 0.9, 1.6])
def test_an_arm_passes_on_what_the_mass_at_its_end_does_in_time(share: float) -> None:
    """The rotor of an iris at (x, y): out along its arm, across it, and up."""
    airframe, state = shaking(arms=ARMS), np.zeros((), STATE)
    speed = share * 2.0 * math.pi * ARMS.frequency
    state["rotor_speed"][0] = speed
    x, y, _ = airframe.vehicle()["rotor_position"][0]
    out = np.array([x, y, 0.0]) / math.hypot(x, y)
    across, largest = np.cross([0.0, 0.0, 1.0], out), np.zeros(3)
    for phase in np.linspace(0.0, 2.0 * math.pi, 361):
        state["rotor_phase"][0] = phase
        force = felt(airframe, state, (0.0, 0.0, 0.0))[:3] * airframe.mass / (IMBALANCE * speed**2)
        largest = np.maximum(largest, np.abs([force @ out, force @ across, force[2]]))
    np.testing.assert_allclose(largest, integrated_arm(1.0, 1.0, 1.0, speed), rtol=0.02)


def test_the_arms_answer_to_turbulence_has_their_resonance_and_a_bounded_integral() -> None:
    s = simulation(shaking(turbulence=0.004, arms=ARMS))
    buffet, felt_force, rate = np.zeros((8000, 6)), np.zeros((8000, 6)), np.zeros((8000, 3))
    for k in range(8000):
        buffet[k] = s.states[0]["buffet"]
        s.advance(1)
        s.states["velocity"], s.states["angular_velocity"] = 0.0, 0.0
        felt_force[k], rate[k] = s.states[0]["buffet_felt"][:6], s.states[0]["buffet_felt"][6:]
    mass = float(s.vehicles[0]["mass"])
    total = felt_force[:, 2] * mass + buffet[:, 2]
    frequency, cross = csd(buffet[:, 2], total, 250.0, nperseg=1000)
    gain = cross / welch(buffet[:, 2], 250.0, nperseg=1000)[1]
    near = np.abs(frequency - ARMS.frequency) < 0.5
    mean = math.sin(math.pi * ARMS.frequency * 0.004) / (math.pi * ARMS.frequency * 0.004)
    peak = mean * abs(complex(1.0, 2.0 * ARMS.damping)) / (2.0 * ARMS.damping)
    assert np.sqrt(np.mean(np.abs(gain[near]) ** 2)) == pytest.approx(peak, rel=0.2)
    slow = (frequency > 1.0) & (frequency < 5.0)
    assert np.sqrt(np.mean(np.abs(gain[slow] - 1.0) ** 2)) < 0.02
    assert np.abs(rate.mean(axis=0)).max() < 0.1 * rate.std(axis=0).min()


def test_turbulence_moves_the_vehicle_by_its_density_and_grows_with_speed() -> None:
    """Of n equal rotors, sqrt(n) of one's; in flight at v_h, sqrt(2) of a hover's."""
    levels = []
    for multiple in (0.0, 1.0):
        s = simulation(shaking(turbulence=0.004))
        thrust = float(s.vehicles[0]["mass"]) * STANDARD_GRAVITY / 4.0
        hover = math.sqrt(
            thrust / (2.0 * AIR_DENSITY * math.pi * float(s.vehicles[0]["rotor_radius"][0]) ** 2)
        )
        rows = np.zeros((3000, 2))
        for k in range(3000):
            s.states["velocity"], s.states["angular_velocity"] = (multiple * hover, 0.0, 0.0), 0.0
            s.advance(1)
            rows[k] = s.states[0]["buffet"][2], np.abs(s.states[0]["rotor_thrust"]).sum()
        levels.append(rows[500:, 0].std() / rows[500:, 1].mean())
    density = levels[0] * math.sqrt(2.0 * 0.004)  # of white noise between 0 and 125 Hz
    assert density == pytest.approx(0.004 / math.sqrt(4.0), rel=0.06)
    assert levels[1] / levels[0] == pytest.approx(math.sqrt(2.0), rel=0.1)


def averaged(
    airframe: Airframe, steps: int, frequency: float = 0.0, turns: list[float] | None = None
) -> NDArray[np.float64]:
    """(steps, 2, 3) what a unit with `averaging` measures, and what the link adds; rotors near some Hz."""
    change = {"averaging": True, "accelerometer": ErrorSpecification()}
    units = tuple(s.model_copy(update=change) if s.kind == "imu" else s for s in airframe.sensors)
    s = simulation(airframe.model_copy(update={"sensors": units}))
    row = int(np.flatnonzero(s.sensors[0]["kind"] == IMU)[0])
    rows = np.zeros((steps, 2, 3))
    for k in range(steps):
        if frequency > 0.0:
            s.states["rotor_speed"][0, :4] = 2.0 * math.pi * frequency
        s.advance(1)
        s.states["velocity"], s.states["angular_velocity"] = 0.0, 0.0
        found = s.sensor_states[0, row]
        rows[k] = found["values"][:3], found["memory"][MORE : MORE + 3]
        if turns is not None:
            turns.append(float(s.states[0]["rotor_phase"][0]))
    return rows


def means_of_px4(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """What PX4's two means of neighbouring samples leave, of the middle one of three."""
    return 0.25 * (samples[2:] + 2.0 * samples[1:-1] + samples[:-2])


@pytest.mark.parametrize(
    ("frequency", "least", "most"), [(60.0, 1.0, 1.0), (90.0, 1.0, 1.0), (105.0, 0.4, 0.6)]
)
def test_px4_gets_back_a_rotor_s_line_from_its_two_means(frequency: float, least: float, most: float) -> None:
    """At 95 Hz of 250 Hz, two means of pairs alone would leave cos(0.38 pi)^2 = 0.14 of it."""
    turns: list[float] = []
    rows = averaged(shaking(), 1000, frequency, turns)[200:, :, :2]
    left = means_of_px4(rows.sum(axis=1)).std() / rows[:, 0].std()
    mean = math.cos(0.5 * float(np.mean(np.diff(np.unwrap(turns)))))  # the motors speed up within each step
    assert left == pytest.approx(min(1.0, LARGEST_GAIN * abs(mean)) ** 2, rel=0.03)
    assert 0.97 * least < left < 1.03 * most


def test_px4_gets_back_the_noise_of_turbulent_air_but_for_what_is_near_half_the_rate() -> None:
    rows = averaged(shaking(imbalance=0.0, turbulence=0.004), 12000)[500:]
    plain, sent = rows[1:-1, 0, 2], means_of_px4(rows.sum(axis=1))[:, 2]
    frequency, before = welch(plain, 250.0, nperseg=500)
    after = welch(sent, 250.0, nperseg=500)[1]
    for low, high, share in ((20.0, 40.0, 1.0), (40.0, 60.0, 0.97), (60.0, 80.0, 0.9)):
        band = (frequency >= low) & (frequency < high)
        assert math.sqrt(after[band].sum() / before[band].sum()) == pytest.approx(share, abs=0.05)


def test_every_vehicle_of_a_run_has_rotors_of_its_own_imbalance() -> None:
    airframe = load_airframe("x500")
    built = [
        Simulation(World(), [VehicleSetup.from_airframe(airframe)], seed=seed).vehicles[0]["rotor_imbalance"][
            :4
        ]
        for seed in range(40)
    ]
    assert airframe.vibration is not None
    mean = math.sqrt(float(np.mean(np.square(built))))
    assert mean == pytest.approx(airframe.vibration.imbalance, rel=0.15)
    assert len({float(one) for four in built for one in four}) == 160


def test_a_broken_blade_loses_lift_by_its_cube_and_unbalances_the_rotor() -> None:
    """A tenth of a blade of 2.5 g and 128 mm: 0.25 g at 121.6 mm, 13 N at 660 rad/s."""
    vehicle = load_airframe("iris").vehicle()

    def damage(lost: float) -> tuple[float, float]:
        state: Any = np.zeros(1, STATE)[0]
        damage_propeller(vehicle, state, 0, lost)
        return state["rotor_health"][0], state["damage_imbalance"][0]

    health, imbalance = damage(0.1)
    assert health == pytest.approx((1.0 + 0.9**3) / 2.0)
    assert imbalance == pytest.approx(0.25e-3 * 0.1216, rel=2e-3)
    assert damage(0.0) == (1.0, 0.0)
    assert damage(1.0)[0] == pytest.approx(0.5)


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


def test_a_unit_that_has_been_powered_begins_warm() -> None:
    cold = imu_samples(simulation(with_imu(self_heating=20.0, warm_up_time=600.0)), 1)[0, 6]
    warm = imu_samples(simulation(with_imu(self_heating=20.0, warm_up_time=600.0, powered=600.0)), 1)[0, 6]
    assert warm - cold == pytest.approx(20.0 * (1.0 - math.exp(-1.0)), rel=1e-3)


def test_phases_of_rotors_that_do_not_vibrate_stand_still(make_simulation: Callable[..., Simulation]) -> None:
    s = make_simulation("iris")
    before = s.states["rotor_phase"].copy()
    s.armed[:], s.controls[:, :4] = 1, 0.5
    s.advance(20)
    np.testing.assert_array_equal(s.states["rotor_phase"], before)
    assert before.shape == (1, MAX_ROTORS)
