"""Flapping of soft blades: the tilt of each rotor's disc, and what of it reaches the body.

induced_flow.py has the loads of rigid blades, which this module changes.
"""

from __future__ import annotations

import math

from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.core.dynamics.records import Motion, State, Vehicle

MOST_TILT = 0.3
"""rad; larger angles of flapping are cut to this, within the small angles of the theory."""
UNEVENNESS = 15.0 * math.pi / 128.0
"""A quarter of Pitt and Peters's 15 pi/32."""


@compiled
def disc_tilt(
    lift: float, slope: float, per_disc: float, radius: float, speed: float, through: float, across: float,
    spin: float, stiffness: float, inertia: float, uneven: float, roll: float, pitch: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Return a disc's tilt with and to the left of the in-plane velocity, and the blades' coning, rad.

    The steady first harmonics of flapping of blades with a spring at the root (Johnson, Helicopter Theory,
    chapter 5).  With the flapping damping D = B w R^2/4 and the hub's stiffness K, both over the tilt,

        s D (1 - mu^2/2) f - K_r l = M_r,  s D (1 + mu^2/2) l + K_p f = M_p,

    of the tilts f with and l to the left of the velocity and the moments M about these axes that rigid blades
    would have before their cyclic induced flow: the advancing blade's lift, coning, uneven inflow and the
    blades' gyroscopic moment.  K_r and K_p are K times one plus the relief by that induced flow (Pitt and
    Peters), so rigid blades have the moments of ``blade_loads``, and free ones do not depend on K.

    Args:
        lift: N, A of ``blade_loads``.
        slope: N s/m, B.
        per_disc: m/kg, 1/(2 rho A).
        radius: m.
        speed: rad/s, > 0.
        through: m/s, U.
        across: m/s, V.
        spin: 1 counter-clockwise seen against the thrust, -1 clockwise.
        stiffness: N m/rad, K.
        inertia: kg m^2, sum of the blades'.
        uneven: m/s, the induced velocity if it is uneven, else 0.
        roll: N m about the in-plane velocity, gyroscopic.
        pitch: N m about the axis to its left, gyroscopic.
    """
    advance = min(across / (speed * radius), 1.0)
    steepness = abs(through)
    total = math.sqrt(across * across + through * through)
    roll_relief = 1.0 + 2.0 * slope * per_disc / (total + steepness + 1e-9)
    pitch_relief = 1.0 + 2.0 * slope * per_disc * steepness / (total * (total + steepness) + 1e-9)
    damping = 0.25 * slope * speed * radius * radius
    # Mean flapping moment over centrifugal stiffening and spring.
    coning = radius * (0.75 * lift - 2.0 / 3.0 * slope * through)
    coning /= inertia * speed * speed + 2.0 * stiffness
    coning = max(min(coning, MOST_TILT), -MOST_TILT)
    about_roll = -spin * (lift - 0.5 * slope * through) * across / speed + roll_relief * roll
    about_pitch = -4.0 / 3.0 * advance * damping * coning + pitch_relief * pitch
    about_pitch -= UNEVENNESS * slope * radius * uneven * across / (total + steepness + 1e-9)
    lengthwise = spin * damping * (1.0 - 0.5 * advance * advance)
    sideways = spin * damping * (1.0 + 0.5 * advance * advance)
    roll_stiffness, pitch_stiffness = stiffness * roll_relief, stiffness * pitch_relief
    per_determinant = 1.0 / (lengthwise * sideways + roll_stiffness * pitch_stiffness + 1e-30)
    forward = (sideways * about_roll + roll_stiffness * about_pitch) * per_determinant
    left = (lengthwise * about_pitch - pitch_stiffness * about_roll) * per_determinant
    cut = min(1.0, MOST_TILT / (math.sqrt(forward * forward + left * left) + 1e-30))
    return forward * cut, left * cut, coning


@compiled
def disc_push(
    lift: float, thrust: float, slope: float, radius: float, speed: float, through: float, across: float,
    spin: float, forward: float, left: float, coning: float,
) -> tuple[float, float]:  # fmt: skip
    """Return the force in N that flapping adds, with and to the left of the in-plane velocity.

    Blade elements with angles of flapping and V/(w R) to first order, lift normal to the flow:

        F_f = (T - B U/2) f - a (B w R s l/3 + B V a/2),
        F_l = (T - B U/2) l + s a (9/4 A V/(w R) - 3 B U V/(w R) + B w R f/3),

    with the coning a and s of ``spin``.  With the force of rigid blades, the thrust stands about upright on
    the disc of free ones.

    Args: those of ``disc_tilt``, and
        thrust: N.
        forward: rad, f of ``disc_tilt``.
        left: rad, l.
        coning: rad.
    """
    tip = speed * radius
    upright = thrust - 0.5 * slope * through
    conical = coning * slope * tip / 3.0
    sideways = coning * across / tip * (2.25 * lift - 3.0 * slope * through)
    return (
        upright * forward - conical * spin * left - 0.5 * slope * across * coning * coning,
        upright * left + spin * (sideways + conical * forward),
    )


@on_demand
def flap_blades(vehicle: Vehicle, state: State, n: int, m: Motion) -> None:
    """Write every disc's tilt as a vector in body axes, and change the torques; after ``induced_rotors``.

    In-plane force and torque change together, so that shaft and drag power still go to the flow and the
    sections alone: a force F with the in-plane velocity V adds F V/w to the torque.
    """
    rows = state.scratch
    inertia = vehicle.flap_inertia
    for k in range(n):
        rows.tilt_x[k] = rows.tilt_y[k] = rows.tilt_z[k] = 0.0
        sign = rows.turning[k]
        if sign == 0.0:
            continue
        ux, uy, uz = sign * rows.axis_x[k], sign * rows.axis_y[k], sign * rows.axis_z[k]
        across, ax, ay, az = _heading(rows.across_x[k], rows.across_y[k], rows.across_z[k], ux, uy, uz)
        lx, ly, lz = uy * az - uz * ay, uz * ax - ux * az, ux * ay - uy * ax
        speed = 1.0 / rows.per_speed[k]
        through = sign * rows.inflow[k] + rows.induced[k] + rows.ring_flow[k]
        spin = rows.direction[k]
        gx, gy, gz = _gyroscopic(m, spin * inertia * speed, ux, uy, uz)
        forward, left, coning = disc_tilt(
            rows.lift[k],
            rows.slope[k],
            rows.per_disc[k],
            rows.radius[k],
            speed,
            through,
            across,
            spin,
            vehicle.flap_stiffness,
            inertia,
            rows.induced[k] if vehicle.uneven_inflow != 0 else 0.0,
            gx * ax + gy * ay + gz * az,
            gx * lx + gy * ly + gz * lz,
        )
        rows.tilt_x[k] = forward * ax + left * lx
        rows.tilt_y[k] = forward * ay + left * ly
        rows.tilt_z[k] = forward * az + left * lz
        rows.coning[k] = coning
        push, _ = disc_push(
            rows.lift[k],
            sign * rows.thrust[k] / max(rows.health[k], 1e-9),
            rows.slope[k],
            rows.radius[k],
            speed,
            through,
            across,
            spin,
            forward,
            left,
            coning,
        )
        change = push * rows.health[k] * across / speed
        rows.torque[k] = sign * max(sign * rows.torque[k] + change, 0.0)


@compiled
def _heading(
    ax: float, ay: float, az: float, ux: float, uy: float, uz: float
) -> tuple[float, float, float, float]:
    """Return the size in m/s of an in-plane velocity and its direction; any across the axis without one."""
    across = math.sqrt(ax * ax + ay * ay + az * az)
    if across > 1e-6:
        return across, ax / across, ay / across, az / across
    if abs(ux) < 0.8:
        scale = 1.0 / math.sqrt(uy * uy + uz * uz)
        return 0.0, 0.0, -uz * scale, uy * scale
    scale = 1.0 / math.sqrt(ux * ux + uy * uy)
    return 0.0, -uy * scale, ux * scale, 0.0


@compiled
def _gyroscopic(m: Motion, momentum: float, ux: float, uy: float, uz: float) -> tuple[float, float, float]:
    """Return the moment -w x h in N m of an angular momentum in N m s along an axis, for a turning body."""
    return (
        momentum * (m.r * uy - m.q * uz),
        momentum * (m.p * uz - m.r * ux),
        momentum * (m.q * ux - m.p * uy),
    )


@on_demand
def add_flapping(vehicle: Vehicle, state: State, n: int, m: Motion) -> None:
    """Add force and moment of the tilted discs to every rotor's; after ``_rotor_effects`` of forces.py.

    The hub feels the springs' moment alone, in place of the blades' own gyroscopic moment, which the balance
    of angular momentum has for rigid ones.
    """
    rows = state.scratch
    for k in range(n):
        sign = rows.turning[k]
        if sign == 0.0:
            continue
        health = rows.health[k]
        tx, ty, tz = rows.tilt_x[k], rows.tilt_y[k], rows.tilt_z[k]
        ux, uy, uz = sign * rows.axis_x[k], sign * rows.axis_y[k], sign * rows.axis_z[k]
        across, ax, ay, az = _heading(rows.across_x[k], rows.across_y[k], rows.across_z[k], ux, uy, uz)
        lx, ly, lz = uy * az - uz * ay, uz * ax - ux * az, ux * ay - uy * ax
        forward, left = disc_push(
            rows.lift[k],
            sign * rows.thrust[k] / max(health, 1e-9),
            rows.slope[k],
            rows.radius[k],
            1.0 / rows.per_speed[k],
            sign * rows.inflow[k] + rows.induced[k] + rows.ring_flow[k],
            across,
            rows.direction[k],
            tx * ax + ty * ay + tz * az,
            tx * lx + ty * ly + tz * lz,
            rows.coning[k],
        )
        forward, left = health * forward, health * left
        fx, fy, fz = forward * ax + left * lx, forward * ay + left * ly, forward * az + left * lz
        momentum = rows.direction[k] * vehicle.flap_inertia / rows.per_speed[k]
        gx, gy, gz = _gyroscopic(m, momentum, ux, uy, uz)
        stiffness = vehicle.flap_stiffness
        rows.force_x[k] += fx
        rows.force_y[k] += fy
        rows.force_z[k] += fz
        rows.moment_x[k] += rows.y[k] * fz - rows.z[k] * fy + health * (stiffness * (uy * tz - uz * ty) - gx)
        rows.moment_y[k] += rows.z[k] * fx - rows.x[k] * fz + health * (stiffness * (uz * tx - ux * tz) - gy)
        rows.moment_z[k] += rows.x[k] * fy - rows.y[k] * fx + health * (stiffness * (ux * ty - uy * tx) - gz)


@compiled
def flapped_loads(
    vehicle: Vehicle, lift: float, thrust: float, slope: float, disc: float, radius: float, speed: float,
    through: float, across: float, induced: float, spin: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Return what flapping adds to torque (N m) and in-plane force (N s/m), and the hub moment (N s).

    Of a rotor that does not turn over; force and moment over the in-plane velocity, against it.

    Args: those of ``disc_push``, and
        vehicle: VEHICLE record with flapping blades.
        disc: kg/m, 2 rho A.
        induced: m/s.
    """
    if across < 1e-6:
        return 0.0, 0.0, 0.0
    forward, left, coning = disc_tilt(
        lift,
        slope,
        1.0 / disc,
        radius,
        speed,
        through,
        across,
        spin,
        vehicle.flap_stiffness,
        vehicle.flap_inertia,
        induced if vehicle.uneven_inflow != 0 else 0.0,
        0.0,
        0.0,
    )
    push, _ = disc_push(lift, thrust, slope, radius, speed, through, across, spin, forward, left, coning)
    return push * across / speed, -push / across, vehicle.flap_stiffness * left / across
