"""Fills in what the objects of a scene have in files: meshes, height maps, octree maps, pictures."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from sitl_bridge.errors import UserError, faults_of
from sitl_bridge.field_paths import FieldPath
from sitl_bridge.files.height_map_file import load_heights
from sitl_bridge.files.mesh_file import load_mesh, refuse_too_many
from sitl_bridge.files.octree_file import load_octree
from sitl_bridge.files.texture_file import load_texture, marker_pixels
from sitl_bridge.world.geometry import TriangleMesh
from sitl_bridge.world.scene_specification import (
    HeightMapObject,
    MarkerObject,
    MeshObject,
    OctreeObject,
    SceneObject,
    TextureSpecification,
)
from sitl_bridge.world.world import Origin

Loaded = TypeVar("Loaded")
PlacedFault = tuple[FieldPath, str]
"""A fault with its path in the scene."""


class GeometryLoader:
    """Reads the files of a world's objects, each file once.

    Args:
        directory: that relative names start from.
        origin: of the world, for georeferenced files.
    """

    def __init__(self, directory: Path, origin: Origin) -> None:
        self._directory = directory
        self._origin = (origin.latitude, origin.longitude, origin.altitude)
        self._read: dict[Hashable, Any] = {}
        self._triangles = 0

    def load(self, thing: SceneObject) -> SceneObject:
        """An object with its geometry; the object itself where it has no file or its geometry is there.

        Raises:
            UserError: for a file at fault.
        """
        match thing:
            case MeshObject() if thing._mesh is None:
                return self._mesh(thing)
            case HeightMapObject() if thing._grid is None:
                return self._heights(thing)
            case OctreeObject() if thing._voxels is None:
                return self._octree(thing)
            case MarkerObject() if thing._pixels is None:
                marked = thing.model_copy()
                marked._pixels = self._once(
                    (thing.dictionary, thing.id), lambda: marker_pixels(thing.dictionary, thing.id)
                )
                return marked
        return thing

    def texture(self, texture: TextureSpecification | None) -> TextureSpecification | None:
        """A texture with its picture; the texture itself where it is a pattern.

        Raises:
            UserError: for a file at fault.
        """
        if texture is None or texture.file is None or texture._pixels is not None:
            return texture
        file = self._directory / texture.file
        made = texture.model_copy(update={"file": file})
        made._pixels = self._once(file, lambda: load_texture(file))
        return made

    def load_all(self, things: Iterable[SceneObject]) -> tuple[tuple[SceneObject, ...], list[PlacedFault]]:
        """Objects with their geometry, and the faults of those whose files cannot be read."""
        made: list[SceneObject] = []
        faults: list[PlacedFault] = []
        for i, thing in enumerate(things):
            field: FieldPath = ("id",) if isinstance(thing, MarkerObject) else ("file",)
            try:
                loaded = self.load(thing)
                field = ("texture", "file")
                texture = self.texture(thing.texture)
            except UserError as error:
                faults += [(("objects", i, *field), fault) for fault in faults_of(error)]
                continue
            made.append(loaded if texture is None else loaded.model_copy(update={"texture": texture}))
        return tuple(made), faults

    def _once(self, key: Hashable, read: Callable[[], Loaded]) -> Loaded:
        """What a file holds; its error again where it is at fault."""
        if key not in self._read:
            try:
                self._read[key] = read()
            except UserError as error:
                self._read[key] = error
        found = self._read[key]
        if isinstance(found, UserError):
            raise found
        known: Loaded = found
        return known

    def _mesh(self, thing: MeshObject) -> MeshObject:
        file = self._directory / thing.file
        scale = thing.scale if isinstance(thing.scale, tuple) else (thing.scale,) * 3

        def read() -> TriangleMesh:
            mesh = load_mesh(file, thing.axes, scale)
            self._triangles += len(mesh.faces)
            refuse_too_many(self._triangles, f"{file}: with the meshes before it, the world")
            return mesh

        mesh = self._once((file, scale, thing.axes), read)
        made = thing.model_copy(update={"file": file})
        made._mesh = mesh
        return made

    def _heights(self, thing: HeightMapObject) -> HeightMapObject:
        file = self._directory / thing.file
        grid, corner = self._once(
            (file, thing.spacing, thing.height),
            lambda: load_heights(file, thing.spacing, thing.height, self._origin),
        )
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
