"""The sum of forces and moments on one vehicle, and the derivative of its state.

Rotors, body drag, rotor gyroscopics, ground contact, what others push with.  No integration here.
"""

from __future__ import annotations

import math
from typing import Any

from sitl_bridge.dynamics.aerodynamics import (
    GROUND_EFFECT_REACH,
    ground_effect_factor,
    induced_velocity,
)
from sitl_bridge.dynamics.contact import contact_force
from sitl_bridge.dynamics.motor import dc_acceleration
from sitl_bridge.dynamics.records import MOTOR_DC
from sitl_bridge.dynamics.rotor import polynomial_thrust_and_torque, table_thrust_and_torque
from sitl_bridge.kernels.compiled import compiled

# Rows of the state's ``rotor_work``, a value a rotor each, so that the loops over the rotors become vector
# instructions: motion and loads, what the airframe says, the flow at the hub, the effect on the body.
# The last row holds one value, the height of the centre of gravity below which rotors feel the ground.
SPEED = 0
ACCELERATION = 1
THRUST = 2
TORQUE = 3
X = 4
Y = 5
Z = 6
AXIS_X = 7
AXIS_Y = 8
AXIS_Z = 9
DIRECTION = 10
INERTIA = 11
C2 = 12
C1 = 13
B1 = 14
B2 = 15
LOSS_RATE = 16
K_M = 17
G1 = 18
Q0 = 19
DENSITY_RATE = 20
HEALTH = 21
DRAG = 22
ROLL = 23
INFLOW = 24
ACROSS_X = 25
ACROSS_Y = 26
ACROSS_Z = 27
FORCE_X = 28
FORCE_Y = 29
FORCE_Z = 30
MOMENT_X = 31
MOMENT_Y = 32
MOMENT_Z = 33
MOMENTUM_X = 34
MOMENTUM_Y = 35
MOMENTUM_Z = 36
TOTAL = 37
GROUND_REACH = 38


@compiled
def prepare_rotors(vehicle: Any, state: Any) -> None:
    """Lay out what stays the same for a step: the rotors' places, coefficients and health.

    Args:
        vehicle: VEHICLE record.
        state: STATE record; the rows of its ``rotor_work`` are written.
    """
    rows = state.rotor_work
    reach = 0.0
    for k in range(vehicle.rotor_count):
        reach = max(reach, GROUND_EFFECT_REACH * vehicle.rotor_radius[k] - vehicle.rotor_position[k, 2])
        rows[X, k] = vehicle.rotor_position[k, 0]
        rows[Y, k] = vehicle.rotor_position[k, 1]
        rows[Z, k] = vehicle.rotor_position[k, 2]
        rows[AXIS_X, k] = vehicle.rotor_axis[k, 0]
        rows[AXIS_Y, k] = vehicle.rotor_axis[k, 1]
        rows[AXIS_Z, k] = vehicle.rotor_axis[k, 2]
        rows[DIRECTION, k] = vehicle.rotor_direction[k]
        rows[INERTIA, k] = vehicle.rotor_inertia[k]
        rows[C2, k] = vehicle.thrust_c2[k]
        rows[C1, k] = vehicle.thrust_c1[k]
        rows[B1, k] = vehicle.thrust_b1[k]
        rows[B2, k] = vehicle.thrust_b2[k]
        rows[LOSS_RATE, k] = 1.0 / vehicle.inflow_loss_speed[k]
        rows[K_M, k] = vehicle.torque_thrust_ratio[k]
        rows[G1, k] = vehicle.torque_g1[k]
        rows[Q0, k] = vehicle.torque_constant[k]
        rows[DENSITY_RATE, k] = 1.0 / vehicle.rotor_density[k]
        rows[HEALTH, k] = state.rotor_health[k]
        rows[DRAG, k] = vehicle.rotor_drag[k] * state.rotor_health[k]
        rows[ROLL, k] = vehicle.rolling_moment[k] * state.rotor_health[k]
    rows[GROUND_REACH, 0] = reach


@compiled
def _rotor_flow(
    state: Any, n: int, u: float, v: float, w: float, p: float, q: float, r: float, density: float
) -> None:
    """Flow at every hub, v + w x r - wind in body axes, and thrust and torque by the polynomial law."""
    rows = state.rotor_work
    for k in range(n):
        hub_u = u + q * rows[Z, k] - r * rows[Y, k]
        hub_v = v + r * rows[X, k] - p * rows[Z, k]
        hub_w = w + p * rows[Y, k] - q * rows[X, k]
        inflow = hub_u * rows[AXIS_X, k] + hub_v * rows[AXIS_Y, k] + hub_w * rows[AXIS_Z, k]
        thrust, torque = polynomial_thrust_and_torque(
            rows[C2, k],
            rows[C1, k],
            rows[B1, k],
            rows[B2, k],
            rows[LOSS_RATE, k],
            rows[K_M, k],
            rows[G1, k],
            rows[Q0, k],
            rows[SPEED, k],
            inflow,
            density * rows[DENSITY_RATE, k],
        )
        rows[INFLOW, k] = inflow
        rows[ACROSS_X, k] = hub_u - inflow * rows[AXIS_X, k]
        rows[ACROSS_Y, k] = hub_v - inflow * rows[AXIS_Y, k]
        rows[ACROSS_Z, k] = hub_w - inflow * rows[AXIS_Z, k]
        rows[THRUST, k] = thrust * rows[HEALTH, k]
        rows[TORQUE, k] = torque * rows[HEALTH, k]


@compiled
def _table_rotors(vehicle: Any, state: Any, density: float) -> None:
    """Thrust and torque of rotors with a propeller table, in place of the polynomial law's."""
    rows = state.rotor_work
    for k in range(vehicle.rotor_count):
        thrust, torque = table_thrust_and_torque(vehicle, k, rows[SPEED, k], rows[INFLOW, k], density)
        rows[THRUST, k] = thrust * rows[HEALTH, k]
        rows[TORQUE, k] = torque * rows[HEALTH, k]


@compiled
def _ground_effect(
    vehicle: Any, state: Any, density: float, down: float, r20: float, r21: float, r22: float
) -> None:
    """Add what the ground's nearness gives to each thrust; r2x is the vertical in body axes."""
    rows = state.rotor_work
    for k in range(vehicle.rotor_count):
        radius = vehicle.rotor_radius[k]
        height = -(down + r20 * rows[X, k] + r21 * rows[Y, k] + r22 * rows[Z, k])
        upright = -(r20 * rows[AXIS_X, k] + r21 * rows[AXIS_Y, k] + r22 * rows[AXIS_Z, k])
        across = math.sqrt(rows[ACROSS_X, k] ** 2 + rows[ACROSS_Y, k] ** 2 + rows[ACROSS_Z, k] ** 2)
        induced = induced_velocity(rows[THRUST, k], radius, density)
        factor = ground_effect_factor(radius, height, upright, across, induced)
        rows[THRUST, k] *= 1.0 + vehicle.ground_effect * (factor - 1.0)


@compiled
def _accelerate_motors(vehicle: Any, state: Any) -> None:
    """Angular accelerations of DC motors; those of first-order motors come with their speeds."""
    rows = state.rotor_work
    for k in range(vehicle.rotor_count):
        rows[ACCELERATION, k] = dc_acceleration(
            vehicle, state.motor_drive[k], rows[SPEED, k], rows[TORQUE, k]
        )


@compiled
def _rotor_forces(state: Any, n: int, density: float) -> None:
    """Force, moment and angular momentum of every rotor, in body axes about the centre of gravity.

    In-plane drag F = -|w| lambda v_perp and rolling moment M = -|w| mu v_perp are RotorS eqs 2-3 with the
    signs of its released motor model.  The body feels the rotor's torque and the reaction to its spin's
    acceleration, both against the direction in which it turns.
    """
    rows = state.rotor_work
    for k in range(n):
        speed = rows[SPEED, k]
        thrust = rows[THRUST, k]
        magnitude = abs(speed) * density * rows[DENSITY_RATE, k]
        drag = rows[DRAG, k] * magnitude
        roll = rows[ROLL, k] * magnitude
        fx = thrust * rows[AXIS_X, k] - drag * rows[ACROSS_X, k]
        fy = thrust * rows[AXIS_Y, k] - drag * rows[ACROSS_Y, k]
        fz = thrust * rows[AXIS_Z, k] - drag * rows[ACROSS_Z, k]
        turning = -rows[DIRECTION, k] * (rows[TORQUE, k] + rows[INERTIA, k] * rows[ACCELERATION, k])
        momentum = rows[DIRECTION, k] * rows[INERTIA, k] * speed
        mx = rows[Y, k] * fz - rows[Z, k] * fy + turning * rows[AXIS_X, k] - roll * rows[ACROSS_X, k]
        my = rows[Z, k] * fx - rows[X, k] * fz + turning * rows[AXIS_Y, k] - roll * rows[ACROSS_Y, k]
        mz = rows[X, k] * fy - rows[Y, k] * fx + turning * rows[AXIS_Z, k] - roll * rows[ACROSS_Z, k]
        rows[FORCE_X, k] = fx
        rows[FORCE_Y, k] = fy
        rows[FORCE_Z, k] = fz
        rows[MOMENT_X, k] = mx
        rows[MOMENT_Y, k] = my
        rows[MOMENT_Z, k] = mz
        rows[MOMENTUM_X, k] = momentum * rows[AXIS_X, k]
        rows[MOMENTUM_Y, k] = momentum * rows[AXIS_Y, k]
        rows[MOMENTUM_Z, k] = momentum * rows[AXIS_Z, k]


@compiled
def derivative(
    vehicle: Any,
    state: Any,
    density: float,
    gravity: float,
    y: Any,
    dy: Any,
) -> None:
    """Time derivative of a vehicle's motion.

    Newton and Euler about the centre of gravity (hector eq. 1, RotorS, AirRobot eqs 2-12), with the spin
    of the rotors kept in the balance of angular momentum: J dw/dt = M - w x (J w + h) - dh/dt, where h is
    the rotors' own angular momentum.

    Args:
        vehicle: VEHICLE record.
        state: STATE record: wind, anchors, motor drive, external loads, and ``rotor_work`` with the rotors'
            speeds and what ``prepare_rotors`` wrote; its specific force and angular acceleration, and the
            rotors' thrusts, torques and accelerations in ``rotor_work``, are written.
        density: kg/m^3 of the air.
        gravity: m/s^2.
        y: (13,) position NED, velocity NED, attitude, angular velocity body.
        dy: (13,) its derivative.
    """
    qw = y[6]
    qx = y[7]
    qy = y[8]
    qz = y[9]
    p = y[10]
    q = y[11]
    r = y[12]
    # Rotation body to NED of a quaternion that need not be normalised to the last bit within the step.
    scale = 2.0 / (qw * qw + qx * qx + qy * qy + qz * qz)
    r00 = 1.0 - scale * (qy * qy + qz * qz)
    r01 = scale * (qx * qy - qw * qz)
    r02 = scale * (qx * qz + qw * qy)
    r10 = scale * (qx * qy + qw * qz)
    r11 = 1.0 - scale * (qx * qx + qz * qz)
    r12 = scale * (qy * qz - qw * qx)
    r20 = scale * (qx * qz - qw * qy)
    r21 = scale * (qy * qz + qw * qx)
    r22 = 1.0 - scale * (qx * qx + qy * qy)

    an = y[3] - state.wind[0]
    ae = y[4] - state.wind[1]
    ad = y[5] - state.wind[2]
    u = r00 * an + r10 * ae + r20 * ad
    v = r01 * an + r11 * ae + r21 * ad
    w = r02 * an + r12 * ae + r22 * ad

    # Body drag, hector eq. 2; AirRobot eq. 5 is the same law with C = rho C_w A / 2.
    ratio = density / vehicle.drag_density
    airspeed = math.sqrt(u * u + v * v + w * w) * ratio
    spin = math.sqrt(p * p + q * q + r * r) * ratio
    fx = -vehicle.drag_force[0] * airspeed * u
    fy = -vehicle.drag_force[1] * airspeed * v
    fz = -vehicle.drag_force[2] * airspeed * w
    mx = -vehicle.drag_moment[0] * spin * p + state.external_moment[0] + state.neighbour_moment[0]
    my = -vehicle.drag_moment[1] * spin * q + state.external_moment[1] + state.neighbour_moment[1]
    mz = -vehicle.drag_moment[2] * spin * r + state.external_moment[2] + state.neighbour_moment[2]

    rows = state.rotor_work
    _rotor_flow(state, vehicle.rotor_count, u, v, w, p, q, r, density)
    if vehicle.table_speed_count > 0:
        _table_rotors(vehicle, state, density)
    if vehicle.ground_effect > 0.0 and -y[2] < rows[GROUND_REACH, 0]:
        _ground_effect(vehicle, state, density, y[2], r20, r21, r22)
    if vehicle.motor_kind == MOTOR_DC:
        _accelerate_motors(vehicle, state)
    _rotor_forces(state, vehicle.rotor_count, density)
    hx = 0.0
    hy = 0.0
    hz = 0.0
    for k in range(vehicle.rotor_count):
        fx += rows[FORCE_X, k]
        fy += rows[FORCE_Y, k]
        fz += rows[FORCE_Z, k]
        mx += rows[MOMENT_X, k]
        my += rows[MOMENT_Y, k]
        mz += rows[MOMENT_Z, k]
        hx += rows[MOMENTUM_X, k]
        hy += rows[MOMENTUM_Y, k]
        hz += rows[MOMENTUM_Z, k]

    gn = state.external_force[0] + state.neighbour_force[0]
    ge = state.external_force[1] + state.neighbour_force[1]
    gd = state.external_force[2] + state.neighbour_force[2]
    if -y[2] < vehicle.contact_radius:
        for k in range(vehicle.contact_count):
            cx = vehicle.contact_point[k, 0]
            cy = vehicle.contact_point[k, 1]
            cz = vehicle.contact_point[k, 2]
            lever_d = r20 * cx + r21 * cy + r22 * cz
            depth = y[2] + lever_d
            if depth > 0.0:
                lever_n = r00 * cx + r01 * cy + r02 * cz
                lever_e = r10 * cx + r11 * cy + r12 * cz
                bu = q * cz - r * cy
                bv = r * cx - p * cz
                bw = p * cy - q * cx
                vn = y[3] + r00 * bu + r01 * bv + r02 * bw
                ve = y[4] + r10 * bu + r11 * bv + r12 * bw
                vd = y[5] + r20 * bu + r21 * bv + r22 * bw
                fn, fe, fd = contact_force(
                    vehicle, state, k, y[0] + lever_n, y[1] + lever_e, depth, vn, ve, vd
                )
                gn += fn
                ge += fe
                gd += fd
                bx = r00 * fn + r10 * fe + r20 * fd
                by = r01 * fn + r11 * fe + r21 * fd
                bz = r02 * fn + r12 * fe + r22 * fd
                mx += cy * bz - cz * by
                my += cz * bx - cx * bz
                mz += cx * by - cy * bx
    fx += r00 * gn + r10 * ge + r20 * gd
    fy += r01 * gn + r11 * ge + r21 * gd
    fz += r02 * gn + r12 * ge + r22 * gd

    lightness = 1.0 / vehicle.mass
    fx *= lightness
    fy *= lightness
    fz *= lightness
    state.specific_force[0] = fx
    state.specific_force[1] = fy
    state.specific_force[2] = fz

    dy[0] = y[3]
    dy[1] = y[4]
    dy[2] = y[5]
    dy[3] = r00 * fx + r01 * fy + r02 * fz
    dy[4] = r10 * fx + r11 * fy + r12 * fz
    dy[5] = r20 * fx + r21 * fy + r22 * fz + gravity
    dy[6] = 0.5 * (-qx * p - qy * q - qz * r)
    dy[7] = 0.5 * (qw * p + qy * r - qz * q)
    dy[8] = 0.5 * (qw * q - qx * r + qz * p)
    dy[9] = 0.5 * (qw * r + qx * q - qy * p)

    inertia = vehicle.inertia
    lx = inertia[0, 0] * p + inertia[0, 1] * q + inertia[0, 2] * r + hx
    ly = inertia[1, 0] * p + inertia[1, 1] * q + inertia[1, 2] * r + hy
    lz = inertia[2, 0] * p + inertia[2, 1] * q + inertia[2, 2] * r + hz
    mx -= q * lz - r * ly
    my -= r * lx - p * lz
    mz -= p * ly - q * lx
    inverse = vehicle.inertia_inverse
    dy[10] = inverse[0, 0] * mx + inverse[0, 1] * my + inverse[0, 2] * mz
    dy[11] = inverse[1, 0] * mx + inverse[1, 1] * my + inverse[1, 2] * mz
    dy[12] = inverse[2, 0] * mx + inverse[2, 1] * my + inverse[2, 2] * mz
    state.angular_acceleration[0] = dy[10]
    state.angular_acceleration[1] = dy[11]
    state.angular_acceleration[2] = dy[12]
