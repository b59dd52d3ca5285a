"""Memory, reset and step of a batch of vehicles: action, controller, wind, motion, sensors, observation.

Records of a vehicle are large, and most of their fields are constants or scratch.  So each block of vehicles
has one set of records to work on; what lasts of a vehicle is copied into them before its steps, and out after
them.  Without that, 10,000 vehicles spend two thirds of their time waiting for memory.  A vehicle's part of
the observation is written while its state is at hand.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from sitl_bridge.autopilot.control.allocation import allocate
from sitl_bridge.autopilot.control.dispatch import control
from sitl_bridge.autopilot.control.records import CONTROLLER
from sitl_bridge.autopilot.records import (
    ALLOCATION,
    ESTIMATE,
    LEVEL_ATTITUDE,
    LEVEL_RATES,
    SETPOINT,
    TRAJECTORY,
    WRENCH,
)
from sitl_bridge.base.arrays import Bytes, Floats, Ints, Records, Singles, Words
from sitl_bridge.base.kernels.array_at import array_at, arrays_of
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import uniform
from sitl_bridge.base.kernels.rotations import write_quaternion
from sitl_bridge.core.dynamics.proximity import ProximityArrays, interact
from sitl_bridge.core.dynamics.records import STATE, VEHICLE
from sitl_bridge.core.dynamics.rotor import lay_out_rotors
from sitl_bridge.core.dynamics.step import has_diverged, step_vehicle
from sitl_bridge.core.sensors.gps import GPS
from sitl_bridge.core.sensors.records import MAX_AXES, SENSOR, SENSOR_STATE, Sensor
from sitl_bridge.core.sensors.sample import begin_sensor, sample_sensors
from sitl_bridge.core.simulation.fleet_step import apply_wind
from sitl_bridge.core.world.records import ENVIRONMENT, START, TURBULENCE, WIND, WIND_STATE
from sitl_bridge.core.world.turbulence import EPISODES_APART
from sitl_bridge.lab.environments.records import (
    ATTITUDE,
    BATCH,
    COLLIDED,
    DIVERGED,
    EPISODE,
    MOTORS,
    ON_GROUND,
    RATES,
    RESET,
    SLOT,
    TRUTH_SIZE,
)
from sitl_bridge.lab.environments.spaces import bounded


class BatchArrays(NamedTuple):
    """The memory of n vehicles in b blocks."""

    batch: Annotated[Records, BATCH]  # (1,) BATCH
    reset: Annotated[Records, RESET]  # (1,) RESET
    vehicles: Annotated[Records, VEHICLE]  # (b,) VEHICLE to work on
    states: Annotated[Records, STATE]  # (b,) STATE to work on
    state_words: Annotated[Ints, 2]  # the same memory as (b, words) int64
    controllers: Annotated[Records, CONTROLLER]  # (b,) CONTROLLER to work on
    controller_words: Annotated[Ints, 2]  # the same memory
    allocations: Annotated[Records, ALLOCATION]  # (b,) ALLOCATION to work on
    setpoints: Annotated[Records, SETPOINT]  # (b,) SETPOINT to work on
    estimates: Annotated[Records, ESTIMATE]  # (b,) ESTIMATE to work on
    winds: Annotated[Records, WIND]  # (b,) WIND to work on
    sensors: Annotated[Records, SENSOR, 2]  # (b, s) SENSOR to work on
    fresh_vehicle: Annotated[Records, VEHICLE]  # (1,) VEHICLE as the airframe has it
    fresh_state: Annotated[Ints, 2]  # (1, words) STATE at the start
    fresh_controller: Annotated[Ints, 2]  # (1, words) CONTROLLER at the start
    fresh_sensors: Annotated[Records, SENSOR]  # (s,) SENSOR
    environment: Annotated[Records, ENVIRONMENT]  # (1,) ENVIRONMENT
    turbulence: Annotated[Records, TURBULENCE]  # (1,) TURBULENCE
    series: Annotated[Floats, 2]  # (k, 4) recorded wind
    places: Annotated[Floats, 2]  # (n, 3) m NED of each vehicle's start
    randoms: Annotated[Words, 2]  # (n, 4) random stream of each vehicle
    episodes: Annotated[Records, EPISODE]  # (n,) EPISODE
    clocks: Ints  # (n,) us since the start of the episode
    events: Bytes  # (n,) uint8, of the last action
    # (n, a + 1) words of a STATE that last, and whether the ground's words last as well
    motions: Annotated[Ints, 2]
    grounds: Annotated[Ints, 2]  # (n, g) words of a STATE that last on the ground alone
    memories: Annotated[Ints, 2]  # (n, words) what lasts of a CONTROLLER
    wrenches: Annotated[Records, WRENCH]  # (n,) WRENCH
    wind_states: Annotated[Records, WIND_STATE]  # (n,) WIND_STATE
    sensor_states: Annotated[Records, SENSOR_STATE, 2]  # (n, s) SENSOR_STATE
    actions: Annotated[Floats, 2]  # (n, k) within their limits
    limits: Annotated[Floats, 2]  # (2, k) least and greatest action
    # (n, rotors) motor commands of the last step; the actions where these are motor commands
    controls: Annotated[Floats, 2]
    truth: Annotated[Floats, 2]  # (n, 13)
    seen: Annotated[Floats, 2]  # (n, k) figures of sensors
    slots: Annotated[Records, SLOT]  # (k,) SLOT
    draws: Annotated[Floats, 2]  # (n, k) uniform random numbers of the present episode
    neighbours: ProximityArrays  # how vehicles act on one another, in a fleet


@compiled
def _keep_motion(b: BatchArrays, block: int, i: int) -> None:
    """Copy what lasts of the state in a block's records into a vehicle's memory."""
    words, kept, batch, state = b.state_words[block], b.motions[i], b.batch[0], b.states[block]
    n = np.uintp(batch.flying_words)  # without a sign, numba does not look for indices from the end
    for k in range(n):
        kept[k] = words[k]
    grounded = state.in_contact != 0 or state.rest_steps != 0
    kept[n] = 1 if grounded else 0
    if grounded:
        first = np.uintp(batch.ground_first)
        for g in range(np.uintp(b.grounds.shape[1])):
            b.grounds[i, g] = words[first + g]


@compiled
def _bring_motion(b: BatchArrays, block: int, i: int) -> None:
    """Copy a vehicle's memory into the state in a block's records."""
    words, kept, batch, state = b.state_words[block], b.motions[i], b.batch[0], b.states[block]
    n = np.uintp(batch.flying_words)
    for k in range(n):
        words[k] = kept[k]
    if b.grounds.shape[1] == 0:
        return
    if kept[n] != 0:
        first = np.uintp(batch.ground_first)
        for g in range(np.uintp(b.grounds.shape[1])):
            words[first + g] = b.grounds[i, g]
    elif state.in_contact != 0 or state.rest_steps != 0:  # of the vehicle before
        state.in_contact = state.rest_steps = 0
        for point in range(state.contact_touching.shape[0]):
            state.contact_touching[point] = 0


@compiled
def _scale_errors(sensor: Sensor, fresh: Sensor, factor: float) -> None:
    """Set the errors of a sensor to those of another, times a factor."""
    for axis in range(MAX_AXES):
        sensor.noise[axis] = fresh.noise[axis] * factor
        sensor.bias_start[axis] = fresh.bias_start[axis] * factor
        sensor.bias_step[axis] = fresh.bias_step[axis] * factor
        sensor.turn_on_sigma[axis] = fresh.turn_on_sigma[axis] * factor


@compiled
def _bring_figures(b: BatchArrays, block: int, i: int) -> None:
    """Copy what a vehicle drew for its airframe, air and sensors into a block's records."""
    e, vehicle, wind = b.episodes[i], b.vehicles[block], b.winds[block]
    vehicle.mass = e.mass
    for r in range(3):
        for c in range(3):
            vehicle.inertia[r, c] = e.inertia[r, c]
            vehicle.inertia_inverse[r, c] = e.inertia_inverse[r, c]
        vehicle.drag_force[r] = e.drag_force[r]
        wind.steady[r] = e.wind[r]
    vehicle.motor_tau_up, vehicle.motor_tau_down = e.motor_tau_up, e.motor_tau_down
    wind.dryden_speed_20ft = e.turbulence
    for k in range(b.fresh_sensors.shape[0]):
        _scale_errors(b.sensors[block, k], b.fresh_sensors[k], e.noise)


@compiled
def _write_truth(b: BatchArrays, block: int, i: int) -> None:
    """The true state in a block's records, with the attitude's w of 0 or more."""
    state, truth = b.states[block], b.truth[i]
    side = -1.0 if state.attitude[0] < 0.0 else 1.0
    for axis in range(3):
        truth[axis] = state.position[axis]
        truth[3 + axis] = state.velocity[axis]
        truth[TRUTH_SIZE - 3 + axis] = state.angular_velocity[axis]
    for k in range(4):
        truth[6 + k] = side * state.attitude[k]


@compiled
def _between(random: Words, limits: Floats) -> float:
    """A uniform number between two limits; the stream advances in any case."""
    return limits[0] + (limits[1] - limits[0]) * uniform(random)


@compiled
def _turned(q: Floats, yaw: float, tilt: float, towards: float) -> None:
    """Turn an upright attitude (4,) by a tilt towards a direction, then by a yaw, all in rad."""
    c, s = math.cos(0.5 * tilt), math.sin(0.5 * tilt)
    x, y = s * math.cos(towards), s * math.sin(towards)
    cy, sy = math.cos(0.5 * yaw), math.sin(0.5 * yaw)
    q[0], q[1], q[2], q[3] = cy * c, cy * x - sy * y, cy * y + sy * x, sy * c


@compiled
def _draw_airframe(b: BatchArrays, i: int) -> None:
    """Draw the figures of a vehicle for an episode."""
    random, limits, e, fresh = b.randoms[i], b.reset[0], b.episodes[i], b.fresh_vehicle[0]
    mass = _between(random, limits.mass)
    inertia = mass * _between(random, limits.inertia)
    e.mass = fresh.mass * mass
    for r in range(3):
        for c in range(3):
            e.inertia[r, c] = fresh.inertia[r, c] * inertia
            e.inertia_inverse[r, c] = fresh.inertia_inverse[r, c] / inertia
    motor = _between(random, limits.motor)
    e.motor_tau_up, e.motor_tau_down = fresh.motor_tau_up * motor, fresh.motor_tau_down * motor
    drag = _between(random, limits.drag)
    for r in range(3):
        e.drag_force[r] = fresh.drag_force[r] * drag
    for k in range(e.rotor_health.shape[0]):
        e.rotor_health[k] = _between(random, limits.rotor) if k < fresh.rotor_count else 1.0
    e.noise = _between(random, limits.noise)
    speed, direction = _between(random, limits.wind), 2.0 * math.pi * uniform(random)
    steady = b.batch[0].wind
    e.wind[0], e.wind[1] = steady[0] + speed * math.cos(direction), steady[1] + speed * math.sin(direction)
    e.wind[2] = steady[2]
    e.turbulence = b.batch[0].turbulence + _between(random, limits.turbulence)
    b.clocks[i], b.events[i] = 0, 0


@compiled
def _draw_start(b: BatchArrays, i: int) -> None:
    """Draw the state that a vehicle starts from, into the first block's records."""
    random, limits, state = b.randoms[i], b.reset[0], b.states[0]
    for axis in range(3):
        low, high = limits.position[0, axis], limits.position[1, axis]
        state.position[axis] += b.places[i, axis] + low + (high - low) * uniform(random)
        state.velocity[axis] = limits.speed * (2.0 * uniform(random) - 1.0)
        state.angular_velocity[axis] = limits.rate * (2.0 * uniform(random) - 1.0)
    yaw, tilt = _between(random, limits.yaw), limits.tilt * uniform(random)
    towards = 2.0 * math.pi * uniform(random)
    if yaw != 0.0 or tilt != 0.0:
        _turned(state.attitude, yaw, tilt, towards)
    for k in range(b.episodes[i].rotor_health.shape[0]):
        state.rotor_health[k] = b.episodes[i].rotor_health[k]


@compiled
def _word(random: Words) -> Any:
    """64 bits from a stream, of which another is seeded."""
    high = np.uint64(uniform(random) * 4294967296.0)
    low = np.uint64(uniform(random) * 4294967296.0)
    return (high << np.uint64(32)) | low | np.uint64(1)


@compiled
def _reset_vehicle(b: BatchArrays, i: int) -> None:
    """Begin an episode of a vehicle: everything is drawn from its own stream."""
    batch, random = b.batch[0], b.randoms[i]
    for k in range(batch.state_words):
        b.state_words[0, k] = b.fresh_state[0, k]
    _draw_airframe(b, i)
    _draw_start(b, i)
    _keep_motion(b, 0, i)
    for k in range(b.memories.shape[1]):
        b.memories[i, k] = b.fresh_controller[0, batch.controller_first + k]
    wrench = b.wrenches[i]
    wrench.thrust = wrench.unmet_thrust = 0.0
    for axis in range(3):
        wrench.moment[axis] = wrench.unmet_moment[axis] = 0.0
    air = b.wind_states[i]
    for axis in range(2):  # a place in the field of turbulence of its own
        air.shift[axis] = EPISODES_APART * (2.0 * uniform(random) - 1.0)
        air.carried[axis] = 0.0
    for k in range(b.fresh_sensors.shape[0]):
        _scale_errors(b.sensors[0, k], b.fresh_sensors[k], b.episodes[i].noise)
        memory = b.sensor_states[i, k]
        for word in range(4):
            memory.random[word] = _word(random)
        begin_sensor(b.sensors[0, k], memory, START)
    for k in range(b.draws.shape[1]):
        b.draws[i, k] = uniform(random)
    if batch.level != MOTORS:
        for k in range(b.controls.shape[1]):
            b.controls[i, k] = 0.0
    if batch.varied == 0:  # the same for all, so the records always hold it
        for block in range(b.vehicles.shape[0]):
            _bring_figures(b, block, i)
    _write_truth(b, 0, i)
    for k in range(b.seen.shape[1]):
        b.seen[i, k] = 0.0


@compiled
def reset_batch(handles: Ints, chosen: Bytes) -> None:
    """Begin new episodes of the chosen vehicles, (n,) uint8."""
    b = arrays_of(handles, BatchArrays)
    for i in range(chosen.shape[0]):
        if chosen[i] != 0:
            _reset_vehicle(b, i)


@compiled
def _load(b: BatchArrays, block: int, i: int) -> None:
    batch = b.batch[0]
    _bring_motion(b, block, i)
    first = batch.controller_first
    for k in range(b.memories.shape[1]):
        b.controller_words[block, first + k] = b.memories[i, k]
    if batch.varied != 0:
        _bring_figures(b, block, i)


@compiled
def _take(b: BatchArrays, i: int) -> None:
    """Take a vehicle's action within the limits, of which each counts where it is exceeded."""
    batch, actions, limits = b.batch[0], b.actions, b.limits
    n, size = actions.shape
    doubles = array_at(batch.given, n * size, np.float64)
    singles = array_at(batch.given, n * size, np.float32)
    at = np.uintp(i * size)
    for k in range(np.uintp(size)):
        figure = float(singles[at + k]) if batch.single != 0 else doubles[at + k]
        figure = figure if figure > limits[0, k] else limits[0, k]
        actions[i, k] = figure if figure < limits[1, k] else limits[1, k]


@compiled
def _set(b: BatchArrays, block: int, i: int) -> None:
    """Turn an action into a setpoint; motor commands are taken as they are."""
    batch, setpoint, action = b.batch[0], b.setpoints[block], b.actions[i]
    if batch.level == MOTORS:
        return
    if batch.level == RATES:
        setpoint.level, setpoint.thrust = LEVEL_RATES, action[0]
        for axis in range(3):
            setpoint.angular_velocity[axis] = action[1 + axis]
    elif batch.level == ATTITUDE:
        setpoint.level, setpoint.thrust, setpoint.yaw_rate = LEVEL_ATTITUDE, action[0], 0.0
        write_quaternion(setpoint.attitude, action[1], action[2], action[3])
    else:
        setpoint.level, setpoint.yaw, setpoint.yaw_rate = TRAJECTORY, action[3], math.nan
        setpoint.max_tilt = batch.max_tilt
        for axis in range(3):
            setpoint.position[axis] = setpoint.acceleration[axis] = math.nan
            setpoint.velocity[axis] = action[axis]


@compiled
def _steer(b: BatchArrays, block: int, i: int, seconds: float) -> None:
    """From setpoint and true state to motor commands, as the built-in stack does with its estimate."""
    state, estimate, setpoint = b.states[block], b.estimates[block], b.setpoints[block]
    for k in range(4):
        estimate.attitude[k] = state.attitude[k]
    for axis in range(3):
        estimate.position[axis] = state.position[axis]
        estimate.velocity[axis] = state.velocity[axis]
        estimate.angular_velocity[axis] = state.angular_velocity[axis]
    control(b.controllers[block], estimate, setpoint, seconds, b.wrenches[i])
    allocate(b.allocations[block], b.wrenches[i], setpoint.level, b.controls[i])


@compiled
def _advance(b: BatchArrays, block: int, i: int, armed: int) -> bool:
    """Take one step of a vehicle in a block's records; False where its motion diverged."""
    batch, state, vehicle, environment = b.batch[0], b.states[block], b.vehicles[block], b.environment[0]
    seconds, time = batch.step * 1e-6, START + b.clocks[i]
    if batch.level != MOTORS:
        _steer(b, block, i, seconds)
    if batch.still == 0 or state.uneven_wake != 0:
        wind, field, memory = b.winds[block], b.turbulence[0], b.wind_states[i]
        apply_wind(wind, field, memory, b.series, vehicle, state, time, seconds)
    else:
        state.uneven_air = 0
        for axis in range(3):
            state.wind[axis] = state.neighbour_air[axis]
    step_vehicle(vehicle, state, b.controls[i], armed, environment, seconds, 1, 1)
    b.clocks[i] += batch.step
    if has_diverged(state):
        b.events[i] |= DIVERGED
        return False
    if state.hit_speed >= 0.0:
        b.events[i] |= COLLIDED
    if b.fresh_sensors.shape[0] > 0:
        sample_sensors(
            vehicle, state, environment, b.sensors[block], b.sensor_states[i], time + batch.step, batch.step
        )
    return True


@compiled
def _write_seen(b: BatchArrays, i: int) -> None:
    """The last samples of a vehicle's sensors; 0 before the first."""
    environment, batch = b.environment[0], b.batch[0]
    at = 0
    for k in range(b.slots.shape[0]):
        slot = b.slots[k]
        memory = b.sensor_states[i, slot.sensor]
        for j in range(slot.size):
            value = memory.values[slot.first + j]
            if slot.kind == GPS and slot.first == 0:
                if j == 0:
                    value = (value - environment.latitude) * batch.meridian
                elif j == 1:
                    value = (value - environment.longitude) * batch.parallel
                else:
                    value = environment.height - value
            if memory.time > 0 and math.isfinite(value):
                b.seen[i, at] = value * slot.factor
            at += 1


@compiled
def _end(b: BatchArrays, block: int, i: int) -> None:
    """Keep a vehicle's state at the end of an action, and put out what is seen of it."""
    if (b.events[i] & DIVERGED) != 0:
        return  # the last good state stays
    if b.states[block].in_contact > 0:
        b.events[i] |= ON_GROUND
    _keep_motion(b, block, i)
    first = b.batch[0].controller_first
    for k in range(b.memories.shape[1]):
        b.memories[i, k] = b.controller_words[block, first + k]
    _write_truth(b, block, i)
    _write_seen(b, i)


@compiled
def _observe(b: BatchArrays, i: int, figures: Singles) -> None:
    """Write a vehicle's true state, or what its sensors see, into its observation."""
    seen = b.seen[i] if b.seen.shape[1] > 0 else b.truth[i]
    for k in range(seen.shape[0]):
        figures[k] = bounded(seen[k])


@compiled
def fly_together(handles: Ints, n: int, skipped: Bytes, count: int, time: int) -> None:
    """Fly vehicles of one world for ``count`` steps, with contact and downwash; each is a block of its own.

    Args:
        handles: of ``BatchArrays``.
        n: number of vehicles.
        skipped: (n,) uint8, 1 for vehicles that fall with motors off.
        count: of steps.
        time: us of simulated time in that world.
    """
    b = arrays_of(handles, BatchArrays)
    batch, environment = b.batch[0], b.environment[0]
    proximity, collisions = b.neighbours.proximity[0], b.neighbours.collisions
    for i in range(n):
        b.events[i] = 0
        lay_out_rotors(b.vehicles[i], b.states[i])
        _load(b, i, i)
        _take(b, i)
        _set(b, i, i)
    for k in range(count):
        proximity.count = 0
        interact(b.neighbours, b.vehicles, b.states, environment, time + k * batch.step, batch.step * 1e-6)
        for row in range(min(proximity.count, collisions.shape[0])):
            for side in range(2):
                b.events[collisions[row].vehicle[side]] |= COLLIDED
        for i in range(n):
            if (b.events[i] & DIVERGED) == 0:
                _advance(b, i, i, 1 - skipped[i])
    for i in range(n):
        _end(b, i, i)


@compiled
def fly_block(
    handles: Ints,
    block: int,
    first: int,
    last: int,
    skipped: Bytes,
    observations: Singles,
    count: int,
) -> None:
    """Fly the vehicles of a block for ``count`` steps with their actions.

    Args:
        handles: of ``BatchArrays``.
        block: whose records are worked on.
        first: index of its first vehicle.
        last: of its last vehicle, plus 1.
        skipped: (n,) uint8, 1 for vehicles that do not fly.
        observations: (n, k) float32, whose first figures are written; (0, 0) for none.
        count: of steps.
    """
    b = arrays_of(handles, BatchArrays)
    lay_out_rotors(b.vehicles[block], b.states[block])
    for i in range(first, last):
        _take(b, i)
        if skipped[i] == 0:
            b.events[i] = 0
            _load(b, block, i)
            _set(b, block, i)
            for _ in range(count):
                if not _advance(b, block, i, 1):
                    break
            _end(b, block, i)
        if observations.shape[0] > 0:
            _observe(b, i, observations[i])


@compiled
def observe_batch(handles: Ints, chosen: Bytes, observations: Singles) -> None:
    """Write the first figures of the observations (n, k) float32 of the chosen vehicles, (n,) uint8."""
    b = arrays_of(handles, BatchArrays)
    for i in range(chosen.shape[0]):
        if chosen[i] != 0:
            _observe(b, i, observations[i])
