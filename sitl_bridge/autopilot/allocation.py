"""From thrust and moments to the commands of the motors of any airframe, within their limits.

What is asked comes from control/; what a command does is the dynamics' matter.  Nothing here knows time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.autopilot.layout import ALLOCATION, IDLE, OFF
from sitl_bridge.compiled import compiled
from sitl_bridge.dynamics.layout import MOTOR_DC
from sitl_bridge.dynamics.performance import hover, static_thrusts, torque_slope
from sitl_bridge.errors import UserError
from sitl_bridge.world.atmosphere import air

if TYPE_CHECKING:
    from sitl_bridge.config.airframe import Airframe
    from sitl_bridge.world.world import World

INTERVALS = 32
"""Intervals of ALLOCATION.curve."""
IDLE_SHARE = 0.01
"""Share of a rotor's thrust range at IDLE: a tenth of its speed range, too little to move any vehicle."""
LEAST_DC_COMMAND = 0.02
"""A DC motor that gets no voltage brakes (motor.py); this keeps it turning freely."""


def allocation_record(airframe: Airframe, world: World) -> NDArray[np.void]:
    """() ALLOCATION of an airframe in the air at a world's origin.

    A rotor of thrust f pushes along its axis a and turns the vehicle by r x a f - d k a f with its turning
    direction d and k = dQ/dT at hover.  Commands follow from static thrust at the nominal voltage.

    Args:
        airframe: the airframe, payload and all.
        world: gives the air's density.

    Raises:
        UserError: for an airframe that cannot hover, or whose rotors cannot control roll and pitch.
    """
    record, rotors = airframe.record, len(airframe.rotors)
    density = density_at(world)
    trim = hover(record, density, float(world.environment[0]["gravity"]))
    if trim is None:
        raise UserError(f"{airframe.name} cannot hover; `sitl-bridge check` tells more")
    allocation = np.zeros((), ALLOCATION)
    allocation["rotor_count"] = rotors
    effectiveness = _effectiveness(record, trim.rotor_thrust, density)
    if np.linalg.matrix_rank(effectiveness[:3], tol=1e-6 * np.abs(effectiveness).max()) < 3:
        raise UserError(f"{airframe.name}: its rotors cannot control thrust, roll and pitch apart")
    allocation["effectiveness"][:, :rotors] = effectiveness
    allocation["inverse"][:rotors] = np.linalg.pinv(effectiveness, rcond=1e-6)
    least = LEAST_DC_COMMAND if record["motor_kind"] == MOTOR_DC else 0.0
    grid = np.linspace(least, 1.0, 97)
    thrusts = np.array([static_thrusts(record, max(float(c), 1e-6), density) for c in grid])
    low, high = thrusts[0], thrusts[-1]
    allocation["thrust_min"][:rotors], allocation["thrust_max"][:rotors] = low, high
    share = np.linspace(0.0, 1.0, INTERVALS + 1)
    for k in range(rotors):
        root = np.sqrt((thrusts[:, k] - low[k]) / (high[k] - low[k]))
        allocation["curve"][k] = np.interp(share, root, grid)
        allocation["idle"][k] = np.interp(math.sqrt(IDLE_SHARE), root, grid)
    return allocation


def density_at(world: World) -> float:
    """Density in kg/m^3 of the air at a world's origin."""
    return float(air(world.environment[0], 0.0)[2])


def _effectiveness(
    record: NDArray[np.void], thrusts: NDArray[np.float64], density: float
) -> NDArray[np.float64]:
    """(4, rotors) thrust along body up and moments of 1 N of each rotor about its hover thrust (N)."""
    n = len(thrusts)
    axis = np.array(record["rotor_axis"][:n])
    slope = np.array([torque_slope(record, k, float(thrusts[k]), density) for k in range(n)])
    moment = np.cross(record["rotor_position"][:n], axis)
    moment -= (np.array(record["rotor_direction"][:n]) * slope)[:, None] * axis
    return np.vstack([-axis[:, 2], moment.T])


@compiled
def allocate(allocation: Any, wrench: Any, level: int, controls: Any) -> None:
    """Motor commands for a wrench; attitude first, then thrust, then yaw.

    Sequential desaturation along the columns of the pseudo-inverse B+ of the effectiveness.  Rotor thrusts
    are f = B+_roll,pitch alpha (L, M) + B+_T T' + B+_yaw beta N:

    1. alpha is the greatest share, up to 1, of roll and pitch moment for which some thrust T' keeps every
       rotor within its limits; each pair of rotors bounds it linearly.
    2. T' is the thrust within those bounds that is nearest to the one asked for.
    3. beta is the greatest share, up to 1, of the yaw moment that then fits.

    Args:
        allocation: ALLOCATION record; ``saturated`` becomes bits 0 thrust, 1 roll and pitch, 2 yaw not met.
        wrench: WRENCH record; ``unmet_thrust`` and ``unmet_moment`` become what is asked less what is given.
        level: SETPOINT.level.
        controls: (16,) commands, motors first; the rest becomes 0.
    """
    for k in range(controls.shape[0]):
        controls[k] = 0.0
    allocation.saturated = 0
    wrench.unmet_thrust = 0.0
    for i in range(3):
        wrench.unmet_moment[i] = 0.0
    n = allocation.rotor_count
    if level == OFF:
        return
    if level == IDLE:
        for k in range(n):
            if allocation.failed[k] == 0:
                controls[k] = allocation.idle[k]
        return
    thrusts_within_limits(allocation, wrench)
    for k in range(n):
        low = allocation.thrust_min[k]
        share = (allocation.work[1, k] - low) / (allocation.thrust_max[k] - low)
        # Comparisons in this order make no number of the controller's a command outside the limits.
        root = math.sqrt(min(share, 1.0)) * INTERVALS if share > 0.0 else 0.0
        j = min(int(root), INTERVALS - 1)
        rest = root - j
        if allocation.failed[k] == 0:
            controls[k] = (1.0 - rest) * allocation.curve[k, j] + rest * allocation.curve[k, j + 1]


@compiled
def thrusts_within_limits(allocation: Any, wrench: Any) -> None:
    """Rotor thrusts in N of a wrench, into ``work[1]``: the three steps that ``allocate`` tells."""
    n = allocation.rotor_count
    inverse = allocation.inverse
    turning = allocation.work[0]
    thrust = allocation.work[1]
    fits = True
    for k in range(n):
        turning[k] = inverse[k, 1] * wrench.moment[0] + inverse[k, 2] * wrench.moment[1]
        thrust[k] = turning[k] + inverse[k, 0] * wrench.thrust + inverse[k, 3] * wrench.moment[2]
        if not (allocation.thrust_min[k] <= thrust[k] <= allocation.thrust_max[k]):
            fits = False
    if fits:
        return
    # Rotor k allows the collective thrusts from (min - alpha r)/d to (max - alpha r)/d, d > 0.
    alpha = 1.0
    for i in range(n):
        for j in range(n):
            di = inverse[i, 0]
            dj = inverse[j, 0]
            if di > 0.0 and dj > 0.0:
                room = allocation.thrust_max[j] / dj - allocation.thrust_min[i] / di
                need = turning[j] / dj - turning[i] / di
                if need * alpha > room:
                    alpha = max(room, 0.0) / need
    lowest = -math.inf
    highest = math.inf
    for k in range(n):
        d = inverse[k, 0]
        if d > 0.0:
            lowest = max(lowest, (allocation.thrust_min[k] - alpha * turning[k]) / d)
            highest = min(highest, (allocation.thrust_max[k] - alpha * turning[k]) / d)
    total = min(max(wrench.thrust, lowest), highest)
    beta = 1.0
    for k in range(n):
        thrust[k] = alpha * turning[k] + inverse[k, 0] * total
        yaw = inverse[k, 3] * wrench.moment[2]
        limit = allocation.thrust_max[k] if yaw > 0.0 else allocation.thrust_min[k]
        if abs(yaw) * beta > max((limit - thrust[k]) * (1.0 if yaw > 0.0 else -1.0), 0.0):
            beta = max((limit - thrust[k]) / yaw, 0.0)
    for k in range(n):
        thrust[k] += beta * inverse[k, 3] * wrench.moment[2]
    wrench.unmet_thrust = wrench.thrust - total
    wrench.unmet_moment[0] = (1.0 - alpha) * wrench.moment[0]
    wrench.unmet_moment[1] = (1.0 - alpha) * wrench.moment[1]
    wrench.unmet_moment[2] = (1.0 - beta) * wrench.moment[2]
    allocation.saturated = (
        (1 if total != wrench.thrust else 0) + (2 if alpha < 1.0 else 0) + (4 if beta < 1.0 else 0)
    )
