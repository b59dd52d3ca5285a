"""The loops that follow from an airframe against their closed forms: margins, damping, bandwidth."""

from __future__ import annotations

import math
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from support.autopilot_bench import DT, NAMES, Bench, ideally_fed

from sitl_bridge.autopilot.control.gains import CASCADE_RATIO, Design, controller_record, design
from sitl_bridge.autopilot.control.lee import attitude_moment
from sitl_bridge.autopilot.records import LEVEL_ATTITUDE, LEVEL_RATES, TRAJECTORY, WRENCH
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.core.dynamics import performance
from sitl_bridge.core.dynamics.performance import hover
from sitl_bridge.core.dynamics.rotor_laws import thrust_and_torque
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.vehicle.control_effectiveness import geometry, response, thrust_curve_factor
from sitl_bridge.core.world.world import World

WORLD = World()
Floats = NDArray[np.float64]


def motor_lag(name: str) -> tuple[float, float]:
    """Lag of the rotors and delay of half a step, s, of the physics and not of the design."""
    airframe = load_airframe(name)
    trim = hover(airframe.record, 1.1686, 9.807)
    assert trim is not None
    found = response(airframe, geometry(airframe), trim, 1.1686, thrust_curve_factor(airframe))
    return found.motor_lag, found.delay


def rate_loop(loops: Design, axis: int, lag: float, delay: float, frequency: float) -> complex:
    """Open loop from moment to moment, cut at the rotors, of an axis at a frequency in rad/s."""
    s = 1j * frequency
    law = loops.rate[axis] * (1.0 + loops.attitude[axis] / CASCADE_RATIO / s)
    law *= 1.0 + loops.derivative
    law += loops.derivative * s / (1.0 + loops.derivative_filter * s)
    return complex(law * np.exp(-s * delay) / (s * (1.0 + lag * s)))


@pytest.mark.parametrize("name", NAMES)
def test_rate_loops_have_fifty_degrees_of_phase_margin_and_six_decibels_of_gain(name: str) -> None:
    loops = design(load_airframe(name), WORLD)
    lag, delay = motor_lag(name)
    for axis in range(3):

        def size(w: float, axis: int = axis) -> float:
            return math.log(abs(rate_loop(loops, axis, lag, delay, w)))

        crossover = float(brentq(size, 0.01, 300.0))
        margin = math.degrees(np.angle(-rate_loop(loops, axis, lag, delay, crossover)))
        assert margin > 50.0
        turned = [
            w for w in np.geomspace(crossover, 2000.0, 400) if _lags_half_a_turn(loops, axis, lag, delay, w)
        ]
        assert not turned or abs(rate_loop(loops, axis, lag, delay, turned[0])) < 0.5


def _lags_half_a_turn(loops: Design, axis: int, lag: float, delay: float, w: float) -> bool:
    s = 1j * w
    bare = np.angle(rate_loop(loops, axis, lag, delay, w) / np.exp(-s * delay)) - w * delay
    return bool(bare <= -math.pi)


@pytest.mark.parametrize("name", NAMES)
def test_each_loop_is_three_times_slower_than_the_one_within_it(name: str) -> None:
    loops = design(load_airframe(name), WORLD)
    np.testing.assert_allclose(loops.attitude * 3.0, loops.rate)
    np.testing.assert_allclose(loops.position * 3.0, loops.velocity)
    assert (loops.velocity[:2] * 3.0 <= loops.attitude[:2].min() * 1.0001).all()
    # An attitude error of 0.35 rad, 20 deg, is within what the rotors can do.
    assert (loops.rate * loops.attitude * 0.35 <= loops.angular_acceleration * 1.0001).all()


def test_the_iris_gets_gains_near_those_that_px4_flies_it_with() -> None:
    """MC_ROLL_P 6.5, MPC_XY_VEL_P_ACC 1.8, MPC_XY_P 0.95, MPC_Z_VEL_P_ACC 4, MPC_Z_P 1."""
    loops = design(load_airframe("iris"), WORLD)
    found = [loops.attitude[0], loops.velocity[0], loops.position[0], loops.velocity[2], loops.position[2]]
    np.testing.assert_allclose(found, [6.5, 1.8, 0.95, 4.0, 1.0], rtol=0.35)


def linear(name: str, gains: tuple[float, float], time: Floats) -> Floats:
    """Step response of rate (attitude gain 0) or attitude behind a lag, T O'' + O' = K (c - O)."""
    rate, attitude = gains
    lag = design(load_airframe(name), WORLD).lag

    def slope(_: float, x: Floats) -> list[float]:
        angle, omega, alpha = x
        command = attitude * (1.0 - angle) if attitude else 1.0
        return [omega, alpha, (rate * (command - omega) - alpha) / lag]

    found = solve_ivp(slope, (0.0, float(time[-1])), [0.0, 0.0, 0.0], t_eval=time, rtol=1e-8, atol=1e-10)
    return np.asarray(found.y[0 if attitude else 1])


@pytest.mark.parametrize("law", ["hector_pid", "lee"])
@pytest.mark.parametrize("name", ["iris", "firefly", "hector", "ar200"])
def test_a_step_of_the_roll_rate_answers_as_designed(name: str, law: str) -> None:
    bench = Bench([ideally_fed(load_airframe(name))], law)
    bench.drop(50.0)
    _settle(bench)
    bench.controllers["hector"]["rate_i"] = bench.controllers["lee"]["k_I"] = 0.0
    loops = design(load_airframe(name), WORLD)
    bench.setpoints["level"] = LEVEL_RATES
    bench.setpoints["thrust"] = bench.wrenches["thrust"] / bench.controllers["thrust_max"]
    bench.setpoints["angular_velocity"] = (0.4, 0.0, 0.0)
    log = bench.run(0.6)
    time: Floats = np.arange(1, len(log) + 1, dtype=np.float64) * DT
    expected = linear(name, (float(loops.rate[0]), 0.0), time)
    found = log["angular_velocity"][:, 0, 0] / 0.4
    np.testing.assert_allclose(found, expected, atol=0.1)


@pytest.mark.parametrize("law", ["hector_pid", "lee"])
@pytest.mark.parametrize("name", ["iris", "firefly", "hector", "ar200"])
def test_a_step_of_roll_answers_as_designed(name: str, law: str) -> None:
    bench = Bench([ideally_fed(load_airframe(name))], law)
    bench.drop(50.0)
    _settle(bench)
    bench.controllers["hector"]["rate_i"] = bench.controllers["lee"]["k_I"] = 0.0
    loops = design(load_airframe(name), WORLD)
    bench.setpoints["level"] = LEVEL_ATTITUDE
    bench.setpoints["thrust"] = bench.wrenches["thrust"] / bench.controllers["thrust_max"]
    half = math.radians(4.0)
    bench.setpoints["attitude"] = (math.cos(half), math.sin(half), 0.0, 0.0)
    log = bench.run(1.5)
    time: Floats = np.arange(1, len(log) + 1, dtype=np.float64) * DT
    expected = linear(name, (float(loops.rate[0]), float(loops.attitude[0])), time)
    found = 2.0 * np.arcsin(log["attitude"][:, 0, 1]) / (2.0 * half)
    np.testing.assert_allclose(found, expected, atol=0.08)
    # sqrt(3)/2 without the lag; with it the pair of poles still overshoots by less than 5 %.
    assert found.max() < 1.05


@pytest.mark.parametrize("law", ["hector_pid", "lee"])
def test_a_step_of_position_answers_as_two_nested_loops(law: str) -> None:
    """x'' + k x' + k^2/3 x = k^2/3, a damping of sqrt(3)/2, but for the attitude's lag."""
    names = ["iris", "firefly", "hector", "ar200"]
    bench = Bench([ideally_fed(load_airframe(name)) for name in names], law)
    bench.drop(10.0)
    _settle(bench)
    start = bench.states["position"][:, 0].copy()
    bench.setpoints["position"][:, 0] += 0.5
    log = bench.run(8.0)
    time: Floats = np.arange(1, len(log) + 1, dtype=np.float64) * DT
    for i, name in enumerate(names):
        k = float(design(load_airframe(name), WORLD).velocity[0])
        decay, ringing = 0.5 * k, 0.5 * k / math.sqrt(3.0)
        shape = np.cos(ringing * time) + decay / ringing * np.sin(ringing * time)
        expected = 1.0 - np.exp(-decay * time) * shape
        found = (log["position"][:, i, 0] - start[i]) / 0.5
        delay = round(1.0 / float(design(load_airframe(name), WORLD).attitude[0]) / DT)
        # No sooner than the loops themselves, no later than with all of the attitude's lag on top.
        assert (found < expected + 0.04).all()
        assert (found[delay:] > expected[: len(found) - delay] - 0.04).all()
        assert found.max() < 1.05


@pytest.mark.parametrize("name", NAMES)
def test_lees_gains_are_those_of_the_cascade(name: str) -> None:
    """Near the hover both laws are one: k_x = m K_v K_x, k_R = J K_rate K_attitude and so on."""
    record = controller_record(load_airframe(name), WORLD, "lee")
    lee, hector = record["lee"], record["hector"]
    mass, axes = float(record["mass"]), np.diag(record["inertia"])
    np.testing.assert_allclose(lee["k_x"], mass * hector["velocity_p"] * hector["position_p"])
    np.testing.assert_allclose(lee["k_v"], mass * hector["velocity_p"])
    np.testing.assert_allclose(lee["k_R"], axes * hector["rate_p"] * hector["attitude_p"])
    np.testing.assert_allclose(lee["k_Omega"], axes * hector["rate_p"])


def _settle(bench: Bench) -> None:
    bench.setpoints["level"], bench.setpoints["yaw"] = TRAJECTORY, 0.0
    bench.setpoints["position"] = bench.states["position"]
    bench.run(8.0)


@pytest.mark.parametrize("name", ["asymmetric_quadrotor", "neo11"])
def test_lees_law_cancels_the_gyroscopic_moment_of_the_turning_body(name: str) -> None:
    """J dOmega/dt = M - Omega x J Omega: the law's last term (Lee 2010, eq. 16) cancels the body's."""
    spin = np.array([1.0, -2.0, 1.5])
    bench = Bench([name], "lee")
    bench.estimates["angular_velocity"] = spin
    bench.setpoints["level"] = LEVEL_RATES
    without = bench.controllers.copy()
    without["lee"]["inertia"] = 0.0
    wrenches: Packed = np.zeros(2, WRENCH)
    for controller, wrench in zip((bench.controllers[0], without[0]), wrenches, strict=True):
        attitude_moment(controller, bench.estimates[0], bench.setpoints[0], DT, wrench)
    inertia = load_airframe(name).inertia.matrix()
    expected = np.cross(spin, inertia @ spin)
    assert np.abs(expected).max() > 0.005
    np.testing.assert_allclose(wrenches[0]["moment"] - wrenches[1]["moment"], expected, rtol=1e-9, atol=1e-12)


def test_figures_of_a_vehicle_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    law = Mock(wraps=thrust_and_torque)
    monkeypatch.setattr(performance, "thrust_and_torque", law)
    iris = load_airframe("iris")
    made: list[bytes] = []
    asked: list[int] = []
    for mass in (1.6125, 1.6125, 1.625):
        made.append(controller_record(iris.model_copy(update={"mass": mass}), WORLD).tobytes())
        asked.append(law.call_count - sum(asked))
    assert made[0] == made[1] != made[2]
    assert asked[1] < 0.1 * asked[0]
    assert asked[2] == pytest.approx(asked[0], rel=0.1)
