"""Vehicles at rest: motors stopped, standing on the ground or on a shape at rest, no load that changes.

Their integration is skipped until a motor, a load, the wind or a change of the state from outside ends the
rest.  Sensors and battery go on.
"""

from __future__ import annotations

from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.dynamics.contact import rotated
from sitl_bridge.core.dynamics.records import State, Vehicle
from sitl_bridge.core.world.records import SceneRecord

REST_STEPS = 25
"""Steps in a row without motion before a vehicle rests."""
REST_SPEED = 1e-4
"""m/s, and a tenth of the rad/s, below which a vehicle does not move: 0.1 % of a GNSS receiver's noise."""
STOPPED_ROTOR = 1e-2
"""rad/s below which a rotor without drive stands."""
WIND_SHARE = 1e-3
"""Change of the wind's force, over the weight, that ends a rest."""


@compiled
def _loaded(vehicle: Vehicle, state: State) -> bool:
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
    if state.rest_steps < REST_STEPS or state.rest_mass != vehicle.mass or _loaded(vehicle, state):
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
    if moving or scene.moving_first < scene.shape_count or _loaded(vehicle, state):
        state.rest_steps = 0
        return
    state.rest_steps += 1
    if state.rest_steps < REST_STEPS:
        return
    q, f = state.attitude, state.specific_force
    f[0], f[1], f[2] = rotated(q[0], -q[1], -q[2], -q[3], 0.0, 0.0, -gravity)
    for i in range(3):
        v[i], w[i] = 0.0, 0.0
        state.angular_acceleration[i] = 0.0
        state.rest_position[i], state.rest_wind[i] = state.position[i], state.wind[i]
    for i in range(4):
        state.rest_attitude[i] = q[i]
    for k in range(vehicle.rotor_count):
        state.rotor_speed[k], state.rotor_thrust[k], state.rotor_torque[k] = 0.0, 0.0, 0.0
    state.rest_mass = vehicle.mass
