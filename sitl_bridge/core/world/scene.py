"""The scene of a world, ready for compiled functions: shapes, their trees, and where moving ones are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import AnyArray, Floats, Ints, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.rotations import matrix_from_euler
from sitl_bridge.core.world.bounding_tree import build_tree
from sitl_bridge.core.world.records import (
    BOX,
    CHECKER,
    CYLINDER,
    HEIGHT_MAP,
    IMAGE,
    MESH,
    MESH_PAINT,
    NOISE,
    PICTURE,
    PLANE,
    SCENE,
    SHAPE,
    SPHERE,
    STRIPES,
    TRIANGLE,
    TRIANGLE_PAINT,
    VOXELS,
    SceneRecord,
    Shape,
)
from sitl_bridge.core.world.scene_specification import (
    PLATE,
    BoxObject,
    Color,
    CylinderObject,
    FacePictures,
    HeightGrid,
    HeightMapObject,
    MarkerObject,
    MeshObject,
    OctreeObject,
    PlaneObject,
    SceneObject,
    SceneSpecification,
    SphereObject,
    TextureSpecification,
    TriangleMesh,
    VoxelGrid,
)

PATTERNS = {"checker": CHECKER, "stripes": STRIPES, "noise": NOISE}
UNBOUNDED = 1e30
"""m, half size of what has no end."""


@compiled
def _place(shape: Shape, seconds: float) -> None:
    """Put a moving shape where its path has it, its box along with it."""
    path = array_at(shape.path, shape.path_count * 4, np.float64).reshape((shape.path_count, 4))
    last = shape.path_count - 1
    since = seconds - path[0, 0]
    if shape.path_period > 0.0 and since > 0.0:
        since = since % shape.path_period
    time = path[0, 0] + since
    k = 0
    while k < last - 1 and time >= path[k + 1, 0]:
        k += 1
    span = path[k + 1, 0] - path[k, 0]
    share = min(max((time - path[k, 0]) / span, 0.0), 1.0)
    moves = path[0, 0] <= time < path[last, 0]
    for i in range(3):
        place = path[k, 1 + i] + share * (path[k + 1, 1 + i] - path[k, 1 + i])
        shift = place - shape.position[i]
        shape.position[i] = place
        shape.low[i] += shift
        shape.high[i] += shift
        shape.velocity[i] = (path[k + 1, 1 + i] - path[k, 1 + i]) / span if moves else 0.0


@on_demand
def place_moving_shapes(scene: SceneRecord, seconds: float) -> None:
    """Put every moving shape where it is at a time.

    Args:
        seconds: s since the start of simulated time.
    """
    shapes = array_at(scene.shapes, scene.shape_count, SHAPE)
    for k in range(scene.moving_first, scene.shape_count):
        _place(shapes[k], seconds)


class Scene:
    """Objects of a world, ready for the compiled step.

    Attributes:
        record: (1,) SCENE, valid while this object lives.
        shapes: (k,) SHAPE: first those of the tree, then endless ones, then those that move.
        names: of the objects; ``shapes["object"]`` counts them.
        paints: (k,) MESH_PAINT of the shapes.

    Args:
        specification: with the geometry of its files loaded.

    Raises:
        UserError: for an object whose file was not loaded.
    """

    def __init__(self, specification: SceneSpecification | None = None) -> None:
        self.specification = specification or SceneSpecification()
        objects = self.specification.objects
        self.names = tuple(thing.name or f"{thing.kind} {i}" for i, thing in enumerate(objects))
        self._kept: list[AnyArray] = []
        self._trees: dict[tuple[int, Color], tuple[Records, Records, Records]] = {}
        self._painted: dict[int, Records] = {}
        made = [self._shape(i, thing) for i, thing in enumerate(objects)]
        static = [s for s in made if not s["path"] and s["kind"] != PLANE]
        endless = [s for s in made if not s["path"] and s["kind"] == PLANE]
        moving = [s for s in made if s["path"]]
        lows = np.array([s["low"] for s in static]).reshape(-1, 3)
        highs = np.array([s["high"] for s in static]).reshape(-1, 3)
        nodes, order = build_tree(lows, highs)
        self._nodes = nodes
        self.shapes = np.array([*(static[i] for i in order), *endless, *moving], SHAPE).reshape(-1)
        self.paints = np.zeros(len(self.shapes), MESH_PAINT)
        for k in np.flatnonzero(self.shapes["kind"] == MESH):
            self.paints[k] = self._painted[int(self.shapes[k]["object"])]
        self.record = np.zeros(1, SCENE)
        record = self.record[0]
        record["shape_count"], record["bounded_count"] = len(made), len(static)
        record["moving_first"] = len(static) + len(endless)
        record["shapes"], record["nodes"] = self.shapes.ctypes.data, nodes.ctypes.data
        record["node_count"], record["groundless"] = len(nodes), not self.specification.ground
        record["ground_color"] = self.specification.ground_color
        self._paint(record["ground_texture"], self.specification.ground_texture)
        if moving:
            place_moving_shapes(record, 0.0)

    def __bool__(self) -> bool:
        """Whether there is anything but level ground."""
        return len(self.shapes) > 0 or not self.specification.ground

    @property
    def memory(self) -> int:
        """Bytes of its arrays."""
        return sum(array.nbytes for array in (self.shapes, self._nodes, *self._kept))

    def _keep(self, array: AnyArray) -> int:
        self._kept.append(array)
        return int(array.ctypes.data)

    def _shape(self, index: int, thing: SceneObject) -> Records:
        shape = np.zeros(1, SHAPE)[0]
        shape["object"], shape["color"], shape["friction"] = index, thing.color, thing.friction
        shape["position"] = thing.position
        shape["rotation"] = matrix_from_euler(*np.radians(thing.rotation))
        self._paint(shape["texture"], thing.texture)
        low, high = self._fill(shape, thing)
        if thing.path is not None:
            table, shape["path_period"] = thing.path.timetable()
            shape["path"], shape["path_count"] = self._keep(table), len(table)
            shape["position"] = table[0, 1:]
        corners = np.array(np.meshgrid(*zip(low, high, strict=True))).reshape(3, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            turned = shape["rotation"] @ corners + shape["position"][:, None]
        shape["low"], shape["high"] = turned.min(axis=1), turned.max(axis=1)
        return shape

    def _paint(self, record: Records, texture: TextureSpecification | None) -> None:
        """Fill in a TEXTURE."""
        if texture is None:
            return
        record["size"], record["color"] = texture.size, texture.color
        if texture.pattern is not None:
            record["kind"] = PATTERNS[texture.pattern]
        elif texture._pixels is None:
            raise UserError(f"{texture.file}: the picture has not been read; read its world by its file")
        else:
            self._put_image(record, texture._pixels)

    def _put_image(self, record: Records, pixels: NDArray[np.uint8]) -> None:
        image = np.ascontiguousarray(pixels, np.uint8)
        record["kind"], record["cells"] = IMAGE, self._keep(image)
        record["rows"], record["columns"] = image.shape[:2]

    def _fill(self, shape: Records, thing: SceneObject) -> tuple[Floats, Floats]:
        """Fill in what depends on the kind; returns the corners of the box that holds it, in its axes."""
        match thing:
            case BoxObject():
                shape["kind"], half = BOX, 0.5 * np.array(thing.size)
            case SphereObject():
                shape["kind"], half = SPHERE, np.full(3, thing.radius)
            case CylinderObject():
                shape["kind"], half = CYLINDER, np.array([thing.radius, thing.radius, 0.5 * thing.length])
            case PlaneObject():
                shape["kind"], half = PLANE, np.full(3, UNBOUNDED)
            case MeshObject(geometry=TriangleMesh() as mesh):
                return self._fill_mesh(shape, mesh, thing.color)
            case HeightMapObject(geometry=HeightGrid() as heights):
                return self._fill_heights(shape, heights)
            case OctreeObject(geometry=VoxelGrid() as voxels):
                return self._fill_voxels(shape, voxels)
            case MeshObject() | HeightMapObject() | OctreeObject():
                raise UserError(f"{thing.file}: has not been read; read its world by its file")
            case MarkerObject():
                if thing._pixels is None:
                    raise UserError(
                        f"{thing.kind}: its pattern has not been made; read its world by its file"
                    )
                self._put_image(shape["texture"], thing._pixels)
                shape["texture"]["size"], shape["texture"]["face"] = thing.side(), 1
                shape["kind"], half = BOX, 0.5 * np.array([thing.side(), thing.side(), PLATE])
            case _:
                raise TypeError(f"{thing!r} is no object of a scene")
        shape["half_size"] = half
        return -half, half

    def _fill_mesh(self, shape: Records, mesh: TriangleMesh, color: Color) -> tuple[Floats, Floats]:
        # The specification keeps the mesh alive, and with it its identity.
        key = (id(mesh), color)
        if key not in self._trees:
            triangles, nodes, order = mesh_tree(mesh, color)
            self._kept += triangles, nodes
            self._trees[key] = triangles, nodes, self._put_pictures(mesh.painted, order)
        triangles, nodes, self._painted[int(shape["object"])] = self._trees[key]
        shape["kind"], shape["solid"] = MESH, mesh.solid
        shape["triangles"], shape["triangle_count"] = triangles.ctypes.data, len(triangles)
        shape["nodes"], shape["node_count"] = nodes.ctypes.data, len(nodes)
        return mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)

    def _put_pictures(self, painted: FacePictures | None, order: Ints) -> Records:
        """() MESH_PAINT of the faces in the order of their tree."""
        record = np.zeros((), MESH_PAINT)
        if painted is None:
            return record
        triangles, pictures = np.zeros(len(order), TRIANGLE_PAINT), np.zeros(len(painted.pictures), PICTURE)
        triangles["uv"], triangles["picture"] = painted.uv[order], painted.picture[order]
        for entry, pixels in zip(pictures, painted.pictures, strict=True):
            entry["cells"] = self._keep(np.ascontiguousarray(pixels, np.uint8))
            entry["rows"], entry["columns"] = pixels.shape[:2]
        record["triangles"], record["pictures"] = self._keep(triangles), self._keep(pictures)
        record["picture_count"] = len(pictures)
        return record

    def _fill_heights(self, shape: Records, grid: HeightGrid) -> tuple[Floats, Floats]:
        heights = np.ascontiguousarray(grid.heights, np.float32)
        rows, columns = heights.shape
        shape["kind"], shape["cells"] = HEIGHT_MAP, self._keep(heights)
        shape["rows"], shape["columns"], shape["spacing"] = rows, columns, grid.spacing
        low = np.array([0.0, 0.0, -float(heights.max())])
        return low, np.array([(rows - 1) * grid.spacing, (columns - 1) * grid.spacing, -float(heights.min())])

    def _fill_voxels(self, shape: Records, grid: VoxelGrid) -> tuple[Floats, Floats]:
        bits = np.packbits(grid.occupied.reshape(-1), bitorder="little")
        words = np.zeros((len(bits) + 7) // 8 * 8, np.uint8)
        words[: len(bits)] = bits
        shape["kind"], shape["cells"] = VOXELS, self._keep(words.view(np.uint64))
        shape["rows"], shape["columns"], shape["layers"] = grid.occupied.shape
        shape["spacing"] = grid.size
        # The grid's least corner becomes the shape's origin.
        shape["position"] += shape["rotation"] @ grid.corner
        return np.zeros(3), np.array(grid.occupied.shape) * grid.size

    def objects(self) -> Iterator[tuple[str, Records]]:
        """Name and SHAPE of everything in it."""
        for k in range(len(self.shapes)):
            shape: Records = self.shapes[k]
            yield self.names[int(shape["object"])], shape


def mesh_tree(mesh: TriangleMesh, color: tuple[float, float, float]) -> tuple[Records, Records, Ints]:
    """Triangles (t,) TRIANGLE in the order of their tree, its nodes (k,) NODE, and which faces (t,) of the
    mesh they are; triangles without area are left out.

    Raises:
        UserError: when no triangle is left.
    """
    corners = np.asarray(mesh.vertices, float)[mesh.faces]
    edges = corners[:, 1:] - corners[:, :1]
    area = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1)
    good = area > 0.0
    if not good.any():
        raise UserError("a mesh without a triangle that has an area")
    corners, edges = corners[good], edges[good]
    nodes, order = build_tree(corners.min(axis=1), corners.max(axis=1))
    triangles = np.zeros(len(order), TRIANGLE)
    triangles["corner"], triangles["edge"] = corners[order, 0], edges[order]
    triangles["color"] = color if mesh.colors is None else np.asarray(mesh.colors)[good][order]
    return triangles, nodes, np.flatnonzero(good)[order]
