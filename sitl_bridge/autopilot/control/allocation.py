"""Control allocation: motor commands for a thrust and moments, for any airframe, within the motor limits.

The controllers in this directory give the wrench; dynamics/ models the motors.  Allocation is static.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sitl_bridge.autopilot.records import ALLOCATION, IDLE, OFF, Allocation, WrenchRecord
from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.core.dynamics.performance import hover, remember, static_thrusts, torque_slope
from sitl_bridge.core.dynamics.records import MOTOR_DC
from sitl_bridge.core.world.atmosphere import air

if TYPE_CHECKING:
    from sitl_bridge.core.vehicle.airframe import Airframe
    from sitl_bridge.core.world.world import World

INTERVALS = 32
"""Number of intervals of ALLOCATION.curve."""
NEWTON_STEPS = 24
"""Largest number of Newton steps; each finds which rotors are saturated, so about one per rotor is needed."""
IDLE_SHARE = 0.01
"""Share of a rotor's thrust range at IDLE: a tenth of its speed range, far below lift-off."""
MIN_DC_COMMAND = 0.02
"""Minimum command of a DC motor in flight.  Without voltage a DC motor brakes (motor.py); this command keeps
it turning freely.  On hector its identified law then still gives a third of the weight in thrust, too much on
the ground, so at IDLE a DC motor is off."""


def allocation_record(airframe: Airframe, world: World) -> Records:
    """Return the () ALLOCATION record of an airframe in the air at a world's origin.

    A rotor with thrust f and axis a at position r gives the force f a and the moment r x a f - d k a f, with
    its direction of rotation d and k = dQ/dT at hover.  Commands follow from static thrust at nominal
    voltage.

    Args:
        airframe: the airframe including its payload.
        world: supplies the air density.

    Raises:
        UserError: if the airframe cannot hover or its rotors cannot control roll and pitch.
    """
    gravity = float(world.environment[0]["gravity"])
    return _allocation(airframe.record, airframe.name, density_at(world), gravity).copy()


@remember
def _allocation(record: Packed, name: str, density: float, gravity: float) -> Records:
    rotors = int(record["rotor_count"])
    trim = hover(record, density, gravity)
    if trim is None:
        raise UserError(f"{name} cannot hover; see `sitl-bridge check`")
    allocation = np.zeros((), ALLOCATION)
    allocation["rotor_count"] = rotors
    effectiveness = _effectiveness(record, trim.rotor_thrust, density)
    if np.linalg.matrix_rank(effectiveness[:3], tol=1e-6 * np.abs(effectiveness).max()) < 3:
        raise UserError(f"{name}: its rotors cannot control thrust, roll and pitch independently")
    allocation["effectiveness"][:, :rotors] = effectiveness
    allocation["inverse"][:rotors] = np.linalg.pinv(effectiveness, rcond=1e-6)
    least = MIN_DC_COMMAND if record["motor_kind"] == MOTOR_DC else 0.0
    grid = np.linspace(least, 1.0, 97)
    thrusts = np.array([static_thrusts(record, max(float(c), 1e-6), density) for c in grid])
    low, high = thrusts[0], thrusts[-1]
    allocation["thrust_min"][:rotors], allocation["thrust_max"][:rotors] = low, high
    share = np.linspace(0.0, 1.0, INTERVALS + 1)
    for k in range(rotors):
        root = np.sqrt((thrusts[:, k] - low[k]) / (high[k] - low[k]))
        allocation["curve"][k] = np.interp(share, root, grid)
        allocation["idle"][k] = 0.0 if least > 0.0 else np.interp(math.sqrt(IDLE_SHARE), root, grid)
    return allocation


def density_at(world: World) -> float:
    """Return the air density in kg/m^3 at a world's origin."""
    return float(air(world.environment[0], 0.0)[2])


def _effectiveness(record: Records, thrusts: Floats, density: float) -> Floats:
    """Return the (4, rotors) thrust along body up and moments per N of rotor thrust, about hover thrust."""
    n = len(thrusts)
    axis = np.array(record["rotor_axis"][:n])
    slope = np.array([torque_slope(record, k, float(thrusts[k]), density) for k in range(n)])
    moment = np.cross(record["rotor_position"][:n], axis)
    moment -= (np.array(record["rotor_direction"][:n]) * slope)[:, None] * axis
    return np.vstack([-axis[:, 2], moment.T])


@on_demand
def allocate(allocation: Allocation, wrench: WrenchRecord, level: int, controls: Floats) -> None:
    """Write motor commands for a wrench, with priority to roll and pitch, then thrust, then yaw.

    For a zero wrench, rotors idle if their idle thrust is below their minimum thrust.  Otherwise the rotor
    thrusts are f = B+ (T, L, M, N), with the pseudo-inverse B+ of the effectiveness.  If one of them exceeds
    its limits, allocation desaturates in sequence:

    1. Without yaw, find the thrust T' nearest to T for which B+ (T', L, M, 0) is within the limits.
    2. If there is none but some f within the limits gives these roll and pitch moments, use the f nearest to
    B+ (T, L, M, 0).  Otherwise use the largest share of both moments that some f gives.
    3. Add the largest share of the yaw moment that then fits.

    Args:
        allocation: ALLOCATION record.
        wrench: WRENCH record; ``unmet_thrust`` and ``unmet_moment`` become requested minus achieved values.
        level: SETPOINT.level.
        controls: (16,) commands, motors first; the rest becomes 0.
    """
    for k in range(controls.shape[0]):
        controls[k] = 0.0
    wrench.unmet_thrust = 0.0
    for i in range(3):
        wrench.unmet_moment[i] = 0.0
    n = allocation.rotor_count
    if level == OFF:
        return
    asked = abs(wrench.moment[0]) + abs(wrench.moment[1]) + abs(wrench.moment[2])
    rests = allocation.idle[0] < allocation.curve[0, 0]
    if level == IDLE or (rests and wrench.thrust <= 0.0 and asked == 0.0):
        for k in range(n):
            if allocation.failed[k] == 0:
                controls[k] = allocation.idle[k]
        return
    desaturate(allocation, wrench)
    for k in range(n):
        low = allocation.thrust_min[k]
        share = (allocation.work[1, k] - low) / (allocation.thrust_max[k] - low)
        # In this order of comparisons, nan from a controller gives a command within the limits.
        root = math.sqrt(min(share, 1.0)) * INTERVALS if share > 0.0 else 0.0
        j = min(int(root), INTERVALS - 1)
        rest = root - j
        if allocation.failed[k] == 0:
            controls[k] = (1.0 - rest) * allocation.curve[k, j] + rest * allocation.curve[k, j + 1]


@compiled
def desaturate(allocation: Allocation, wrench: WrenchRecord) -> None:
    """Write the rotor thrusts of a wrench in N to ``work[1]``, desaturated as described in ``allocate``."""
    n = allocation.rotor_count
    inverse, effect = allocation.inverse, allocation.effectiveness
    turning, thrust = allocation.work[0], allocation.work[1]
    fits = True
    # Rotor k limits the collective thrust to (min - r)/d .. (max - r)/d, with r from roll and pitch.
    lowest, highest = -math.inf, math.inf
    for k in range(n):
        d = inverse[k, 0]
        turning[k] = inverse[k, 1] * wrench.moment[0] + inverse[k, 2] * wrench.moment[1]
        thrust[k] = turning[k] + d * wrench.thrust + inverse[k, 3] * wrench.moment[2]
        low, high = allocation.thrust_min[k] - turning[k], allocation.thrust_max[k] - turning[k]
        if not (allocation.thrust_min[k] <= thrust[k] <= allocation.thrust_max[k]):
            fits = False
        if d > 0.0:
            lowest, highest = max(lowest, low / d), min(highest, high / d)
        elif low > 0.0 or high < 0.0:
            highest = -math.inf
    if fits:
        return
    if lowest <= highest:
        total = min(max(wrench.thrust, lowest), highest)
        for k in range(n):
            thrust[k] = turning[k] + inverse[k, 0] * total
    else:
        for k in range(n):
            thrust[k] = turning[k] + inverse[k, 0] * wrench.thrust
        if saturate_moment(allocation, wrench.moment[0], wrench.moment[1]) == 0:
            project_onto_moment(allocation, wrench.moment[0], wrench.moment[1])
    missing = wrench.moment[2]
    for k in range(n):
        missing -= effect[3, k] * thrust[k]
    share = 1.0
    for k in range(n):
        yaw = inverse[k, 3] * missing
        room = (allocation.thrust_max[k] if yaw > 0.0 else allocation.thrust_min[k]) - thrust[k]
        if abs(yaw) * share > max(room * math.copysign(1.0, yaw), 0.0):
            share = max(room / yaw, 0.0)
    wrench.unmet_thrust = wrench.thrust
    for i in range(3):
        wrench.unmet_moment[i] = wrench.moment[i]
    for k in range(n):
        thrust[k] += share * inverse[k, 3] * missing
        wrench.unmet_thrust -= effect[0, k] * thrust[k]
        for i in range(3):
            wrench.unmet_moment[i] -= effect[1 + i, k] * thrust[k]


@compiled
def saturate_moment(allocation: Allocation, roll: float, pitch: float) -> int:
    """Write the thrusts of the largest feasible share of a roll and pitch moment.

    The feasible moments form a zonotope whose edges are parallel to the moment e_k = (roll, pitch) of some
    rotor.  On the edge with outward normal n, rotors with n . e > 0 are at maximum thrust and those with n .
    e < 0 at minimum; the rotors parallel to the edge set the point on it.

    Args:
        allocation: ALLOCATION record; ``work[1]`` is written if the result is 1.
        roll: N m.
        pitch: N m.

    Returns:
        0 if the moment lies inside the feasible set, else 1.
    """
    n = allocation.rotor_count
    effect, low, high = allocation.effectiveness, allocation.thrust_min, allocation.thrust_max
    thrust = allocation.work[1]
    share, edge, side = 1.0, -1, 1.0
    for k in range(n):
        x, y = -effect[2, k], effect[1, k]
        along = x * roll + y * pitch
        sign = math.copysign(1.0, along)
        most = 0.0
        for j in range(n):
            e = sign * (x * effect[1, j] + y * effect[2, j])
            most += e * (high[j] if e > 0.0 else low[j])
        # Treat a moment next to an edge as outside: there the gradient in project_onto_moment vanishes.
        if abs(along) * share > max(most, 0.0) * (1.0 - 1e-9):
            share, edge, side = min(max(most, 0.0) / abs(along), share), k, sign
    if edge < 0:
        return 0
    x, y = -effect[2, edge] * side, effect[1, edge] * side
    wanted = share * (roll * effect[1, edge] + pitch * effect[2, edge])
    least = 0.0
    span = 0.0
    for j in range(n):
        e = x * effect[1, j] + y * effect[2, j]
        t = effect[1, edge] * effect[1, j] + effect[2, edge] * effect[2, j]
        if abs(e) > 1e-9 * abs(t):
            thrust[j] = high[j] if e > 0.0 else low[j]
            wanted -= t * thrust[j]
        else:
            least += t * (low[j] if t > 0.0 else high[j])
            span += abs(t) * (high[j] - low[j])
    part = min(max((wanted - least) / span, 0.0), 1.0)
    for j in range(n):
        e = x * effect[1, j] + y * effect[2, j]
        t = effect[1, edge] * effect[1, j] + effect[2, edge] * effect[2, j]
        if abs(e) <= 1e-9 * abs(t):
            rise = part * (high[j] - low[j])
            thrust[j] = low[j] + rise if t > 0.0 else high[j] - rise
    return 1


@compiled
def project_onto_moment(allocation: Allocation, roll: float, pitch: float) -> None:
    """Write the thrusts within the limits that give a roll and pitch moment, nearest to those in ``work[1]``.

    The nearest are clip(f_0 + E^T y) with the two rows E of roll and pitch; y is found by Newton's method on
    E clip(f_0 + E^T y) = (roll, pitch), which is piecewise linear and the gradient of a convex function of y.
    Each step ends at the minimum of that function along it: full steps can cycle.

    Args:
        allocation: ALLOCATION record; ``work[1]`` holds f_0 and receives the result.
        roll: N m.
        pitch: N m.
    """
    n = allocation.rotor_count
    effect, start, thrust = allocation.effectiveness, allocation.work[0], allocation.work[1]
    size = 0.0
    for k in range(n):
        start[k] = thrust[k]
        size += effect[1, k] ** 2 + effect[2, k] ** 2
    for _ in range(NEWTON_STEPS):
        a, b, c = 1e-9 * size, 0.0, 1e-9 * size
        miss0, miss1 = roll, pitch
        for k in range(n):
            thrust[k] = min(max(start[k], allocation.thrust_min[k]), allocation.thrust_max[k])
            if start[k] == thrust[k]:
                a += effect[1, k] ** 2
                b += effect[1, k] * effect[2, k]
                c += effect[2, k] ** 2
            miss0 -= effect[1, k] * thrust[k]
            miss1 -= effect[2, k] * thrust[k]
        if abs(miss0) + abs(miss1) <= 1e-10 * (abs(roll) + abs(pitch)):
            return
        determinant = a * c - b * b
        d0 = (c * miss0 - b * miss1) / determinant
        d1 = (a * miss1 - b * miss0) / determinant
        part = share_of_step(allocation, d0, d1, d0 * roll + d1 * pitch)
        for k in range(n):
            start[k] += part * (effect[1, k] * d0 + effect[2, k] * d1)


@compiled
def share_of_step(allocation: Allocation, d0: float, d1: float, wanted: float) -> float:
    """Return the share (at most 1) of a step (d0, d1) at which the moment along it reaches ``wanted``.

    That moment, sum of s clip(f + t s) with s = E^T d, increases with t and has a kink where a rotor
    saturates.
    """
    effect, start = allocation.effectiveness, allocation.work[0]
    before, after = 0.0, 1.0
    given_before, given_after = 0.0, 0.0
    n = allocation.rotor_count
    for kink in range(-2, 2 * n):
        t = 2.0 + kink  # the two ends first
        if kink >= 0:
            k = kink // 2
            slope = effect[1, k] * d0 + effect[2, k] * d1
            limit = allocation.thrust_min[k] if kink % 2 == 0 else allocation.thrust_max[k]
            t = (limit - start[k]) / slope if slope != 0.0 else 0.0
            if not before < t < after:
                continue
        given = 0.0
        for j in range(n):
            slope = effect[1, j] * d0 + effect[2, j] * d1
            f = start[j] + t * slope
            given += slope * min(max(f, allocation.thrust_min[j]), allocation.thrust_max[j])
        if kink == -2 or (kink >= 0 and given <= wanted):
            before, given_before = t, given
        else:
            after, given_after = t, given
        if kink == -1 and given <= wanted:
            return 1.0
    if given_after <= given_before:
        return after
    return before + (after - before) * (wanted - given_before) / (given_after - given_before)
