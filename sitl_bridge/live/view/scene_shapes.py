"""Trimesh of the objects of a world: solids, meshes, terrain, occupancy maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_erosion
from trimesh import Trimesh
from trimesh import creation as solids

from sitl_bridge.base.arrays import Mask
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
    parts: list[tuple[Trimesh, tuple[float, float, float]]]
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
                parts = [(solids.uv_sphere(half[0]), color)]
            case _ if kind == CYLINDER:
                parts = [(solids.cylinder(half[0], 2.0 * half[2]), color)]
            case _:
                parts = [(solids.box(2.0 * half), color)]
        yield DrawnObject(name, index, [(t, (c[0], c[1], c[2])) for t, c in parts], thing.path is not None)


def _by_colour(
    mesh: TriangleMesh, color: tuple[float, float, float]
) -> list[tuple[Trimesh, tuple[float, ...]]]:
    """The triangles of a mesh by their colours, of which similar ones are one."""
    if mesh.colors is None:
        return [(Trimesh(mesh.vertices, mesh.faces, process=False), color)]
    coarse, which = np.unique(np.round(np.asarray(mesh.colors) * 15.0), axis=0, return_inverse=True)
    found = []
    for k, shade in enumerate(coarse / 15.0):
        used, faces = np.unique(mesh.faces[which.ravel() == k], return_inverse=True)
        part = Trimesh(mesh.vertices[used], faces.reshape(-1, 3), process=False)
        found.append((part, tuple(float(c) for c in shade)))
    return found


def _terrain(grid: HeightGrid) -> Trimesh:
    step = max(1, -(-max(grid.heights.shape) // MOST_HEIGHTS))
    heights = grid.heights[::step, ::step].astype(np.float64)
    rows, columns = heights.shape
    x, y = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    points = np.stack([x * grid.spacing * step, y * grid.spacing * step, -heights], axis=-1)
    first = (x * columns + y)[:-1, :-1, None]  # of each square's corners
    corners = first + np.array([0, columns, 1, 1, columns, columns + 1])
    return Trimesh(points.reshape(-1, 3), corners.reshape(-1, 3), process=False)


def cell_faces(grid: VoxelGrid) -> Trimesh:
    """The occupied cells that can be seen as cubes; coarser until they are few enough."""
    step, occupied = 1, grid.occupied
    while True:
        places = np.argwhere(occupied & ~binary_erosion(occupied))  # one of its six neighbours is free
        if len(places) <= MOST_CELLS:
            break
        step, occupied = 2 * step, _halve(occupied)
    cube = solids.box(bounds=[np.zeros(3), np.ones(3)])
    points = (places[:, None] + cube.vertices) * (grid.size * step)
    faces = cube.faces + 8 * np.arange(len(places))[:, None, None]
    return Trimesh(points.reshape(-1, 3), faces.reshape(-1, 3), process=False)


def _halve(occupied: Mask) -> Mask:
    """Cells of twice the edge, occupied where one of the eight is."""
    even = np.pad(occupied, [(0, size % 2) for size in occupied.shape])
    shape = [part for size in even.shape for part in (size // 2, 2)]
    return np.asarray(even.reshape(shape).any(axis=(1, 3, 5)))
