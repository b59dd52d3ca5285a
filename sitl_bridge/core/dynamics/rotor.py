"""The built-in rotor laws: thrust, torque and in-plane loads from rotor speed and inflow.

motor.py computes the rotor speed, forces.py sums the loads on the body, aerodynamics.py adds the ground
effect, and rotor_laws.py selects the law.
"""

from __future__ import annotations

import math
from typing import Any

from sitl_bridge.base.kernels.compiled import compiled

_TURN = 2.0 * math.pi


@compiled
def with_reverse_loss(vehicle: Any, speed: float, thrust: float, torque: float) -> tuple[float, float]:
    """Return thrust and torque of reverse rotation, from those of the mirror image; others as they are."""
    if speed < 0.0:
        return thrust * (1.0 - vehicle.reverse_loss[0]), torque * (1.0 - vehicle.reverse_loss[1])
    return thrust, torque


@compiled
def _interval(table: Any, count: int, value: float) -> int:
    """Return the interval of an increasing table (``count`` >= 2) with ``value``, or the nearest one."""
    low = 0
    high = count - 1
    while high - low > 1:
        middle = (low + high) // 2
        if table[middle] <= value:
            low = middle
        else:
            high = middle
    return low


@compiled
def _row_coefficients(vehicle: Any, row: int, advance: float) -> tuple[float, float]:
    """Return C_T and C_P of one speed of the table, linear in the advance ratio.

    They are extrapolated, because thrust falls through zero, but by no more than the row's length.
    """
    count = vehicle.table_advance_count[row]
    ct, cp = vehicle.table_ct[row], vehicle.table_cp[row]
    if count == 1:
        return ct[0], cp[0]
    axis = vehicle.table_advance[row]
    first, last = axis[0], axis[count - 1]
    advance = min(max(advance, first - (last - first)), last + (last - first))
    j = _interval(axis, count, advance)
    b = (advance - axis[j]) / (axis[j + 1] - axis[j])
    return (1.0 - b) * ct[j] + b * ct[j + 1], (1.0 - b) * cp[j] + b * cp[j + 1]


@compiled
def table_coefficients(vehicle: Any, k: int, speed: float, advance: float) -> tuple[float, float]:
    """Return C_T and C_P of a rotor's propeller table, linear in rotor speed and advance ratio.

    Outside the speed axis the coefficients are constant (they depend weakly on the Reynolds number).  C_P is
    never below zero: a windmilling propeller does not drive the motor.

    Args:
        vehicle: VEHICLE record with a ``table_speed_count`` >= 1 of the rotor.
        k: rotor index.
        speed: rad/s, >= 0.
        advance: J = v/(n D).
    """
    i = vehicle.table_first[k]
    i1 = i
    a = 0.0
    count = vehicle.table_speed_count[k]
    if count > 1:
        i += _interval(vehicle.table_speed[i : i + count], count, speed)
        i1 = i + 1
        low = vehicle.table_speed[i]
        a = min(max((speed - low) / (vehicle.table_speed[i1] - low), 0.0), 1.0)
    thrust0, power0 = _row_coefficients(vehicle, i, advance)
    thrust1, power1 = _row_coefficients(vehicle, i1, advance)
    return (1.0 - a) * thrust0 + a * thrust1, max((1.0 - a) * power0 + a * power1, 0.0)


@compiled
def table_thrust_and_torque(
    vehicle: Any, k: int, speed: float, inflow: float, density: float
) -> tuple[float, float]:
    """Return thrust and torque of a rotor with a propeller table.

    T = C_T rho n^2 D^4 and Q = C_P rho n^2 D^5/(2 pi) with n in revolutions per second and the advance ratio
    v/(n D), the convention of the UIUC propeller data base.
    """
    sign = -1.0 if speed < 0.0 else 1.0
    magnitude = abs(speed)
    if magnitude == 0.0:
        return 0.0, 0.0
    diameter = vehicle.table_diameter[k]
    turns = magnitude / _TURN
    ct, cp = table_coefficients(vehicle, k, magnitude, sign * inflow / (turns * diameter))
    force = density * turns * turns * diameter**4
    loss = max(0.0, 1.0 - abs(inflow) / vehicle.inflow_loss_speed[k])
    torque = cp * force * diameter / _TURN + vehicle.torque_constant[k]
    return with_reverse_loss(vehicle, speed, sign * ct * force * loss, sign * torque)


@compiled
def polynomial_thrust_and_torque(
    c2: float,
    c1: float,
    b1: float,
    b2: float,
    loss_rate: float,
    k_m: float,
    g1: float,
    q0: float,
    speed: float,
    inflow: float,
    ratio: float,
) -> tuple[float, float]:
    """Return thrust and torque by the polynomial law; for its sources see ``polynomial_loads``.

    T = (c2 w|w| + c1 w + b1 v |w| + sgn(v) b2 v^2)(1 - |v|/v_loss) rho/rho_0, Q = k_M T + g1 |w| rho/rho_0 +
    q0 against the rotation, never below zero.

    Args:
        c2: N s^2.
        c1: N s.
        b1: N s^2/m.
        b2: N s^2/m^2.
        loss_rate: s/m, 1/v_loss.
        k_m: m.
        g1: N m s.
        q0: N m.
        speed: rad/s.
        inflow: m/s.
        ratio: density of the air over the reference density of the coefficients.
    """
    magnitude = abs(speed)
    thrust = (c2 * magnitude + c1) * speed + (b1 * magnitude + b2 * abs(inflow)) * inflow
    thrust *= ratio * max(0.0, 1.0 - abs(inflow) * loss_rate)
    sign = 1.0 if speed > 0.0 else -1.0
    torque = max(k_m * thrust * sign + g1 * magnitude * ratio + q0, 0.0)
    return thrust, (sign * torque if magnitude > 0.0 else 0.0)


@compiled
def in_plane_rates(vehicle: Any, k: int, speed: float, density: float) -> tuple[float, float]:
    """Return in-plane drag in N s/m and rolling moment in N s, over the hub's in-plane velocity.

    F = -|w| lambda v_perp and M = -|w| mu v_perp (RotorS eqs 2-3), proportional to the density.
    """
    ratio = density / vehicle.rotor_density[k]
    magnitude = abs(speed)
    return vehicle.rotor_drag[k] * magnitude * ratio, vehicle.rolling_moment[k] * magnitude * ratio


@compiled
def polynomial_loads(
    vehicle: Any, k: int, speed: float, inflow: float, _in_plane: float, density: float
) -> tuple[float, float, float, float]:
    """Return the loads of a rotor by the polynomial law, as ``rotor_loads``.

    T = (c2 w|w| + c1 w + b1 v |w| + sgn(v) b2 v^2)(1 - |v|/v_loss) rho/rho_0.  It covers hector eq. 7 (c2 =
    C_T0, b1 = C_T1, b2 = -C_T2 with the sign as released in hector_quadrotor), AirRobot eq. 13 (c2, c1),
    RotorS eq. 1 (c2) and the axial loss of PX4's Gazebo motor model (v_loss).  The torque is Q = k_M T + g1
    |w| rho/rho_0 + q0 (hector's M_m = k_T T + k_m w, AirRobot eq. 14, RotorS eq. 4) and never drives the
    rotor.  Reverse rotation is the mirror image, T(-w, v) = -T(w, -v), less ``reverse_loss``.
    """
    thrust, torque = polynomial_thrust_and_torque(
        vehicle.thrust_c2[k],
        vehicle.thrust_c1[k],
        vehicle.thrust_b1[k],
        vehicle.thrust_b2[k],
        1.0 / vehicle.inflow_loss_speed[k],
        vehicle.torque_thrust_ratio[k],
        vehicle.torque_g1[k],
        vehicle.torque_constant[k],
        speed,
        inflow,
        density / vehicle.rotor_density[k],
    )
    thrust, torque = with_reverse_loss(vehicle, speed, thrust, torque)
    drag, roll = in_plane_rates(vehicle, k, speed, density)
    return thrust, torque, drag, roll


@compiled
def table_loads(
    vehicle: Any, k: int, speed: float, inflow: float, _in_plane: float, density: float
) -> tuple[float, float, float, float]:
    """Return the loads of a rotor with a propeller table, as ``rotor_loads``."""
    thrust, torque = table_thrust_and_torque(vehicle, k, speed, inflow, density)
    drag, roll = in_plane_rates(vehicle, k, speed, density)
    return thrust, torque, drag, roll
