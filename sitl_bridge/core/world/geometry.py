"""Geometry that files hold: triangles, heights and occupied cells, as plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Bytes, Floats, Ints, Mask, Singles


class FacePictures(NamedTuple):
    """Pictures on the faces of a mesh.

    Attributes:
        uv: (f, 3, 2) float32, place of each face's corners in its picture: columns from the left edge, 0 to
            1, and rows from the lower edge up; beyond these the picture repeats.
        picture: (f,) int32 which of the pictures a face has; -1: none.
        pictures: (rows, columns, 3) uint8 each, from the upper left.
    """

    uv: Singles
    picture: NDArray[np.int32]
    pictures: tuple[Bytes, ...]


class TriangleMesh(NamedTuple):
    """Triangles in an object's axes (x, y, z as NED when it is not rotated).

    Attributes:
        vertices: (v, 3) m.
        faces: (f, 3) indices, counter-clockwise from outside.
        colors: (f, 3) red, green, blue, 0 to 1; None: that of the object.
        solid: closed, so that it has an inside.
        painted: pictures on its faces; None: it has none.
    """

    vertices: Floats
    faces: Ints
    colors: Singles | None
    solid: bool
    painted: FacePictures | None = None


class HeightGrid(NamedTuple):
    """Terrain on a square grid; between heights it is two triangles a cell.

    Attributes:
        heights: (rows, columns) m above the object's origin, rows along x (north), columns along y (east).
        spacing: m between them.
    """

    heights: Singles
    spacing: float


class VoxelGrid(NamedTuple):
    """Occupied cells of a dense grid.

    Attributes:
        occupied: (rows, columns, layers) bool along the object's x, y and z.
        corner: (3,) m, the least corner of cell (0, 0, 0) in the object's axes.
        size: m, edge of a cell.
    """

    occupied: Mask
    corner: Floats
    size: float
