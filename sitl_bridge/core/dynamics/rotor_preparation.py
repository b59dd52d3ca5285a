"""What stays the same for the rotors over a step, laid out in the rows of a state's ``rotor_work``."""

from __future__ import annotations

from typing import Any

from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.dynamics.aerodynamics import GROUND_EFFECT_REACH
from sitl_bridge.core.dynamics.induced_flow import prepare_flow
from sitl_bridge.core.dynamics.records import INDUCED_LAW
from sitl_bridge.core.dynamics.rotor_rows import (
    AXIS_X,
    AXIS_Y,
    AXIS_Z,
    B1,
    B2,
    BLADE_SLOPE,
    C1,
    C2,
    DENSITY_RATE,
    DIRECTION,
    DRAG,
    DRAG_SHARE,
    G1,
    GROUND_REACH,
    HEALTH,
    INDUCED,
    INERTIA,
    K_M,
    LOSS_RATE,
    Q0,
    RADIUS,
    REVERSE,
    ROLL,
    ROLL_SHARE,
    ROLLING,
    TURNING,
    X,
    Y,
    Z,
)


@compiled
def lay_out_rotors(vehicle: Any, state: Any) -> None:
    """Lay out what the airframe alone decides: the rotors' places and coefficients.

    Args:
        vehicle: VEHICLE record.
        state: STATE record; the rows of its ``rotor_work`` are written.
    """
    rows = state.rotor_work
    n = vehicle.rotor_count
    # Apart from the loop below, which compiles to vector instructions.
    reach = 0.0
    for k in range(n):
        reach = max(reach, GROUND_EFFECT_REACH * vehicle.rotor_radius[k] - vehicle.rotor_position[k, 2])
        rows[X, k] = vehicle.rotor_position[k, 0]
        rows[Y, k] = vehicle.rotor_position[k, 1]
        rows[Z, k] = vehicle.rotor_position[k, 2]
        rows[AXIS_X, k] = vehicle.rotor_axis[k, 0]
        rows[AXIS_Y, k] = vehicle.rotor_axis[k, 1]
        rows[AXIS_Z, k] = vehicle.rotor_axis[k, 2]
    rows[GROUND_REACH, 0] = reach
    rows[REVERSE, 0], rows[REVERSE, 1] = vehicle.reverse_loss[0], vehicle.reverse_loss[1]
    for k in range(n):
        rows[DIRECTION, k] = vehicle.rotor_direction[k]
        rows[INERTIA, k] = vehicle.rotor_inertia[k]
        rows[C2, k] = vehicle.thrust_c2[k]
        rows[C1, k] = vehicle.thrust_c1[k]
        rows[K_M, k] = vehicle.torque_thrust_ratio[k]
        rows[G1, k] = vehicle.torque_g1[k]
        rows[Q0, k] = vehicle.torque_constant[k]
        rows[DENSITY_RATE, k] = 1.0 / vehicle.rotor_density[k]
    if vehicle.rotor_law == INDUCED_LAW:
        for k in range(n):
            rows[RADIUS, k] = vehicle.rotor_radius[k]
            rows[BLADE_SLOPE, k] = vehicle.blade_slope[k]
        return
    for k in range(n):
        rows[B1, k] = vehicle.thrust_b1[k]
        rows[B2, k] = vehicle.thrust_b2[k]
        rows[LOSS_RATE, k] = 1.0 / vehicle.inflow_loss_speed[k]


@compiled
def prepare_rotors(vehicle: Any, state: Any, density: float) -> None:
    """Lay out what stays the same for a step but for ``lay_out_rotors``: health, air and induced flow.

    Args:
        vehicle: VEHICLE record.
        state: STATE record; the rows of its ``rotor_work`` are written.
        density: kg/m^3 of the air over the step.
    """
    rows = state.rotor_work
    n = vehicle.rotor_count
    for k in range(n):
        health = state.rotor_health[k]
        rows[HEALTH, k] = health
        rows[DRAG, k] = vehicle.rotor_drag[k] * health
        rows[ROLL, k] = vehicle.rolling_moment[k] * health
    if vehicle.rotor_law != INDUCED_LAW:
        return
    for k in range(n):
        health = state.rotor_health[k]
        rows[TURNING, k] = -1.0 if state.rotor_speed[k] < 0.0 else 1.0
        rows[INDUCED, k] = rows[TURNING, k] * state.induced_velocity[k]
        rows[DRAG_SHARE, k] = vehicle.drag_share[k] * health
        rows[ROLL_SHARE, k] = vehicle.roll_share[k] * health
    rolling = 0.0
    for k in range(n):
        rolling += rows[ROLL_SHARE, k]
    rows[ROLLING, 0] = rolling
    prepare_flow(state, n, density)
