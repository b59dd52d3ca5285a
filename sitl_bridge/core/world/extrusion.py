"""Outlines extruded to solids: SDF's polyline."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.world.geometry import TriangleMesh

MAX_POINTS = 1000
"""Most points of an outline; the time of triangulation grows with their square."""


def extruded(points: NDArray[np.float64], height: float) -> TriangleMesh:
    """The solid between an outline and its copy at ``height`` along z.

    Args:
        points: (k, 2) m, x and y of the corners in order, either way around.
        height: m along z.

    Raises:
        UserError: for an outline that encloses no area or crosses itself.
    """
    if len(points) > 1 and np.array_equal(points[0], points[-1]):
        points = points[:-1]
    if not 3 <= len(points) <= MAX_POINTS:
        raise UserError(f"has {len(points)} corners; an outline has from 3 to {MAX_POINTS}")
    if _area(points) < 0.0:
        points = points[::-1]
    flat = triangulated(points)
    count = len(points)
    vertices = np.zeros((2 * count, 3))
    vertices[:count, :2] = vertices[count:, :2] = points
    vertices[count:, 2] = height
    this, following = np.arange(count), np.roll(np.arange(count), -1)
    sides = np.concatenate(
        [
            np.column_stack([this, following, following + count]),
            np.column_stack([this, following + count, this + count]),
        ]
    )
    faces = np.concatenate([flat[:, ::-1], flat + count, sides])
    return TriangleMesh(vertices, faces, None, True)


def _area(points: NDArray[np.float64]) -> float:
    x, y = points[:, 0], points[:, 1]
    return 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


def triangulated(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Triangles (k - 2, 3) of a counter-clockwise outline, by cutting off ears.

    Raises:
        UserError: for an outline without ears: it encloses no area, or crosses itself.
    """
    left = list(range(len(points)))
    found: list[tuple[int, int, int]] = []
    while len(left) > 3:
        for i in range(len(left)):
            a, b, c = left[i - 1], left[i], left[(i + 1) % len(left)]
            if _is_ear(points, a, b, c, left):
                found.append((a, b, c))
                del left[i]
                break
        else:
            raise UserError("its outline encloses no area or crosses itself; correct its points")
    found.append((left[0], left[1], left[2]))
    return np.array(found, np.int64)


def _is_ear(points: NDArray[np.float64], a: int, b: int, c: int, left: list[int]) -> bool:
    """Whether a triangle of neighbours turns left and holds no other corner."""
    corner_a, corner_b, corner_c = points[a], points[b], points[c]
    if _double_area(corner_a, corner_b, corner_c) <= 0.0:
        return False
    others = points[[k for k in left if k not in (a, b, c)]]
    inside = (
        (_double_area(corner_a, corner_b, others) >= 0.0)
        & (_double_area(corner_b, corner_c, others) >= 0.0)
        & (_double_area(corner_c, corner_a, others) >= 0.0)
    )
    return not bool(np.any(inside))


def _double_area(
    a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Twice the signed area of the triangles a, b, c."""
    return np.asarray((b[0] - a[0]) * (c[..., 1] - a[1]) - (b[1] - a[1]) * (c[..., 0] - a[0]))
