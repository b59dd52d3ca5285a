"""Geometry that files hold: triangles, heights and occupied cells, as plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Bytes, Floats, Ints, Mask, Singles


class FacePictures(NamedTuple):
    """Pictures on the faces of a mesh."""

    # (f, 3, 2) float32, place of each face's corners in its picture: columns from the left edge, 0 to 1, and
    # rows from the lower edge up; beyond these the picture repeats
    uv: Singles
    picture: NDArray[np.int32]  # (f,) int32 which of the pictures a face has; -1: none
    pictures: tuple[Bytes, ...]  # (rows, columns, 3) uint8 each, from the upper left


class TriangleMesh(NamedTuple):
    """Triangles in an object's axes (x, y, z as NED when it is not rotated)."""

    vertices: Floats  # (v, 3) m
    faces: Ints  # (f, 3) indices, counter-clockwise from outside
    colors: Singles | None  # (f, 3) red, green, blue, 0 to 1; None: that of the object
    solid: bool  # closed, so that it has an inside
    painted: FacePictures | None = None  # pictures on its faces; None: it has none


class HeightGrid(NamedTuple):
    """Terrain on a square grid; between heights it is two triangles a cell."""

    # (rows, columns) m above the object's origin, rows along x (north), columns along y (east)
    heights: Singles
    spacing: float  # m between them


class VoxelGrid(NamedTuple):
    """Occupied cells of a dense grid."""

    occupied: Mask  # (rows, columns, layers) bool along the object's x, y and z
    corner: Floats  # (3,) m, the least corner of cell (0, 0, 0) in the object's axes
    size: float  # m, edge of a cell
