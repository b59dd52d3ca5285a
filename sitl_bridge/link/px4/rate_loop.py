"""Gains of PX4's rate and attitude loops for an airframe, from the open loop in the frequency domain.

PX4's default gains are left as they are where they fly: with the phase margin, and a rate loop fast enough
for the attitude loop around it.  Elsewhere an airframe gets the gain that gives its loop the crossover
frequency of the iris, for which they are tuned, or, with slower motors, the largest gain with the phase
margin.  The airframe's response to a torque setpoint is in core/vehicle/control_effectiveness.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from sitl_bridge.base.root import root
from sitl_bridge.core.vehicle.control_effectiveness import Response

GYRO_CUTOFF = 40.0
"""Hz, IMU_GYRO_CUTOFF, second-order Butterworth (LowPassFilter2p)."""
ANGULAR_ACCELERATION_CUTOFF = 30.0
"""Hz, IMU_DGYRO_CUTOFF, first order (AlphaFilter)."""
YAW_TORQUE_CUTOFF = 2.0
"""Hz, MC_YAW_TQ_CUTOFF, first order on the yaw torque setpoint; versions before it had none."""
GAINS = ((0.15, 0.2, 0.003), (0.15, 0.2, 0.003), (0.2, 0.1, 0.0))
"""MC_{ROLL,PITCH,YAW}RATE_{P,I,D} defaults."""
ATTITUDE_GAINS = (6.5, 6.5, 2.8)
"""1/s, MC_{ROLL,PITCH,YAW}_P defaults."""
GAIN_RANGE = (0.05, 5.0)
"""PX4 allows 0.01 to 5 for MC_*RATE_K."""
PHASE_MARGIN = math.radians(45.0)
"""Phase margin if the reference's own margin is not reached: the usual design range is 30 to 60 deg (e.g.
Franklin, Powell and Emami-Naeini, Feedback Control of Dynamic Systems, ch. 6)."""
SEPARATION = 2.0
"""Crossover of a rate loop over the gain of the attitude loop around it, at which the two have a damping of
sqrt(2)/2 (s^2 + w s + w P, the rate loop as a lag of 1/w)."""
IRIS = Response(
    authority=np.array([116.86797044722488, 105.04486934165509, 31.641413000100343]),
    motor_lag=0.01875,
    yaw_lead=0.049442788751548256,
    delay=0.002,
)
"""Response of Gazebo's iris, for which PX4's default gains are tuned, at sea level with THR_MDL_FAC 0;
computed from airframes/iris_gazebo.yaml."""
_FREQUENCIES = np.geomspace(0.5, 200.0, 400)


@dataclass(frozen=True)
class LoopGain:
    """Result for one axis."""

    factor: float  # MC_*RATE_K
    # share of the default integral gain, MC_*RATE_I; decreases with the crossover so that its phase lag there
    # is constant
    integral: float
    crossover: float  # crossover frequency of the rate loop, rad/s
    phase_margin: float  # rad at the crossover


def open_loop(axis: int, response: Response, frequency: float, integral: float = 1.0) -> complex:
    """Return the open rate loop with a gain factor of 1 at a frequency in rad/s.

    Gyro filter, PID with the derivative on the filtered angular acceleration (rate_control.cpp), the filter
    of the yaw torque, delay, motor lag, and the vehicle as an integrator.
    """
    s = 1j * frequency
    p, i, d = GAINS[axis]
    derivative = d * s / (1.0 + s / (2.0 * math.pi * ANGULAR_ACCELERATION_CUTOFF))
    gyro = 2.0 * math.pi * GYRO_CUTOFF
    filtered = 1.0 / (1.0 + math.sqrt(2.0) * s / gyro + (s / gyro) ** 2)
    loop = (p + integral * i / s + derivative) * filtered * np.exp(-s * response.delay)
    loop *= response.authority[axis] / s / (1.0 + response.motor_lag * s)
    if axis == 2:
        loop *= (1.0 + response.yaw_lead * s) / (1.0 + s / (2.0 * math.pi * YAW_TORQUE_CUTOFF))
    return complex(loop)


def phase_margin(axis: int, response: Response, frequency: float, integral: float = 1.0) -> float:
    """Return the phase margin in rad of the loop with its crossover at a frequency, -pi to pi."""
    phase = float(np.angle(open_loop(axis, response, frequency, integral)))
    return phase + math.pi if phase <= 0.0 else phase - math.pi


def crossover(axis: int, response: Response, factor: float = 1.0, integral: float = 1.0) -> float:
    """Return the highest frequency in rad/s at which the open loop's gain is one."""
    size = np.array([abs(open_loop(axis, response, float(w), integral)) for w in _FREQUENCIES]) * factor
    above = np.nonzero(size >= 1.0)[0]
    if not len(above):
        return float(_FREQUENCIES[0])
    if above[-1] == len(size) - 1:
        return float(_FREQUENCIES[-1])
    low, high = _FREQUENCIES[above[-1]], _FREQUENCIES[above[-1] + 1]
    return root(lambda w: float(abs(open_loop(axis, response, w, integral))) * factor - 1.0, low, high)


def with_default_gains(axis: int, response: Response) -> LoopGain:
    """Return the rate loop of one axis with PX4's default gains."""
    at = crossover(axis, response)
    return LoopGain(1.0, 1.0, at, phase_margin(axis, response, at))


@cache
def reference_loop(axis: int) -> LoopGain:
    """Return the rate loop of one axis of the iris with PX4's default gains."""
    return with_default_gains(axis, IRIS)


def gain_for(axis: int, response: Response, wanted: LoopGain) -> LoopGain:
    """Return PX4's own gain of one axis where it flies, or that for the wanted crossover, or for the highest
    one with the phase margin.

    Args:
        axis: 0 roll, 1 pitch, 2 yaw.
        wanted: the reference's loop.
    """
    margin = min(wanted.phase_margin, PHASE_MARGIN)
    own = with_default_gains(axis, response)
    if own.phase_margin >= margin and own.crossover >= SEPARATION * ATTITUDE_GAINS[axis]:
        return own

    def integral(frequency: float) -> float:
        return min(1.0, frequency / wanted.crossover)

    at = wanted.crossover
    if phase_margin(axis, response, at) < margin:
        slower = [float(w) for w in _FREQUENCIES if w < at]
        fitting = [w for w in slower if phase_margin(axis, response, w, integral(w)) >= margin]
        at = max(fitting, default=float(_FREQUENCIES[0]))
    share = integral(at)
    low, high = GAIN_RANGE
    factor = min(max(1.0 / abs(open_loop(axis, response, at, share)), low), high)
    at = crossover(axis, response, factor, share)
    return LoopGain(factor, share, at, phase_margin(axis, response, at, share))
