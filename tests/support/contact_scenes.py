"""Scenes and vehicles for the tests of contact with objects."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.scene_specification import (
    HeightGrid,
    HeightMapObject,
    MeshObject,
    OctreeObject,
    SceneSpecification,
    TriangleMesh,
    VoxelGrid,
)
from sitl_bridge.core.world.world import World, WorldSpecification

Floats = NDArray[np.float64]

CUBE = np.array([(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
CUBE_FACES = np.array(
    [
        *((0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1)),
        *((2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)),
    ]
)
"""Counter-clockwise from outside."""


def mesh(vertices: Floats, faces: NDArray[np.int64], *, solid: bool = True, **fields: Any) -> MeshObject:
    """A mesh object with its geometry."""
    made = MeshObject.model_validate({"kind": "mesh", "file": "mesh.obj", **fields})
    return made.with_geometry(
        TriangleMesh(np.asarray(vertices, float), np.asarray(faces, np.int64), None, solid)
    )


def box_mesh(size: tuple[float, float, float], **fields: Any) -> MeshObject:
    """A box as a closed mesh."""
    return mesh(CUBE * size, CUBE_FACES, **fields)


def terrain(heights: Floats, spacing: float, **fields: Any) -> HeightMapObject:
    """A height map with its heights."""
    made = HeightMapObject.model_validate({"kind": "height_map", "file": "heights.npz", **fields})
    return made.with_geometry(HeightGrid(np.asarray(heights, np.float32), spacing))


def voxels(occupied: NDArray[np.bool_], size: float, corner: Any = (0, 0, 0), **fields: Any) -> OctreeObject:
    """An octree object with its cells."""
    made = OctreeObject.model_validate({"kind": "octree", "file": "map.bt", **fields})
    return made.with_geometry(VoxelGrid(occupied, np.asarray(corner, float), size))


def world(*objects: Any, ground: bool = True) -> World:
    """A world with these objects."""
    return World(WorldSpecification(scene=SceneSpecification(ground=ground, objects=objects)))


def simulation(
    where: World,
    *places: tuple[float, float, float],
    airframe: str = "iris",
    yaw: float = 0.0,
    **options: Any,
) -> Simulation:
    """Vehicles at places in a world."""
    frame = load_airframe(airframe)
    setups = [
        VehicleSetup(frame.vehicle(), frame.sensor_records(), place, yaw, str(i))
        for i, place in enumerate(places)
    ]
    return Simulation(where, setups, **options)


def up(attitude: Floats) -> Floats:
    """Upward body axis in NED of a quaternion."""
    w, x, y, z = attitude
    return np.array([-2 * (x * z + w * y), -2 * (y * z - w * x), 2 * (x * x + y * y) - 1])
