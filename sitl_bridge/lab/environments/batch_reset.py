"""The compiled reset of a batch of vehicles: what an episode draws, and the state that it starts from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sitl_bridge.base.kernels.array_at import arrays_of
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import uniform
from sitl_bridge.core.sensors.sample import begin_sensor
from sitl_bridge.core.world.records import START
from sitl_bridge.core.world.turbulence import EPISODES_APART
from sitl_bridge.lab.environments.batch_arrays import BatchArrays
from sitl_bridge.lab.environments.batch_memory import bring_figures, keep_motion, scale_errors, write_truth
from sitl_bridge.lab.environments.records import MOTORS


@compiled
def _between(random: Any, limits: Any) -> float:
    """A uniform number between two limits; the stream advances in any case."""
    return limits[0] + (limits[1] - limits[0]) * uniform(random)


@compiled
def _turned(q: Any, yaw: float, tilt: float, towards: float) -> None:
    """Turn an upright attitude (4,) by a tilt towards a direction, then by a yaw, all in rad."""
    c, s = math.cos(0.5 * tilt), math.sin(0.5 * tilt)
    x, y = s * math.cos(towards), s * math.sin(towards)
    cy, sy = math.cos(0.5 * yaw), math.sin(0.5 * yaw)
    q[0], q[1], q[2], q[3] = cy * c, cy * x - sy * y, cy * y + sy * x, sy * c


@compiled
def _draw_airframe(b: Any, i: int) -> None:
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
def _draw_start(b: Any, i: int) -> None:
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
def _word(random: Any) -> Any:
    """64 bits from a stream, of which another is seeded."""
    high = np.uint64(uniform(random) * 4294967296.0)
    low = np.uint64(uniform(random) * 4294967296.0)
    return (high << np.uint64(32)) | low | np.uint64(1)


@compiled
def _reset_vehicle(b: Any, i: int) -> None:
    """Begin an episode of a vehicle: everything is drawn from its own stream."""
    batch, random = b.batch[0], b.randoms[i]
    for k in range(batch.state_words):
        b.state_words[0, k] = b.fresh_state[0, k]
    _draw_airframe(b, i)
    _draw_start(b, i)
    keep_motion(b, 0, i)
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
        scale_errors(b.sensors[0, k], b.fresh_sensors[k], b.episodes[i].noise)
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
            bring_figures(b, block, i)
    write_truth(b, 0, i)
    for k in range(b.seen.shape[1]):
        b.seen[i, k] = 0.0


@compiled
def reset_batch(handles: Any, chosen: Any) -> None:
    """Begin new episodes of the chosen vehicles, (n,) uint8."""
    b = arrays_of(handles, BatchArrays)
    for i in range(chosen.shape[0]):
        if chosen[i] != 0:
            _reset_vehicle(b, i)
