"""Fills in the geometry that the objects of a scene have in files: meshes, height maps, octree maps."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

from sitl_bridge.errors import UserError, faults_of
from sitl_bridge.field_paths import FieldPath
from sitl_bridge.files.height_map_file import load_heights
from sitl_bridge.files.mesh_file import load_mesh, refuse_too_many
from sitl_bridge.files.octree_file import load_octree
from sitl_bridge.world.scene_specification import (
    HeightMapObject,
    MeshObject,
    OctreeObject,
    SceneObject,
    SceneSpecification,
)
from sitl_bridge.world.world import Origin

Loaded = TypeVar("Loaded")
PlacedFault = tuple[FieldPath, str]
"""A fault with its path in the scene."""


class GeometryLoader:
    """Reads the files of a scene's objects, each file once.

    Attributes:
        faults: of the objects whose files could not be read.

    Args:
        directory: that relative names start from.
        origin: of the world, for georeferenced files.
    """

    def __init__(self, directory: Path, origin: Origin) -> None:
        self.faults: list[PlacedFault] = []
        self._directory = directory
        self._origin = (origin.latitude, origin.longitude, origin.altitude)
        self._read: dict[Hashable, Any] = {}
        self._triangles = 0

    def load(self, thing: SceneObject, path: FieldPath) -> SceneObject:
        """An object with its geometry; the object itself where it has no file or the file is at fault.

        Args:
            thing: as its file describes it.
            path: of it, for messages.
        """
        try:
            match thing:
                case MeshObject() if thing._mesh is None:
                    return self._mesh(thing)
                case HeightMapObject() if thing._grid is None:
                    return self._heights(thing)
                case OctreeObject() if thing._voxels is None:
                    return self._octree(thing)
        except UserError as error:
            self.faults += [((*path, "file"), fault) for fault in faults_of(error)]
        return thing

    def _once(self, key: Hashable, read: Callable[[], Loaded]) -> Loaded:
        if key not in self._read:
            self._read[key] = read()
        found: Loaded = self._read[key]
        return found

    def _mesh(self, thing: MeshObject) -> MeshObject:
        file = self._directory / thing.file
        scale = thing.scale if isinstance(thing.scale, tuple) else (thing.scale,) * 3
        key = (file, scale, thing.axes)
        new = key not in self._read
        mesh = self._once(key, lambda: load_mesh(file, thing.axes, scale))
        if new:
            self._triangles += len(mesh.faces)
            refuse_too_many(self._triangles, f"{file}: with the meshes before it, the world")
        made = thing.model_copy(update={"file": file})
        made._mesh = mesh
        return made

    def _heights(self, thing: HeightMapObject) -> HeightMapObject:
        file = self._directory / thing.file
        key = (file, thing.spacing, thing.height)
        grid, corner = self._once(key, lambda: load_heights(file, thing.spacing, thing.height, self._origin))
        place = tuple(a + b for a, b in zip(thing.position, corner, strict=True))
        made = thing.model_copy(update={"file": file, "position": place})
        made._grid = grid
        return made

    def _octree(self, thing: OctreeObject) -> OctreeObject:
        file = self._directory / thing.file
        voxels = self._once((file, thing.axes), lambda: load_octree(file, thing.axes))
        made = thing.model_copy(update={"file": file})
        made._voxels = voxels
        return made


def with_geometry(
    scene: SceneSpecification, directory: Path, origin: Origin
) -> tuple[SceneSpecification, list[PlacedFault]]:
    """A scene with the geometry of its files, and the faults of those that could not be read.

    Args:
        scene: as its file describes it.
        directory: of that file.
        origin: of the world.
    """
    loader = GeometryLoader(directory, origin)
    things = tuple(loader.load(thing, ("objects", i)) for i, thing in enumerate(scene.objects))
    return scene.model_copy(update={"objects": things}), loader.faults
