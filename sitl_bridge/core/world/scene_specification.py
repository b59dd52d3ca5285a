"""Objects of a world, as a file describes them: solids, meshes, terrain, octree maps, things that move."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Generic, Literal, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, PrivateAttr, model_validator

from sitl_bridge.base.arrays import Bytes, Floats, Ints, Mask, Singles
from sitl_bridge.base.quantities import STRICT, Degrees, NonNegative, Number, Positive, Seconds, Share, Vector


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


Color = tuple[Share, Share, Share]
Shape = TypeVar("Shape", TriangleMesh, HeightGrid, VoxelGrid)


FARTHEST = 1e5
"""m from the world's origin, of a path's points."""


class PathSpecification(BaseModel):
    """Path of an object that moves: straight from point to point at constant speed."""

    model_config = STRICT

    points: tuple[Vector, ...] = Field(min_length=2, max_length=1000, description="m NED, at least two")
    speed: Positive = Field(description="m/s")
    start: Seconds = Field(0.0, description="s of simulated time at which it leaves the first point")
    end: Literal["stop", "return", "loop"] = Field(
        "return", description="after the last point: stop, go back point by point, or on to the first"
    )

    @model_validator(mode="after")
    def _moves(self) -> Self:
        """Refuse a path that stands still between two points, or leaves the world."""
        points = [*self.points, *self.points[: self.end == "loop"]]
        for i, (before, after) in enumerate(pairwise(points)):
            if np.allclose(before, after, rtol=0.0, atol=1e-6):
                same = (
                    f"{i + 1} and {i + 2}"
                    if i + 1 < len(self.points)
                    else "the last and the first, of a loop,"
                )
                raise ValueError(f"points {same} are at the same place; leave one of them out")
        if np.abs(points).max() > FARTHEST:
            raise ValueError(f"points lie more than {FARTHEST / 1000:g} km from the world's origin")
        return self

    def timetable(self) -> tuple[Floats, float]:
        """Times and places (k, 4), s and m NED, and the period in s; 0 where it stops."""
        points = [np.asarray(point) for point in self.points]
        if self.end == "return":
            points += points[-2::-1]
        elif self.end == "loop":
            points.append(points[0])
        times = [0.0]
        for before, after in pairwise(points):
            times.append(times[-1] + float(np.linalg.norm(after - before)) / self.speed)
        table = np.column_stack([np.array(times) + self.start, np.array(points)])
        return table, 0.0 if self.end == "stop" else times[-1]


class TextureSpecification(BaseModel):
    """Texture of a surface: a pattern, or a picture that repeats."""

    model_config = STRICT

    pattern: Literal["checker", "stripes", "noise"] | None = Field(
        None, description="squares, stripes, or squares of random brightness"
    )
    file: Path | None = Field(
        None, description="PNG or JPEG instead of a pattern, relative to the world's file"
    )
    size: Positive = Field(1.0, description="m, side of a square, width of a stripe, or width of the picture")
    color: Color = Field(
        (0.15, 0.15, 0.15), description="of every second square or stripe; the object's own is the other"
    )
    _pixels: Bytes | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.pattern is None) == (self.file is None):
            raise ValueError("give one of `pattern` and `file`")
        return self


class SceneObject(BaseModel):
    """Fields that all objects share."""

    model_config = STRICT

    name: str = Field("", max_length=100, description="in messages and recordings")
    position: Vector = Field((0.0, 0.0, 0.0), description="m NED, of the object's origin")
    rotation: tuple[Degrees, Degrees, Degrees] = Field(
        (0.0, 0.0, 0.0), description="deg; roll, pitch, yaw from NED to the object's axes"
    )
    color: Color = Field((0.7, 0.7, 0.7), description="red, green, blue, each 0 to 1")
    texture: TextureSpecification | None = Field(None, description="painted on it; plain without")
    friction: NonNegative = Field(1.0, description="factor on the friction of a vehicle's contact points")
    path: PathSpecification | None = Field(None, description="of a moving object; replaces its position")


class BoxObject(SceneObject):
    """A box about its origin."""

    kind: Literal["box"] = Field(description="of object")
    size: tuple[Positive, Positive, Positive] = Field(description="m along its x, y and z axes")


class SphereObject(SceneObject):
    """A sphere about its origin."""

    kind: Literal["sphere"] = Field(description="of object")
    radius: Positive = Field(description="m")


class CylinderObject(SceneObject):
    """A cylinder about its origin, along its z axis."""

    kind: Literal["cylinder"] = Field(description="of object")
    radius: Positive = Field(description="m")
    length: Positive = Field(description="m")


class PlaneObject(SceneObject):
    """An endless plane through its origin; all that lies on the side of its z axis (down) is solid."""

    kind: Literal["plane"] = Field(description="of object")


class ShapedObject(SceneObject, Generic[Shape]):
    """An object whose shape is read from a file."""

    _geometry: Shape | None = PrivateAttr(None)

    @property
    def geometry(self) -> Shape | None:
        """Its shape; None until its file is read."""
        return self._geometry

    def with_geometry(self, geometry: Shape, **changed: object) -> Self:
        """A copy with a shape, and with other fields."""
        made = self.model_copy(update=changed)
        made._geometry = geometry
        return made


class MeshObject(ShapedObject[TriangleMesh]):
    """A mesh from a file."""

    kind: Literal["mesh"] = Field(description="of object")
    file: Path = Field(description="GLB, glTF, OBJ, STL, PLY or DAE, relative to the world's file")
    scale: Positive | tuple[Positive, Positive, Positive] = Field(
        1.0, description="of the file's coordinates, one for all or x, y, z"
    )
    axes: Literal["z_up", "y_up", "ned"] | None = Field(
        None,
        description="of the file: x east, y north, z up; x east, y up, z south; or north, east, down; without"
        " it, y_up for glTF, what a DAE file states, z_up for the others",
    )


class HeightMapObject(ShapedObject[HeightGrid]):
    """Terrain from a grid of heights above its origin, which is the grid's south-west corner.

    A GeoTIFF lies where its coordinates put it, moved by ``position``.
    """

    kind: Literal["height_map"] = Field(description="of object")
    file: Path = Field(
        description="grey PNG (its upper edge is the north), NPZ (array 'height' in m, rows from south to"
        " north, columns from west to east) or GeoTIFF, relative to the world's file"
    )
    spacing: Positive | None = Field(None, description="m between heights; not for a GeoTIFF")
    height: Number | None = Field(None, description="m of a white pixel of a PNG; black is 0")


class OctreeObject(ShapedObject[VoxelGrid]):
    """An octree map of OctoMap; its occupied cells are solid."""

    kind: Literal["octree"] = Field(description="of object")
    file: Path = Field(description=".bt or .ot, relative to the world's file")
    axes: Literal["z_up", "ned"] = Field(
        "z_up", description="of the file: x east, y north, z up; or north, east, down"
    )


Dictionary = Literal[
    "4x4_50", "4x4_100", "4x4_250", "4x4_1000", "5x5_50", "5x5_100", "5x5_250", "5x5_1000",
    "6x6_50", "6x6_100", "6x6_250", "6x6_1000", "7x7_50", "7x7_100", "7x7_250", "7x7_1000",
    "aruco_original", "apriltag_16h5", "apriltag_25h9", "apriltag_36h10", "apriltag_36h11",
]  # fmt: skip
"""Markers' dictionaries, as OpenCV calls them."""
PLATE = 0.002
"""m, thickness of a marker."""


class MarkerObject(SceneObject):
    """A visual marker (ArUco, AprilTag) on a thin plate; it faces up, its upper edge to the north."""

    kind: Literal["marker"] = Field(description="of object")
    dictionary: Dictionary = Field("4x4_50", description="of the marker, as OpenCV calls it")
    id: Annotated[int, Field(ge=0, lt=1024)] = Field(0, description="number of the marker in its dictionary")
    size: Positive = Field(description="m, side of its black square; a white border of one cell is around it")
    _pixels: Bytes | None = PrivateAttr(None)

    def side(self) -> float:
        """Side of the plate, m."""
        cells = 0 if self._pixels is None else len(self._pixels)
        return self.size * (cells / (cells - 2) if cells > 2 else 1.0)


AnyObject = Annotated[
    BoxObject
    | SphereObject
    | CylinderObject
    | PlaneObject
    | MeshObject
    | HeightMapObject
    | OctreeObject
    | MarkerObject,
    Field(discriminator="kind"),
]


MAX_OBJECTS = 5000
"""Of a scene."""


class SceneSpecification(BaseModel):
    """Objects of a world."""

    model_config = STRICT

    ground: bool = Field(
        True,
        description="the plane down = 0 is solid; false where terrain takes its place; a world of SDF decides"
        " for itself without it",
    )
    ground_color: Color = Field((0.42, 0.42, 0.34), description="red, green, blue, each 0 to 1")
    ground_texture: TextureSpecification | None = Field(
        None, description="painted on the ground; plain without"
    )
    sdf: Path | None = Field(
        None,
        description="world of Gazebo (SDF), relative to the world's file: its models stand in the world"
        " beside the objects, and its origin and wind count where the file has none",
    )
    missing: Literal["refuse", "leave_out"] = Field(
        "refuse", description="what is done about models and meshes that ``sdf`` names and that are not there"
    )
    objects: tuple[AnyObject, ...] = Field(
        (), max_length=MAX_OBJECTS, description="solids, meshes, terrain, maps"
    )
    _notes: tuple[str, ...] = PrivateAttr(())

    @property
    def notes(self) -> tuple[str, ...]:
        """Parts of a file that were not read, or read in another way, in sentences."""
        return self._notes
