"""One compiled step of n vehicles and their world: interaction, wind, motion, sensors.

``simulation.py`` owns the memory; the lockstep loop (hil/), the built-in flight stacks (autopilot/) and
replays (replay/) take the same step in loops of their own.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from sitl_bridge.base.arrays import Floats, Ints, Records
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.numba_extensions import arrays_of
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.core.dynamics.contact import rotate_to_ned
from sitl_bridge.core.dynamics.proximity import Hull, ProximityArrays, interact, note_contacts, uneven_wake
from sitl_bridge.core.dynamics.records import STATE, SURFACES, VEHICLE, State, Vehicle
from sitl_bridge.core.dynamics.step import has_diverged, step_vehicle
from sitl_bridge.core.sensors.records import SENSOR, SENSOR_STATE
from sitl_bridge.core.sensors.sample import sample_sensors
from sitl_bridge.core.world.air import air_velocity, is_uneven
from sitl_bridge.core.world.records import (
    ENVIRONMENT,
    START,
    TURBULENCE,
    WIND,
    WIND_STATE,
    TurbulenceRecord,
    WindRecord,
    WindState,
)
from sitl_bridge.core.world.scene import place_moving_shapes
from sitl_bridge.core.world.wind import carry_turbulence


class Pose(Record):
    """A vehicle's motion at one time."""

    time: int  # us
    position: Annotated[Floats, 3]  # m NED
    attitude: Annotated[Floats, 4]  # quaternion w, x, y, z, body to NED
    # m/s^2, rad/s, rad/s^2 body: specific force, angular velocity and acceleration, as of STATE
    inertial: Annotated[Floats, 9]


POSE = Pose.dtype


class History(Record):
    """The ring of a vehicle's past poses, for sensors whose samples take several steps."""

    address: int  # of (length,) POSE; 0 for none
    length: int
    count: int  # poses written so far; the next is stored at this number modulo the length


HISTORY = History.dtype


class FleetArrays(NamedTuple):
    """The memory of n vehicles and their world, as compiled functions take it.

    Python passes its ``Simulation.handles`` and the compiled function that it calls restores the names with
    ``arrays_of``.
    """

    vehicles: Annotated[Records, VEHICLE]  # (n,) VEHICLE
    states: Annotated[Records, STATE]  # (n,) STATE
    surfaces: Annotated[Records, SURFACES]  # (n,) SURFACES
    controls: Annotated[Floats, 2]  # (n, 16) actuator commands, held over a step
    late_controls: Annotated[Floats, 3]  # (n, d + 1, 16) ring of those under way to the motors
    dead_steps: Ints  # (n,) until a command acts
    armed: Ints  # (n,) 0 or 1
    environment: Annotated[Records, ENVIRONMENT]  # (1,) ENVIRONMENT
    wind: Annotated[Records, WIND]  # (1,) WIND
    turbulence: Annotated[Records, TURBULENCE]  # (1,) TURBULENCE
    wind_states: Annotated[Records, WIND_STATE]  # (n,) WIND_STATE
    wind_series: Annotated[Floats, 2]  # (k, 4) time in s and wind NED in m/s; k = 0 for none
    sensors: Annotated[Records, SENSOR, 2]  # (n, MAX_SENSORS) SENSOR
    sensor_states: Annotated[Records, SENSOR_STATE, 2]  # (n, MAX_SENSORS) SENSOR_STATE
    histories: Annotated[Records, HISTORY]  # (n,) HISTORY
    neighbours: ProximityArrays  # how vehicles act on one another


@compiled
def _remember_pose(history: History, state: State, time: int) -> None:
    """Write a vehicle's pose into its ring of poses, if it has one."""
    if history.address == 0:
        return
    pose = array_at(history.address, history.length, POSE)[history.count % history.length]
    pose.time = time
    for i in range(3):
        pose.position[i] = state.position[i]
        pose.inertial[i] = state.specific_force[i]
        pose.inertial[3 + i] = state.angular_velocity[i]
        pose.inertial[6 + i] = state.angular_acceleration[i]
    for i in range(4):
        pose.attitude[i] = state.attitude[i]
    history.count += 1


@compiled
def _gradient_reach(vehicle: Vehicle) -> float:
    """Length in m by which a vehicle averages the air, as ``turbulence`` has it; 0 without rotors.

    Two hubs 2 d apart see sin(k d)/(k d) of a wave's gradient, a disc of radius R sees 2 J1(k R)/(k R) of its
    velocity: 1 - k^2 (d^2/6 + R^2/8) of long waves.  d^2: mean square of the hubs' distance along an axis.
    """
    square, count = 0.0, vehicle.rotor_count
    for k in range(count):
        x, y, radius = vehicle.rotor_position[k, 0], vehicle.rotor_position[k, 1], vehicle.rotor_radius[k]
        square += (x * x + y * y) / 12.0 + radius * radius / 8.0
    return math.sqrt(square / count) if count > 0 else 0.0


@on_demand
def _set_uneven_air(vehicle: Vehicle, state: State, hull: Hull, memory: WindState, known: bool) -> None:
    """Set the air at each rotor beyond the vehicle's wind, and its rotation.

    Args:
        hull: HULL record of the vehicle, with the wakes of others at its rotors.
        memory: WIND_STATE record with the gradient of the air.
        known: whether it has one.
    """
    g, (qw, qx, qy, qz) = memory.gradient, state.attitude
    state.uneven_air = 1
    for k in range(vehicle.rotor_count):
        x, y, z = vehicle.rotor_position[k]
        n, e, d = rotate_to_ned(qw, qx, qy, qz, x, y, z)
        for i in range(3):
            wake = uneven_wake(hull, k, i) if state.uneven_wake != 0 else 0.0
            state.rotor_air[k, i] = wake + (g[i, 0] * n + g[i, 1] * e + g[i, 2] * d if known else 0.0)
    state.air_turn[0] = 0.5 * (g[2, 1] - g[1, 2]) if known else 0.0
    state.air_turn[1] = 0.5 * (g[0, 2] - g[2, 0]) if known else 0.0
    state.air_turn[2] = 0.5 * (g[1, 0] - g[0, 1]) if known else 0.0


@compiled
def apply_wind(
    wind: WindRecord,
    field: TurbulenceRecord,
    memory: WindState,
    series: Floats,
    vehicle: Vehicle,
    state: State,
    hull: Hull,
    time: int,
    seconds: float,
) -> None:
    """Set a vehicle's air for the coming step, at its centre and its rotors: wind, and others' downwash.

    Args:
        memory: WIND_STATE record of the vehicle.
        series: (k, 4) recorded wind.
        time: us.
        seconds: s of the step.
    """
    x, y, z = state.position
    reach = _gradient_reach(vehicle) if is_uneven(wind) else 0.0
    north, east, down = air_velocity(wind, field, memory, series, time, x, y, z, reach)
    carry_turbulence(wind, memory, series, time, seconds)
    state.wind[0] = north + state.neighbour_air[0]
    state.wind[1] = east + state.neighbour_air[1]
    state.wind[2] = down + state.neighbour_air[2]
    state.uneven_air = 0
    if reach > 0.0 or state.uneven_wake != 0:
        _set_uneven_air(vehicle, state, hull, memory, reach > 0.0)


@compiled
def _commands_that_act(fleet: FleetArrays, i: int, time: int, step: int) -> Floats:
    """Keep the commands of the step from ``time`` (us), and return those of ``dead_steps`` before."""
    ring, at = fleet.dead_steps[i] + 1, time // step
    acting: Floats = fleet.controls[i]
    if ring > 1:
        for k in range(acting.shape[0]):  # numba takes 3 s to compile the assignment of a row
            fleet.late_controls[i, at % ring, k] = acting[k]
        acting = fleet.late_controls[i, (at + 1) % ring]
    return acting


@compiled
def move_vehicle(fleet: FleetArrays, i: int, time: int, step: int, substeps: int) -> bool:
    """Advance vehicle ``i`` from ``time`` to ``time + step`` (us), without its sensors.

    Returns:
        whether its motion is still finite.
    """
    vehicle, state, environment = fleet.vehicles[i], fleet.states[i], fleet.environment[0]
    seconds = step * 1e-6
    memory, series = fleet.wind_states[i], fleet.wind_series
    wind, field, hull = fleet.wind[0], fleet.turbulence[0], fleet.neighbours.hulls[i]
    apply_wind(wind, field, memory, series, vehicle, state, hull, time, seconds)
    controls = _commands_that_act(fleet, i, time, step)
    surfaces = fleet.surfaces[i]
    step_vehicle(vehicle, state, surfaces, controls, fleet.armed[i], environment, seconds, substeps)
    if has_diverged(state):
        return False
    note_contacts(fleet.neighbours, i, vehicle, state, surfaces, environment.scene, time + step)
    _remember_pose(fleet.histories[i], state, time + step)
    return True


@compiled
def move_fleet(fleet: FleetArrays, time: int, step: int, substeps: int) -> int:
    """Advance every vehicle from ``time`` to ``time + step`` (us), without its sensors.

    A vehicle depends on the others only through collisions and downwash.  With both off, its bytes are the
    same alone and among others.

    Args:
        time: us at the start of the step.
        step: us.
        substeps: integration steps within the step.

    Returns:
        -1, or the first vehicle whose motion diverged; those after it are not advanced.
    """
    vehicles, states, environment = fleet.vehicles, fleet.states, fleet.environment[0]
    proximity = fleet.neighbours.proximity[0]
    seconds = step * 1e-6
    if environment.scene.moving_first < environment.scene.shape_count:
        place_moving_shapes(environment.scene, (time - START) * 1e-6)
    if vehicles.shape[0] > 1 and (proximity.collisions != 0 or proximity.downwash != 0):
        interact(fleet.neighbours, vehicles, states, environment, time, seconds)
    for i in range(vehicles.shape[0]):
        if not move_vehicle(fleet, i, time, step, substeps):
            return i
    return -1


@compiled
def sample_vehicle(fleet: FleetArrays, i: int, time: int, step: int) -> None:
    """Sample the sensors of vehicle ``i`` at ``time`` (us), the end of a step.

    That depends on no other vehicle's sensors, so a vehicle's frame may be sent before the next is sampled.
    """
    state, sensors, memories = fleet.states[i], fleet.sensors[i], fleet.sensor_states[i]
    sample_sensors(fleet.vehicles[i], state, fleet.environment[0], sensors, memories, time, step)


@compiled
def advance_fleet(fleet: FleetArrays, time: int, step: int, substeps: int) -> int:
    """Advance every vehicle from ``time`` to ``time + step`` (us) and sample its sensors there.

    Arguments and result as of ``move_fleet``; where a vehicle diverged, no sensor is sampled.
    """
    diverged = move_fleet(fleet, time, step, substeps)
    if diverged < 0:
        for i in range(fleet.states.shape[0]):
            sample_vehicle(fleet, i, time + step, step)
    return diverged


@compiled
def advance_steps(handles: Ints, time: int, step: int, substeps: int, count: int) -> tuple[int, int]:
    """Take ``count`` steps of all vehicles.

    Returns:
        steps taken, and -1 or the vehicle that diverged in the next one.
    """
    fleet = arrays_of(handles, FleetArrays)
    for k in range(count):
        diverged = advance_fleet(fleet, time + k * step, step, substeps)
        if diverged >= 0:
            return k, diverged
    return count, -1


@compiled
def advance_block(
    handles: Ints, first: int, last: int, time: int, step: int, substeps: int, count: int
) -> tuple[int, int]:
    """Take ``count`` steps of independent vehicles ``first`` to ``last - 1``, one vehicle after the other.

    A vehicle's records stay in the processor's cache over all its steps.  Returns as ``advance_steps``.
    """
    fleet = arrays_of(handles, FleetArrays)
    taken, diverged = count, -1
    for i in range(first, last):
        for k in range(taken):
            now = time + k * step
            if not move_vehicle(fleet, i, now, step, substeps):
                taken, diverged = k, i
                break
            sample_vehicle(fleet, i, now + step, step)
    return taken, diverged
