"""One step of a vehicle: motors, battery and the integration of its motion; and the state it starts from.

Forces are summed in forces.py.  The integrator is the classical Runge-Kutta method of fourth order over
position, velocity, attitude and angular velocity, and over the rotor speeds of DC motors.  A first-order
motor's speed is a known function of time within a step and is evaluated, not integrated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.dynamics.battery import discharge, settle, source_voltage
from sitl_bridge.dynamics.contact import (
    contact_steps,
    rotated_down,
    rotated_east,
    rotated_north,
    standing_pose,
    update_contact,
)
from sitl_bridge.dynamics.forces import derivative
from sitl_bridge.dynamics.induced_flow import prepare_speeds
from sitl_bridge.dynamics.motor import drive_motors, gains_speed, heat_controllers, read_commands
from sitl_bridge.dynamics.records import EULER, INDUCED_LAW, MAX_ROTORS, MOTOR_DC, STATE
from sitl_bridge.dynamics.resting import note_rest, rests
from sitl_bridge.dynamics.rotor_preparation import prepare_rotors
from sitl_bridge.dynamics.rotor_rows import ACCELERATION, SPEED, THRUST, TORQUE, TOTAL
from sitl_bridge.dynamics.scene_contact import find_surfaces, look_around, update_surfaces
from sitl_bridge.dynamics.stability import decay_rate, stable_steps
from sitl_bridge.dynamics.vibration import turn_phases
from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.world.atmosphere import GAS_CONSTANT, LAPSE_RATE, air
from sitl_bridge.world.earth import local_gravity

DIVERGED_BEYOND = 1e9
"""Sum of m, m/s and rad/s above which a state has diverged; a state with a NaN has diverged, too."""

GOLDEN_ANGLE = math.pi * (3.0 - math.sqrt(5.0))
"""rad between the rotors' phases at the start, so that they do not pull the same way."""
_MOTION = 13
AT_REST = 1e-5
"""m/s below which a vehicle that settles on a surface is taken to stand."""


@compiled
def _load(state: Any, y: Any) -> None:
    """Copy the motion of a state into the integrator's vector y."""
    for i in range(3):
        y[i] = state.position[i]
        y[3 + i] = state.velocity[i]
        y[10 + i] = state.angular_velocity[i]
    for i in range(4):
        y[6 + i] = state.attitude[i]


@compiled
def _store(state: Any, y: Any) -> None:
    """Copy the integrator's vector y into the state, its quaternion normalised."""
    norm = 1.0 / math.sqrt(y[6] * y[6] + y[7] * y[7] + y[8] * y[8] + y[9] * y[9])
    for i in range(4):
        state.attitude[i] = y[6 + i] * norm
    for i in range(3):
        state.position[i] = y[i]
        state.velocity[i] = y[3 + i]
        state.angular_velocity[i] = y[10 + i]


@compiled
def _turn_rotors(vehicle: Any, state: Any, rise: float, fall: float) -> None:
    """Speeds and accelerations of first-order motors some time after the state, into ``rotor_work``.

    w = w_target + (w_0 - w_target) exp(-t/tau), the exact solution (RotorS discretises so as well); ``rise``
    and ``fall`` are exp(-t/tau) with the two time constants.
    """
    rows = state.rotor_work
    rise_rate = -1.0 / vehicle.motor_tau_up
    fall_rate = -1.0 / vehicle.motor_tau_down
    for k in range(vehicle.rotor_count):
        target = state.motor_drive[k]
        start = state.rotor_speed[k]
        gains = gains_speed(start, target)
        left = (start - target) * (rise if gains else fall)
        rows[SPEED, k] = target + left
        rows[ACCELERATION, k] = left * (rise_rate if gains else fall_rate)


@compiled
def _clear_totals(vehicle: Any, state: Any) -> None:
    """Begin the sums of the stages' slopes."""
    for i in range(_MOTION):
        state.work[2, i] = 0.0
    for k in range(vehicle.rotor_count):
        state.rotor_work[TOTAL, k] = 0.0


@compiled
def _turn_direct_rotors(vehicle: Any, state: Any, stage: int, weight: float, ahead: float) -> None:
    """Speeds of DC motors ``ahead`` s after the state, after a stage of the integration with its weight."""
    rows = state.rotor_work
    for k in range(vehicle.rotor_count):
        rows[TOTAL, k] += weight * rows[ACCELERATION, k]
        slope = rows[TOTAL, k] if stage == 3 else rows[ACCELERATION, k]
        rows[SPEED, k] = max(state.rotor_speed[k] + ahead * slope, 0.0)


@compiled
def _move_rotors(
    vehicle: Any,
    state: Any,
    stage: int,
    weight: float,
    ahead: float,
    rise: float,
    fall: float,
) -> None:
    """Speeds of the rotors after a stage of the integration, for the next one.

    Args:
        vehicle: VEHICLE record.
        state: STATE record.
        stage: 0 to 3.
        weight: of the stage in the mean of the slopes.
        ahead: s after the state.
        rise: exp(-h/2/tau) of a first-order motor that gains speed.
        fall: the same of one that loses speed.
    """
    if vehicle.motor_kind == MOTOR_DC:
        _turn_direct_rotors(vehicle, state, stage, weight, ahead)
    elif stage == 0:
        _turn_rotors(vehicle, state, rise, fall)
    elif stage == 2:
        _turn_rotors(vehicle, state, rise * rise, fall * fall)
    else:
        return
    if vehicle.rotor_law == INDUCED_LAW:
        prepare_speeds(state, vehicle.rotor_count)


@compiled
def _is_free(vehicle: Any, state: Any, h: float) -> bool:
    """Whether a vehicle can touch neither the ground nor a shape of the scene within ``h`` seconds."""
    reach = vehicle.contact_radius + max(state.velocity[2], 0.0) * h
    return bool(state.near_count == 0 and (state.groundless != 0 or -state.position[2] > reach))


@compiled
def _parts(vehicle: Any, state: Any, density: float, h: float) -> int:
    """Number of parts into which a substep of ``h`` seconds is divided."""
    parts = stable_steps(decay_rate(vehicle, state, density), h)
    if not _is_free(vehicle, state, h):
        parts = max(parts, contact_steps(vehicle, h))
    return parts


@compiled
def _start_rotors(vehicle: Any, state: Any) -> None:
    """Speeds, and accelerations of first-order motors, of the state itself, into ``rotor_work``."""
    if vehicle.motor_kind == MOTOR_DC:
        for k in range(vehicle.rotor_count):
            state.rotor_work[SPEED, k] = state.rotor_speed[k]
    else:
        _turn_rotors(vehicle, state, 1.0, 1.0)


@compiled
def _begin(vehicle: Any, state: Any, y: Any) -> None:
    """Prepare a step: motion, rotor speeds, sums of the slopes."""
    _load(state, y)
    _start_rotors(vehicle, state)
    if vehicle.rotor_law == INDUCED_LAW:
        prepare_speeds(state, vehicle.rotor_count)
    _clear_totals(vehicle, state)


@compiled
def _integrate(
    vehicle: Any,
    state: Any,
    density: float,
    gradient: float,
    down: float,
    gravity: float,
    scene: Any,
    h: float,
    rise: float,
    fall: float,
) -> None:
    """One Runge-Kutta step of ``h`` seconds.

    Args:
        vehicle: VEHICLE record.
        state: STATE record.
        density: kg/m^3 at ``down``.
        gradient: kg/m^4, change of the density along down.
        down: m.
        gravity: m/s^2.
        scene: SCENE.
        h: s.
        rise: exp(-h/2/tau) of a motor that gains speed.
        fall: the same of one that loses speed.
    """
    y = state.work[0]
    dy = state.work[1]
    total = state.work[2]
    rows = state.rotor_work
    if state.near_count > 0:
        find_surfaces(vehicle, state, scene, h)
    _begin(vehicle, state, y)
    for stage in range(4):
        flow = h if stage == 0 else 0.0
        derivative(vehicle, state, density + gradient * (y[2] - down), gravity, y, dy, flow)
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
        _move_rotors(vehicle, state, stage, weight, ahead, rise, fall)
    update_contact(vehicle, state, y)
    if state.near_count > 0:
        update_surfaces(vehicle, state, y, h)
    _store(state, y)
    for k in range(vehicle.rotor_count):
        state.rotor_speed[k] = rows[SPEED, k]


@compiled
def _keep_loads(vehicle: Any, state: Any) -> None:
    """Keep the rotors' loads of the last evaluation as results of the step."""
    rows = state.rotor_work
    for k in range(vehicle.rotor_count):
        state.rotor_thrust[k] = rows[THRUST, k]
        state.rotor_torque[k] = rows[TORQUE, k]


@compiled
def _evaluate(vehicle: Any, state: Any, density: float, gravity: float) -> None:
    """Bring the results of the step in line with the state at its end; rotor_work has its rotor speeds."""
    _load(state, state.work[0])
    derivative(vehicle, state, density, gravity, state.work[0], state.work[1], 0.0)
    _keep_loads(vehicle, state)


@compiled
def _integrate_once(
    vehicle: Any, state: Any, density: float, gravity: float, h: float, rise: float, fall: float
) -> None:
    """One semi-implicit Euler step of ``h`` seconds in free air, from one evaluation of the forces.

    Velocities come first, and position and attitude follow the new ones (symplectic Euler; Hairer, Lubich,
    Wanner: Geometric Numerical Integration, ch. I.1.2).  The results are those of the step's start.

    Args:
        vehicle: VEHICLE record.
        state: STATE record.
        density: kg/m^3.
        gravity: m/s^2.
        h: s.
        rise: exp(-h/2/tau) of a motor that gains speed.
        fall: the same of one that loses speed.
    """
    y, dy, rows = state.work[0], state.work[1], state.rotor_work
    _begin(vehicle, state, y)
    derivative(vehicle, state, density, gravity, y, dy, h)
    _keep_loads(vehicle, state)
    for i in range(3):
        y[3 + i] += h * dy[3 + i]
        y[i] += h * y[3 + i]
        y[10 + i] += h * dy[10 + i]
    wx, wy, wz = 0.5 * h * y[10], 0.5 * h * y[11], 0.5 * h * y[12]
    qw, qx, qy, qz = y[6], y[7], y[8], y[9]
    y[6] = qw - qx * wx - qy * wy - qz * wz
    y[7] = qx + qw * wx + qy * wz - qz * wy
    y[8] = qy + qw * wy + qz * wx - qx * wz
    y[9] = qz + qw * wz + qx * wy - qy * wx
    _store(state, y)
    if vehicle.motor_kind == MOTOR_DC:
        for k in range(vehicle.rotor_count):
            rows[SPEED, k] = max(state.rotor_speed[k] + h * rows[ACCELERATION, k], 0.0)
    else:
        _turn_rotors(vehicle, state, rise * rise, fall * fall)
    for k in range(vehicle.rotor_count):
        state.rotor_speed[k] = rows[SPEED, k]


@compiled
def _mean_specific_force(state: Any, qw: float, qx: float, qy: float, qz: float) -> None:
    """Turn the mean specific force over a step, in NED in ``work[0, :3]``, into body axes halfway through it.

    Args:
        state: STATE record at the step's end; its ``specific_force`` is written.
        qw: attitude at the step's start.
        qx: its x.
        qy: its y.
        qz: its z.
    """
    q = state.attitude
    side = 1.0 if q[0] * qw + q[1] * qx + q[2] * qy + q[3] * qz >= 0.0 else -1.0
    qw += side * q[0]
    qx += side * q[1]
    qy += side * q[2]
    qz += side * q[3]
    norm = 1.0 / math.sqrt(qw * qw + qx * qx + qy * qy + qz * qz)
    # The inverse rotation: the vector part the other way round.
    qw, qx, qy, qz = qw * norm, -qx * norm, -qy * norm, -qz * norm
    n, e, d = state.work[0, 0], state.work[0, 1], state.work[0, 2]
    state.specific_force[0] = rotated_north(qw, qx, qy, qz, n, e, d)
    state.specific_force[1] = rotated_east(qw, qx, qy, qz, n, e, d)
    state.specific_force[2] = rotated_down(qw, qx, qy, qz, n, e, d)


@compiled
def _follow_motion(vehicle: Any, state: Any, current: float, seconds: float) -> None:
    """What follows the motion over a step: battery, temperatures and the rotors' phases."""
    discharge(vehicle, state, current, seconds)
    if vehicle.esc_thermal_time > 0.0:
        heat_controllers(vehicle, state, seconds)
    if state.vibrating != 0:
        turn_phases(vehicle, state, seconds)


@compiled
def _motor_decay(vehicle: Any, state: Any, h: float) -> tuple[float, float]:
    """exp(-h/2/tau) of a motor that gains speed, and of one that loses speed; kept from step to step."""
    known = state.motor_decay
    if known[0] != h or known[1] != vehicle.motor_tau_up or known[2] != vehicle.motor_tau_down:
        known[0], known[1], known[2] = h, vehicle.motor_tau_up, vehicle.motor_tau_down
        known[3] = math.exp(-0.5 * h / vehicle.motor_tau_up)
        known[4] = math.exp(-0.5 * h / vehicle.motor_tau_down)
    return known[3], known[4]


@compiled
def advance_vehicle(
    vehicle: Any, state: Any, controls: Any, armed: int, environment: Any, seconds: float, substeps: int
) -> None:
    """Advance one vehicle by ``seconds`` with commands and wind held; one at rest stands, see resting.py.

    The substeps are divided further near the ground and shapes of the scene, see ``contact_steps``, and where
    drag or a DC motor acts faster than the integrator follows, see ``stable_steps``.  Accelerations are those
    at the end: the trapezoidal rule is then exact to second order.  With contact, the specific force is
    the mean: it kept the velocity of a landing within 0.02 m/s, single samples of its shocks only 0.18 m/s.

    Args:
        vehicle: VEHICLE record.
        state: STATE record; ``wind``, ``rotor_health``, ``external_force`` and ``external_moment`` are read.
        controls: (16,) actuator commands, motors first; what is no finite number counts as 0.
        armed: 0 commands the motors to stop.
        environment: ENVIRONMENT record.
        seconds: s.
        substeps: integration steps within the step, >= 1.
    """
    read_commands(vehicle, state, controls, armed)
    source = source_voltage(vehicle, state)
    if not math.isinf(vehicle.battery_capacity):
        settle(vehicle, state, armed, source)
    before, scene, down = state.battery_current, environment.scene, state.position[2]
    gravity = local_gravity(environment, state.position[0], down)
    drive_motors(vehicle, state)
    if rests(vehicle, state, gravity):
        state.hit_speed = -1.0
        _follow_motion(vehicle, state, state.battery_current, seconds)
        return
    temperature, _, density = air(environment, down)
    prepare_rotors(vehicle, state, density)
    look_around(vehicle, state, scene, seconds)
    # Hydrostatics of a layer with a lapse rate: d rho / d down = rho (g/(R T) - L/T).
    gradient = density * (gravity / GAS_CONSTANT - LAPSE_RATE) / temperature
    h = seconds / substeps
    touched = state.in_contact
    v, q = state.velocity, state.attitude
    north, east, sinking, qw, qx, qy, qz = v[0], v[1], v[2], q[0], q[1], q[2], q[3]
    once = False
    rise, fall = _motor_decay(vehicle, state, h)
    for _ in range(substeps):
        splits = _parts(vehicle, state, density, h)
        ahead = density + gradient * (state.position[2] - down)
        once = splits == 1 and vehicle.integrator == EULER and _is_free(vehicle, state, h)
        if once:
            _integrate_once(vehicle, state, ahead, gravity, h, rise, fall)
        elif splits == 1:
            _integrate(vehicle, state, density, gradient, down, gravity, scene, h, rise, fall)
        else:
            n = 1.0 / splits
            for _ in range(splits):
                _integrate(vehicle, state, density, gradient, down, gravity, scene, h * n, rise**n, fall**n)
                touched += state.in_contact
    if not once:
        _evaluate(vehicle, state, density + gradient * (state.position[2] - down), gravity)
    if touched > 0:
        state.work[0, 0], state.work[0, 1] = (v[0] - north) / seconds, (v[1] - east) / seconds
        state.work[0, 2] = (v[2] - sinking) / seconds - gravity
        _mean_specific_force(state, qw, qx, qy, qz)
        note_rest(vehicle, state, scene, gravity)
    else:
        state.rest_steps = 0
    settle(vehicle, state, armed, source)
    _follow_motion(vehicle, state, 0.5 * (before + state.battery_current), seconds)


@compiled
def settle_start(vehicles: Any, states: Any, environments: Any, controls: Any, steps: int) -> None:
    """Let a vehicle come to rest with its motors off, then fill in the results of its state.

    Args:
        vehicles: (1,) VEHICLE.
        states: (1,) STATE.
        environments: (1,) ENVIRONMENT.
        controls: (16,) zeros.
        steps: of 4 ms, after which it need not have come to rest; 0 where nothing is to move.
    """
    state = states[0]
    quiet = 0
    for _ in range(steps):
        advance_vehicle(vehicles[0], state, controls, 0, environments[0], 0.004, 1)
        v, w = state.velocity, state.angular_velocity
        square = 0.0
        for i in range(3):
            square += v[i] * v[i] + 0.01 * w[i] * w[i]
        quiet = quiet + 1 if square < AT_REST * AT_REST else 0
        if quiet == 25:
            break
    _, _, density = air(environments[0], state.position[2])
    prepare_rotors(vehicles[0], state, density)
    look_around(vehicles[0], state, environments[0].scene, 0.0)
    _start_rotors(vehicles[0], state)
    if vehicles[0].rotor_law == INDUCED_LAW:
        prepare_speeds(state, vehicles[0].rotor_count)
    gravity = local_gravity(environments[0], state.position[0], state.position[2])
    _evaluate(vehicles[0], state, density, gravity)
    read_commands(vehicles[0], state, controls, 0)
    settle(vehicles[0], state, 0, source_voltage(vehicles[0], state))


def initial_state(
    vehicle: NDArray[np.void], environment: NDArray[np.void], position: NDArray[np.float64], yaw: float
) -> NDArray[np.void]:
    """State of a vehicle that stands still: on level ground in static equilibrium, or above it, to fall.

    Args:
        vehicle: () VEHICLE record.
        environment: () ENVIRONMENT record.
        position: (3,) m NED of the ground point below the centre of gravity; its down is that of the
            lowest contact point, 0 on the ground.  Without contact points it is the centre of gravity's.
        yaw: rad.

    Returns:
        () STATE record: motors stopped, battery full, every rotor healthy, no wind.

    Raises:
        UserError: where the vehicle would not stay upright on its contact points.
        ValueError: for a position under the ground, or contact points outside ``contact_radius``.
    """
    count = int(vehicle["contact_count"])
    points = vehicle["contact_point"][:count]
    if position[2] > 0.0 and count:
        raise ValueError(f"a vehicle cannot start {position[2]} m under the ground")
    if count and float(vehicle["contact_radius"]) < float(np.linalg.norm(points, axis=1).max()) * (1 - 1e-12):
        raise ValueError("contact_radius is smaller than the distance of a contact point")
    states = np.zeros(1, STATE)
    state: NDArray[np.void] = states[0]
    down, roll, pitch = float(position[2]), 0.0, 0.0
    if count and position[2] == 0.0:
        down, roll, pitch, _ = standing_pose(vehicle, float(environment["gravity"]))
    elif count:
        down -= float(points[:, 2].max())
    state["position"] = (position[0], position[1], down)
    state["attitude"] = _quaternion(roll, pitch, yaw)
    state["rotor_health"] = 1.0
    state["vibrating"] = int(vehicle["vibration"])
    state["rotor_phase"] = GOLDEN_ANGLE * np.arange(MAX_ROTORS)
    state["battery_charge"] = float(vehicle["battery_capacity"])
    state["battery_voltage"] = float(vehicle["battery_nominal_voltage"])
    if not math.isinf(float(vehicle["battery_capacity"])):
        state["battery_voltage"] = float(vehicle["battery_ocv"][-1]) * int(vehicle["battery_cells"])
    _plant(vehicle, state)
    one = np.array([vehicle]).reshape(1), np.array([environment]).reshape(1)
    settle_start(one[0], states, one[1], np.zeros(16), 0)
    return state


def _quaternion(roll: float, pitch: float, yaw: float) -> tuple[float, float, float, float]:
    """Unit quaternion body to NED of the Euler angles yaw, pitch, roll (in this order), rad."""
    cr, sr = math.cos(0.5 * roll), math.sin(0.5 * roll)
    cp, sp = math.cos(0.5 * pitch), math.sin(0.5 * pitch)
    cy, sy = math.cos(0.5 * yaw), math.sin(0.5 * yaw)
    return (
        cr * cp * cy + sr * sp * sy,
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
    )


def _plant(vehicle: NDArray[np.void], state: NDArray[np.void]) -> None:
    """Set the anchors of the points that are in the ground where they are."""
    w, x, y, z = state["attitude"]
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    for k in range(int(vehicle["contact_count"])):
        north, east, down = state["position"] + rotation @ vehicle["contact_point"][k]
        if down > 0.0:
            state["contact_anchor"][k] = (north, east)
            state["contact_touching"][k] = 1
            state["in_contact"] += 1


@compiled
def has_diverged(state: Any) -> bool:
    """Whether a state is not finite, or beyond what any vehicle reaches."""
    total, turning = 0.0, 0.0
    for i in range(3):
        total += abs(state.position[i]) + (abs(state.velocity[i]) + abs(state.angular_velocity[i]))
    for i in range(4):
        turning += abs(state.attitude[i])
    speeds = 0.0
    for k in range(0, MAX_ROTORS, 2):
        speeds += abs(state.rotor_speed[k]) + abs(state.rotor_speed[k + 1])
    return not total + turning + speeds < DIVERGED_BEYOND
