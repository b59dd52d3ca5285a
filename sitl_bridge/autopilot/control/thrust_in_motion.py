"""Compensation of the thrust that rotors gain and lose in moving air, from the airframe's rotor law.

Allocation is static: it computes commands from the thrust in still air.  At 10 m/s a rotor with induced flow
gives a third more thrust than that, in a climb of 3 m/s a quarter less.  The ratio of the two is tabulated
once over the velocity along and across the rotors' axes.  Wind is not known here: the integrators take it.
"""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.autopilot.control.records import ACROSS_STEPS, ALONG_STEPS, ControllerRecord
from sitl_bridge.autopilot.records import Estimate
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.base.kernels.rotations import to_ned
from sitl_bridge.core.dynamics.performance import hover, remember
from sitl_bridge.core.dynamics.rotor_laws import rotor_loads, thrust_and_torque

ALONG_STEP, ACROSS_STEP = 1.0, 2.0
"""m/s between velocities along the axes and across them."""
LEAST, MOST = 0.5, 2.0
"""Limits of the ratio: beyond them the rotor speeds of a hover say little."""


@remember
def thrust_ratios(record: Packed, density: float, gravity: float) -> Floats:
    """Return thrust in motion over thrust in still air at hover speed, over velocities along and across.

    Shape: (2 ALONG_STEPS + 1, ACROSS_STEPS + 1).

    Args:
        record: () VEHICLE record of an airframe that can hover.
        density: kg/m^3.
        gravity: m/s^2.
    """
    ratios = np.ones((2 * ALONG_STEPS + 1, ACROSS_STEPS + 1))
    trim = hover(record, density, gravity)
    if trim is None:
        return ratios
    speeds = [float(speed) for speed in trim.rotor_speed]
    still = sum(thrust_and_torque(record, k, w, 0.0, density)[0] for k, w in enumerate(speeds))
    for i in range(ratios.shape[0]):
        for j in range(ratios.shape[1]):
            along, across = (i - ALONG_STEPS) * ALONG_STEP, j * ACROSS_STEP
            thrust = sum(rotor_loads(record, k, w, along, across, density)[0] for k, w in enumerate(speeds))
            ratios[i, j] = min(max(thrust / still, LEAST), MOST)
    return ratios


@compiled
def thrust_ratio(controller: ControllerRecord, estimate: Estimate) -> float:
    """Return the ratio of thrust in motion to thrust in still air at the estimated velocity, bilinear.

    Returns:
        1 without a velocity.
    """
    v = estimate.velocity
    square = v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
    if not math.isfinite(square):
        return 1.0
    up_n, up_e, up_d = to_ned(estimate.attitude, 0.0, 0.0, -1.0)  # the thrust axis
    along = v[0] * up_n + v[1] * up_e + v[2] * up_d
    across = math.sqrt(max(square - along * along, 0.0))
    a = min(max(along / ALONG_STEP + ALONG_STEPS, 0.0), 2.0 * ALONG_STEPS)
    b = min(across / ACROSS_STEP, 1.0 * ACROSS_STEPS)
    i = min(int(a), 2 * ALONG_STEPS - 1)
    j = min(int(b), ACROSS_STEPS - 1)
    a -= i
    b -= j
    table = controller.thrust_ratio
    near = (1.0 - a) * table[i, j] + a * table[i + 1, j]
    far = (1.0 - a) * table[i, j + 1] + a * table[i + 1, j + 1]
    return (1.0 - b) * near + b * far
