"""Scenes for tests: every kind of shape, at random."""

from __future__ import annotations

import numpy as np

from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import (
    AnyObject,
    BoxObject,
    CylinderObject,
    HeightGrid,
    HeightMapObject,
    MeshObject,
    OctreeObject,
    PlaneObject,
    SceneSpecification,
    SphereObject,
    TriangleMesh,
    VoxelGrid,
)

Triple = tuple[float, float, float]


def triple(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Triple:
    x, y, z = (float(v) for v in values)
    return x, y, z


def mesh_object(vertices: object, faces: object, solid: bool = True, **fields: object) -> MeshObject:
    made = MeshObject.model_validate({"kind": "mesh", "file": "mesh.stl", **fields})
    return made.with_geometry(
        TriangleMesh(np.asarray(vertices, float), np.asarray(faces, np.int64), None, solid)
    )


def tetrahedra(count: int, seed: int, reach: float = 20.0, size: float = 2.0) -> MeshObject:
    """A mesh of tetrahedra at random places, some of which overlap."""
    random = np.random.default_rng(seed)
    corners = random.uniform(-reach, reach, (count, 1, 3)) + random.uniform(-size, size, (count, 4, 3))
    volume = np.einsum(
        "ni,ni->n",
        corners[:, 1] - corners[:, 0],
        np.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 0]),
    )
    corners[volume < 0.0, 2:] = corners[volume < 0.0, 3:1:-1]
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    return mesh_object(corners.reshape(-1, 3), (4 * np.arange(count)[:, None, None] + faces).reshape(-1, 3))


def terrain(rows: int, columns: int, seed: int, spacing: float = 1.0, **fields: object) -> HeightMapObject:
    made = HeightMapObject.model_validate({"kind": "height_map", "file": "terrain.npz", **fields})
    heights = np.random.default_rng(seed).uniform(0.0, 2.0, (rows, columns))
    return made.with_geometry(HeightGrid(heights.astype(np.float32), spacing))


def voxels(
    shape: tuple[int, int, int], share: float, seed: int, size: float, **fields: object
) -> OctreeObject:
    made = OctreeObject.model_validate({"kind": "octree", "file": "map.bt", **fields})
    occupied = np.random.default_rng(seed).random(shape) < share
    return made.with_geometry(VoxelGrid(occupied, np.zeros(3), size))


def make_every_shape(seed: int) -> list[AnyObject]:
    """Boxes, spheres, cylinders, a plane, a mesh, terrain and voxels, turned at random."""
    random = np.random.default_rng(seed)

    def placed() -> dict[str, object]:
        return {
            "position": triple(random.uniform(-20, 20, 3) * [1, 1, 0.3] - [0, 0, 4]),
            "rotation": triple(random.uniform(-180, 180, 3)),
        }

    made: list[AnyObject] = []
    for _ in range(8):
        size = triple(random.uniform(0.3, 4.0, 3))
        made.append(BoxObject.model_validate({"kind": "box", "size": size, **placed()}))
        made.append(SphereObject.model_validate({"kind": "sphere", "radius": size[0], **placed()}))
        made.append(
            CylinderObject.model_validate(
                {"kind": "cylinder", "radius": size[1] / 2, "length": size[2] * 2, **placed()}
            )
        )
    made.append(PlaneObject(kind="plane", position=(0, 0, 1.0), rotation=(8.0, -5.0, 20.0)))
    made.append(tetrahedra(60, seed))
    made.append(terrain(12, 9, seed, 1.5, position=(-30.0, -30.0, -1.0), rotation=(0.0, 4.0, 30.0)))
    made.append(
        voxels((12, 15, 10), 0.1, seed, 0.4, position=(10.0, -25.0, -6.0), rotation=(10.0, 0.0, 30.0))
    )
    return made


def scene_of(*objects: AnyObject, ground: bool = False) -> Scene:
    return Scene(SceneSpecification(ground=ground, objects=objects))
