"""Triangles of the objects of a world: solids, meshes, terrain, occupancy maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_erosion

from sitl_bridge.base.arrays import Floats, Mask
from sitl_bridge.core.world.records import CYLINDER, PLANE, SPHERE
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import (
    HeightGrid,
    HeightMapObject,
    MeshObject,
    OctreeObject,
    TriangleMesh,
    VoxelGrid,
)
from sitl_bridge.live.view.vehicle_shapes import Faces, Triangles, box

AROUND, ALONG = 32, 16
"""Corners around cylinders and spheres, and rows of a sphere."""
MOST_HEIGHTS = 256
"""Largest number of rows and of columns of terrain that are drawn."""
MOST_CELLS = 20_000
"""Largest number of occupied cells that are drawn; a larger map is drawn coarser."""


@dataclass(frozen=True)
class DrawnObject:
    """An object in its own axes, x, y, z as NED where it is not rotated."""

    name: str  # of the object
    index: int  # of its SHAPE
    # triangles, each with the colour red, green, blue from 0 to 1
    parts: list[tuple[Triangles, tuple[float, float, float]]]
    moving: bool  # whether it has a path


def draw_objects(scene: Scene) -> Iterator[DrawnObject]:
    """Yield the drawings of a scene, in the order of its shapes; endless planes are left out."""
    for index, (name, shape) in enumerate(scene.objects()):
        kind, half = int(shape["kind"]), shape["half_size"]
        if kind == PLANE:
            continue
        color = tuple(float(c) for c in shape["color"])
        thing = scene.specification.objects[int(shape["object"])]
        match thing:
            case MeshObject() if thing.geometry is not None:
                parts = _by_colour(thing.geometry, thing.color)
            case HeightMapObject() if thing.geometry is not None:
                parts = [(_terrain(thing.geometry), color)]
            case OctreeObject() if thing.geometry is not None:
                parts = [(cell_faces(thing.geometry), color)]
            case _ if kind == SPHERE:
                parts = [(_sphere(float(half[0])), color)]
            case _ if kind == CYLINDER:
                parts = [(_cylinder(float(half[0]), float(half[2])), color)]
            case _:
                size = (float(2.0 * half[0]), float(2.0 * half[1]), float(2.0 * half[2]))
                parts = [(box(size, np.zeros(3)), color)]
        yield DrawnObject(name, index, [(t, (c[0], c[1], c[2])) for t, c in parts], thing.path is not None)


def _by_colour(
    mesh: TriangleMesh, color: tuple[float, float, float]
) -> list[tuple[Triangles, tuple[float, ...]]]:
    """The triangles of a mesh by their colours, of which similar ones are one."""
    if mesh.colors is None:
        return [(Triangles(mesh.vertices, mesh.faces.astype(np.uint32)), color)]
    coarse, which = np.unique(np.round(np.asarray(mesh.colors) * 15.0), axis=0, return_inverse=True)
    found = []
    for k, shade in enumerate(coarse / 15.0):
        used, faces = np.unique(mesh.faces[which.ravel() == k], return_inverse=True)
        part = Triangles(mesh.vertices[used], faces.reshape(-1, 3).astype(np.uint32))
        found.append((part, tuple(float(c) for c in shade)))
    return found


def _lattice(rows: int, columns: int, wrapped: bool = False) -> Faces:
    """Faces between the points of a lattice; ``wrapped`` joins the last column to the first."""
    across = columns if wrapped else columns - 1
    row, column = np.meshgrid(np.arange(rows - 1), np.arange(across), indexing="ij")
    a, b = row * columns + column, row * columns + (column + 1) % columns
    c, d = a + columns, b + columns
    return np.stack([a, c, b, b, c, d], axis=-1).reshape(-1, 3).astype(np.uint32)


def _terrain(grid: HeightGrid) -> Triangles:
    step = max(1, -(-max(grid.heights.shape) // MOST_HEIGHTS))
    heights = grid.heights[::step, ::step].astype(np.float64)
    rows, columns = heights.shape
    x, y = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    points = np.stack([x * grid.spacing * step, y * grid.spacing * step, -heights], axis=-1)
    return Triangles(points.reshape(-1, 3), _lattice(rows, columns))


def _sphere(radius: float) -> Triangles:
    down, around = np.linspace(0.0, np.pi, ALONG), np.linspace(0.0, 2.0 * np.pi, AROUND, endpoint=False)
    polar, angle = np.meshgrid(down, around, indexing="ij")
    points = np.stack([np.sin(polar) * np.cos(angle), np.sin(polar) * np.sin(angle), np.cos(polar)], axis=-1)
    return Triangles(radius * points.reshape(-1, 3), _lattice(ALONG, AROUND, wrapped=True))


def _cylinder(radius: float, half: float) -> Triangles:
    angle = np.linspace(0.0, 2.0 * np.pi, AROUND, endpoint=False)
    ring = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    rows: list[Floats] = []
    for share, height in ((0.0, half), (1.0, half), (1.0, -half), (0.0, -half)):
        rows.append(np.column_stack([share * ring, np.full(AROUND, height)]))
    return Triangles(np.concatenate(rows), _lattice(4, AROUND, wrapped=True))


def cell_faces(grid: VoxelGrid) -> Triangles:
    """The occupied cells that can be seen as cubes; coarser until they are few enough."""
    step, occupied = 1, grid.occupied
    while True:
        places = np.argwhere(occupied & ~binary_erosion(occupied))  # one of its six neighbours is free
        if len(places) <= MOST_CELLS:
            break
        step, occupied = 2 * step, _halve(occupied)
    cube = box((1.0, 1.0, 1.0), np.full(3, 0.5))
    points = (places[:, None] + cube.vertices) * (grid.size * step)
    faces = cube.faces + np.arange(len(places), dtype=np.uint32)[:, None, None] * np.uint32(8)
    return Triangles(points.reshape(-1, 3), faces.reshape(-1, 3))


def _halve(occupied: Mask) -> Mask:
    """Cells of twice the edge, occupied where one of the eight is."""
    even = np.pad(occupied, [(0, size % 2) for size in occupied.shape])
    shape = [part for size in even.shape for part in (size // 2, 2)]
    return np.asarray(even.reshape(shape).any(axis=(1, 3, 5)))
