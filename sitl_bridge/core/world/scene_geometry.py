"""Loads the files of a scene's objects: meshes, height maps, octree maps, textures."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from sitl_bridge.base.errors import UserError, faults_of
from sitl_bridge.base.field_paths import FieldPath
from sitl_bridge.core.world.geometry import TriangleMesh
from sitl_bridge.core.world.height_map_file import load_heights
from sitl_bridge.core.world.mesh_file import load_mesh, refuse_too_many
from sitl_bridge.core.world.octree_file import load_octree
from sitl_bridge.core.world.scene_specification import (
    HeightMapObject,
    MarkerObject,
    MeshObject,
    OctreeObject,
    SceneObject,
    SceneSpecification,
    TextureSpecification,
)
from sitl_bridge.core.world.texture_file import load_texture, marker_pixels
from sitl_bridge.core.world.world import Origin

Loaded = TypeVar("Loaded")
PlacedFault = tuple[FieldPath, str]
"""A fault with its path in the scene."""


class GeometryLoader:
    """Reads the files of a world's objects, each file once.

    Args:
        directory: to which names are relative.
        origin: of the world, for georeferenced files.
    """

    def __init__(self, directory: Path, origin: Origin) -> None:
        self._directory = directory
        self._origin = (origin.latitude, origin.longitude, origin.altitude)
        self._read: dict[Hashable, Any] = {}
        self._triangles = 0

    def load(self, item: SceneObject) -> SceneObject:
        """An object with its geometry; unchanged if it has no file or its geometry is loaded.

        Raises:
            UserError: for an invalid file.
        """
        match item:
            case MeshObject() if item.geometry is None:
                return self._mesh(item)
            case HeightMapObject() if item.geometry is None:
                return self._heights(item)
            case OctreeObject() if item.geometry is None:
                return self._octree(item)
            case MarkerObject() if item._pixels is None:
                marked = item.model_copy()
                marked._pixels = self._once(
                    (item.dictionary, item.id), lambda: marker_pixels(item.dictionary, item.id)
                )
                return marked
        return item

    def texture(self, texture: TextureSpecification | None) -> TextureSpecification | None:
        """A texture with its picture; unchanged if it is a pattern.

        Raises:
            UserError: for an invalid file.
        """
        if texture is None or texture.file is None or texture._pixels is not None:
            return texture
        file = self._directory / texture.file
        made = texture.model_copy(update={"file": file})
        made._pixels = self._once(file, lambda: load_texture(file))
        return made

    def load_all(self, items: Iterable[SceneObject]) -> tuple[tuple[SceneObject, ...], list[PlacedFault]]:
        """Objects with their geometry, and the faults of those whose files cannot be read."""
        made: list[SceneObject] = []
        faults: list[PlacedFault] = []
        for i, item in enumerate(items):
            field: FieldPath = ("id",) if isinstance(item, MarkerObject) else ("file",)
            try:
                loaded = self.load(item)
                field = ("texture", "file")
                texture = self.texture(item.texture)
            except UserError as error:
                faults += [(("objects", i, *field), fault) for fault in faults_of(error)]
                continue
            made.append(loaded if texture is None else loaded.model_copy(update={"texture": texture}))
        return tuple(made), faults

    def load_shown(self, scene: SceneSpecification, notes: list[str]) -> SceneSpecification:
        """A scene to be shown, with its geometry; what cannot be read is noted and left out."""
        objects = []
        for thing in scene.objects:
            try:
                objects.append(self.load(thing))
            except UserError as error:
                notes.append(f"{thing.name or thing.kind} is not shown: {error}")
        return scene.model_copy(update={"objects": tuple(objects)})

    def _once(self, key: Hashable, read: Callable[[], Loaded]) -> Loaded:
        """Content of a file, read once; raises its error again if it is invalid."""
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

    def _mesh(self, item: MeshObject) -> MeshObject:
        file = self._directory / item.file
        scale = item.scale if isinstance(item.scale, tuple) else (item.scale,) * 3

        def read() -> TriangleMesh:
            mesh = load_mesh(file, item.axes, scale)
            self._triangles += len(mesh.faces)
            refuse_too_many(self._triangles, f"{file}: with the meshes before it, the world")
            return mesh

        mesh = self._once((file, scale, item.axes), read)
        return item.with_geometry(mesh, file=file)

    def _heights(self, item: HeightMapObject) -> HeightMapObject:
        file = self._directory / item.file
        grid, corner = self._once(
            (file, item.spacing, item.height),
            lambda: load_heights(file, item.spacing, item.height, self._origin),
        )
        place = tuple(a + b for a, b in zip(item.position, corner, strict=True))
        return item.with_geometry(grid, file=file, position=place)

    def _octree(self, item: OctreeObject) -> OctreeObject:
        file = self._directory / item.file
        voxels = self._once((file, item.axes), lambda: load_octree(file, item.axes))
        return item.with_geometry(voxels, file=file)
