"""Where a sensor is in the world, and how it moves."""

from __future__ import annotations

from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.rotations import to_ned
from sitl_bridge.core.dynamics.records import State
from sitl_bridge.core.sensors.records import Sensor


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
