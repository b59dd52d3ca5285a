"""What is painted on a mesh: the colours of its triangles, and pictures by their texture coordinates."""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.core.world.records import TRIANGLE, Shape, Triangle

TRIANGLE_PAINT = np.dtype([("uv", "f4", (3, 2)), ("picture", "i4")])
"""Texture coordinates of a triangle's corners, and the index of its picture; -1 for none."""


class Picture(Record):
    """A picture."""

    cells: int  # address of (rows * columns * 3,) uint8, from the upper left, row by row
    rows: int
    columns: int


PICTURE = Picture.dtype


class MeshPaint(Record):
    """Pictures on a mesh; ``scene.py`` keeps alive what it points to."""

    triangles: int  # address of (a mesh's triangle_count,) TRIANGLE_PAINT; 0: no pictures
    pictures: int  # address of (picture_count,) PICTURE
    picture_count: int


MESH_PAINT = MeshPaint.dtype


@compiled
def place_in_triangle(t: Triangle, point: Floats) -> tuple[float, float]:
    """Shares (a, b) of a TRIANGLE's two edges that lead from its corner to a point of its plane.

    With the edges e and f and the way p from the corner, a and b solve the normal equations of p = a e + b f.
    """
    ee, ef, ff, pe, pf = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(3):
        e, f = np.float64(t.edge[0, i]), np.float64(t.edge[1, i])
        way = point[i] - np.float64(t.corner[i])
        ee += e * e
        ef += e * f
        ff += f * f
        pe += way * e
        pf += way * f
    determinant = ee * ff - ef * ef
    if determinant <= 0.0:
        return 0.0, 0.0
    return (pe * ff - pf * ef) / determinant, (pf * ee - pe * ef) / determinant


@compiled
def paint_triangle(shape: Shape, painted: MeshPaint, index: int, point: Floats, color: Floats) -> bool:
    """Colour of a mesh at a point of one of its triangles; returns whether it is that of a picture.

    Args:
        shape: SHAPE of kind MESH.
        index: of the triangle.
        point: (3,) m, in the shape's axes.
        color: (3,) written.
    """
    t = array_at(shape.triangles, shape.triangle_count, TRIANGLE)[index]
    for c in range(3):
        color[c] = t.color[c]
    if painted.triangles == 0:
        return False
    paint = array_at(painted.triangles, shape.triangle_count, TRIANGLE_PAINT)[index]
    if paint.picture < 0:
        return False
    a, b = place_in_triangle(t, point)
    uv = paint.uv
    x = uv[0, 0] + a * (uv[1, 0] - uv[0, 0]) + b * (uv[2, 0] - uv[0, 0])
    y = uv[0, 1] + a * (uv[1, 1] - uv[0, 1]) + b * (uv[2, 1] - uv[0, 1])
    picture = array_at(painted.pictures, painted.picture_count, PICTURE)[paint.picture]
    rows, columns = picture.rows, picture.columns
    column = min(int((x - math.floor(x)) * columns), columns - 1)
    row = min(int((1.0 - y + math.floor(y)) * rows), rows - 1)
    cells = array_at(picture.cells, rows * columns * 3, np.uint8)
    for c in range(3):
        color[c] = cells[(row * columns + column) * 3 + c] / 255.0
    return True
