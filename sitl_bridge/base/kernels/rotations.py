"""Rotations in compiled code, by unit quaternions w, x, y, z of the body's axes to NED."""

from __future__ import annotations

import math

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled


@compiled
def to_ned(q: Floats, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Return the NED components of a body vector."""
    a, b, c, d = q[0], q[1], q[2], q[3]
    return (
        (1 - 2 * (c * c + d * d)) * x + 2 * (b * c - a * d) * y + 2 * (b * d + a * c) * z,
        2 * (b * c + a * d) * x + (1 - 2 * (b * b + d * d)) * y + 2 * (c * d - a * b) * z,
        2 * (b * d - a * c) * x + 2 * (c * d + a * b) * y + (1 - 2 * (b * b + c * c)) * z,
    )


@compiled
def axis_in_ned(q: Floats, axis: int) -> tuple[float, float, float]:
    """Return the NED components of a body axis, 0 to 2."""
    return to_ned(q, 1.0 if axis == 0 else 0.0, 1.0 if axis == 1 else 0.0, 1.0 if axis == 2 else 0.0)


@compiled
def to_body(q: Floats, n: float, e: float, d: float) -> tuple[float, float, float]:
    """Return the body components of a NED vector."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    return (
        (1 - 2 * (y * y + z * z)) * n + 2 * (x * y + w * z) * e + 2 * (x * z - w * y) * d,
        2 * (x * y - w * z) * n + (1 - 2 * (x * x + z * z)) * e + 2 * (y * z + w * x) * d,
        2 * (x * z + w * y) * n + 2 * (y * z - w * x) * e + (1 - 2 * (x * x + y * y)) * d,
    )


@compiled
def product(matrix: Floats, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Return the product of a (3, 3) matrix and a vector."""
    return (
        matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2] * z,
        matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2] * z,
        matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2] * z,
    )


@compiled
def transposed_product(matrix: Floats, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Return the product of a transposed (3, 3) matrix and a vector."""
    return (
        matrix[0, 0] * x + matrix[1, 0] * y + matrix[2, 0] * z,
        matrix[0, 1] * x + matrix[1, 1] * y + matrix[2, 1] * z,
        matrix[0, 2] * x + matrix[1, 2] * y + matrix[2, 2] * z,
    )


@compiled
def write_matrix(q: Floats, out: Floats) -> None:
    """Write the (3, 3) rotation of a quaternion."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    out[0, 0], out[0, 1], out[0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
    out[1, 0], out[1, 1], out[1, 2] = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    out[2, 0], out[2, 1], out[2, 2] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)


@compiled
def write_quaternion(q: Floats, roll: float, pitch: float, yaw: float) -> None:
    """Write the quaternion (4,) of angles in rad, in the order yaw, pitch, roll."""
    cr, sr = math.cos(0.5 * roll), math.sin(0.5 * roll)
    cp, sp = math.cos(0.5 * pitch), math.sin(0.5 * pitch)
    cy, sy = math.cos(0.5 * yaw), math.sin(0.5 * yaw)
    q[0], q[1] = cr * cp * cy + sr * sp * sy, sr * cp * cy - cr * sp * sy
    q[2], q[3] = cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy


@compiled
def heading(q: Floats) -> float:
    """Return the yaw in rad of a quaternion."""
    return math.atan2(2.0 * (q[0] * q[3] + q[1] * q[2]), 1.0 - 2.0 * (q[2] * q[2] + q[3] * q[3]))


@compiled
def wrap_angle(angle: float) -> float:
    """Return an angle in rad wrapped to -pi to pi."""
    return angle - 2.0 * math.pi * math.floor(angle / (2.0 * math.pi) + 0.5)
