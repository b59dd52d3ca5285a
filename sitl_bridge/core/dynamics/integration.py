"""Integration of a vehicle's motion over a part of a step: Runge-Kutta of fourth order.

Forces are summed in forces.py.  The classical Runge-Kutta method goes over position, velocity, attitude and
angular velocity, and over the rotor speeds of DC motors.  A first-order motor's speed is a known function of
time within a step and is evaluated, not integrated.
"""

from __future__ import annotations

import math

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.dynamics.battery import adapt_drive
from sitl_bridge.core.dynamics.contact import contact_steps, update_contact
from sitl_bridge.core.dynamics.forces import derivative
from sitl_bridge.core.dynamics.induced_flow import FLOW_IMPLICIT, prepare_speeds, renew_flow
from sitl_bridge.core.dynamics.motor import drive_motors, gains_speed
from sitl_bridge.core.dynamics.records import INDUCED_LAW, MOTOR_DC, Scratch, State, Surfaces, Vehicle
from sitl_bridge.core.dynamics.scene_contact import find_surfaces, update_surfaces
from sitl_bridge.core.dynamics.stability import decay_rate, stable_steps
from sitl_bridge.core.world.records import SceneRecord

_MOTION = 13


@compiled
def _load(state: State, y: Floats) -> None:
    """Copy the motion of a state into the integrator's vector y."""
    for i in range(3):
        y[i] = state.position[i]
        y[3 + i] = state.velocity[i]
        y[10 + i] = state.angular_velocity[i]
    for i in range(4):
        y[6 + i] = state.attitude[i]


@compiled
def _store(state: State, y: Floats) -> None:
    """Copy the integrator's vector y into the state, its quaternion normalised."""
    norm = 1.0 / math.sqrt(y[6] * y[6] + y[7] * y[7] + y[8] * y[8] + y[9] * y[9])
    for i in range(4):
        state.attitude[i] = y[6 + i] * norm
    for i in range(3):
        state.position[i] = y[i]
        state.velocity[i] = y[3 + i]
        state.angular_velocity[i] = y[10 + i]


@compiled
def _turn_rotors(vehicle: Vehicle, state: State, rows: Scratch, rise: float, fall: float) -> None:
    """Speeds and accelerations of first-order motors some time after the state, into ``rows``.

    w = w_target + (w_0 - w_target) exp(-t/tau), the exact solution (RotorS discretises so as well); ``rise``
    and ``fall`` are exp(-t/tau) with the two time constants, whose inverses ``read_commands`` has written.
    """
    rise_rate, fall_rate = -rows.rise_rate, -rows.fall_rate
    for k in range(vehicle.rotor_count):
        target = state.motor_drive[k]
        start = state.rotor_speed[k]
        gains = gains_speed(start, target)
        left = (start - target) * (rise if gains else fall)
        rows.speed[k] = target + left
        rows.acceleration[k] = left * (rise_rate if gains else fall_rate)


@compiled
def _move_rotors(
    vehicle: Vehicle,
    state: State,
    rows: Scratch,
    stage: int,
    weight: float,
    ahead: float,
    rise: float,
    fall: float,
) -> None:
    """Speeds and induced flow of the rotors after a stage of the integration, for the next one.

    Voltage and drive of first-order motors over the step are those halfway through it, and the last stage's
    acceleration makes the reaction on the body sum up to the change of the rotors' momentum.  Those of DC
    motors follow the stages.

    Args:
        stage: 0 to 3.
        weight: of the stage in the mean of the slopes.
        ahead: s after the state.
        rise, fall: exp(-h/2/tau) of a first-order motor that gains or loses speed.
    """
    if vehicle.motor_kind == MOTOR_DC:
        for k in range(vehicle.rotor_count):
            rows.total[k] = weight * rows.acceleration[k] + (rows.total[k] if stage > 0 else 0.0)
            slope = rows.total[k] if stage == 3 else rows.acceleration[k]
            rows.speed[k] = max(state.rotor_speed[k] + ahead * slope, 0.0)
        if stage == 0 or stage == 2:
            adapt_drive(vehicle, state, rows)
    elif stage == 0:
        for k in range(vehicle.rotor_count):
            rows.total[k] = rows.acceleration[k]
        _turn_rotors(vehicle, state, rows, rise, fall)
    elif stage == 2:
        for k in range(vehicle.rotor_count):
            rows.total[k] += 4.0 * rows.acceleration[k]
        adapt_drive(vehicle, state, rows)
        _turn_rotors(vehicle, state, rows, rise * rise, fall * fall)
        for k in range(vehicle.rotor_count):
            gained = rows.speed[k] - state.rotor_speed[k]
            rows.acceleration[k] = gained * (6.0 / ahead) - rows.total[k]
    if vehicle.rotor_law != INDUCED_LAW:
        return
    if stage == 3:
        ahead = 0.0
    if vehicle.motor_kind == MOTOR_DC or stage == 0 or stage == 2:
        prepare_speeds(vehicle, state, rows, ahead)
    elif stage == 3:
        renew_flow(state, rows, vehicle.rotor_count)


@compiled
def _parts(vehicle: Vehicle, state: State, rows: Scratch, density: float, h: float) -> int:
    """Number of parts into which a substep of ``h`` seconds is divided."""
    parts = stable_steps(decay_rate(vehicle, state, rows, density), h)
    reach = vehicle.contact_radius + max(state.velocity[2], 0.0) * h
    above = state.groundless != 0 or -state.position[2] > reach
    if not (above and state.near_count == 0):  # it may touch the ground or a shape of the scene
        parts = max(parts, contact_steps(vehicle, h))
    return parts


@compiled
def start_rotors(vehicle: Vehicle, state: State, rows: Scratch) -> None:
    """Speeds, and accelerations of first-order motors, of the state itself, into ``rows``."""
    if vehicle.motor_kind == MOTOR_DC:
        for k in range(vehicle.rotor_count):
            rows.speed[k] = state.rotor_speed[k]
    else:
        _turn_rotors(vehicle, state, rows, 1.0, 1.0)


@compiled
def _integrate(
    vehicle: Vehicle,
    state: State,
    rows: Scratch,
    surfaces: Surfaces,
    density: float,
    gradient: float,
    down: float,
    gravity: float,
    scene: SceneRecord,
    h: float,
    rise: float,
    fall: float,
) -> None:
    """One Runge-Kutta step of ``h`` seconds; other arguments as of ``integrate_step``.

    Args:
        rise, fall: exp(-h/2/tau) of a motor that gains or loses speed.
    """
    y = rows.work[0]
    dy = rows.work[1]
    total = rows.work[2]
    if state.near_count > 0:
        find_surfaces(vehicle, state, rows, surfaces, scene, h)
    rows.flow_implicit = FLOW_IMPLICIT
    _load(state, y)
    start_rotors(vehicle, state, rows)
    if vehicle.rotor_law == INDUCED_LAW:
        prepare_speeds(vehicle, state, rows, 0.0)
    for i in range(_MOTION):
        total[i] = 0.0
    for stage in range(4):
        flow = h if stage == 0 else (-h if stage == 3 else 0.0)
        derivative(vehicle, state, rows, surfaces, density + gradient * (y[2] - down), gravity, flow)
        weight = 2.0 if stage == 1 or stage == 2 else 1.0
        for i in range(_MOTION):
            total[i] += weight * dy[i]
        # The last round leads to the step's end, by the weighted mean of the slopes.
        ahead = 0.5 * h if stage < 2 else h
        if stage == 3:
            ahead = h / 6.0
            for i in range(_MOTION):
                dy[i] = total[i]
        for i in range(3):
            y[i] = state.position[i] + ahead * dy[i]
            y[3 + i] = state.velocity[i] + ahead * dy[3 + i]
            y[10 + i] = state.angular_velocity[i] + ahead * dy[10 + i]
        for i in range(4):
            y[6 + i] = state.attitude[i] + ahead * dy[6 + i]
        _move_rotors(vehicle, state, rows, stage, weight, ahead, rise, fall)
    update_contact(vehicle, state, y)
    if state.near_count > 0:
        update_surfaces(vehicle, state, surfaces, y, h)
    _store(state, y)
    for k in range(vehicle.rotor_count):
        state.rotor_speed[k] = rows.speed[k]


@compiled
def evaluate(
    vehicle: Vehicle, state: State, rows: Scratch, surfaces: Surfaces, density: float, gravity: float
) -> None:
    """Bring the results of the step in line with the state at its end; ``rows`` has its rotor speeds."""
    _load(state, rows.work[0])
    derivative(vehicle, state, rows, surfaces, density, gravity, 0.0)
    for k in range(vehicle.rotor_count):
        state.rotor_thrust[k] = rows.thrust[k]
        state.rotor_torque[k] = rows.torque[k]


@compiled
def _motor_decay(vehicle: Vehicle, state: State, h: float) -> tuple[float, float]:
    """exp(-h/2/tau) of a motor that gains speed, and of one that loses speed; kept from step to step."""
    known = state.motor_decay
    if known[0] != h or known[1] != vehicle.motor_tau_up or known[2] != vehicle.motor_tau_down:
        known[0], known[1], known[2] = h, vehicle.motor_tau_up, vehicle.motor_tau_down
        known[3] = math.exp(-0.5 * h / vehicle.motor_tau_up)
        known[4] = math.exp(-0.5 * h / vehicle.motor_tau_down)
    return known[3], known[4]


@compiled
def _begin_drive(vehicle: Vehicle, state: State, rows: Scratch, part: int) -> None:
    """Bring the drive in line with the state before a part of a step; at the step's start it is known."""
    if vehicle.motor_kind == MOTOR_DC:
        adapt_drive(vehicle, state, rows)
    elif part > 0:
        drive_motors(vehicle, state, rows)


@compiled
def integrate_step(
    vehicle: Vehicle,
    state: State,
    rows: Scratch,
    surfaces: Surfaces,
    density: float,
    gradient: float,
    down: float,
    gravity: float,
    scene: SceneRecord,
    seconds: float,
    substeps: int,
) -> int:
    """Move a vehicle over a step, in substeps and their parts, and evaluate the results at its end.

    Args:
        density: kg/m^3 at ``down``.
        gradient: kg/m^4, change of the density along down.
        down: m.
        gravity: m/s^2.
        seconds: s.
        substeps: of the step, >= 1.

    Returns:
        Above 0 if the vehicle touched something at the start or in between.
    """
    h = seconds / substeps
    touched = state.in_contact
    rise, fall = _motor_decay(vehicle, state, h)
    for part in range(substeps):
        _begin_drive(vehicle, state, rows, part)
        splits = _parts(vehicle, state, rows, density, h)
        if splits == 1:
            _integrate(vehicle, state, rows, surfaces, density, gradient, down, gravity, scene, h, rise, fall)
        else:
            n = 1.0 / splits
            for piece in range(splits):
                _begin_drive(vehicle, state, rows, part + piece)
                _integrate(
                    vehicle,
                    state,
                    rows,
                    surfaces,
                    density,
                    gradient,
                    down,
                    gravity,
                    scene,
                    h * n,
                    rise**n,
                    fall**n,
                )
                touched += state.in_contact
    start_rotors(vehicle, state, rows)
    evaluate(vehicle, state, rows, surfaces, density + gradient * (state.position[2] - down), gravity)
    return int(touched)
