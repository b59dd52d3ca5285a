"""Loads the files of a scene's objects: meshes, height maps, octree maps, textures."""

from __future__ import annotations

import io
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sitl_bridge.base.arrays import Bytes
from sitl_bridge.base.errors import UserError, faults_of
from sitl_bridge.base.extras import missing_package
from sitl_bridge.base.field_paths import FieldPath
from sitl_bridge.base.input_file import name_broken, read_bytes
from sitl_bridge.core.world.height_map_file import load_heights, validate_picture_size
from sitl_bridge.core.world.mesh_file import load_mesh, validate_triangle_count
from sitl_bridge.core.world.octree_file import load_octree
from sitl_bridge.core.world.scene_specification import (
    HeightMapObject,
    MarkerObject,
    MeshObject,
    OctreeObject,
    SceneObject,
    SceneSpecification,
    TextureSpecification,
    TriangleMesh,
)
from sitl_bridge.core.world.world import Origin

Loaded = TypeVar("Loaded")
PlacedFault = tuple[FieldPath, str]
"""A fault with its path in the scene."""


TEXTURES = (".png", ".jpg", ".jpeg")
MAX_TEXTURE_BYTES = 100_000_000


def load_texture(path: Path) -> Bytes:
    """Pixels (rows, columns, 3) of a picture, from its upper left.

    Raises:
        UserError: for a file that cannot be read, is broken or too large.
    """
    if path.suffix.lower() not in TEXTURES:
        raise UserError(f"{path}: is not a supported picture; the formats are {', '.join(TEXTURES)}")
    raw = read_bytes(path, MAX_TEXTURE_BYTES)
    from PIL import Image

    with (
        name_broken(path, "a picture", "save it again"),
        Image.open(io.BytesIO(raw), formats=["PNG", "JPEG"]) as image,
    ):
        validate_picture_size(path, image.width, image.height)
        return np.asarray(image.convert("RGB"), np.uint8)


def marker_pixels(dictionary: str, number: int) -> Bytes:
    """Pixels (n, n, 3) of a marker, one per cell, with its black border and a white one.

    Args:
        dictionary: OpenCV's name in lower case.
        number: of the marker in the dictionary.

    Raises:
        UserError: if OpenCV is missing or too old, and for a number that the dictionary does not have.
    """
    try:
        import cv2
    except ImportError as error:
        raise missing_package("opencv-python-headless", "markers") from error
    code = getattr(getattr(cv2, "aruco", None), f"DICT_{dictionary.upper()}", None)
    if code is None:
        raise UserError(
            f"OpenCV {cv2.__version__} has no markers {dictionary}:"
            " pip install --upgrade opencv-python-headless"
        )
    found = cv2.aruco.getPredefinedDictionary(code)
    count = len(found.bytesList)
    if number >= count:
        raise UserError(f"the dictionary {dictionary} has the markers 0 to {count - 1}, but not {number}")
    grey = cv2.aruco.generateImageMarker(found, number, found.markerSize + 2, borderBits=1)
    framed = np.pad(np.asarray(grey, np.uint8), 1, constant_values=255)
    return np.ascontiguousarray(np.repeat(framed[:, :, None], 3, axis=2))


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
                file = self._directory / item.file
                voxels = self._once((file, item.axes), lambda: load_octree(file, item.axes))
                return item.with_geometry(voxels, file=file)
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
            validate_triangle_count(self._triangles, f"{file}: with the meshes before it, the world")
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
