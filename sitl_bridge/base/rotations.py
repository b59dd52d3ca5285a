"""Rotations in Python: quaternions w, x, y, z, matrices, and angles in the order yaw, pitch, roll.

A rotation is that of the body's axes (FRD) to NED, unless a caller says otherwise: a matrix times a body
vector gives the NED vector.  kernels/rotations.py has what compiled code needs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.base.arrays import Floats


def wrap_angle(angle: float) -> float:
    """Return an angle in rad wrapped to -pi to pi."""
    return math.remainder(angle, math.tau)


def heading(w: float, x: float, y: float, z: float) -> float:
    """Return the yaw in rad of a unit quaternion."""
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def euler_angles(w: float, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Return roll, pitch and yaw in rad of a unit quaternion."""
    return (
        math.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y)),
        math.asin(min(max(2.0 * (w * y - z * x), -1.0), 1.0)),
        heading(w, x, y, z),
    )


def euler_arrays(attitudes: Floats) -> Floats:
    """Return (..., 3) roll, pitch and yaw in rad of unit quaternions (..., 4)."""
    w, x, y, z = np.moveaxis(attitudes, -1, 0)
    return np.stack(
        [
            np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y)),
            np.arcsin(np.clip(2.0 * (w * y - z * x), -1.0, 1.0)),
            np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)),
        ],
        axis=-1,
    )


def quaternion_from_euler(roll: float, pitch: float, yaw: float) -> tuple[float, float, float, float]:
    """Return the unit quaternion of angles in rad."""
    cr, sr = math.cos(0.5 * roll), math.sin(0.5 * roll)
    cp, sp = math.cos(0.5 * pitch), math.sin(0.5 * pitch)
    cy, sy = math.cos(0.5 * yaw), math.sin(0.5 * yaw)
    return (
        cr * cp * cy + sr * sp * sy,
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
    )


def quaternion_from_matrix(rotation: Floats) -> Floats:
    """Return the unit quaternion (4,), w >= 0, nearest to a rotation (3, 3).

    It is the eigenvector of the greatest eigenvalue (Bar-Itzhack, J. Guidance 23(6), 2000).
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rotation
    matrix = np.array(
        [
            [xx + yy + zz, zy - yz, xz - zx, yx - xy],
            [zy - yz, xx - yy - zz, xy + yx, xz + zx],
            [xz - zx, xy + yx, yy - xx - zz, yz + zy],
            [yx - xy, xz + zx, yz + zy, zz - xx - yy],
        ]
    )
    q = np.linalg.eigh(matrix)[1][:, 3]
    return np.asarray(q if q[0] >= 0.0 else -q)


def matrix_from_euler(roll: float, pitch: float, yaw: float) -> Floats:
    """Return the rotation (3, 3) of angles in rad."""
    cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
    cy, sy = math.cos(yaw), math.sin(yaw)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def matrix_from_quaternion(attitudes: ArrayLike) -> Floats:
    """Return the rotations (..., 3, 3) of unit quaternions (..., 4)."""
    w, x, y, z = np.moveaxis(np.asarray(attitudes, float), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.ascontiguousarray(np.moveaxis(np.array(rows), (0, 1), (-2, -1)))


def quaternion_product(a: ArrayLike, b: ArrayLike) -> Floats:
    """Return the products a b (..., 4) of quaternions: the rotations b followed by a."""
    w1, x1, y1, z1 = np.moveaxis(np.asarray(a, float), -1, 0)
    w2, x2, y2, z2 = np.moveaxis(np.asarray(b, float), -1, 0)
    return np.stack(
        [
            w1 * w2 - x1 * x2 - y1 * y2 - z1 * z2,
            w1 * x2 + x1 * w2 + y1 * z2 - z1 * y2,
            w1 * y2 - x1 * z2 + y1 * w2 + z1 * x2,
            w1 * z2 + x1 * y2 - y1 * x2 + z1 * w2,
        ],
        axis=-1,
    )
