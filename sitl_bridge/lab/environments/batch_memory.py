"""What a vehicle of a batch remembers: copied into the records of a block before a flight, and out after it.

Records of a vehicle are large, and most of their fields are constants or scratch.  So each block of vehicles
has one set of records to work on, and only what lasts is kept for each vehicle.  Without that, 10,000
vehicles spend two thirds of their time waiting for memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.sensors.records import MAX_AXES
from sitl_bridge.lab.environments.records import TRUTH_SIZE


@compiled
def keep_motion(b: Any, block: int, i: int) -> None:
    """Copy what lasts of the state in a block's records into a vehicle's memory."""
    words, kept, index, state = b.state_words[block], b.motions[i], b.motion_words, b.states[block]
    n = np.uintp(index.shape[0])  # without a sign, numba does not look for indices from the end
    for k in range(n):
        kept[k] = words[index[k]]
    grounded = state.in_contact != 0 or state.rest_steps != 0
    kept[n] = 1 if grounded else 0
    if grounded:
        for g in range(b.ground_words.shape[0]):
            b.grounds[i, g] = words[b.ground_words[g]]


@compiled
def bring_motion(b: Any, block: int, i: int) -> None:
    """Copy a vehicle's memory into the state in a block's records."""
    words, kept, index, state = b.state_words[block], b.motions[i], b.motion_words, b.states[block]
    n = np.uintp(index.shape[0])
    for k in range(n):
        words[index[k]] = kept[k]
    if b.ground_words.shape[0] == 0:
        return
    if kept[n] != 0:
        for g in range(b.ground_words.shape[0]):
            words[b.ground_words[g]] = b.grounds[i, g]
    elif state.in_contact != 0 or state.rest_steps != 0:  # of the vehicle before
        state.in_contact = state.rest_steps = 0
        for point in range(state.contact_touching.shape[0]):
            state.contact_touching[point] = 0


@compiled
def scale_errors(sensor: Any, fresh: Any, factor: float) -> None:
    """Set the errors of a sensor to those of another, times a factor."""
    for axis in range(MAX_AXES):
        sensor.noise[axis] = fresh.noise[axis] * factor
        sensor.bias_start[axis] = fresh.bias_start[axis] * factor
        sensor.bias_step[axis] = fresh.bias_step[axis] * factor
        sensor.turn_on_sigma[axis] = fresh.turn_on_sigma[axis] * factor


@compiled
def bring_figures(b: Any, block: int, i: int) -> None:
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
        scale_errors(b.sensors[block, k], b.fresh_sensors[k], e.noise)


@compiled
def write_truth(b: Any, block: int, i: int) -> None:
    """The true state in a block's records, with the attitude's w of 0 or more."""
    state, truth = b.states[block], b.truth[i]
    side = -1.0 if state.attitude[0] < 0.0 else 1.0
    for axis in range(3):
        truth[axis] = state.position[axis]
        truth[3 + axis] = state.velocity[axis]
        truth[TRUTH_SIZE - 3 + axis] = state.angular_velocity[axis]
    for k in range(4):
        truth[6 + k] = side * state.attitude[k]
