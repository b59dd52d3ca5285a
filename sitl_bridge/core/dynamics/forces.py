"""The sum of forces and moments on one vehicle, and the derivative of its state.

In physical order: air at the hubs, loads of the rotors, ground effect, motors, body drag, contact with the
ground and with shapes of the scene, rigid body.  No integration here.
"""

from __future__ import annotations

import math

from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.rotations import product
from sitl_bridge.base.quantities import STRICT, NonNegative, Positive
from sitl_bridge.core.dynamics.contact import contact_force
from sitl_bridge.core.dynamics.induced_flow import (
    add_pitching_moments,
    begin_flow,
    end_flow,
    find_rings,
    induced_rotors,
)
from sitl_bridge.core.dynamics.motor import accelerate_motors
from sitl_bridge.core.dynamics.records import (
    INDUCED_LAW,
    MOTOR_DC,
    POLYNOMIAL_LAW,
    Load,
    Motion,
    Rotation,
    Scratch,
    State,
    Surfaces,
    Vehicle,
)
from sitl_bridge.core.dynamics.rotor import polynomial_thrust_and_torque
from sitl_bridge.core.dynamics.rotor_laws import rotor_loads
from sitl_bridge.core.dynamics.scene_contact import hull_share, surface_force

GROUND_EFFECT_BODY = 2.0
"""K_b, of the flow that rises between a quadrotor's rotors and dams up below its body."""
GROUND_EFFECT_MIN_HEIGHT = 0.5
"""Height in rotor radii below which the ground effect is constant.  Its image model places a source at the
hub and diverges at a quarter radius; Cheeseman and Bennett compare it with flight down to half a radius only
(ARC R&M 3021, 1955), where it gives 4/3."""
NonNegativeVector = tuple[NonNegative, NonNegative, NonNegative]


class Drag(BaseModel):
    """Body drag F = -C |v| v and M = -C |w| w (hector eq. 2)."""

    model_config = STRICT

    force: NonNegativeVector = Field((0.0, 0.0, 0.0), description="N s^2/m^2, x, y, z")
    moment: NonNegativeVector = Field((0.0, 0.0, 0.0), description="N m s^2")
    reference_density: Positive = Field(1.225, description="kg/m^3")

    def pack(self, vehicle: Records) -> None:
        """Write the drag of a () VEHICLE record."""
        vehicle["drag_force"], vehicle["drag_moment"] = self.force, self.moment
        vehicle["drag_density"] = self.reference_density


@compiled
def share_of_images(radius: float, height: float, upright: float, spacing: float) -> float:
    """Return what the images of a quadrotor's other rotors add to (R/4z)^2 of ``ground_effect_factor``.

    With the flow that rises between them it is
    R^2 z ((d^2 + 4 z^2)^(-3/2) + (2 d^2 + 4 z^2)^(-3/2)/2 + 2 K_b (b^2 + 4 z^2)^(-3/2)), where neighbouring
    axes are d apart and opposite ones b, here sqrt(2) d (Sanchez-Cuevas, Heredia and Ollero, International
    Journal of Aerospace Engineering 2017, 1823056).

    Args:
        radius: m.
        height: height of the hub above the ground, m.
        upright: cosine between the rotor's axis and the vertical.
        spacing: d, m.
    """
    z = max(height, GROUND_EFFECT_MIN_HEIGHT * radius)
    near, far = (spacing * spacing + 4.0 * z * z) ** 1.5, (2.0 * spacing * spacing + 4.0 * z * z) ** 1.5
    return upright * radius * radius * z * (1.0 / near + (0.5 + 2.0 * GROUND_EFFECT_BODY) / far)


@compiled
def ground_effect_factor(
    radius: float, height: float, upright: float, speed: float, induced: float, images: float = 0.0
) -> float:
    """Return thrust near the ground over thrust far from it, at the same rotor speed.

    1/(1 - (R/4z)^2/(1 + (V/v_i)^2)), Cheeseman and Bennett, ARC R&M 3021 (1955), with forward flight.  It is
    scaled by the downward part of the wake, so a rotor on its side or upside down has none.

    Args:
        radius: m.
        height: height of the hub above the ground, m.
        upright: cosine between the rotor's axis and the vertical.
        speed: velocity of the hub through the air in the rotor's plane, m/s.
        induced: induced velocity of the hovering rotor, m/s; 0 without thrust.
        images: ``share_of_images``; 0: a rotor alone.
    """
    acts = upright > 0.0 and induced > 0.0
    z = max(height, GROUND_EFFECT_MIN_HEIGHT * radius)
    ratio = radius / (4.0 * z)
    share = upright * ratio * ratio + images if acts else 0.0
    advance = speed / (induced if acts else 1.0)
    return 1.0 / (1.0 - share / (1.0 + advance * advance))


@compiled
def induced_velocity(thrust: float, radius: float, density: float) -> float:
    """Return the induced velocity in m/s of a hovering rotor by momentum theory, sqrt(T/(2 rho pi R^2))."""
    lifts = thrust > 0.0 and radius > 0.0
    double_flow = 2.0 * density * math.pi * radius * radius
    return math.sqrt((thrust if lifts else 0.0) / (double_flow if lifts else 1.0))


@on_demand
def air_at_hubs(vehicle: Vehicle, state: State, rows: Scratch, a: Rotation) -> None:
    """Let each rotor fly in the wakes and gusts at its own place: the vehicle's wind holds their mean.

    A rotor that is blown on from above loses thrust, so a vehicle half inside a wake or a gust is turned.
    """
    axis = vehicle.rotor_axis
    for k in range(vehicle.rotor_count):
        north, east, down = state.rotor_air[k, 0], state.rotor_air[k, 1], state.rotor_air[k, 2]
        u = a.r00 * north + a.r10 * east + a.r20 * down
        v = a.r01 * north + a.r11 * east + a.r21 * down
        w = a.r02 * north + a.r12 * east + a.r22 * down
        along = u * axis[k, 0] + v * axis[k, 1] + w * axis[k, 2]
        rows.inflow[k] -= along
        rows.across_x[k] -= u - along * axis[k, 0]
        rows.across_y[k] -= v - along * axis[k, 1]
        rows.across_z[k] -= w - along * axis[k, 2]


@compiled
def _rotation(y: Floats) -> Rotation:
    """Rotation of a quaternion that need not be normalised to the last bit within the step."""
    qw = y[6]
    qx = y[7]
    qy = y[8]
    qz = y[9]
    scale = 2.0 / (qw * qw + qx * qx + qy * qy + qz * qz)
    return Rotation(
        1.0 - scale * (qy * qy + qz * qz),
        scale * (qx * qy - qw * qz),
        scale * (qx * qz + qw * qy),
        scale * (qx * qy + qw * qz),
        1.0 - scale * (qx * qx + qz * qz),
        scale * (qy * qz - qw * qx),
        scale * (qx * qz - qw * qy),
        scale * (qy * qz + qw * qx),
        1.0 - scale * (qx * qx + qy * qy),
    )


@compiled
def _motion(state: State, y: Floats, a: Rotation) -> Motion:
    """Motion through the air: ground velocity less wind, turned into body axes."""
    an = y[3] - state.wind[0]
    ae = y[4] - state.wind[1]
    ad = y[5] - state.wind[2]
    return Motion(
        a.r00 * an + a.r10 * ae + a.r20 * ad,
        a.r01 * an + a.r11 * ae + a.r21 * ad,
        a.r02 * an + a.r12 * ae + a.r22 * ad,
        y[10],
        y[11],
        y[12],
    )


@compiled
def _hub_velocities(vehicle: Vehicle, rows: Scratch, m: Motion) -> None:
    """Velocity of every hub through the air, v + w x r, along and across its rotor's axis."""
    place, axis = vehicle.rotor_position, vehicle.rotor_axis
    for k in range(vehicle.rotor_count):
        hub_u = m.u + m.q * place[k, 2] - m.r * place[k, 1]
        hub_v = m.v + m.r * place[k, 0] - m.p * place[k, 2]
        hub_w = m.w + m.p * place[k, 1] - m.q * place[k, 0]
        inflow = hub_u * axis[k, 0] + hub_v * axis[k, 1] + hub_w * axis[k, 2]
        rows.inflow[k] = inflow
        rows.across_x[k] = hub_u - inflow * axis[k, 0]
        rows.across_y[k] = hub_v - inflow * axis[k, 1]
        rows.across_z[k] = hub_w - inflow * axis[k, 2]


@compiled
def _polynomial_rotors(vehicle: Vehicle, rows: Scratch, density: float) -> None:
    """Loads of every rotor by the polynomial law, from coefficients in rows: the law of most vehicles."""
    thrust_loss, torque_loss = vehicle.reverse_loss[0], vehicle.reverse_loss[1]
    for k in range(vehicle.rotor_count):
        thrust, torque = polynomial_thrust_and_torque(
            vehicle.thrust_c2[k],
            vehicle.thrust_c1[k],
            vehicle.thrust_b1[k],
            vehicle.thrust_b2[k],
            rows.loss_rate[k],
            vehicle.torque_thrust_ratio[k],
            vehicle.torque_g1[k],
            vehicle.torque_constant[k],
            rows.speed[k],
            rows.inflow[k],
            density * rows.density_rate[k],
        )
        magnitude = abs(rows.speed[k]) * density * rows.density_rate[k]
        backward = 1.0 if rows.speed[k] < 0.0 else 0.0
        rows.thrust[k] = thrust * (1.0 - backward * thrust_loss) * rows.health[k]
        rows.torque[k] = torque * (1.0 - backward * torque_loss) * rows.health[k]
        rows.drag_rate[k] = rows.drag[k] * magnitude
        rows.roll_rate[k] = rows.roll[k] * magnitude


@on_demand
def _rotors_by_law(vehicle: Vehicle, rows: Scratch, density: float) -> None:
    """Loads of every rotor by whatever law the vehicle has."""
    for k in range(vehicle.rotor_count):
        in_plane = math.sqrt(rows.across_x[k] ** 2 + rows.across_y[k] ** 2 + rows.across_z[k] ** 2)
        thrust, torque, drag, roll = rotor_loads(vehicle, k, rows.speed[k], rows.inflow[k], in_plane, density)
        rows.thrust[k] = thrust * rows.health[k]
        rows.torque[k] = torque * rows.health[k]
        rows.drag_rate[k] = drag * rows.health[k]
        rows.roll_rate[k] = roll * rows.health[k]


@compiled
def _place_over_ground(
    vehicle: Vehicle, state: State, k: int, down: float, r20: float, r21: float, r22: float
) -> tuple[float, float]:
    """Height in m of hub ``k`` above the ground, and the cosine between its rotor's axis and the vertical."""
    p, a = vehicle.rotor_position[k], vehicle.rotor_axis[k]
    height = state.floor - (down + r20 * p[0] + r21 * p[1] + r22 * p[2])
    return height, -(r20 * a[0] + r21 * a[1] + r22 * a[2])


@compiled
def _ground_effect(
    vehicle: Vehicle,
    state: State,
    rows: Scratch,
    density: float,
    down: float,
    r20: float,
    r21: float,
    r22: float,
) -> None:
    """Add the ground effect to each thrust; r2x is the vertical in body axes."""
    # Apart from the loop below: as vector instructions it would take the powers of rotors alone, too.
    if vehicle.rotor_spacing > 0.0:
        for k in range(vehicle.rotor_count):
            height, upright = _place_over_ground(vehicle, state, k, down, r20, r21, r22)
            radius = vehicle.rotor_radius[k]
            rows.images[k] = share_of_images(radius, height, upright, vehicle.rotor_spacing)
    else:
        for k in range(vehicle.rotor_count):
            rows.images[k] = 0.0
    for k in range(vehicle.rotor_count):
        radius = vehicle.rotor_radius[k]
        height, upright = _place_over_ground(vehicle, state, k, down, r20, r21, r22)
        across = math.sqrt(rows.across_x[k] ** 2 + rows.across_y[k] ** 2 + rows.across_z[k] ** 2)
        induced = induced_velocity(rows.thrust[k], radius, density)
        factor = ground_effect_factor(radius, height, upright, across, induced, rows.images[k])
        rows.thrust[k] *= 1.0 + vehicle.ground_effect * (factor - 1.0)


@on_demand
def _drag_blades(vehicle: Vehicle, rows: Scratch) -> None:
    """Take the drag of blades across the flow off the thrust of rotors that stand or nearly do.

    Plates in the axial flow v, 1/2 rho C_D S v|v|.  It gives way to the blades' loads until their tips are as
    fast as the flow; in between it is linear, for want of a measurement.
    """
    for k in range(vehicle.rotor_count):
        slower = max(abs(rows.inflow[k]) - abs(rows.speed[k]) * vehicle.rotor_radius[k], 0.0)
        rows.thrust[k] -= rows.plate[k] * rows.inflow[k] * slower


@compiled
def _rotor_effects(vehicle: Vehicle, rows: Scratch) -> None:
    """Force, moment and angular momentum of every rotor, in body axes about the centre of gravity.

    In-plane drag and hub moment act against the in-plane velocity.  The body feels the rotor's torque and the
    reaction to its spin's acceleration, both against the direction in which it turns.
    """
    place, axis = vehicle.rotor_position, vehicle.rotor_axis
    for k in range(vehicle.rotor_count):
        thrust = rows.thrust[k]
        drag = rows.drag_rate[k]
        roll = rows.roll_rate[k]
        fx = thrust * axis[k, 0] - drag * rows.across_x[k]
        fy = thrust * axis[k, 1] - drag * rows.across_y[k]
        fz = thrust * axis[k, 2] - drag * rows.across_z[k]
        turning = -vehicle.rotor_direction[k] * (
            rows.torque[k] + vehicle.rotor_inertia[k] * rows.acceleration[k]
        )
        momentum = vehicle.rotor_direction[k] * vehicle.rotor_inertia[k] * rows.speed[k]
        mx = place[k, 1] * fz - place[k, 2] * fy + turning * axis[k, 0] - roll * rows.across_x[k]
        my = place[k, 2] * fx - place[k, 0] * fz + turning * axis[k, 1] - roll * rows.across_y[k]
        mz = place[k, 0] * fy - place[k, 1] * fx + turning * axis[k, 2] - roll * rows.across_z[k]
        rows.force_x[k] = fx
        rows.force_y[k] = fy
        rows.force_z[k] = fz
        rows.moment_x[k] = mx
        rows.moment_y[k] = my
        rows.moment_z[k] = mz
        rows.momentum_x[k] = momentum * axis[k, 0]
        rows.momentum_y[k] = momentum * axis[k, 1]
        rows.momentum_z[k] = momentum * axis[k, 2]


@compiled
def _rotors(
    vehicle: Vehicle,
    state: State,
    rows: Scratch,
    density: float,
    down: float,
    a: Rotation,
    m: Motion,
    flow: float,
) -> None:
    """Loads of all rotors and their effects on the body, into ``rows``; ``flow`` as of derivative."""
    n = vehicle.rotor_count
    _hub_velocities(vehicle, rows, m)
    if state.uneven_air != 0:
        air_at_hubs(vehicle, state, rows, a)
    if vehicle.rotor_law == POLYNOMIAL_LAW:
        _polynomial_rotors(vehicle, rows, density)
    elif vehicle.rotor_law == INDUCED_LAW:
        if flow > 0.0 or rows.rings != 0:
            find_rings(state, rows, n, max(flow, 0.0))
        if flow > 0.0:
            begin_flow(state, rows, n, flow)
        elif flow < 0.0:
            end_flow(state, rows, n, -flow)
        induced_rotors(vehicle, rows)
    else:
        _rotors_by_law(vehicle, rows, density)
    if vehicle.ground_effect > 0.0 and state.floor - down < rows.ground_reach:
        _ground_effect(vehicle, state, rows, density, down, a.r20, a.r21, a.r22)
    if rows.standing != 0:
        _drag_blades(vehicle, rows)
    if vehicle.motor_kind == MOTOR_DC:
        accelerate_motors(vehicle, state, rows)
    _rotor_effects(vehicle, rows)
    if vehicle.uneven_inflow != 0:
        add_pitching_moments(vehicle, rows)


@compiled
def _body_load(vehicle: Vehicle, state: State, density: float, a: Rotation, m: Motion) -> Load:
    """Body drag, hector eq. 2, external moments, buffet; AirRobot eq. 5 has C = rho C_w A / 2."""
    ratio = density / vehicle.drag_density
    airspeed = math.sqrt(m.u * m.u + m.v * m.v + m.w * m.w) * ratio
    p, q, r = m.p, m.q, m.r
    if state.uneven_air != 0:
        turn = state.air_turn
        p -= a.r00 * turn[0] + a.r10 * turn[1] + a.r20 * turn[2]
        q -= a.r01 * turn[0] + a.r11 * turn[1] + a.r21 * turn[2]
        r -= a.r02 * turn[0] + a.r12 * turn[1] + a.r22 * turn[2]
    spin = math.sqrt(p * p + q * q + r * r) * ratio
    force = vehicle.drag_force
    moment = vehicle.drag_moment
    load = Load(
        -force[0] * airspeed * m.u,
        -force[1] * airspeed * m.v,
        -force[2] * airspeed * m.w,
        -moment[0] * spin * p + state.external_moment[0] + state.neighbour_moment[0],
        -moment[1] * spin * q + state.external_moment[1] + state.neighbour_moment[1],
        -moment[2] * spin * r + state.external_moment[2] + state.neighbour_moment[2],
    )
    if state.vibrating == 0:
        return load
    fx, fy, fz, mx, my, mz = load
    b = state.buffet
    return Load(fx + b[0], fy + b[1], fz + b[2], mx + b[3], my + b[4], mz + b[5])


@compiled
def _with_rotors(rows: Scratch, n: int, load: Load) -> tuple[Load, tuple[float, float, float]]:
    """A load with that of all rotors, and their angular momentum in N m s, body axes."""
    fx, fy, fz, mx, my, mz = load
    hx = 0.0
    hy = 0.0
    hz = 0.0
    for k in range(n):
        fx += rows.force_x[k]
        fy += rows.force_y[k]
        fz += rows.force_z[k]
        mx += rows.moment_x[k]
        my += rows.moment_y[k]
        mz += rows.moment_z[k]
        hx += rows.momentum_x[k]
        hy += rows.momentum_y[k]
        hz += rows.momentum_z[k]
    return Load(fx, fy, fz, mx, my, mz), (hx, hy, hz)


@compiled
def _with_ground(vehicle: Vehicle, state: State, y: Floats, a: Rotation, m: Motion, load: Load) -> Load:
    """A load with those given in NED: external forces, and the ground's on every point that touches it."""
    fx, fy, fz, mx, my, mz = load
    gn = state.external_force[0] + state.neighbour_force[0]
    ge = state.external_force[1] + state.neighbour_force[1]
    gd = state.external_force[2] + state.neighbour_force[2]
    if state.groundless == 0 and -y[2] < vehicle.contact_radius:
        for k in range(vehicle.contact_count):
            cx = vehicle.contact_point[k, 0]
            cy = vehicle.contact_point[k, 1]
            cz = vehicle.contact_point[k, 2]
            lever_d = a.r20 * cx + a.r21 * cy + a.r22 * cz
            depth = y[2] + lever_d
            if depth > 0.0:
                lever_n = a.r00 * cx + a.r01 * cy + a.r02 * cz
                lever_e = a.r10 * cx + a.r11 * cy + a.r12 * cz
                bu = m.q * cz - m.r * cy
                bv = m.r * cx - m.p * cz
                bw = m.p * cy - m.q * cx
                vn = y[3] + a.r00 * bu + a.r01 * bv + a.r02 * bw
                ve = y[4] + a.r10 * bu + a.r11 * bv + a.r12 * bw
                vd = y[5] + a.r20 * bu + a.r21 * bv + a.r22 * bw
                fn, fe, fd = contact_force(
                    vehicle, state, k, y[0] + lever_n, y[1] + lever_e, depth, vn, ve, vd
                )
                gn += fn
                ge += fe
                gd += fd
                bx = a.r00 * fn + a.r10 * fe + a.r20 * fd
                by = a.r01 * fn + a.r11 * fe + a.r21 * fd
                bz = a.r02 * fn + a.r12 * fe + a.r22 * fd
                mx += cy * bz - cz * by
                my += cz * bx - cx * bz
                mz += cx * by - cy * bx
    fx += a.r00 * gn + a.r10 * ge + a.r20 * gd
    fy += a.r01 * gn + a.r11 * ge + a.r21 * gd
    fz += a.r02 * gn + a.r12 * ge + a.r22 * gd
    return Load(fx, fy, fz, mx, my, mz)


@on_demand
def with_surfaces(
    vehicle: Vehicle, surfaces: Surfaces, y: Floats, a: Rotation, m: Motion, load: Load
) -> Load:
    """A load with the forces of the scene's shapes on every probe that touches one."""
    fx, fy, fz, mx, my, mz = load
    share = hull_share(vehicle)
    for k in range(vehicle.contact_count + vehicle.rotor_count + 1):
        if surfaces.known[k] == 0:
            continue
        cx, cy, cz = surfaces.probe[k, 0], surfaces.probe[k, 1], surfaces.probe[k, 2]
        bu = m.q * cz - m.r * cy
        bv = m.r * cx - m.p * cz
        bw = m.p * cy - m.q * cx
        fn, fe, fd = surface_force(
            vehicle,
            surfaces,
            k,
            share if k >= vehicle.contact_count else 1.0,
            y[0] + a.r00 * cx + a.r01 * cy + a.r02 * cz,
            y[1] + a.r10 * cx + a.r11 * cy + a.r12 * cz,
            y[2] + a.r20 * cx + a.r21 * cy + a.r22 * cz,
            y[3] + a.r00 * bu + a.r01 * bv + a.r02 * bw,
            y[4] + a.r10 * bu + a.r11 * bv + a.r12 * bw,
            y[5] + a.r20 * bu + a.r21 * bv + a.r22 * bw,
        )
        bx = a.r00 * fn + a.r10 * fe + a.r20 * fd
        by = a.r01 * fn + a.r11 * fe + a.r21 * fd
        bz = a.r02 * fn + a.r12 * fe + a.r22 * fd
        fx += bx
        fy += by
        fz += bz
        mx += cy * bz - cz * by
        my += cz * bx - cx * bz
        mz += cx * by - cy * bx
    return Load(fx, fy, fz, mx, my, mz)


@compiled
def _move(
    vehicle: Vehicle,
    state: State,
    rows: Scratch,
    gravity: float,
    y: Floats,
    a: Rotation,
    load: Load,
    dy: Floats,
) -> None:
    """Newton's law on the turning Earth: rates of position and velocity into ``dy``; the specific force."""
    per_mass = 1.0 / vehicle.mass
    fx = load.fx * per_mass
    fy = load.fy * per_mass
    fz = load.fz * per_mass
    state.specific_force[0] = fx
    state.specific_force[1] = fy
    state.specific_force[2] = fz
    dy[0] = y[3]
    dy[1] = y[4]
    dy[2] = y[5]
    north, down = 2.0 * rows.earth_north, 2.0 * rows.earth_down
    dy[3] = a.r00 * fx + a.r01 * fy + a.r02 * fz + down * y[4]
    dy[4] = a.r10 * fx + a.r11 * fy + a.r12 * fz + north * y[5] - down * y[3]
    dy[5] = a.r20 * fx + a.r21 * fy + a.r22 * fz - north * y[4] + gravity


@compiled
def _turn(
    vehicle: Vehicle,
    state: State,
    y: Floats,
    m: Motion,
    load: Load,
    momentum: tuple[float, float, float],
    dy: Floats,
) -> None:
    """Euler's law with the rotors' angular momentum: rates of attitude and angular velocity into ``dy``."""
    p = m.p
    q = m.q
    r = m.r
    dy[6] = 0.5 * (-y[7] * p - y[8] * q - y[9] * r)
    dy[7] = 0.5 * (y[6] * p + y[8] * r - y[9] * q)
    dy[8] = 0.5 * (y[6] * q - y[7] * r + y[9] * p)
    dy[9] = 0.5 * (y[6] * r + y[7] * q - y[8] * p)
    lx, ly, lz = product(vehicle.inertia, p, q, r)
    lx, ly, lz = lx + momentum[0], ly + momentum[1], lz + momentum[2]
    mx = load.mx - (q * lz - r * ly)
    my = load.my - (r * lx - p * lz)
    mz = load.mz - (p * ly - q * lx)
    dy[10], dy[11], dy[12] = product(vehicle.inertia_inverse, mx, my, mz)
    for i in range(3):
        state.angular_acceleration[i] = dy[10 + i]


@compiled
def derivative(
    vehicle: Vehicle,
    state: State,
    rows: Scratch,
    surfaces: Surfaces,
    density: float,
    gravity: float,
    flow: float,
) -> None:
    """Time derivative of a vehicle's motion.

    Newton and Euler about the centre of gravity (hector eq. 1, RotorS, AirRobot eqs 2-12), with the spin
    of the rotors kept in the balance of angular momentum: J dw/dt = M - w x (J w + h) - dh/dt, where h is
    the rotors' own angular momentum.

    Args:
        state: STATE record: wind, anchors, motor drive and external loads; its specific force and angular
            acceleration are written.
        rows: ``work`` has the motion in its first row, (13,) position NED, velocity NED, attitude, angular
            velocity body, and gets its derivative in the second; with the rotors' speeds and what
            ``prepare_rotors`` wrote.  Thrusts, torques and accelerations of the rotors are written.
        surfaces: those near it.
        density: kg/m^3 of the air.
        gravity: m/s^2.
        flow: s of the step over which the flow that the rotors induce begins to advance; below 0: ends to.
    """
    y, dy = rows.work[0], rows.work[1]
    attitude = _rotation(y)
    motion = _motion(state, y, attitude)
    _rotors(vehicle, state, rows, density, y[2], attitude, motion, flow)
    load = _body_load(vehicle, state, density, attitude, motion)
    load, momentum = _with_rotors(rows, vehicle.rotor_count, load)
    load = _with_ground(vehicle, state, y, attitude, motion, load)
    if state.near_count > 0:
        load = with_surfaces(vehicle, surfaces, y, attitude, motion, load)
    _move(vehicle, state, rows, gravity, y, attitude, load, dy)
    _turn(vehicle, state, y, motion, load, momentum, dy)
