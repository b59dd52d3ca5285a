"""Frame transformations of the sensors: body to world, world to body, body to sensor axes."""

from __future__ import annotations

from typing import Any

from sitl_bridge.base.kernels.compiled import compiled


@compiled
def to_body(state: Any, n: float, e: float, d: float) -> tuple[float, float, float]:
    """Return the body components of a vector given in NED."""
    w = state.attitude[0]
    x = state.attitude[1]
    y = state.attitude[2]
    z = state.attitude[3]
    return (
        (1 - 2 * (y * y + z * z)) * n + 2 * (x * y + w * z) * e + 2 * (x * z - w * y) * d,
        2 * (x * y - w * z) * n + (1 - 2 * (x * x + z * z)) * e + 2 * (y * z + w * x) * d,
        2 * (x * z + w * y) * n + 2 * (y * z - w * x) * e + (1 - 2 * (x * x + y * y)) * d,
    )


@compiled
def to_world(state: Any, u: float, v: float, w: float) -> tuple[float, float, float]:
    """Return the NED components of a vector given in the body frame."""
    q0 = state.attitude[0]
    x = state.attitude[1]
    y = state.attitude[2]
    z = state.attitude[3]
    return (
        (1 - 2 * (y * y + z * z)) * u + 2 * (x * y - q0 * z) * v + 2 * (x * z + q0 * y) * w,
        2 * (x * y + q0 * z) * u + (1 - 2 * (x * x + z * z)) * v + 2 * (y * z - q0 * x) * w,
        2 * (x * z - q0 * y) * u + 2 * (y * z + q0 * x) * v + (1 - 2 * (x * x + y * y)) * w,
    )


@compiled
def to_sensor(sensor: Any, u: float, v: float, w: float) -> tuple[float, float, float]:
    """Return the sensor-axis components of a vector given in the body frame."""
    r = sensor.rotation
    return (
        r[0, 0] * u + r[0, 1] * v + r[0, 2] * w,
        r[1, 0] * u + r[1, 1] * v + r[1, 2] * w,
        r[2, 0] * u + r[2, 1] * v + r[2, 2] * w,
    )


@compiled
def point_velocity(sensor: Any, state: Any) -> tuple[float, float, float]:
    """Return the velocity over ground of a sensor's mounting position, NED in m/s."""
    p = state.angular_velocity[0]
    q = state.angular_velocity[1]
    r = state.angular_velocity[2]
    x = sensor.position[0]
    y = sensor.position[1]
    z = sensor.position[2]
    n, e, d = to_world(state, q * z - r * y, r * x - p * z, p * y - q * x)
    return state.velocity[0] + n, state.velocity[1] + e, state.velocity[2] + d


@compiled
def point_position(sensor: Any, state: Any) -> tuple[float, float, float]:
    """Return a sensor's mounting position, NED in m."""
    n, e, d = to_world(state, sensor.position[0], sensor.position[1], sensor.position[2])
    return state.position[0] + n, state.position[1] + e, state.position[2] + d
