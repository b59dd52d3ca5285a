"""The reference that every law follows: the setpoint through a reference model, and limits of the commands.

The reference model answers a step of the setpoint with the designed closed-loop response, within the limits
of speed, acceleration and tilt.  The laws then see small errors only, so their integrators estimate
disturbances rather than manoeuvres.  A new reference starts at the vehicle's state.
"""

from __future__ import annotations

import math

from sitl_bridge.autopilot.control.records import ControllerRecord
from sitl_bridge.autopilot.records import Estimate, Setpoint, WrenchRecord
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.rotations import product, wrap_angle

BRAKING_SHARE = 0.6
"""Share of the reference's acceleration limit planned for braking; the rest is for settling."""
TILT_SHARE = 0.5
"""Share of the horizontal acceleration at the tilt limit for the reference; the rest is for wind."""
MAX_LEAD = 2.0
"""Largest lead of the reference's position over the vehicle, as a velocity command, m/s."""
DEFAULT_TILT = math.radians(45.0)
"""Tilt limit of a setpoint without one: PX4's MPC_TILTMAX_AIR."""
MIN_LIFT = 0.1
"""Smallest upward thrust over weight: without thrust, tilt does not steer a vehicle."""
MIN_FLIGHT_THRUST = 0.3
"""Thrust over weight below which the vehicle is on the ground or about to land."""
GROUND_SPEED = 0.25
"""Speed threshold of a blocked descent, m/s: PX4's LNDMC_Z_VEL_MAX.  A vehicle stands on something if its
commanded descent exceeds this value, and exceeds the actual descent by it, and it moves more slowly."""
GROUND_TIME = 0.1
"""Time for which this must hold before ground contact is assumed, s.  PX4's land detector takes 0.35 s, long
enough for a vehicle leaning into the wind to tip over; a false detection costs only a moment of thrust."""
GROUND_FALL = 0.5
"""Largest excess of the fall over the commanded descent after contact, m/s: it covers a bounce and the drop
from the first foot onto the others, from some centimetres.  A faster fall ends the ground contact."""
GROUND_RELIEF = 0.5
"""Time in which the thrust is then reduced to zero, s."""
# --- CONTROLLER.follows
FREE = 0
VELOCITY = 1
POSITION = 2


@compiled
def tilt_limit(setpoint: Setpoint) -> float:
    """Return the tilt limit of a trajectory in rad."""
    return float(setpoint.max_tilt) if setpoint.max_tilt > 0.0 else DEFAULT_TILT


@compiled
def planned_speed(distance: float, gain: float, deceleration: float) -> float:
    """Return the speed in m/s at a distance (m) from the goal: gain times distance, limited by braking.

    v = k d up to d = a/k^2, then v = sqrt(2 a d - (a/k)^2), which joins it with equal slope and has the
    deceleration a.
    """
    if distance * gain * gain <= deceleration:
        return gain * distance
    return math.sqrt(2.0 * deceleration * distance - (deceleration / gain) ** 2)


@compiled
def follow_setpoint(
    controller: ControllerRecord, estimate: Estimate, setpoint: Setpoint, fresh: bool, dt: float
) -> None:
    """Advance x_d, v_d and a_d by one step: the setpoint itself, or the reference model towards it.

    The model is of second order, v_d' = k_v (v_s - v_d) + a, v_s = v + k_x (x - x_d), with x, v and a of the
    setpoint: a setpoint whose velocity and acceleration are its derivatives is followed without lag.  An axis
    without a position follows the velocity, one without either follows the acceleration alone.

    Args:
        fresh: whether no reference was followed in the previous step.
        dt: s.
    """
    x_d, v_d, a_d = controller.x_d, controller.v_d, controller.a_d
    for i in range(3):
        # A setpoint is followed only if the corresponding estimate is valid.
        mode = FREE
        if math.isfinite(setpoint.position[i] - estimate.position[i]):
            mode = POSITION
        elif math.isfinite(setpoint.velocity[i] - estimate.velocity[i]):
            mode = VELOCITY
        if fresh or controller.follows[i] == FREE or mode == FREE:
            v_d[i] = estimate.velocity[i]
        if fresh or controller.follows[i] != POSITION or mode != POSITION:
            x_d[i] = estimate.position[i]
        controller.follows[i] = mode
        a_d[i] = setpoint.acceleration[i] if math.isfinite(setpoint.acceleration[i]) else 0.0
        controller.e_i[i] = setpoint.velocity[i] if math.isfinite(setpoint.velocity[i]) else 0.0
    if controller.reference_used == 0:
        use_bare_setpoint(controller, estimate, setpoint)
        return
    level_limit = TILT_SHARE * controller.gravity * math.tan(tilt_limit(setpoint))
    plan_velocity(controller, setpoint, level_limit)
    for i in range(3):
        if controller.follows[i] != FREE:
            a_d[i] += controller.reference_velocity_p[i] * (controller.e_i[i] - v_d[i])
    limit_level(a_d, level_limit)
    a_d[2] = min(max(a_d[2], -controller.acceleration_up), controller.acceleration_down)
    for i in range(3):
        if controller.follows[i] != FREE:
            v_d[i] += a_d[i] * dt
        if controller.follows[i] == POSITION:
            reach = MAX_LEAD / controller.reference_position_p[i]
            x = x_d[i] + v_d[i] * dt
            x_d[i] = min(max(x, estimate.position[i] - reach), estimate.position[i] + reach)


@compiled
def drag_deceleration(controller: ControllerRecord, i: int) -> float:
    """Return the rotors' drag at the reference's velocity along NED axis ``i``, in m/s^2.

    It is proportional to the rotor speed, which falls with the root of the thrust that the flow adds.
    """
    return float(controller.drag[i] * controller.v_d[i] / math.sqrt(controller.flow_ratio))


@compiled
def use_bare_setpoint(controller: ControllerRecord, estimate: Estimate, setpoint: Setpoint) -> None:
    """Copy the setpoint, with its position moved close enough to respect the speed limits."""
    velocity = controller.e_i
    for i in range(3):
        if controller.follows[i] != FREE:
            controller.v_d[i] = velocity[i]
        if controller.follows[i] == POSITION:
            away = setpoint.position[i] - estimate.position[i]
            velocity[i] += controller.reference_position_p[i] * away
    limit_speed(setpoint, velocity)
    for i in range(3):
        if controller.follows[i] == POSITION:
            away = (velocity[i] - controller.v_d[i]) / controller.reference_position_p[i]
            controller.x_d[i] = estimate.position[i] + away
        elif controller.follows[i] == VELOCITY:
            controller.v_d[i] = velocity[i]


@compiled
def plan_velocity(controller: ControllerRecord, setpoint: Setpoint, level_limit: float) -> None:
    """Add the velocity that leads the reference to the setpoint's position to ``e_i``, within limits."""
    velocity, x_d = controller.e_i, controller.x_d
    distance = 0.0
    for i in range(2):
        if controller.follows[i] == POSITION:
            distance += (setpoint.position[i] - x_d[i]) ** 2
    distance = math.sqrt(distance)
    speed = planned_speed(distance, controller.reference_position_p[0], BRAKING_SHARE * level_limit)
    for i in range(2):
        if controller.follows[i] == POSITION and distance > 0.0:
            velocity[i] += (setpoint.position[i] - x_d[i]) * speed / distance
    if controller.follows[2] == POSITION:
        away = setpoint.position[2] - x_d[2]
        # A vehicle that climbs to its goal brakes downwards.
        limit = controller.acceleration_up if away > 0.0 else controller.acceleration_down
        speed = planned_speed(abs(away), controller.reference_position_p[2], BRAKING_SHARE * limit)
        velocity[2] += math.copysign(speed, away)
    limit_speed(setpoint, velocity)


@compiled
def limit_level(vector: Floats, limit: float) -> bool:
    """Scale the horizontal part of a vector (3,) NED to a limit; return whether it exceeded it."""
    size = math.hypot(vector[0], vector[1])
    if size > limit:
        vector[0] *= limit / size
        vector[1] *= limit / size
    return size > limit


@compiled
def limit_speed(setpoint: Setpoint, velocity: Floats) -> None:
    """Scale a velocity (3,) NED to the setpoint's limits; a limit of zero or less disables it."""
    if setpoint.max_horizontal_speed > 0.0:
        limit_level(velocity, setpoint.max_horizontal_speed)
    if setpoint.max_up_speed > 0.0:
        velocity[2] = max(velocity[2], -setpoint.max_up_speed)
    if setpoint.max_down_speed > 0.0:
        velocity[2] = min(velocity[2], setpoint.max_down_speed)


@compiled
def advance_yaw(
    controller: ControllerRecord, heading: float, setpoint: Setpoint, fresh: bool, dt: float
) -> None:
    """Advance yaw_d towards the setpoint's yaw within the rate limit, or by its yaw rate.

    Without yaw and yaw rate, yaw_d holds the current heading.
    """
    if fresh:
        controller.yaw_d = heading
    rate = setpoint.yaw_rate if math.isfinite(setpoint.yaw_rate) else 0.0
    limit = controller.rate_limit[2]
    turn = rate * dt
    if math.isfinite(setpoint.yaw):
        turn = wrap_angle(setpoint.yaw - controller.yaw_d)
    else:
        rate = min(max(rate, -limit), limit)
    turn = min(max(turn, -limit * dt), limit * dt)
    controller.yaw_d = wrap_angle(controller.yaw_d + turn)
    controller.yaw_rate_d = rate


@compiled
def relax_on_ground(controller: ControllerRecord, estimate: Estimate, dt: float) -> None:
    """Level the vehicle and reduce its thrust while the ground prevents a descent.

    Otherwise the tilt against the wind would tip the vehicle over on its feet.  A commanded climb or a fall
    ends this at once.

    Args:
        controller: CONTROLLER record; ``a_c`` and the errors ``e_i`` of the law are changed in place.
        dt: s.
    """
    sinking = controller.v_d[2]
    held = sinking > 0.0 and controller.e_i[2] > -GROUND_FALL
    if controller.grounded <= GROUND_TIME:
        held = min(sinking, controller.e_i[2]) > GROUND_SPEED > abs(estimate.velocity[2])
    controller.grounded = controller.grounded + dt if held and controller.follows[2] != FREE else 0.0
    share = ground_relief(controller)
    if share > 0.0:
        for i in range(3):
            controller.e_i[i] = 0.0
        controller.a_c[0] = 0.0
        controller.a_c[1] = 0.0
        controller.a_c[2] += share * controller.gravity


@compiled
def ground_relief(controller: ControllerRecord) -> float:
    """Return the reduction of thrust and moments on the ground, 0 (none) to 1 (all)."""
    return min(max((controller.grounded - GROUND_TIME) / GROUND_RELIEF, 0.0), 1.0)


@compiled
def tilting_lift(controller: ControllerRecord) -> float:
    """Return the vertical specific force in m/s^2 from which the tilt follows: a_c without the integral.

    The vertical integral corrects errors of the thrust, of battery, mass or air density, that are the same in
    every direction.  It changes the thrust, not the tilt; PX4 decouples the two as well (MPC_ACC_DECOUPLE).
    """
    lift = controller.gravity - controller.a_c[2] + controller.integral[2]
    return float(max(lift, MIN_LIFT * controller.gravity))


@compiled
def limit_acceleration(controller: ControllerRecord, setpoint: Setpoint) -> int:
    """Limit a_c to the available thrust and tilt: vertical first, then horizontal.

    Returns:
        Bits: 1 horizontal part limited, 2 vertical thrust too small, 4 vertical thrust too large.
    """
    a_c = controller.a_c
    limits = 0
    most = controller.thrust_max / controller.mass
    lift = controller.gravity - a_c[2]
    if lift > most:
        lift, limits = most, 2
    elif not lift > MIN_LIFT * controller.gravity:
        lift, limits = MIN_LIFT * controller.gravity, 4
    a_c[2] = controller.gravity - lift
    limit = min(
        tilting_lift(controller) * math.tan(tilt_limit(setpoint)), math.sqrt(most * most - lift * lift)
    )
    if limit_level(a_c, limit):
        limits += 1
    return limits


@compiled
def integrate_errors(
    controller: ControllerRecord,
    setpoint: Setpoint,
    wrench: WrenchRecord,
    limits: int,
    gain: Floats,
    dt: float,
) -> None:
    """Add gain times ``e_i`` to the integral of each axis that is followed, with anti-windup.

    Conditional integration: an axis is held if its integral would drive a tilt or thrust limit further into
    saturation.

    Args:
        controller: CONTROLLER record; ``e_i`` are the errors, ``a_c`` the commanded acceleration.
        wrench: WRENCH record of the previous step; its unmet part is read.
        limits: bits from ``limit_acceleration``.
        gain: (3,).
        dt: s.
    """
    integral, e_i = controller.integral, controller.e_i
    outward = controller.a_c[0] * e_i[0] + controller.a_c[1] * e_i[1] > 0.0
    lacking = limits & 2 != 0 or wrench.unmet_thrust > 0.0
    spare = limits & 4 != 0 or wrench.unmet_thrust < 0.0
    for i in range(3):
        held = (
            outward and limits & 1 != 0 if i < 2 else (lacking and e_i[2] < 0.0) or (spare and e_i[2] > 0.0)
        )
        if controller.follows[i] != FREE and not held:
            integral[i] += gain[i] * e_i[i] * dt
    limit_level(integral, controller.gravity * math.tan(tilt_limit(setpoint)))
    limit = controller.vertical_integral_limit
    integral[2] = min(max(integral[2], -limit), limit)


@compiled
def integrate_moment(controller: ControllerRecord, wrench: WrenchRecord, i: int, step: float) -> None:
    """Add ``step`` to the integral of the rate loop about body axis ``i``.

    It is held while the allocation cannot give more in its direction, and while thrust is too low for flight:
    on the ground, moments have no effect.
    """
    aloft = wrench.thrust > MIN_FLIGHT_THRUST * controller.mass * controller.gravity
    if aloft and not wrench.unmet_moment[i] * step > 0.0:
        limit = controller.moment_integral_limit[i]
        controller.moment_integral[i] = min(max(controller.moment_integral[i] + step, -limit), limit)


@compiled
def add_gyroscopic_moment(wrench: WrenchRecord, inertia: Floats, rates: Floats) -> None:
    """Add Omega x J Omega to the moment."""
    h0, h1, h2 = product(inertia, rates[0], rates[1], rates[2])
    wrench.moment[0] += rates[1] * h2 - rates[2] * h1
    wrench.moment[1] += rates[2] * h0 - rates[0] * h2
    wrench.moment[2] += rates[0] * h1 - rates[1] * h0
