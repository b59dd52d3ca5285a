"""Predictors of real flights: a file each with a class ``Simulator``, see ``Predictor`` in windows.py."""

from __future__ import annotations

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.lab.validation.windows import Windows

CRAZYFLIE_MOTOR = (310.83, 696.17)
"""rad/s and rad/s/V of a Crazyflie's loaded motors (github.com/learnsyslab/drone-models, vmotor2rpm)."""
TO_FLU = np.array([1.0, -1.0, -1.0])
"""From forward, right, down to forward, left, up; from NED to a world with z up."""


def crazyflie_speeds(windows: Windows) -> Floats:
    """(w, k, 4) rad/s of a Crazyflie's rotors under the commands, without lag."""
    offset, slope = CRAZYFLIE_MOTOR
    return np.asarray(offset + slope * windows.commands * windows.voltage[..., None])


def trim_of(speeds: Floats, hover: float | Floats) -> Floats:
    """(m,) factors of speeds (w, k, m) whose mean square is then that of a hover's speed, rad/s."""
    return np.asarray(hover / np.sqrt((speeds**2).mean(axis=(0, 1))))
