"""Place and motion of a sensor in the world, and the distance of what it looks at."""

from __future__ import annotations

from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.numba_extensions import on_stack
from sitl_bridge.base.kernels.rotations import to_ned
from sitl_bridge.core.dynamics.records import State
from sitl_bridge.core.sensors.records import Sensor
from sitl_bridge.core.world.ray_casting import RAYS, cast_ray
from sitl_bridge.core.world.records import SceneRecord

REACH = 1000.0
"""m to which a ray is followed through a scene."""


@compiled
def point_velocity(sensor: Sensor, state: State) -> tuple[float, float, float]:
    """Return the velocity over ground of a sensor's mounting position, NED in m/s."""
    p, q, r = state.angular_velocity
    x, y, z = sensor.position
    n, e, d = to_ned(state.attitude, q * z - r * y, r * x - p * z, p * y - q * x)
    return state.velocity[0] + n, state.velocity[1] + e, state.velocity[2] + d


@compiled
def point_position(sensor: Sensor, state: State) -> tuple[float, float, float]:
    """Return a sensor's mounting position, NED in m."""
    n, e, d = to_ned(state.attitude, sensor.position[0], sensor.position[1], sensor.position[2])
    return state.position[0] + n, state.position[1] + e, state.position[2] + d


@compiled
def ray_distance(
    scene: SceneRecord, begin: tuple[float, float, float], way: tuple[float, float, float]
) -> float:
    """Return the distance in m along a unit vector to what a ray meets; inf for nothing within ``REACH``.

    Args:
        begin: m NED.
        way: unit vector, NED.
    """
    rays = on_stack(RAYS)
    for axis in range(3):
        rays.origin[axis], rays.direction[axis] = begin[axis], way[axis]
    distance, _, _, _, _ = cast_ray(
        scene, rays.origin[:], rays.direction[:], REACH, rays.local[:], rays.stack[:]
    )
    return distance
