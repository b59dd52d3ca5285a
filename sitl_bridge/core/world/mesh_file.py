"""Mesh files, read by trimesh: node transforms applied, colours kept, rotated from the file's axes to NED.

The axes of a mesh are x east, y north and z up, as in ROS and Gazebo, unless its format (glTF, COLLADA) or
its object sets others.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Bytes, Floats, Ints, Singles
from sitl_bridge.base.errors import UserError, shorten
from sitl_bridge.base.extras import missing_package
from sitl_bridge.base.input_file import read_bytes
from sitl_bridge.core.world.scene_specification import FacePictures, TriangleMesh

if TYPE_CHECKING:
    from PIL.Image import Image
    from trimesh import Scene, Trimesh

FORMATS = (".dae", ".glb", ".gltf", ".obj", ".ply", ".stl")
MAX_BYTES = 300_000_000
MAX_TRIANGLES = 1_000_000
"""Most triangles of all meshes of a world: 70 MB, and some seconds for building their trees."""
LARGEST = 1e6
"""Greatest coordinate in m; beyond, single precision is coarser than a decimetre."""

LARGEST_PICTURE = 2048
"""Pixels along the sides of a picture; a larger one is reduced."""

Axes = Literal["z_up", "y_up", "x_up", "ned"]
TO_NED: dict[Axes, Floats] = {
    "ned": np.eye(3),
    "z_up": np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]),
    # x right (east), y up, z towards the viewer, who looks north.
    "y_up": np.array([[0.0, 0.0, -1.0], [1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]),
    # COLLADA's X_UP: x up, y to the left (west), z towards the viewer.
    "x_up": np.array([[0.0, 0.0, -1.0], [0.0, -1.0, 0.0], [-1.0, 0.0, 0.0]]),
}
"""(3, 3) from a file's axes to north, east, down."""


def load_mesh(path: Path, axes: Axes | None, scale: tuple[float, float, float]) -> TriangleMesh:
    """Triangles of a mesh file, x north, y east, z down.

    Args:
        path: of the file.
        axes: of the file; None takes those of its format.
        scale: factors on the file's x, y and z coordinates.

    Raises:
        UserError: for a file that cannot be read, is broken, has no triangles or too many.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise UserError(f"{path}: is not a supported mesh; the formats are {', '.join(FORMATS)}")
    raw = read_bytes(path, MAX_BYTES)
    meter = 1.0
    own_axes: Axes = "y_up" if kind in (".glb", ".gltf") else "z_up"
    if kind == ".dae":
        meter, own_axes = _collada_conventions(raw)
    vertices, faces, colors, painted = _join(path, _parse(path, raw))
    if not np.isfinite(vertices).all() or np.abs(vertices).max() * meter * max(scale) > LARGEST:
        raise UserError(
            f"{path}: has coordinates that are not finite or beyond {LARGEST:g} m; check its scale"
        )
    turned = vertices * meter * np.array(scale) @ TO_NED[axes or own_axes].T
    return TriangleMesh(turned, faces, colors, is_solid(turned, faces), painted)


def is_solid(vertices: Floats, faces: Ints) -> bool:
    """Whether a surface is closed and its normals point outwards, so that it has an inside.

    Every edge must belong to two faces, once in each direction; vertices at one place count as one.
    """
    _, place = np.unique(np.ascontiguousarray(vertices, np.float32), axis=0, return_inverse=True)
    corners = place.reshape(-1)[faces]
    corners = corners[
        (corners[:, 0] != corners[:, 1]) & (corners[:, 1] != corners[:, 2]) & (corners[:, 2] != corners[:, 0])
    ]
    if not len(corners):
        return False
    edges = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]]).astype(np.int64)
    most = int(edges.max()) + 1
    forth, back = edges[:, 0] * most + edges[:, 1], edges[:, 1] * most + edges[:, 0]
    if not np.array_equal(np.sort(forth), np.sort(back)):
        return False
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    return float(np.einsum("ij,ij->", a, np.cross(b, c))) > 0.0


def _collada_conventions(raw: bytes) -> tuple[float, Axes]:
    """Metres of a unit and upward axis of a COLLADA file; trimesh applies neither."""
    unit = re.search(rb"<unit\b[^>]*\bmeter\s*=\s*[\"']\s*([0-9.eE+-]+)", raw)
    up = re.search(rb"<up_axis>\s*([XYZ])_UP", raw)
    try:
        meter = float(unit.group(1)) if unit else 1.0
    except ValueError:
        meter = 1.0
    found: dict[bytes, Axes] = {b"X": "x_up", b"Z": "z_up"}
    return meter, found.get(up.group(1) if up else b"Y", "y_up")


def _parse(path: Path, raw: bytes) -> Scene:
    """The file as trimesh's scene."""
    try:
        import trimesh
        from trimesh.resolvers import FilePathResolver
    except ImportError as error:
        raise missing_package("trimesh", "meshes") from error
    if path.suffix.lower() == ".dae":
        try:
            import collada  # noqa: F401
        except ImportError as error:
            raise missing_package("pycollada", "COLLADA meshes (.dae)") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return trimesh.load_scene(
                io.BytesIO(raw),
                file_type=path.suffix.lower()[1:],
                resolver=FilePathResolver(str(path), allow_anywhere=True),
                process=False,
            )
    except Exception as error:
        reason = shorten(" ".join(str(error).split()) or type(error).__name__, 120)
        raise UserError(
            f"{path}: is broken, or not a {path.suffix[1:].upper()} mesh: {reason}; open it in a mesh editor,"
            " such as Blender or MeshLab, and export it again"
        ) from error


_Joined = tuple[Floats, Ints, Singles | None, FacePictures | None]


def _join(path: Path, scene: Scene) -> _Joined:
    """Vertices, faces, colours and pictures of all meshes of a file, transformed by their nodes."""
    vertices, faces, colors = [], [], []
    images: list[Image] = []  # each kept once
    uv: list[Singles] = []
    pictures: list[NDArray[np.int32]] = []
    first = total = 0
    for mesh, matrix in _place_meshes(scene):
        corners = np.asarray(mesh.vertices, np.float64)
        triangles = np.asarray(mesh.faces, np.int64)
        total += len(triangles)
        validate_triangle_count(total, str(path))
        if not len(triangles):
            continue
        if corners.ndim != 2 or corners.shape[1] != 3 or triangles.ndim != 2 or triangles.shape[1] != 3:
            raise UserError(f"{path}: is broken: a vertex or a face has not three numbers; export it again")
        if triangles.min() < 0 or triangles.max() >= len(corners):
            raise UserError(
                f"{path}: is broken: a face has a vertex that is not in the file; export it again"
            )
        if np.linalg.det(matrix[:3, :3]) < 0.0:
            triangles = triangles[:, ::-1]
        vertices.append(corners @ matrix[:3, :3].T + matrix[:3, 3])
        faces.append(triangles + first)
        colors.append(_colors(mesh, len(triangles)))
        shown, number = np.zeros((len(triangles), 3, 2), np.float32), -1
        if (found := _picture(mesh)) is not None:
            if not any(known is found[0] for known in images):
                images.append(found[0])
            number = next(k for k, known in enumerate(images) if known is found[0])
            shown = found[1][triangles].astype(np.float32)
        uv.append(shown)
        pictures.append(np.full(len(triangles), number, np.int32))
        first += len(corners)
    if not faces:
        raise UserError(f"{path}: has no triangles; a point cloud or an empty export cannot be an object")
    known = [part for part in colors if part is not None]
    colored = None
    if known:
        grey = np.full(3, 0.7, np.float32)
        colored = np.concatenate(
            [np.tile(grey, (len(f), 1)) if c is None else c for c, f in zip(colors, faces, strict=True)]
        )
    painted = None
    if images:
        pixels = tuple(_pixels(image) for image in images)
        painted = FacePictures(np.concatenate(uv), np.concatenate(pictures), pixels)
    return np.concatenate(vertices), np.concatenate(faces), colored, painted


def _place_meshes(scene: Scene) -> Iterator[tuple[Trimesh, Floats]]:
    """Each mesh of trimesh's scene with the matrix (4, 4) of each node that shows it."""
    for node in scene.graph.nodes_geometry:
        matrix, name = scene.graph[node]
        geometry = scene.geometry.get(name)
        if geometry is not None and hasattr(geometry, "faces"):
            yield geometry, np.asarray(matrix, np.float64)


def validate_triangle_count(triangles: int, what: str) -> None:
    """Refuse more triangles than a world may have.

    Raises:
        UserError: with ways to reduce them.
    """
    if triangles > MAX_TRIANGLES:
        raise UserError(
            f"{what}: has {triangles:,} triangles; all meshes of a world can have {MAX_TRIANGLES:,};"
            " reduce it, in Blender with the modifier Decimate, or in MeshLab with Quadric Edge Collapse"
            " Decimation"
        )


def _colors(mesh: Trimesh, count: int) -> Singles | None:
    """Colours (count, 3) of a mesh's faces, 0 to 1; None if the file has none."""
    visual = mesh.visual
    if visual.kind in ("face", "vertex"):
        return np.asarray(visual.face_colors[:, :3], np.float32) / 255.0
    material = getattr(visual, "material", None)
    if material is None:
        return None
    if (found := _picture(mesh)) is not None:
        image, uv = found
        return _sample(image, uv[np.asarray(mesh.faces)].mean(axis=1))
    main = np.asarray(material.main_color, np.float32)[:3] / 255.0
    return np.tile(main, (count, 1))


def _picture(mesh: Trimesh) -> tuple[Image, Floats] | None:
    """A mesh's picture, and the places (v, 2) of its vertices in it; None where it has none."""
    material, uv = getattr(mesh.visual, "material", None), getattr(mesh.visual, "uv", None)
    image = getattr(material, "baseColorTexture", None) or getattr(material, "image", None)
    if image is None or uv is None or len(uv) != len(mesh.vertices):
        return None
    places = np.asarray(uv, np.float64)[:, :2]
    return (image, places) if np.isfinite(places).all() else None


def _pixels(image: Image) -> Bytes:
    """Pixels (rows, columns, 3) of a picture, reduced by a whole factor where it is large."""
    factor = -(-max(image.width, image.height) // LARGEST_PICTURE)
    return np.asarray(image.convert("RGB").reduce(factor), np.uint8)


def _sample(image: Image, uv: Floats) -> Singles:
    """Colours (k, 3) of an image at texture coordinates (k, 2), v upwards; the image repeats."""
    pixels = np.asarray(image.convert("RGB"), np.float32) / 255.0
    rows, columns = pixels.shape[:2]
    column = (np.mod(uv[:, 0], 1.0) * columns).astype(np.int64) % columns
    row = ((1.0 - np.mod(uv[:, 1], 1.0)) * rows).astype(np.int64) % rows
    return np.asarray(pixels[row, column], np.float32)
