"""The compiled step of a batch of vehicles: action, controller, wind, motion, sensors, observation.

A vehicle's part of the observation is written while its state is at hand.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sitl_bridge.autopilot.control.allocation import allocate
from sitl_bridge.autopilot.control.dispatch import control
from sitl_bridge.autopilot.records import LEVEL_ATTITUDE, LEVEL_RATES, TRAJECTORY
from sitl_bridge.base.kernels.array_at import array_at, arrays_of
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.rotations import write_quaternion
from sitl_bridge.core.dynamics.proximity import interact
from sitl_bridge.core.dynamics.rotor import lay_out_rotors
from sitl_bridge.core.dynamics.step import advance_laid_out, has_diverged
from sitl_bridge.core.sensors.records import GPS
from sitl_bridge.core.sensors.sample import sample_sensors
from sitl_bridge.core.world.records import START
from sitl_bridge.core.world.wind import carry_turbulence
from sitl_bridge.core.world.wind_shadow import air_velocity
from sitl_bridge.lab.environments.batch_arrays import BatchArrays
from sitl_bridge.lab.environments.batch_memory import bring_figures, bring_motion, keep_motion, write_truth
from sitl_bridge.lab.environments.observation_figures import bounded
from sitl_bridge.lab.environments.records import (
    ATTITUDE,
    COLLIDED,
    DIVERGED,
    MOTORS,
    ON_GROUND,
    RATES,
)


@compiled
def _load(b: Any, block: int, i: int) -> None:
    """Bring a vehicle into a block's records."""
    batch = b.batch[0]
    bring_motion(b, block, i)
    first = batch.controller_first
    for k in range(b.memories.shape[1]):
        b.controller_words[block, first + k] = b.memories[i, k]
    if batch.varied != 0:
        bring_figures(b, block, i)


@compiled
def _store(b: Any, block: int, i: int) -> None:
    """Keep what lasts of a vehicle in a block's records."""
    keep_motion(b, block, i)
    first = b.batch[0].controller_first
    for k in range(b.memories.shape[1]):
        b.memories[i, k] = b.controller_words[block, first + k]


@compiled
def _take(b: Any, i: int) -> None:
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
def _set(b: Any, block: int, i: int) -> None:
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
def _steer(b: Any, block: int, i: int, seconds: float) -> None:
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
def _advance(b: Any, block: int, i: int, armed: int) -> bool:
    """Take one step of a vehicle in a block's records; False where its motion diverged."""
    batch, state, vehicle, environment = b.batch[0], b.states[block], b.vehicles[block], b.environment[0]
    seconds, time = batch.step * 1e-6, START + b.clocks[i]
    if batch.level != MOTORS:
        _steer(b, block, i, seconds)
    north, east, down = 0.0, 0.0, 0.0
    if batch.still == 0:
        wind, field, memory = b.winds[block], b.turbulence[0], b.wind_states[i]
        x, y, z = state.position
        north, east, down = air_velocity(environment, wind, field, memory, b.series, time, x, y, z)
        carry_turbulence(wind, memory, b.series, time, seconds)
    state.wind[0] = north + state.neighbour_air[0]
    state.wind[1] = east + state.neighbour_air[1]
    state.wind[2] = down + state.neighbour_air[2]
    advance_laid_out(vehicle, state, b.controls[i], armed, environment, seconds, 1)
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
def _write_seen(b: Any, i: int) -> None:
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
def _end(b: Any, block: int, i: int) -> None:
    """Keep a vehicle's state at the end of an action, and put out what is seen of it."""
    if (b.events[i] & DIVERGED) != 0:
        return  # the last good state stays
    if b.states[block].in_contact > 0:
        b.events[i] |= ON_GROUND
    _store(b, block, i)
    write_truth(b, block, i)
    _write_seen(b, i)


@compiled
def _observe(b: Any, i: int, figures: Any) -> None:
    """Write a vehicle's true state, or what its sensors see, into its observation."""
    seen = b.seen[i] if b.seen.shape[1] > 0 else b.truth[i]
    for k in range(seen.shape[0]):
        figures[k] = bounded(seen[k])


@compiled
def fly_together(handles: Any, n: int, skipped: Any, count: int, time: int) -> None:
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
    handles: Any,
    block: int,
    first: int,
    last: int,
    skipped: Any,
    observations: Any,
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
def observe_batch(handles: Any, chosen: Any, observations: Any) -> None:
    """Write the first figures of the observations (n, k) float32 of the chosen vehicles, (n,) uint8."""
    b = arrays_of(handles, BatchArrays)
    for i in range(chosen.shape[0]):
        if chosen[i] != 0:
            _observe(b, i, observations[i])
