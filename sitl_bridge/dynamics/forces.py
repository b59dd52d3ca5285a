"""The sum of forces and moments on one vehicle, and the derivative of its state.

Rotors, body drag, rotor gyroscopics, ground contact, what others push with.  No integration here.
"""

from __future__ import annotations

import math
from typing import Any

from sitl_bridge.compiled import compiled
from sitl_bridge.dynamics.aerodynamics import (
    GROUND_EFFECT_REACH,
    ground_effect_factor,
    induced_velocity,
)
from sitl_bridge.dynamics.contact import contact_force
from sitl_bridge.dynamics.layout import MOTOR_DC
from sitl_bridge.dynamics.motor import dc_acceleration
from sitl_bridge.dynamics.rotor import thrust_and_torque


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
        state: STATE record: wind, anchors, health, motor drive, external loads; its specific force, angular
            acceleration, rotor thrusts, torques and accelerations are written.
        density: kg/m^3 of the air.
        gravity: m/s^2.
        y: (25,) position NED, velocity NED, attitude, angular velocity body, rotor speeds.
        dy: (25,) its derivative; the rotor part is written for DC motors and read for first-order ones.
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
    mx = -vehicle.drag_moment[0] * spin * p + state.external_moment[0]
    my = -vehicle.drag_moment[1] * spin * q + state.external_moment[1]
    mz = -vehicle.drag_moment[2] * spin * r + state.external_moment[2]

    hx = 0.0
    hy = 0.0
    hz = 0.0
    for k in range(vehicle.rotor_count):
        speed = y[13 + k]
        health = state.rotor_health[k]
        px = vehicle.rotor_position[k, 0]
        py = vehicle.rotor_position[k, 1]
        pz = vehicle.rotor_position[k, 2]
        ax = vehicle.rotor_axis[k, 0]
        ay = vehicle.rotor_axis[k, 1]
        az = vehicle.rotor_axis[k, 2]
        hub_u = u + q * pz - r * py
        hub_v = v + r * px - p * pz
        hub_w = w + p * py - q * px
        inflow = hub_u * ax + hub_v * ay + hub_w * az
        across_u = hub_u - inflow * ax
        across_v = hub_v - inflow * ay
        across_w = hub_w - inflow * az
        thrust, torque = thrust_and_torque(vehicle, k, speed, inflow, density)
        radius = vehicle.rotor_radius[k]
        height = -(y[2] + r20 * px + r21 * py + r22 * pz)
        if vehicle.ground_effect > 0.0 and height < GROUND_EFFECT_REACH * radius:
            upright = -(r20 * ax + r21 * ay + r22 * az)
            across = math.sqrt(across_u * across_u + across_v * across_v + across_w * across_w)
            factor = ground_effect_factor(
                radius, height, upright, across, induced_velocity(thrust, radius, density)
            )
            thrust *= 1.0 + vehicle.ground_effect * (factor - 1.0)
        thrust *= health
        torque *= health
        state.rotor_thrust[k] = thrust
        state.rotor_torque[k] = torque
        if vehicle.motor_kind == MOTOR_DC:
            dy[13 + k] = dc_acceleration(vehicle, state.motor_drive[k], speed, torque)
        state.rotor_acceleration[k] = dy[13 + k]

        # In-plane drag and rolling moment, RotorS eqs 2-3 with the signs of its released motor model.
        magnitude = abs(speed) * (density / vehicle.rotor_density[k]) * health
        drag = vehicle.rotor_drag[k] * magnitude
        roll = vehicle.rolling_moment[k] * magnitude
        rx = thrust * ax - drag * across_u
        ry = thrust * ay - drag * across_v
        rz = thrust * az - drag * across_w
        direction = vehicle.rotor_direction[k]
        turning = -direction * (torque + vehicle.rotor_inertia[k] * dy[13 + k])
        momentum = direction * vehicle.rotor_inertia[k] * speed
        fx += rx
        fy += ry
        fz += rz
        mx += py * rz - pz * ry + turning * ax - roll * across_u
        my += pz * rx - px * rz + turning * ay - roll * across_v
        mz += px * ry - py * rx + turning * az - roll * across_w
        hx += momentum * ax
        hy += momentum * ay
        hz += momentum * az

    gn = state.external_force[0]
    ge = state.external_force[1]
    gd = state.external_force[2]
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
