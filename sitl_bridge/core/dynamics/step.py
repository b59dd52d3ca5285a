"""One step of a vehicle: motors, battery and its motion; and the state it starts from.

A vehicle at rest has its motors stopped and stands on the ground, or on a shape at rest, under no load that
changes.  Its integration is skipped until a motor, a load, the wind or a change of the state from outside
ends the rest; sensors and battery go on.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.numba_extensions import on_stack
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.base.rotations import matrix_from_quaternion, quaternion_from_euler
from sitl_bridge.core.dynamics.battery import discharge, settle, source_voltage
from sitl_bridge.core.dynamics.contact import rotate_to_ned, standing_pose
from sitl_bridge.core.dynamics.induced_flow import begin_flow, find_rings, keep_flow, prepare_speeds
from sitl_bridge.core.dynamics.integration import evaluate, integrate_step, start_rotors
from sitl_bridge.core.dynamics.motor import drive_motors, heat_controllers, read_commands
from sitl_bridge.core.dynamics.records import (
    INDUCED_LAW,
    MAX_ROTORS,
    SCRATCH,
    STATE,
    SURFACES,
    Scratch,
    State,
    Surfaces,
    Vehicle,
)
from sitl_bridge.core.dynamics.rotor import prepare_rotors
from sitl_bridge.core.dynamics.scene_contact import look_around
from sitl_bridge.core.dynamics.vibration import turn_phases
from sitl_bridge.core.world.atmosphere import GAS_CONSTANT, LAPSE_RATE, air
from sitl_bridge.core.world.earth import local_gravity
from sitl_bridge.core.world.records import Environment, SceneRecord

DIVERGED_BEYOND = 1e9
"""Sum of m, m/s and rad/s above which a state has diverged; a state with a NaN has diverged, too."""

GOLDEN_ANGLE = math.pi * (3.0 - math.sqrt(5.0))
"""rad between the rotors' phases at the start, so that they do not pull the same way."""
_FLOW_ROUND, _FLOW_ROUNDS = 0.05, 20
"""s, and steps of so many in which the induced flow settles; it does within milliseconds."""
AT_REST = 1e-5
"""m/s below which a vehicle that settles on a surface is taken to stand."""
REST_STEPS = 25
"""Steps in a row without motion before a vehicle rests."""
REST_SPEED = 1e-4
"""m/s, and a tenth of the rad/s, below which a vehicle does not move: 0.1 % of a GNSS receiver's noise."""
STOPPED_ROTOR = 1e-2
"""rad/s below which a rotor without drive stands."""
WIND_SHARE = 1e-3
"""Change of the wind's force, over the weight, that ends a rest."""


@compiled
def _has_loads(vehicle: Vehicle, state: State) -> bool:
    """Return whether motors or external loads act."""
    load = 0.0
    for k in range(vehicle.rotor_count):
        load += abs(state.motor_drive[k])
    for i in range(3):
        load += abs(state.external_force[i]) + abs(state.external_moment[i])
        load += abs(state.neighbour_force[i]) + abs(state.neighbour_moment[i])
    return load != 0.0


@compiled
def _wind_changed(vehicle: Vehicle, state: State, gravity: float) -> bool:
    """Return whether the wind's force differs from that at the start of the rest."""
    change, speed, drag = 0.0, 0.0, 0.0
    for i in range(3):
        change += abs(state.wind[i] - state.rest_wind[i])
        speed += abs(state.wind[i]) + abs(state.rest_wind[i])
        drag = max(drag, vehicle.drag_force[i])
    return bool(drag * change * speed > WIND_SHARE * vehicle.mass * gravity)


@compiled
def rests(vehicle: Vehicle, state: State, gravity: float) -> bool:
    """Return whether a vehicle goes on resting, with the motor drive and wind of the coming step."""
    if state.rest_steps < REST_STEPS or state.rest_mass != vehicle.mass or _has_loads(vehicle, state):
        return False
    moved = 0.0
    for i in range(3):
        moved += abs(state.position[i] - state.rest_position[i]) + abs(state.velocity[i])
        moved += abs(state.angular_velocity[i])
    for i in range(4):
        moved += abs(state.attitude[i] - state.rest_attitude[i])
    for k in range(vehicle.rotor_count):
        moved += abs(state.rotor_speed[k])
    return moved == 0.0 and not _wind_changed(vehicle, state, gravity)


@compiled
def note_rest(vehicle: Vehicle, state: State, scene: SceneRecord, gravity: float) -> None:
    """Count the steps without motion after a step with contact, and let the vehicle rest after REST_STEPS.

    Args:
        state: STATE record at the end of the step.
        scene: SCENE; nothing rests near moving shapes.
        gravity: m/s^2.
    """
    v, w = state.velocity, state.angular_velocity
    square = 0.0
    for i in range(3):
        square += v[i] * v[i] + 0.01 * w[i] * w[i]
    turning = 0.0
    for k in range(vehicle.rotor_count):
        turning = max(turning, abs(state.rotor_speed[k]))
    moving = square > REST_SPEED * REST_SPEED or turning > STOPPED_ROTOR
    if moving or scene.moving_first < scene.shape_count or _has_loads(vehicle, state):
        state.rest_steps = 0
        return
    state.rest_steps += 1
    if state.rest_steps < REST_STEPS:
        return
    q, f = state.attitude, state.specific_force
    f[0], f[1], f[2] = rotate_to_ned(q[0], -q[1], -q[2], -q[3], 0.0, 0.0, -gravity)
    for i in range(3):
        v[i], w[i] = 0.0, 0.0
        state.angular_acceleration[i] = 0.0
        state.rest_position[i], state.rest_wind[i] = state.position[i], state.wind[i]
    for i in range(4):
        state.rest_attitude[i] = q[i]
    for k in range(vehicle.rotor_count):
        state.rotor_speed[k], state.rotor_thrust[k], state.rotor_torque[k] = 0.0, 0.0, 0.0
    state.rest_mass = vehicle.mass


@compiled
def _mean_specific_force(state: State, rows: Scratch, qw: float, qx: float, qy: float, qz: float) -> None:
    """Turn the mean specific force over a step, in NED in ``work[0, :3]``, into body axes halfway through it.

    Args:
        state: STATE record at the step's end; its ``specific_force`` is written.
        qw, qx, qy, qz: attitude at the step's start.
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
    n, e, d = rows.work[0, 0], rows.work[0, 1], rows.work[0, 2]
    f = state.specific_force
    f[0], f[1], f[2] = rotate_to_ned(qw, qx, qy, qz, n, e, d)


@compiled
def _follow_motion(vehicle: Vehicle, state: State, current: float, seconds: float) -> None:
    """Advance what follows the motion over a step: battery, temperatures and the rotors' phases."""
    discharge(vehicle, state, current, seconds)
    if vehicle.esc_thermal_time > 0.0:
        heat_controllers(vehicle, state, seconds)
    if state.vibrating != 0:
        turn_phases(vehicle, state, seconds)


@on_demand
def step_vehicle(
    vehicle: Vehicle,
    state: State,
    surfaces: Surfaces,
    controls: Floats,
    armed: int,
    environment: Environment,
    seconds: float,
    substeps: int,
) -> None:
    """Advance one vehicle by ``seconds`` with commands and wind held; one at rest stands.

    The substeps are divided further near the ground and shapes of the scene, see ``contact_steps``, and where
    drag or a DC motor acts faster than the integrator follows, see ``stable_steps``.  Accelerations are those
    at the end: the trapezoidal rule is then exact to second order.  With contact, the specific force is
    the mean: it kept the velocity of a landing within 0.02 m/s, single samples of its shocks only 0.18 m/s.

    Every loop that moves vehicles calls this machine code, which is compiled once.

    Args:
        state: STATE record; ``wind``, ``rotor_health``, ``external_force`` and ``external_moment`` are read.
        surfaces: SURFACES record of the vehicle.
        controls: (k,) actuator commands, motors first; what is no finite number counts as 0.
        armed: 0 commands the motors to stop.
        seconds: s.
        substeps: integration steps within the step, >= 1.
    """
    rows = on_stack(SCRATCH)
    read_commands(vehicle, state, rows, controls, armed)
    source = source_voltage(vehicle, state)
    rows.source = source
    rows.earth_north, rows.earth_down = environment.earth_rate
    scene, down = environment.scene, state.position[2]
    gravity = local_gravity(environment, state.position[0], down)
    drive_motors(vehicle, state, rows)
    if rests(vehicle, state, gravity):
        state.hit_speed = -1.0
        settle(vehicle, state, rows, armed, source)
        _follow_motion(vehicle, state, state.battery_current, seconds)
        return
    temperature, _, density = air(environment, down)
    prepare_rotors(vehicle, state, rows, density)
    look_around(vehicle, state, rows, surfaces, scene, seconds)
    # Hydrostatics of a layer with a lapse rate: d rho / d down = rho (g/(R T) - L/T).
    gradient = density * (gravity / GAS_CONSTANT - LAPSE_RATE) / temperature
    v, q = state.velocity, state.attitude
    north, east, sinking, qw, qx, qy, qz = v[0], v[1], v[2], q[0], q[1], q[2], q[3]
    touched = integrate_step(
        vehicle, state, rows, surfaces, density, gradient, down, gravity, scene, seconds, substeps
    )
    if touched > 0:
        w_n, w_d = 2.0 * environment.earth_rate[0], 2.0 * environment.earth_rate[1]
        rows.work[0, 0] = (v[0] - north) / seconds - w_d * v[1]
        rows.work[0, 1] = (v[1] - east) / seconds - w_n * v[2] + w_d * v[0]
        rows.work[0, 2] = (v[2] - sinking) / seconds + w_n * v[1] - gravity
        _mean_specific_force(state, rows, qw, qx, qy, qz)
        note_rest(vehicle, state, scene, gravity)
    else:
        state.rest_steps = 0
    if math.isinf(vehicle.battery_capacity):
        settle(vehicle, state, rows, armed, source)
    _follow_motion(vehicle, state, state.battery_current, seconds)


@on_demand
def _fill_in(
    vehicle: Vehicle,
    state: State,
    surfaces: Surfaces,
    environment: Environment,
    controls: Floats,
    armed: int,
    rounds: int,
) -> None:
    """Write the results of a step that ended with this state, after ``rounds`` of the induced flow."""
    rows = on_stack(SCRATCH)
    _, _, density = air(environment, state.position[2])
    gravity = local_gravity(environment, state.position[0], state.position[2])
    prepare_rotors(vehicle, state, rows, density)
    look_around(vehicle, state, rows, surfaces, environment.scene, 0.0)
    read_commands(vehicle, state, rows, controls, armed)
    drive_motors(vehicle, state, rows)
    start_rotors(vehicle, state, rows)
    rows.earth_north, rows.earth_down = environment.earth_rate
    rows.standing, rows.flow_implicit = 1, 1.0
    if vehicle.rotor_law == INDUCED_LAW:
        prepare_speeds(vehicle, state, rows, 0.0)
        for _ in range(rounds):
            evaluate(vehicle, state, rows, surfaces, density, gravity)
            find_rings(state, rows, vehicle.rotor_count, 0.0)
            begin_flow(state, rows, vehicle.rotor_count, _FLOW_ROUND)
            keep_flow(state, rows, vehicle.rotor_count, _FLOW_ROUND)
    evaluate(vehicle, state, rows, surfaces, density, gravity)
    settle(vehicle, state, rows, armed, source_voltage(vehicle, state))


@compiled
def settle_start(
    vehicle: Vehicle,
    state: State,
    surfaces: Surfaces,
    environment: Environment,
    controls: Floats,
    steps: int,
) -> None:
    """Let a vehicle come to rest with its motors off, then fill in the results of its state.

    Args:
        controls: (16,) zeros.
        steps: of 4 ms, after which it need not have come to rest; 0 where nothing is to move.
    """
    quiet = 0
    for _ in range(steps):
        step_vehicle(vehicle, state, surfaces, controls, 0, environment, 0.004, 1)
        v, w = state.velocity, state.angular_velocity
        square = 0.0
        for i in range(3):
            square += v[i] * v[i] + 0.01 * w[i] * w[i]
        quiet = quiet + 1 if square < AT_REST * AT_REST else 0
        if quiet == 25:
            break
    _fill_in(vehicle, state, surfaces, environment, controls, 0, 0)


@compiled
def settle_flow(
    vehicles: Records,
    states: Records,
    surfaces: Records,
    environments: Records,
    controls: Annotated[Floats, 2],
) -> None:
    """Let the flow that turning rotors induce settle, at the motion and in the wind of the states.

    Args:
        vehicles: (n,) VEHICLE.
        states: (n,) STATE; induced velocities and the results of a step are written.
        surfaces: (n,) SURFACES.
        environments: (1,) ENVIRONMENT.
        controls: (n, 16) commands.
    """
    for i in range(vehicles.shape[0]):
        _fill_in(vehicles[i], states[i], surfaces[i], environments[0], controls[i], 1, _FLOW_ROUNDS)


def initial_state(vehicle: Packed, environment: Packed, position: Floats, yaw: float) -> Packed:
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
    state: Packed = np.zeros(1, STATE)[0]
    down, roll, pitch = float(position[2]), 0.0, 0.0
    if count and position[2] == 0.0:
        down, roll, pitch = standing_pose(vehicle, float(environment["gravity"]))
    elif count:
        down -= float(points[:, 2].max())
    state["position"] = (position[0], position[1], down)
    state["attitude"] = quaternion_from_euler(roll, pitch, yaw)
    state["rotor_health"] = 1.0
    state["vibrating"] = int(vehicle["vibration"])
    state["rotor_phase"] = GOLDEN_ANGLE * np.arange(MAX_ROTORS)
    state["battery_charge"] = float(vehicle["battery_capacity"])
    state["battery_voltage"] = float(vehicle["battery_nominal_voltage"])
    if not math.isinf(float(vehicle["battery_capacity"])):
        state["battery_voltage"] = float(vehicle["battery_ocv"][-1]) * int(vehicle["battery_cells"])
    _plant(vehicle, state)
    settle_start(vehicle, state, np.zeros(1, SURFACES)[0], environment, np.zeros(16), 0)
    return state


def _plant(vehicle: Packed, state: Packed) -> None:
    """Set the anchors of the points that are in the ground where they are."""
    rotation, position = matrix_from_quaternion(state["attitude"]), state["position"]
    points = vehicle["contact_point"]
    for k in range(int(vehicle["contact_count"])):
        north, east, down = position + rotation @ points[k]
        if down > 0.0:
            state["contact_anchor"][k] = (north, east)
            state["contact_touching"][k] = 1
            state["in_contact"] += 1


@compiled
def has_diverged(state: State) -> bool:
    """Whether a state is not finite, or beyond what any vehicle reaches."""
    total, turning = 0.0, 0.0
    for i in range(3):
        total += abs(state.position[i]) + (abs(state.velocity[i]) + abs(state.angular_velocity[i]))
        total += abs(state.wind[i])  # of a vehicle at rest, nothing else shows a wind that failed
    for i in range(4):
        turning += abs(state.attitude[i])
    speeds = 0.0
    for k in range(0, MAX_ROTORS, 2):
        speeds += abs(state.rotor_speed[k]) + abs(state.rotor_speed[k + 1])
    return not total + turning + speeds < DIVERGED_BEYOND
