"""Accuracy of PX4's position hold by its own estimate, and the position gains that follow from it.

The noise of inertial sensors and satellite receiver, weighted as in EKF2, moves the estimate of a hovering
vehicle; the position loop follows.  Both are linear, so the deviation is a covariance.  One horizontal axis,
still air.  EKF2's parameters are in estimator_parameters.py, the inner loops in rate_loop.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.core.sensors.gps import GpsSpecification
from sitl_bridge.core.sensors.imu import ImuSpecification
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.control_effectiveness import Parameters
from sitl_bridge.link.px4.estimator_parameters import PREDICTION_PERIOD, STATED_SPEED_ACCURACY

TOLD = {"EKF2_ACC_NOISE": 0.35, "EKF2_GYR_NOISE": 0.015, "EKF2_GYR_B_NOISE": 0.001, "EKF2_GPS_P_NOISE": 0.5}
"""PX4's defaults."""
POSITION, VELOCITY, INTEGRAL, DERIVATIVE = 0.95, 1.8, 0.4, 0.2
"""Defaults of MPC_XY_P and MPC_XY_VEL_{P,I,D}_ACC."""
MAX_FACTOR = min(2.0 / POSITION, 5.0 / VELOCITY)
"""Largest common factor within PX4's ranges."""
HOLD_RADIUS = 0.3
"""Largest distance from the hold point, m."""
HOLD_DEVIATIONS = 4.0
"""Standard deviations of one axis within HOLD_RADIUS.  The distance over two axes exceeds 4 standard
deviations in a share exp(-8) of independent samples, a few hundredths of a per cent (Rayleigh)."""
MIN_PHASE_MARGIN = math.radians(30.0)
"""Smallest phase margin of the position loop: the lower end of the usual design range, 30 to 60 deg (e.g.
Franklin, Powell and Emami-Naeini, Feedback Control of Dynamic Systems, ch. 6); PX4's gains leave 41 deg."""
STEP = 0.05
"""Step of the gain factors tried."""

# States of the joint model: errors of the estimate in position, velocity, acceleration by tilt and its rate
# by the gyroscope's bias; drift of the receiver's position; estimated position and velocity, acceleration,
# integrator of the velocity loop.
STATES = 9
ERRORS = slice(0, 4)
DRIFT, HERE, SPEED, ACCELERATION, INTEGRATOR = 4, 5, 6, 7, 8


@dataclass(frozen=True)
class HoverNoise:
    """HoverNoise sources of a hovering vehicle's estimate."""

    period: float  # s between fixes
    # velocity, position: m/s and m, white noise of a fix
    velocity: float
    position: float
    # remaining share of the receiver's position error after a period; the velocity noise drives it
    decay: float
    # accelerometer, gyroscope: densities, m/s^2/sqrt(Hz) and rad/s/sqrt(Hz)
    accelerometer: float
    gyroscope: float
    walk: float  # rad/s/sqrt(s), of the gyroscope's bias


def noise_of(airframe: Airframe) -> tuple[HoverNoise, GpsSpecification] | None:
    """Return the noise of the first inertial sensor and receiver, on the worse horizontal axis; or None."""
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


def filter_gain(noise: HoverNoise, receiver: GpsSpecification, settings: Parameters) -> Floats:
    """Return EKF2's steady gain (4, 2) on position and velocity of a fix, for its noise parameters.

    The states are those of the joint model's errors.  EKF2 uses the larger of a fix's stated accuracy and
    EKF2_GPS_{P,V}_NOISE (gps_control.cpp), and adds (EKF2_*_NOISE dt)^2 per prediction (covariance.cpp).
    """

    def of(name: str) -> float:
        return float(settings.get(name, TOLD[name])) * math.sqrt(PREDICTION_PERIOD)

    density = np.diag(
        [
            0.0,
            of("EKF2_ACC_NOISE") ** 2,
            (STANDARD_GRAVITY * of("EKF2_GYR_NOISE")) ** 2,
            (STANDARD_GRAVITY * of("EKF2_GYR_B_NOISE")) ** 2,
        ]
    )
    step, added = _sampled(np.eye(4, k=1), density, noise.period)
    position = max(receiver.eph, float(settings.get("EKF2_GPS_P_NOISE", TOLD["EKF2_GPS_P_NOISE"])))
    velocity = max(STATED_SPEED_ACCURACY, float(settings.get("EKF2_GPS_V_NOISE", 0.0)))
    measured = np.diag([position**2, velocity**2])
    look = np.eye(2, 4)
    before = scipy.linalg.solve_discrete_are(step.T, look.T, added, measured)
    gain: Floats = before @ look.T @ np.linalg.inv(look @ before @ look.T + measured)
    return gain


def deviation(noise: HoverNoise, gain: Floats, attitude: float, factor: float = 1.0) -> float:
    """Return the stationary deviation in m, on one axis, of the estimated position from the hold point.

    Between fixes the estimate follows the flight; with a fix it jumps by the innovation, which contains the
    errors of estimate and receiver.  The position loop responds only to these jumps and to the
    accelerometer's noise.

    Args:
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
    driven[2, 1] = STANDARD_GRAVITY * noise.gyroscope
    driven[3, 2] = STANDARD_GRAVITY * noise.walk
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
    covariance = scipy.linalg.solve_discrete_lyapunov(whole @ between, added)
    return math.sqrt(float(covariance[HERE, HERE]))


def margin(attitude: float, factor: float = 1.0) -> float:
    """Return the phase margin in rad of the position loop, opened at the commanded acceleration."""
    frequency = np.geomspace(0.2, 20.0, 2000)
    s = 1j * frequency
    asked = factor * VELOCITY * (s + factor * POSITION) + INTEGRAL * (s + factor * POSITION) / s
    loop = asked / s**2 / (1.0 + DERIVATIVE + s / attitude)
    last = int(np.flatnonzero(np.abs(loop) >= 1.0)[-1])
    return float(np.angle(-loop[last]))


def position_gains(airframe: Airframe, settings: Parameters) -> Parameters:
    """Return MPC_XY_P and MPC_XY_VEL_P_ACC if PX4's own would not hold the vehicle within ``HOLD_RADIUS``.

    Both are raised together, by the smallest sufficient factor or the largest with the phase margin.

    Args:
        settings: PX4's sensor (EKF2_*) and attitude loop (MC_*_P) parameters.
    """
    found = noise_of(airframe)
    if found is None:
        return {}
    noise, receiver = found
    gain = filter_gain(noise, receiver, settings)
    attitude = min(float(settings["MC_ROLL_P"]), float(settings["MC_PITCH_P"]))
    factor = 1.0
    while HOLD_DEVIATIONS * deviation(noise, gain, attitude, factor) > HOLD_RADIUS:
        if factor + STEP > MAX_FACTOR or margin(attitude, factor + STEP) < MIN_PHASE_MARGIN:
            break
        factor += STEP
    if factor == 1.0:
        return {}
    return {
        "MPC_XY_P": round(factor * POSITION, 3),
        "MPC_XY_VEL_P_ACC": round(factor * VELOCITY, 3),
    }


def _sampled(rate: Floats, density: Floats, period: float) -> tuple[Floats, Floats]:
    """Return transition and added covariance over a period (Van Loan 1978)."""
    n = len(rate)
    block = np.zeros((2 * n, 2 * n))
    block[:n, :n], block[:n, n:], block[n:, n:] = -rate, density, rate.T
    grown = scipy.linalg.expm(block * period)
    step = grown[n:, n:].T
    return step, step @ grown[:n, n:]
