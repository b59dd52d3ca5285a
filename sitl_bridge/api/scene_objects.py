"""Objects of a scene as a user makes them in Python.  Angles are rad, as everywhere in the API."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.field_paths import name_faults_of
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.world.height_map_file import MAX_HEIGHTS
from sitl_bridge.core.world.mesh_file import is_solid, validate_triangle_count
from sitl_bridge.core.world.octree_file import MAX_CELLS
from sitl_bridge.core.world.scene_geometry import load_texture, marker_pixels
from sitl_bridge.core.world.scene_specification import (
    BoxObject,
    CylinderObject,
    Dictionary,
    HeightGrid,
    HeightMapObject,
    MarkerObject,
    MeshObject,
    OctreeObject,
    PathSpecification,
    SceneSpecification,
    SphereObject,
    TextureSpecification,
    TriangleMesh,
    VoxelGrid,
)

__all__ = [
    "Box",
    "Cylinder",
    "HeightMap",
    "Marker",
    "Mesh",
    "Path3D",
    "SceneSpecification",
    "Sphere",
    "Texture",
    "Voxels",
]

PATTERNS = ("checker", "stripes", "noise")
_ARRAY = Path("array")
"""In the place of the file of an object whose geometry was given."""


class Common(TypedDict, total=False):
    """Fields that all objects share.

    Attributes:
        position: m NED of the object's origin.
        rotation: rad; roll, pitch, yaw from NED to the object's axes.
        color: red, green, blue, each 0 to 1.
        texture: painted on it.
        friction: factor on the friction of a vehicle's contact points.
        path: of a moving object; replaces its position.
        name: in messages and recordings.
    """

    position: ArrayLike
    rotation: ArrayLike
    color: ArrayLike
    texture: TextureSpecification
    friction: float
    path: PathSpecification
    name: str


def _fields(common: Common) -> JsonObject:
    """Fields of a scene's file: angles in deg, sequences as tuples of numbers."""
    fields: JsonObject = dict(common)
    for name in ("position", "rotation", "color"):
        if name in fields:
            fields[name] = tuple(np.asarray(fields[name], float).tolist())
    if "rotation" in fields:
        fields["rotation"] = tuple(math.degrees(x) for x in fields["rotation"])
    return fields


class Path3D(PathSpecification):
    """Path of an object that moves: straight from point to point at constant speed.

    Args:
        points: (k, 3) m NED, at least two.
        speed: m/s.
        start: s of simulated time at which it leaves the first point.
        end: after the last point: stop, return point by point, or loop on to the first.
    """

    def __init__(
        self,
        points: ArrayLike,
        speed: float,
        *,
        start: float = 0.0,
        end: Literal["stop", "return", "loop"] = "return",
    ) -> None:
        rows = tuple(tuple(float(x) for x in row) for row in np.atleast_2d(np.asarray(points, float)))
        with name_faults_of("Path3D"):
            super().__init__(points=rows, speed=speed, start=start, end=end)


class Texture(TextureSpecification):
    """The paint of an object: a pattern, or a picture that repeats.

    Args:
        picture: ``"checker"``, ``"stripes"`` or ``"noise"``; a PNG or JPEG file; or pixels (rows, columns, 3)
            from 0 to 255.
        size: m, side of a square, width of a stripe, or width of the picture.
        color: red, green, blue of every second square or stripe.

    Raises:
        ConfigurationError: for an invalid value.
        UserError: for a file or array that is not a picture.
    """

    def __init__(
        self, picture: str | Path | ArrayLike, size: float = 1.0, color: ArrayLike = (0.15, 0.15, 0.15)
    ) -> None:
        second = tuple(np.asarray(color, float).tolist())
        pattern = picture if isinstance(picture, str) and picture in PATTERNS else None
        pixels = None
        if isinstance(picture, str | Path):
            pixels = None if pattern else load_texture(Path(picture))
        else:
            pixels = np.asarray(picture)
            if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8 or not pixels.size:
                raise UserError(f"Texture: pixels are (rows, columns, 3) of uint8, not {pixels.shape}")
        file = picture if isinstance(picture, str | Path) else _ARRAY
        chosen = {"pattern": pattern} if pattern else {"file": Path(file)}
        with name_faults_of("Texture"):
            super().__init__(size=size, color=second, **chosen)
        self._pixels = pixels


class Box(BoxObject):
    """A box about its origin.

    Args:
        size: m along its x, y and z axes.
        common: position, rotation, color, friction, path and name, as of every object.

    Raises:
        ConfigurationError: for an invalid value.
    """

    def __init__(self, size: Sequence[float], **common: Unpack[Common]) -> None:
        with name_faults_of("Box"):
            super().__init__(kind="box", size=tuple(float(x) for x in size), **_fields(common))


class Sphere(SphereObject):
    """A sphere about its origin.

    Args:
        radius: m.
        common: as of a Box.

    Raises:
        ConfigurationError: for an invalid value.
    """

    def __init__(self, radius: float, **common: Unpack[Common]) -> None:
        with name_faults_of("Sphere"):
            super().__init__(kind="sphere", radius=radius, **_fields(common))


class Cylinder(CylinderObject):
    """A cylinder about its origin, along its z axis.

    Args:
        radius: m.
        length: m.
        common: as of a Box.

    Raises:
        ConfigurationError: for an invalid value.
    """

    def __init__(self, radius: float, length: float, **common: Unpack[Common]) -> None:
        with name_faults_of("Cylinder"):
            super().__init__(kind="cylinder", radius=radius, length=length, **_fields(common))


class Mesh(MeshObject):
    """Triangles.

    Args:
        vertices: (v, 3) m along the object's x, y and z axes, which are NED without a rotation.
        faces: (f, 3) indices of vertices, counter-clockwise from outside.
        colors: (f, 3) red, green, blue of each face, 0 to 1; None for the object's color.
        common: as of a Box.

    Raises:
        ConfigurationError: for an invalid value.
        UserError: for arrays of another shape, indices without a vertex, too many triangles.
    """

    def __init__(
        self,
        vertices: ArrayLike,
        faces: ArrayLike,
        *,
        colors: ArrayLike | None = None,
        **common: Unpack[Common],
    ) -> None:
        points, indices = np.asarray(vertices, np.float64), np.asarray(faces)
        if points.ndim != 2 or points.shape[1:] != (3,) or not np.isfinite(points).all():
            raise UserError(f"Mesh: vertices are (v, 3) finite figures in m, not {points.shape}")
        if (
            indices.ndim != 2
            or indices.shape[1:] != (3,)
            or indices.dtype.kind not in "iu"
            or not len(indices)
        ):
            raise UserError(f"Mesh: faces are (f, 3) whole numbers, not {indices.shape} {indices.dtype}")
        if indices.min() < 0 or indices.max() >= len(points):
            raise UserError(f"Mesh: faces have vertices beyond the {len(points)} there are")
        validate_triangle_count(len(indices), "Mesh")
        painted = None
        if colors is not None:
            painted = np.asarray(colors, np.float32)
            if painted.shape != indices.shape:
                raise UserError(
                    f"Mesh: colors are ({len(indices)}, 3), one for each face, not {painted.shape}"
                )
        with name_faults_of("Mesh"):
            super().__init__(kind="mesh", file=_ARRAY, **_fields(common))
        whole = indices.astype(np.int64)
        self._geometry = TriangleMesh(points, whole, painted, is_solid(points, whole))


class HeightMap(HeightMapObject):
    """Terrain from a grid of heights above its origin, which is the grid's south-west corner.

    Args:
        heights: (rows, columns) m, rows from south to north, columns from west to east.
        spacing: m between heights.
        common: as of a Box.

    Raises:
        ConfigurationError: for an invalid value.
        UserError: for an array of another shape, or too many heights.
    """

    def __init__(self, heights: ArrayLike, spacing: float, **common: Unpack[Common]) -> None:
        grid = np.ascontiguousarray(heights, np.float32)
        if grid.ndim != 2 or min(grid.shape) < 2 or grid.size > MAX_HEIGHTS or not np.isfinite(grid).all():
            raise UserError(
                f"HeightMap: heights are finite figures in m, two rows and columns at least and"
                f" {MAX_HEIGHTS:,} heights at most, not {grid.shape}"
            )
        with name_faults_of("HeightMap"):
            super().__init__(kind="height_map", file=_ARRAY, spacing=spacing, **_fields(common))
        self._geometry = HeightGrid(grid, spacing)


class Voxels(OctreeObject):
    """Occupied cells of a dense grid.

    Args:
        occupied: (rows, columns, layers) bool along the object's x, y and z axes.
        size: m, edge of a cell.
        corner: m, the least corner of cell (0, 0, 0) in the object's axes.
        common: as of a Box.

    Raises:
        ConfigurationError: for an invalid value.
        UserError: for an array of another shape, without an occupied cell, or too large.
    """

    def __init__(
        self,
        occupied: ArrayLike,
        size: float,
        *,
        corner: Sequence[float] = (0.0, 0.0, 0.0),
        **common: Unpack[Common],
    ) -> None:
        cells = np.ascontiguousarray(occupied, np.bool_)
        if cells.ndim != 3 or not cells.any() or cells.size > MAX_CELLS:
            raise UserError(
                f"Voxels: cells are (rows, columns, layers), one occupied at least and {MAX_CELLS:,} in all"
                f" at most, not {cells.shape}"
            )
        least = np.asarray(corner, np.float64)
        if least.shape != (3,) or not np.isfinite(least).all() or not 1e-4 <= size <= 1e4:
            raise UserError("Voxels: size is from 0.1 mm to 10 km, and corner three finite figures in m")
        with name_faults_of("Voxels"):
            super().__init__(kind="octree", file=_ARRAY, **_fields(common))
        self._geometry = VoxelGrid(cells, least, size)


class Marker(MarkerObject):
    """A visual marker (ArUco, AprilTag) on a thin plate; it faces up, its upper edge to the north.

    Args:
        size: m, side of its black square; a white border of one cell is around it.
        id: number of the marker in its dictionary.
        dictionary: as OpenCV calls it, in small letters.
        common: as of a Box.

    Raises:
        ConfigurationError: for an invalid value.
        UserError: where OpenCV is missing, and for a number that the dictionary does not have.
    """

    def __init__(
        self, size: float, id: int = 0, dictionary: Dictionary = "4x4_50", **common: Unpack[Common]
    ) -> None:
        with name_faults_of("Marker"):
            super().__init__(kind="marker", size=size, id=id, dictionary=dictionary, **_fields(common))
        self._pixels = marker_pixels(dictionary, id)
