"""Rotors in moving air: the blades' response to the flow through the disc, and the flow that they induce.

A rigid rotor whose blades have constant chord and pitch, averaged over a turn and integrated along the blade
in closed form (Leishman, Principles of Helicopter Aerodynamics, 2nd ed., sections 3.2 and 3.5; Johnson,
Helicopter Theory, section 5-4).  With the flow U through the disc, the in-plane velocity V, mu = V/(w R) and
B = rho a N c w R^2/4:

    T = A (1 + 3/2 mu^2) - B U,    A = T_0 + B v_h
    Q = U (A - B U)/w + P (1 + mu^2),    P = Q_0 - T_0 v_h/w
    H = [2 P/(w R^2) + 3/2 A U/(w R)^2] V

Pitch and profile drag are replaced by the static thrust T_0 and torque Q_0 at the same speed, so that a rotor
keeps its measured static figures whatever its blades; v_h = sqrt(T_0/(2 rho A_disc)).  The induced part of U
follows momentum theory after Glauert, with Johnson's extension over the vortex ring state, and lags by the
apparent mass of the air (Carpenter and Fridovich, NACA TN 3044, 1953).  A rotor that turns backwards is the
mirror image with less static thrust and torque, ``reverse_loss``; the air goes on as it flowed.  In a descent
vortex rings add to the flow (``ring_flow``).
"""

from __future__ import annotations

import math

from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.core.dynamics.records import Scratch, State, Vehicle

_SLOWEST = 1.0
"""rad/s; a rotor that turns more slowly has the loads of this speed, to avoid a division by zero."""
_APPARENT_MASS = 8.0 / 3.0
"""Apparent mass of the air over rho R^3: that of a rigid disc (Carpenter and Fridovich)."""
FLOW_IMPLICIT = 1.0 - math.sqrt(0.5)
"""Of ROS2; with it the method is L-stable."""
_UNEVENNESS = 15.0 * math.pi / 128.0
"""A quarter of Pitt and Peters's 15 pi/32."""
STALL_ANGLE = 0.24
"""rad; a lift coefficient of 1.2 at a slope of 5/rad, ordinary sections at a Reynolds number of 1e5."""
# Johnson, Rotorcraft Aeromechanics, section 4-3.4: v_i in the vortex ring state over speeds in units of v_h.
_RING_DESCENT, _RING_ACROSS, _RING_OFFSET = 0.373, 0.598, 1.991
_RING_EDGE = 0.25
"""Width, as a share of v_h^2, over which the fit takes over from momentum theory: away from the axis the two
are up to 5 % of the thrust apart where they meet."""


@compiled
def with_reverse_loss(vehicle: Vehicle, speed: float, thrust: float, torque: float) -> tuple[float, float]:
    """Return thrust and torque of reverse rotation, from those of the mirror image; others as they are."""
    if speed < 0.0:
        return thrust * (1.0 - vehicle.reverse_loss[0]), torque * (1.0 - vehicle.reverse_loss[1])
    return thrust, torque


@compiled
def static_figures(
    c2: float, c1: float, k_m: float, g1: float, speed: float, ratio: float
) -> tuple[float, float]:
    """Return thrust in N and aerodynamic torque in N m in still air; arguments as in rotor.py, speed >= 0."""
    thrust = (c2 * speed + c1) * speed * ratio
    return max(thrust, 0.0), k_m * max(thrust, 0.0) + g1 * speed * ratio


@compiled
def static_of(vehicle: Vehicle, k: int, speed: float, ratio: float) -> tuple[float, float]:
    """Return ``static_figures`` of rotor ``k`` in air of a density that is ``ratio`` of its reference's."""
    return static_figures(
        vehicle.thrust_c2[k],
        vehicle.thrust_c1[k],
        vehicle.torque_thrust_ratio[k],
        vehicle.torque_g1[k],
        speed,
        ratio,
    )


@compiled
def momentum_flux(induced: float, along: float, square: float) -> tuple[float, float]:
    """Return ``momentum_thrust`` over 2 rho A in m^2/s^2 and its slope in m/s; square: of ``across``."""
    through = along + induced
    flow = max(math.sqrt(square + through * through), 1e-9)
    # Without branches, for vector instructions.
    room = max(-_RING_OFFSET * along - induced, 1e-12)
    per_room = 1.0 / room
    hover2 = max(-along, 0.0) * (_RING_DESCENT * along * along + _RING_ACROSS * square) * per_room
    middle = 2.0 * along + 3.0 * math.sqrt(hover2)
    inside = (hover2 - square - middle * middle) / (_RING_EDGE * hover2 + 1e-12)
    share = min(max(inside, 0.0), 1.0) if room > 1e-12 else 0.0
    steady, flux = max(flow + induced * through / flow, 0.0), induced * flow
    return flux + share * (hover2 - flux), steady + share * (hover2 * per_room - steady)


@compiled
def momentum_thrust(disc: float, induced: float, along: float, across: float) -> tuple[float, float]:
    """Return the thrust in N that goes with an induced velocity, and its slope in N s/m, in steady flow.

    T = 2 rho A v_i sqrt(V_x^2 + (V_z + v_i)^2) (Glauert).  Where that theory has no flow to describe, in the
    vortex ring state V_x^2 + (2 V_z + 3 v_h)^2 < v_h^2, Johnson's fit to measurements, v_i = V_z (0.373 V_z^2
    + 0.598 V_x^2)/v_h^2 - 1.991 V_z, with a continuous change from one to the other inside its boundary.

    Args:
        disc: kg/m, 2 rho A.
        induced: m/s.
        along: m/s, the hub's velocity through the air along the thrust axis: negative in a descent.
        across: m/s, the hub's velocity across it.
    """
    flux, slope = momentum_flux(induced, along, across * across)
    return disc * flux, disc * slope


@compiled
def blade_thrust(lift: float, slope: float, through: float, tip: float) -> float:
    """Return A - B U in N, within what the sections lift before they stall: (2/3) alpha_max B w R.

    Args:
        lift: N, A.
        slope: N s/m, B.
        through: m/s, U.
        tip: m/s, speed of the blade tips.
    """
    limit = 2.0 / 3.0 * STALL_ANGLE * slope * tip
    return max(min(lift - slope * through, limit), -limit)


@compiled
def blade_loads(
    thrust: float, torque: float, slope: float, disc: float, radius: float, speed: float, through: float,
    across: float,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Return thrust (N), torque (N m), in-plane force (N s/m) and hub moment (N s) over in-plane velocity.

    The hub moment is the advancing blade's greater lift, for a rotor that turns counter-clockwise seen from
    above.  The cyclic part of the induced flow that it causes reduces it, M = M_0/(1 + B/(rho A (v + |U|)))
    with v the speed of the flow at the disc (Pitt and Peters, Vertica 5, 1981, static gain in roll).

    Args:
        thrust: N, static.
        torque: N m, static and aerodynamic.
        slope: N s/m, B.
        disc: kg/m, 2 rho A.
        radius: m.
        speed: rad/s, > 0.
        through: m/s, flow through the disc, U.
        across: m/s, >= 0.
    """
    hover = math.sqrt(thrust / disc)
    lift = thrust + slope * hover
    tip = speed * radius
    advance2 = min(across * across / (tip * tip), 1.0)
    profile = max(torque - thrust * hover / speed, 0.0)
    loaded = blade_thrust(lift, slope, through, tip)
    flow = max(math.sqrt(across * across + through * through) + abs(through), 1e-9)
    moment = (lift - 0.5 * slope * through) / speed / (1.0 + 2.0 * slope / (disc * flow))
    return (
        loaded + 1.5 * advance2 * lift,
        max(through * loaded / speed + profile * (1.0 + advance2), 0.0),
        2.0 * profile / (tip * radius) + 1.5 * lift * max(through, 0.0) / (tip * tip),
        moment,
    )


_BEGIN, _ONSET, _PEAK, _END = -0.2, -0.45, -1.5, -2.0
"""V_z/v_h of D, N, X and E."""
_WIDEST = 0.95
"""V_x/v_h."""
_ONSET_FLOW, _PEAK_FLOW = 0.85, 1.25
"""(V_z + v)/v_h of N and X."""
SHEDDING = 0.2
"""Amplitude of the fluctuation over the ring's flow.

The rings are shed every 20 to 50 turns, with as much as 95 % of the thrust from peak to peak (Stack,
Caradonna and Savas, J. American Helicopter Society 50, 2005).  Rotors of 4 to 6 inches lose and shake most at
descents of 1.2 to 1.3 times the hover's induced velocity (Veismann and others, Flow 3, 2023).  Of some twenty
of them the mean thrust and its standard deviation are drawn between 60 and 120 % and between 0 and 20 %
(Veismann, Yos and Gharib, Physics of Fluids 34, 2022, figures S1 and S2).  With this amplitude the deviation
of an ``x500`` is 10 % where it is largest, the middle: the figures' values were not at hand.
"""
TURNS = 35.0
"""Of a rotor from ring to ring."""
APART = 2.4
"""rad, the golden angle, by which neighbouring rotors' rings are apart."""

# The baseline v/v_h at N, by momentum theory, and at X, by Johnson's fit; and their slopes over V_z/v_h.
_ONSET_BASE = -0.5 * _ONSET + math.sqrt(0.25 * _ONSET * _ONSET + 1.0)
_ONSET_SLOPE = -0.5 + 0.25 * _ONSET / math.sqrt(0.25 * _ONSET * _ONSET + 1.0)
_PEAK_BASE = _RING_DESCENT * _PEAK**3 - _RING_OFFSET * _PEAK
_PEAK_SLOPE = 3.0 * _RING_DESCENT * _PEAK**2 - _RING_OFFSET
# What the ring adds at N and X; its slopes make those of the sum vanish.
_ONSET_RISE, _PEAK_RISE = _ONSET_FLOW - _ONSET - _ONSET_BASE, _PEAK_FLOW - _PEAK - _PEAK_BASE
_ONSET_STEEP, _PEAK_STEEP = -1.0 - _ONSET_SLOPE, -1.0 - _PEAK_SLOPE


@compiled
def _cubic(t: float, width: float, first: float, slope: float, last: float, last_slope: float) -> float:
    """Return Hermite's cubic between values and slopes at the ends of an interval, at the share t of it."""
    left = 1.0 - t
    bend = first * (1.0 + 2.0 * t) + width * slope * t
    return left * left * bend + t * t * (last * (1.0 + 2.0 * left) - width * last_slope * left)


@compiled
def ring_flow(along: float, across: float) -> float:
    """Return what a vortex ring adds to the induced velocity, on average: less thrust, and buffeting.

    Johnson (Model for Vortex Ring State Influence on Rotorcraft Flight Dynamics, NASA/TP-2005-213477) reviews
    the measurements and gives the total flow V_z + v through a disc, in units of the hover's v_h at the same
    thrust, where the heave damping of flight tests vanishes: 0.85 at V_z = -0.45 (N) and 1.25 at -1.5 (X).
    In between the flow grows with the descent, so that thrust falls and damping is negative.  What that is
    beyond the baseline of ``momentum_flux`` comes in cubics from -0.2 (D) and goes until -2 (E).  Across the
    axis N and X approach one another and meet at V_x = 0.95, where it has gone by (1 - (V_x/0.95)^6)^(1/2).

    Args:
        along: velocity through the air along the thrust, negative in a descent; all over v_h.
        across: velocity across it, >= 0.
    """
    if along >= _BEGIN or across >= _WIDEST:
        return 0.0
    square = (across / _WIDEST) ** 2
    middle, half = 0.5 * (_ONSET + _PEAK), 0.5 * (_ONSET - _PEAK)
    onset = middle + half * (1.0 - square) ** 0.2
    peak = middle - half * (1.0 - square) ** 1.5
    end = peak + _END - _PEAK
    if along <= end:
        return 0.0
    share = math.sqrt(1.0 - square**3)
    if along > onset:
        t = (along - onset) / (_BEGIN - onset)
        return share * _cubic(t, _BEGIN - _ONSET, _ONSET_RISE, _ONSET_STEEP, 0.0, 0.0)
    if along > peak:
        t = (along - peak) / (onset - peak)
        return share * _cubic(t, _ONSET - _PEAK, _PEAK_RISE, _PEAK_STEEP, _ONSET_RISE, _ONSET_STEEP)
    # A parabola: Johnson leaves the slope at E open.
    t = (along - peak) / (end - peak)
    return share * (1.0 - t) * (_PEAK_RISE + t * (_PEAK_RISE + (_END - _PEAK) * _PEAK_STEEP))


@compiled
def ring_velocity(induced: float, along: float, across: float) -> float:
    """Return what a vortex ring adds to an induced velocity, in m/s, on average; arguments as above."""
    flux, _ = momentum_flux(induced, along, across * across)
    if flux < 1e-6:
        return 0.0
    hover = math.sqrt(flux)
    return hover * ring_flow(along / hover, across / hover)


@compiled
def settled_flow(thrust: float, slope: float, disc: float, tip: float, along: float, across: float) -> float:
    """Return the induced velocity in m/s at which the blades' thrust is that of momentum, by bisection.

    Args:
        thrust: N, static.
        slope: N s/m, B.
        disc: kg/m, 2 rho A.
        tip: m/s, speed of the blade tips.
        along: m/s along the thrust axis.
        across: m/s across it.
    """
    lift = thrust + slope * math.sqrt(thrust / disc)
    lift *= 1.0 + 1.5 * min(across * across / (tip * tip), 1.0)
    high = abs(along) + math.sqrt(2.0 * lift / disc) + lift / slope
    low = -high
    for _ in range(60):
        middle = 0.5 * (low + high)
        through = along + middle + ring_velocity(middle, along, across)
        if blade_thrust(lift, slope, through, tip) > momentum_thrust(disc, middle, along, across)[0]:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@compiled
def still_air(vehicle: Vehicle, k: int, speed: float, density: float) -> tuple[float, float, float, float]:
    """Return static thrust (N) and torque (N m), B (N s/m) and 2 rho A (kg/m) of a rotor at a speed >= 0."""
    thrust, torque = static_of(vehicle, k, speed, density / vehicle.rotor_density[k])
    radius = vehicle.rotor_radius[k]
    slope = 0.25 * density * vehicle.blade_slope[k] * speed * radius * radius
    return thrust, torque, slope, 2.0 * density * math.pi * radius * radius


@on_demand
def induced_loads(
    vehicle: Vehicle, k: int, speed: float, inflow: float, in_plane: float, density: float
) -> tuple[float, float, float, float]:
    """Return the loads of a rotor whose induced flow has settled, as ``rotor_loads``."""
    sign = -1.0 if speed < 0.0 else 1.0
    ratio = density / vehicle.rotor_density[k]
    radius = vehicle.rotor_radius[k]
    magnitude = max(abs(speed), _SLOWEST)
    thrust, torque, slope, disc = still_air(vehicle, k, magnitude, density)
    thrust, torque = with_reverse_loss(vehicle, speed, thrust, torque)
    if speed == 0.0 or thrust == 0.0:
        return 0.0, 0.0, 0.0, 0.0
    along = sign * inflow
    induced = settled_flow(thrust, slope, disc, magnitude * radius, along, in_plane)
    through = along + induced + ring_velocity(induced, along, in_plane)
    force, moment, drag, roll = blade_loads(thrust, torque, slope, disc, radius, magnitude, through, in_plane)
    drag = vehicle.drag_share[k] * drag + vehicle.rotor_drag[k] * magnitude * ratio
    roll *= vehicle.roll_share[k] * vehicle.rotor_direction[k]  # the same if thrust and rotation are reversed
    roll += vehicle.rolling_moment[k] * magnitude * ratio
    return sign * force, sign * (moment + vehicle.torque_constant[k]), drag, roll


@compiled
def prepare_flow(vehicle: Vehicle, rows: Scratch, density: float) -> None:
    """Write what depends on the rotors and the air alone: ``ratio`` to ``air_mass``."""
    for k in range(vehicle.rotor_count):
        radius = vehicle.rotor_radius[k]
        area = radius * radius
        rows.ratio[k] = density * rows.density_rate[k]
        rows.blade[k] = 0.25 * vehicle.blade_slope[k] * density * area
        rows.disc[k] = 2.0 * math.pi * density * area
        rows.per_radius2[k] = 1.0 / area
        rows.per_disc[k] = 1.0 / (2.0 * math.pi * density * area)
        rows.air_mass[k] = _APPARENT_MASS * density * area * radius
        rows.ring_flow[k] = 0.0
    rows.rings = 0


@compiled
def prepare_speeds(vehicle: Vehicle, state: State, rows: Scratch, ahead: float) -> None:
    """Write what depends on the rotors' speeds: ``lift`` to ``turning`` and ``induced``, speeds in magnitude.

    ``induced`` is the induced velocity ``ahead`` s after the state by its rate, along the thrust that the
    direction of rotation gives, so it changes its sign with that.
    """
    thrust_loss, torque_loss = vehicle.reverse_loss[0], vehicle.reverse_loss[1]
    for k in range(vehicle.rotor_count):
        ratio = rows.ratio[k]
        speed = max(abs(rows.speed[k]), _SLOWEST)
        thrust, torque = static_of(vehicle, k, speed, ratio)
        backward = 1.0 if rows.speed[k] < 0.0 else 0.0
        thrust *= 1.0 - backward * thrust_loss
        torque *= 1.0 - backward * torque_loss
        slope = rows.blade[k] * speed
        hover = math.sqrt(thrust * rows.per_disc[k])
        per_speed = 1.0 / speed
        per_radius2 = rows.per_radius2[k]
        profile = max(torque - thrust * hover * per_speed, 0.0)
        rows.lift[k] = thrust + slope * hover
        rows.slope[k] = slope
        rows.limit[k] = 2.0 / 3.0 * STALL_ANGLE * slope * speed * vehicle.rotor_radius[k]
        rows.profile[k] = profile
        rows.profile_drag[k] = 2.0 * profile * per_speed * per_radius2
        rows.per_speed[k] = per_speed
        rows.per_tip2[k] = per_speed * per_speed * per_radius2
        rows.constant_drag[k] = rows.drag[k] * speed * ratio
        rows.constant_roll[k] = rows.roll[k] * speed * ratio
        turning = 0.0 if rows.speed[k] == 0.0 else (-1.0 if rows.speed[k] < 0.0 else 1.0)
        flow = state.induced_velocity[k] + ahead * rows.flow_rate[k]
        rows.induced[k] = -flow if turning < 0.0 else flow
        rows.turning[k] = turning


@compiled
def find_rings(state: State, rows: Scratch, n: int, seconds: float) -> None:
    """Write what vortex rings add to the flow, ``ring_flow``, if a rotor descends fast enough for one.

    Rings begin at 0.2 v_h, and v_h is more than half the induced velocity in a descent.

    Args:
        n: rotors.
        seconds: s of the step that begins, 0 within a step.
    """
    if seconds > 0.0:
        rows.ring_middle = 0.5 * seconds
    descent = 0.0
    for k in range(n):
        descent = max(descent, -rows.turning[k] * rows.inflow[k] - 0.1 * rows.induced[k])
    if descent > 0.0 or rows.rings != 0:
        rows.rings = 1 if descent > 0.0 else 0
        _form_rings(state, rows, n, seconds)


@on_demand
def _form_rings(state: State, rows: Scratch, n: int, seconds: float) -> None:
    """``find_rings`` of a descent: rings are shed as their rotors turn, each at its own time."""
    for k in range(n):
        rate = abs(rows.speed[k]) / TURNS
        state.ring_phase[k] += rate * seconds
        square = rows.across_x[k] ** 2 + rows.across_y[k] ** 2 + rows.across_z[k] ** 2
        mean = ring_velocity(rows.induced[k], rows.turning[k] * rows.inflow[k], math.sqrt(square))
        phase = state.ring_phase[k] - rate * rows.ring_middle + APART * k
        rows.ring_flow[k] = abs(rows.turning[k]) * mean * (1.0 + SHEDDING * math.sin(phase))


@compiled
def keep_flow(state: State, rows: Scratch, n: int, seconds: float) -> None:
    """Advance the induced velocities by the rates of ``begin_flow`` alone."""
    for k in range(n):
        state.induced_velocity[k] += seconds * rows.flow_rate[k]
    renew_flow(state, rows, n)


@compiled
def renew_flow(state: State, rows: Scratch, n: int) -> None:
    """Bring ``induced`` in line with the state's induced velocity."""
    for k in range(n):
        flow = state.induced_velocity[k]
        rows.induced[k] = -flow if rows.turning[k] < 0.0 else flow


@compiled
def _add_hub_moments(vehicle: Vehicle, rows: Scratch) -> None:
    """Add the hub moment of the advancing blade, as ``blade_loads`` has it, to ``roll_rate``."""
    for k in range(vehicle.rotor_count):
        sign, slope = rows.turning[k], rows.slope[k]
        through = sign * rows.inflow[k] + rows.induced[k] + rows.ring_flow[k]
        square = rows.across_x[k] ** 2 + rows.across_y[k] ** 2 + rows.across_z[k] ** 2
        flow = rows.disc[k] * (math.sqrt(square + through * through) + abs(through)) + 1e-12
        roll = (rows.lift[k] - 0.5 * slope * through) * rows.per_speed[k] * flow / (flow + 2.0 * slope)
        # A reversed rotor's blade advances on the other side and pushes the other way.
        rows.roll_rate[k] += abs(sign) * rows.roll_share[k] * vehicle.rotor_direction[k] * roll


@compiled
def induced_rotors(vehicle: Vehicle, rows: Scratch) -> None:
    """Loads of every rotor at the state's induced velocities, as ``blade_loads``; after prepare_speeds."""
    for k in range(vehicle.rotor_count):
        sign = rows.turning[k]
        through = sign * rows.inflow[k] + rows.induced[k] + rows.ring_flow[k]
        square = rows.across_x[k] ** 2 + rows.across_y[k] ** 2 + rows.across_z[k] ** 2
        lift, slope, limit, per_tip2 = rows.lift[k], rows.slope[k], rows.limit[k], rows.per_tip2[k]
        profile = rows.profile[k]
        advance2 = min(square * per_tip2, 1.0)
        loaded = max(min(lift - slope * through, limit), -limit)
        torque = through * loaded * rows.per_speed[k] + profile * (1.0 + advance2)
        drag = rows.profile_drag[k] + 1.5 * lift * max(through, 0.0) * per_tip2
        health = rows.health[k]
        rows.thrust[k] = sign * (loaded + 1.5 * advance2 * lift) * health
        rows.torque[k] = sign * (max(torque, 0.0) + vehicle.torque_constant[k]) * health
        rows.drag_rate[k] = (rows.drag_share[k] * drag + rows.constant_drag[k]) * abs(sign)
        rows.roll_rate[k] = rows.constant_roll[k] * abs(sign)
    if rows.rolling != 0.0:
        _add_hub_moments(vehicle, rows)


@compiled
def begin_flow(state: State, rows: Scratch, n: int, seconds: float) -> None:
    """Begin to advance the induced velocities over a step: their rates, at the flow and motion at its start.

    m dv/dt = F = T - T_momentum(v) with the apparent mass m, by ROS2 (J. G. Verwer et al., SIAM J. Sci.
    Comput. 20, 1999), whose first stage is (1 - g h F') k1 = F(v) with g = ``flow_implicit``; alone, with g
    = 1, it is the implicit Euler method.  Blades and flow settle within milliseconds, of the order of a step.
    Notes the vortex ring state.
    """
    implicit = rows.flow_implicit * seconds
    for k in range(n):
        square = rows.across_x[k] ** 2 + rows.across_y[k] ** 2 + rows.across_z[k] ** 2
        disc, slope, limit = rows.disc[k], rows.slope[k], rows.limit[k]
        along = rows.turning[k] * rows.inflow[k]
        induced = rows.induced[k]
        lift = rows.lift[k] * (1.0 + 1.5 * min(square * rows.per_tip2[k], 1.0))
        flux, rate = momentum_flux(induced, along, square)
        through = along + induced + rows.ring_flow[k]
        blades = max(min(lift - slope * through, limit), -limit) * rows.health[k]
        yielding = rows.air_mass[k] + implicit * (slope + disc * rate)
        rows.flow_yielding[k] = yielding
        rows.flow_rate[k] = (-1.0 if rows.turning[k] < 0.0 else 1.0) * (blades - disc * flux) / yielding
        middle = 2.0 * along + 3.0 * math.sqrt(max(flux, 0.0))
        rows.ring[k] = (flux - square - middle * middle) * abs(rows.turning[k])
    ring = 0.0
    for k in range(n):
        ring = max(ring, rows.ring[k])
    if ring > 0.0:
        state.vortex_ring_time += seconds


@compiled
def end_flow(state: State, rows: Scratch, n: int, seconds: float) -> None:
    """Advance the induced velocities over a step, from the motion and the flow v + h k1 at its end.

    The second stage of ROS2: (1 - g h F') k2 = F(v + h k1) - 2 k1, v + h (3 k1 + k2)/2.  It is of second
    order whatever F', and with g = 1 - 1/sqrt(2) damps what is faster than the step.
    """
    for k in range(n):
        square = rows.across_x[k] ** 2 + rows.across_y[k] ** 2 + rows.across_z[k] ** 2
        slope, limit = rows.slope[k], rows.limit[k]
        along = rows.turning[k] * rows.inflow[k]
        induced = rows.induced[k]
        lift = rows.lift[k] * (1.0 + 1.5 * min(square * rows.per_tip2[k], 1.0))
        flux, _ = momentum_flux(induced, along, square)
        through = along + induced + rows.ring_flow[k]
        blades = max(min(lift - slope * through, limit), -limit) * rows.health[k]
        force = (-1.0 if rows.turning[k] < 0.0 else 1.0) * (blades - rows.disc[k] * flux)
        first = rows.flow_rate[k]
        second = (force - 2.0 * rows.air_mass[k] * first) / rows.flow_yielding[k]
        state.induced_velocity[k] += seconds * (1.5 * first + 0.5 * second)


@on_demand
def add_pitching_moments(vehicle: Vehicle, rows: Scratch) -> None:
    """Add the moments of the uneven inflow to every rotor's; after ``induced_rotors``.

    In forward flight the wake leans back, and the induced velocity grows along the disc from its leading to
    its trailing edge, v (1 + K r/R cos psi) with K = 15 pi/32 tan(chi/2) and chi the wake's angle to the axis
    (Pitt and Peters, Vertica 5, 1981, static gains).  The leading half lifts more, by blade elements as above
    M = B R v K/4; the cyclic induced flow that this moment causes reduces it by 1 + B cos(chi)/(rho A (V_T +
    |U|)) with the flow V_T at the disc.  tan(chi/2) is V/(V_T + |U|).
    """
    axis = vehicle.rotor_axis
    for k in range(vehicle.rotor_count):
        sign = rows.turning[k]
        induced = rows.induced[k]
        ax, ay, az = rows.across_x[k], rows.across_y[k], rows.across_z[k]
        through = sign * rows.inflow[k] + induced + rows.ring_flow[k]
        steepness = abs(through)
        flow = math.sqrt(ax * ax + ay * ay + az * az + through * through) + 1e-9
        slope = rows.slope[k]
        relief = 2.0 * slope * rows.per_disc[k] * steepness / flow
        rate = _UNEVENNESS * slope * vehicle.rotor_radius[k] * induced / (flow + steepness + relief)
        rate *= sign * rows.health[k]
        rows.moment_x[k] += rate * (ay * axis[k, 2] - az * axis[k, 1])
        rows.moment_y[k] += rate * (az * axis[k, 0] - ax * axis[k, 2])
        rows.moment_z[k] += rate * (ax * axis[k, 1] - ay * axis[k, 0])
