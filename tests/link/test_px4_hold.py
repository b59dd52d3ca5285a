"""How closely PX4 holds a point, and its position gains, against a simulation and against real flights."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.link.px4.airframe_parameters import parameters_for
from sitl_bridge.link.px4.position_hold import (
    DERIVATIVE,
    HOLD_DEVIATIONS,
    HOLD_RADIUS,
    INTEGRAL,
    MIN_PHASE_MARGIN,
    POSITION,
    VELOCITY,
    deviation,
    filter_gain,
    margin,
    noise_of,
    position_gains,
)


def predicted(name: str, factor: float = 1.0, **told: float) -> float:
    airframe = load_airframe(name)
    parameters = parameters_for(airframe) | told
    found = noise_of(airframe)
    assert found is not None
    noise, receiver = found
    attitude = min(parameters["MC_ROLL_P"], parameters["MC_PITCH_P"])
    return deviation(noise, filter_gain(noise, receiver, parameters), attitude, factor)


def simulated(name: str, seconds: float, step: float = 0.005) -> float:
    """The same, sample by sample, for many vehicles: true motion, sensors, filter and controller apart."""
    airframe = load_airframe(name)
    parameters = parameters_for(airframe)
    found = noise_of(airframe)
    assert found is not None
    noise, receiver = found
    gain = filter_gain(noise, receiver, parameters)
    attitude = min(parameters["MC_ROLL_P"], parameters["MC_PITCH_P"])
    random, many = np.random.default_rng(1), 200
    zero = np.zeros(many)
    true, speed, tilt, flown, integrator = (zero.copy() for _ in range(5))
    here, velocity, tilt_seen, bias, bias_seen, drift = (zero.copy() for _ in range(6))
    per_fix, found_at = round(noise.period / step), []
    root = math.sqrt(step)
    for k in range(round(seconds / step)):
        # Flown by what is believed: the gyroscope's noise goes into the true attitude.
        wrong = VELOCITY * (-POSITION * here - velocity)
        asked = wrong + integrator - DERIVATIVE * flown
        integrator = integrator + step * INTEGRAL * (-POSITION * here - velocity)
        turned = step * attitude * (asked - flown)
        gyro = STANDARD_GRAVITY * noise.gyroscope * root * random.standard_normal(many)
        believed = tilt_seen + turned
        tilt = tilt + turned - gyro - step * (bias - bias_seen)
        tilt_seen = believed
        bias = bias + STANDARD_GRAVITY * noise.walk * root * random.standard_normal(many)
        felt = tilt + noise.accelerometer / root * random.standard_normal(many)
        true, speed = true + step * speed, speed + step * tilt
        here, velocity = here + step * velocity, velocity + step * (felt + tilt_seen - tilt)
        flown = tilt_seen
        if k % per_fix == 0:
            error = noise.velocity * random.standard_normal(many)
            drift = noise.decay * drift + noise.period * error
            seen = true + drift + noise.position * random.standard_normal(many)
            jump = gain @ np.stack([seen - here, speed + error - velocity])
            here, velocity = here + jump[0], velocity + jump[1]
            tilt_seen = tilt_seen + jump[2]
            flown = tilt_seen
            bias_seen = bias_seen - jump[3]
            if k * step > 60.0:
                found_at.append(np.mean(here**2))
    return math.sqrt(float(np.mean(found_at)))


@pytest.mark.parametrize("name", ["iris", "hector"])
def test_the_deviation_is_that_of_a_simulation_of_estimator_and_controller(name: str) -> None:
    noise = noise_of(load_airframe(name))
    assert noise is not None
    assert predicted(name) == pytest.approx(simulated(name, 150.0), rel=0.1)


def test_the_deviation_is_what_real_px4_flew() -> None:
    # Deviations of one axis of the estimate in a minute's hover, with what PX4 was told then.
    assert predicted("iris", EKF2_GYR_NOISE=0.015) == pytest.approx(0.056, rel=0.15)
    assert predicted("hector", EKF2_GYR_NOISE=0.05, EKF2_ACC_NOISE=0.35) == pytest.approx(0.158, rel=0.15)


def test_gains_are_raised_only_where_px4s_own_do_not_hold() -> None:
    assert "MPC_XY_P" not in parameters_for(load_airframe("iris"))
    hector = parameters_for(load_airframe("hector"))
    factor = hector["MPC_XY_P"] / POSITION
    assert hector["MPC_XY_VEL_P_ACC"] == pytest.approx(factor * VELOCITY, rel=1e-3)
    assert HOLD_DEVIATIONS * predicted("hector") > HOLD_RADIUS
    assert HOLD_DEVIATIONS * predicted("hector", factor) <= HOLD_RADIUS
    assert margin(hector["MC_PITCH_P"], factor) > MIN_PHASE_MARGIN


def test_gains_stay_within_px4s_ranges_and_the_phase_margin_for_hopeless_sensors() -> None:
    hector = load_airframe("hector")
    parameters = parameters_for(hector) | {"EKF2_GYR_NOISE": 0.015, "EKF2_ACC_NOISE": 0.35}
    for attitude in (6.5, 3.0):
        told = parameters | {"MC_ROLL_P": attitude, "MC_PITCH_P": attitude}
        found = position_gains(hector, told)
        assert found.get("MPC_XY_P", POSITION) <= 2.0
        assert found.get("MPC_XY_VEL_P_ACC", VELOCITY) <= 5.0
        factor = found.get("MPC_XY_P", POSITION) / POSITION
        assert factor == 1.0 or margin(attitude, factor) >= MIN_PHASE_MARGIN


def test_a_better_receiver_and_better_inertial_sensors_hold_closer() -> None:
    airframe = load_airframe("hector")
    parameters = parameters_for(airframe)
    found = noise_of(airframe)
    assert found is not None
    noise, receiver = found
    gain = filter_gain(noise, receiver, parameters)
    held = deviation(noise, gain, 6.0)
    for better in ({"gyroscope": 0.0}, {"velocity": 0.0}, {"accelerometer": 0.0}):
        assert deviation(dataclasses.replace(noise, **better), gain, 6.0) < held
