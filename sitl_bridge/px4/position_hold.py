"""How closely PX4 holds a point by its own estimate, and the gains of its position loop that follow.

What moves the estimate of a hovering vehicle is the noise of its inertial sensors and its satellite receiver,
weighed as EKF2 weighs it; the position loop follows.  Both are linear, so the deviation is a covariance.  One
horizontal axis, still air.  What EKF2 is told is in estimator.py, the loops within this one in rate_loop.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm, solve_discrete_are, solve_discrete_lyapunov

from sitl_bridge.px4.estimator_parameters import PREDICTION_PERIOD, STATED_SPEED_ACCURACY
from sitl_bridge.sensors.gps import GpsSpecification
from sitl_bridge.sensors.imu import ImuSpecification
from sitl_bridge.vehicle.airframe import Airframe
from sitl_bridge.vehicle.control_effectiveness import Parameters

Matrix = NDArray[np.float64]

GRAVITY = 9.80665
TOLD = {"EKF2_ACC_NOISE": 0.35, "EKF2_GYR_NOISE": 0.015, "EKF2_GYR_B_NOISE": 0.001, "EKF2_GPS_P_NOISE": 0.5}
"""PX4's defaults."""
POSITION, VELOCITY, INTEGRAL, DERIVATIVE = 0.95, 1.8, 0.4, 0.2
"""MPC_XY_P and MPC_XY_VEL_{P,I,D}_ACC, PX4's defaults."""
MOST = min(2.0 / POSITION, 5.0 / VELOCITY)
"""Both may be raised together by this much within PX4's ranges."""
HELD = 0.3
"""m within which a vehicle is to stay of the point it holds."""
COVERED = 4.0
"""Deviations of one axis that HELD covers.  The distance over two axes is above 4 deviations in a share
exp(-8) of independent looks, a few hundredths of a per cent (Rayleigh)."""
LEAST_MARGIN = math.radians(30.0)
"""Phase margin the position loop keeps: the lower end of the usual design figure, 30 to 60 deg (e.g.
Franklin, Powell and Emami-Naeini, Feedback Control of Dynamic Systems, ch. 6); PX4's gains leave 41 deg."""
STEP = 0.05
"""Between the gain factors tried."""

# States of the joint model: errors of the estimate in position, velocity, acceleration by tilt and its rate
# by the gyroscope's bias; drift of the receiver's position; estimated position and velocity, acceleration
# flown, integrator of the velocity loop.
STATES = 9
ERRORS = slice(0, 4)
DRIFT, HERE, SPEED, ACCELERATION, INTEGRATOR = 4, 5, 6, 7, 8


@dataclass(frozen=True)
class HoverNoise:
    """What disturbs the estimate of a hovering vehicle.

    Attributes:
        period: s between fixes.
        velocity, position: m/s and m, white noise of a fix.
        decay: share of the receiver's position error left after a period; the velocity noise drives it.
        accelerometer, gyroscope: densities, m/s^2/sqrt(Hz) and rad/s/sqrt(Hz).
        walk: rad/s/sqrt(s), of the gyroscope's bias.
    """

    period: float
    velocity: float
    position: float
    decay: float
    accelerometer: float
    gyroscope: float
    walk: float


def noise_of(airframe: Airframe) -> tuple[HoverNoise, GpsSpecification] | None:
    """Noise of the first inertial sensor and the first receiver, the worse horizontal axis; or None."""
    receivers = [s for s in airframe.sensors if isinstance(s, GpsSpecification)]
    inertial = next(s for s in airframe.sensors if isinstance(s, ImuSpecification) and s.instance == 0)
    if not receivers:
        return None
    receiver = min(receivers, key=lambda sensor: sensor.instance)
    fix, sample = receiver.pack(), inertial.pack()
    root = math.sqrt(inertial.period)
    noise = HoverNoise(
        period=receiver.period,
        velocity=float(np.hypot(fix["noise"][:2], fix["bias_start"][:2]).max()),
        position=float(fix["noise"][3:5].max()),
        decay=float(fix["parameter"][0]),
        accelerometer=float(sample["noise"][:2].max()) * root,
        gyroscope=float(sample["noise"][3:5].max()) * root,
        walk=float(sample["bias_step"][3:5].max()) / root,
    )
    return noise, receiver


def filter_gain(noise: HoverNoise, receiver: GpsSpecification, told: Parameters) -> Matrix:
    """EKF2's steady gain (4, 2) on position and velocity of a fix, by the noise it is told of.

    The states are those of the joint model's errors.  EKF2 takes the greater of a fix's stated accuracy and
    EKF2_GPS_{P,V}_NOISE (gps_control.cpp), and adds (EKF2_*_NOISE dt)^2 a prediction (covariance.cpp).
    """

    def of(name: str) -> float:
        return float(told.get(name, TOLD[name])) * math.sqrt(PREDICTION_PERIOD)

    density = np.diag(
        [
            0.0,
            of("EKF2_ACC_NOISE") ** 2,
            (GRAVITY * of("EKF2_GYR_NOISE")) ** 2,
            (GRAVITY * of("EKF2_GYR_B_NOISE")) ** 2,
        ]
    )
    step, added = _sampled(np.eye(4, k=1), density, noise.period)
    position = max(receiver.eph, float(told.get("EKF2_GPS_P_NOISE", TOLD["EKF2_GPS_P_NOISE"])))
    velocity = max(STATED_SPEED_ACCURACY, float(told.get("EKF2_GPS_V_NOISE", 0.0)))
    measured = np.diag([position**2, velocity**2])
    look = np.eye(2, 4)
    before = solve_discrete_are(step.T, look.T, added, measured)
    gain: Matrix = before @ look.T @ np.linalg.inv(look @ before @ look.T + measured)
    return gain


def deviation(noise: HoverNoise, gain: Matrix, attitude: float, factor: float = 1.0) -> float:
    """Stationary deviation in m, on one axis, of the estimated position from the point that is held.

    Between fixes the estimate moves as it is flown; with a fix it jumps by the innovation, which holds the
    errors of estimate and receiver.  The position loop has only these jumps, and the accelerometer's noise,
    to work against.

    Args:
        noise: true noise.
        gain: of :func:`filter_gain`.
        attitude: 1/s, bandwidth of the attitude loop, MC_{ROLL,PITCH}_P.
        factor: on MPC_XY_P and MPC_XY_VEL_P_ACC.
    """
    rate = np.zeros((STATES, STATES))
    rate[ERRORS, ERRORS] = np.eye(4, k=1)
    rate[HERE, SPEED] = rate[SPEED, ACCELERATION] = 1.0
    wanted = np.zeros(STATES)
    wanted[HERE] = -factor * VELOCITY * factor * POSITION
    wanted[SPEED] = -factor * VELOCITY
    wanted[ACCELERATION] = -DERIVATIVE
    wanted[INTEGRATOR] = 1.0
    rate[ACCELERATION] = attitude * wanted
    rate[ACCELERATION, ACCELERATION] -= attitude
    rate[INTEGRATOR, HERE] = -INTEGRAL * factor * POSITION
    rate[INTEGRATOR, SPEED] = -INTEGRAL
    driven = np.zeros((STATES, 3))
    driven[1, 0] = driven[SPEED, 0] = noise.accelerometer
    driven[2, 1] = GRAVITY * noise.gyroscope
    driven[3, 2] = GRAVITY * noise.walk
    between, added = _sampled(rate, driven @ driven.T, noise.period)

    drift = np.eye(STATES)
    drift[DRIFT, DRIFT] = noise.decay
    corrected = np.zeros((STATES, 2))
    corrected[ERRORS] = gain
    corrected[[HERE, SPEED, ACCELERATION]] = gain[:3]
    innovation = np.zeros((2, STATES))
    innovation[0, DRIFT] = 1.0
    innovation[0, 0] = innovation[1, 1] = -1.0
    fix = np.eye(STATES) + corrected @ innovation
    by_velocity = fix[:, DRIFT] * noise.period + corrected[:, 1]
    whole = fix @ drift
    added = whole @ added @ whole.T + noise.velocity**2 * np.outer(by_velocity, by_velocity)
    added += noise.position**2 * np.outer(corrected[:, 0], corrected[:, 0])
    covariance = solve_discrete_lyapunov(whole @ between, added)
    return math.sqrt(float(covariance[HERE, HERE]))


def margin(attitude: float, factor: float = 1.0) -> float:
    """Phase margin in rad of the position loop, broken at the acceleration asked for."""
    frequency = np.geomspace(0.2, 20.0, 2000)
    s = 1j * frequency
    asked = factor * VELOCITY * (s + factor * POSITION) + INTEGRAL * (s + factor * POSITION) / s
    loop = asked / s**2 / (1.0 + DERIVATIVE + s / attitude)
    last = int(np.flatnonzero(np.abs(loop) >= 1.0)[-1])
    return float(np.angle(-loop[last]))


def position_gains(airframe: Airframe, told: Parameters) -> Parameters:
    """MPC_XY_P and MPC_XY_VEL_P_ACC, where PX4's own would not hold the vehicle within ``HELD``.

    Both are raised together, by the least factor that does or the greatest that leaves the phase margin.

    Args:
        airframe: the airframe.
        told: what PX4 is told of sensors (EKF2_*) and attitude loop (MC_*_P).
    """
    found = noise_of(airframe)
    if found is None:
        return {}
    noise, receiver = found
    gain = filter_gain(noise, receiver, told)
    attitude = min(float(told["MC_ROLL_P"]), float(told["MC_PITCH_P"]))
    factor = 1.0
    while COVERED * deviation(noise, gain, attitude, factor) > HELD:
        if factor + STEP > MOST or margin(attitude, factor + STEP) < LEAST_MARGIN:
            break
        factor += STEP
    if factor == 1.0:
        return {}
    return {
        "MPC_XY_P": round(factor * POSITION, 3),
        "MPC_XY_VEL_P_ACC": round(factor * VELOCITY, 3),
    }


def _sampled(rate: Matrix, density: Matrix, period: float) -> tuple[Matrix, Matrix]:
    """Transition and added covariance over a period (Van Loan 1978)."""
    n = len(rate)
    block = np.zeros((2 * n, 2 * n))
    block[:n, :n], block[:n, n:], block[n:, n:] = -rate, density, rate.T
    grown = expm(block * period)
    step = grown[n:, n:].T
    return step, step @ grown[:n, n:]
