"""Pictures on meshes: read from glTF and OBJ, and shown where a projection by hand puts them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.core.sensors.perception.camera import CameraSpecification
from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.sensors.perception.shading import place_in_triangle
from sitl_bridge.core.sensors.perception.view import Poses, View
from sitl_bridge.core.world.mesh_file import LARGEST_PICTURE, load_mesh
from sitl_bridge.core.world.records import TRIANGLE
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import (
    FacePictures,
    MeshObject,
    SceneSpecification,
    TextureSpecification,
    TriangleMesh,
)

trimesh: Any = pytest.importorskip("trimesh")
Picture: Any = pytest.importorskip("PIL.Image")

NOBODY = np.zeros((0, 4))
PIXELS = np.random.default_rng(3).integers(0, 256, (4, 6, 3), np.uint8)
"""Four rows of six cells, each of its own colour."""
PLACE = np.array([0.0, 0.0, -20.0])
QUAD = np.array([[8.0, -3.0, -22.0], [8.0, 3.0, -22.0], [8.0, 3.0, -18.0], [8.0, -3.0, -18.0]])
"""A wall of 6 m x 4 m, 8 m north of a camera at (0, 0, -20): its corners from the upper left, clockwise."""
CORNERS_UV = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
FACES = np.array([[0, 2, 1], [0, 3, 2]])


def wall(uv: NDArray[np.float64] = CORNERS_UV, **fields: Any) -> MeshObject:
    """The wall with the picture; ``fields`` are those of the object."""
    thing = MeshObject.model_validate({"kind": "mesh", "file": "wall.glb", **fields})
    painted = FacePictures(uv[FACES].astype(np.float32), np.zeros(2, np.int32), (PIXELS,))
    return thing.with_geometry(TriangleMesh(QUAD, FACES, None, False, painted))


def seen_by(thing: MeshObject, **fields: Any) -> NDArray[np.float64]:
    """(height, width, 3) picture of an object, 0 to 1, in even light without noise."""
    camera = CameraSpecification.model_validate(
        {
            "kind": "camera", "color": True, "width": 160, "height": 120, "field_of_view": 60.0,
            "full_well": 0.0, "gain": 1.0, "ambient": 1.0, **fields,
        }
    )  # fmt: skip
    scene = Scene(SceneSpecification(ground=False, objects=(thing,)))
    caster = SceneCaster(scene, 0, NOBODY)
    time = np.array([0, 100_000])
    poses = Poses(time, np.tile(PLACE, (2, 1)), np.tile([1.0, 0, 0, 0], (2, 1)))
    view = View(caster, poses, 100_000, np.random.default_rng(1))
    return np.asarray(camera.measure(view)["image"], float) / 255.0


def expected(repeat: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The same by hand: each pixel's ray is met with the wall's plane, and its cell is looked up.

    Pixels whose ray passes within 2 cm of a border of cells or of the wall are left out.
    """
    focal = 80.0 / math.tan(math.radians(30.0))
    v, u = np.meshgrid(np.arange(120.0), np.arange(160.0), indexing="ij")
    east, down = 8.0 * (u - 79.5) / focal, 8.0 * (v - 59.5) / focal
    across, below = (east + 3.0) * repeat, (down + 2.0) * repeat
    inside = (np.abs(east) < 2.98) & (np.abs(down) < 1.98)
    clear = (np.abs((across + 0.5) % 1.0 - 0.5) > 0.02) & (np.abs((below + 0.5) % 1.0 - 0.5) > 0.02)
    cells = PIXELS[np.floor(below).astype(int) % 4, np.floor(across).astype(int) % 6] / 255.0
    return cells, inside & clear


@pytest.mark.parametrize(
    "fields",
    [
        {},  # drawn by the depth buffer
        {"row_time": 1e-4},  # ray by ray
    ],
)
def test_each_cell_of_a_picture_is_where_the_projection_puts_it(fields: dict[str, Any]) -> None:
    cells, clear = expected()
    assert clear.sum() > 5000
    np.testing.assert_allclose(seen_by(wall(), **fields)[clear], cells[clear], atol=0.003)


def test_a_picture_repeats_beyond_its_edges() -> None:
    cells, clear = expected(2.0)
    np.testing.assert_allclose(seen_by(wall(2.0 * CORNERS_UV))[clear], cells[clear], atol=0.003)


def test_the_picture_turns_with_its_object() -> None:
    """Turned by half about the camera's axis, the wall stands on its head."""
    moved: dict[str, Any] = {"rotation": (180.0, 0.0, 0.0), "position": (0.0, 0.0, -40.0)}
    cells, clear = expected()
    np.testing.assert_allclose(seen_by(wall(**moved))[::-1, ::-1][clear], cells[clear], atol=0.003)


def test_a_texture_of_the_object_replaces_the_picture() -> None:
    plain = TextureSpecification(pattern="checker", size=50.0, color=(0.0, 1.0, 0.0))
    thing = wall(color=(0.0, 1.0, 0.0)).model_copy(update={"texture": plain})
    seen = seen_by(thing)[60, 80]
    np.testing.assert_allclose(seen, [0.0, 1.0, 0.0], atol=0.003)


def test_cameras_show_the_colours_of_triangles() -> None:
    plain = MeshObject(kind="mesh", file=Path("wall.glb"))
    colors = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], np.float32)
    thing = plain.with_geometry(TriangleMesh(QUAD, FACES, colors, False))
    seen = seen_by(thing)
    right, left = seen[40, 110], seen[80, 50]
    assert right[0] > 0.3
    assert right[2] == 0.0
    assert left[2] > 0.3
    assert left[0] == 0.0


def test_shares_of_a_triangles_edges() -> None:
    random = np.random.default_rng(4)
    for _ in range(20):
        triangle = np.zeros(1, TRIANGLE)[0]
        triangle["corner"], triangle["edge"] = random.normal(size=3), random.normal(size=(2, 3))
        a, b = random.uniform(0.0, 1.0, 2)
        point = triangle["corner"] + a * triangle["edge"][0].astype(float) + b * triangle["edge"][1]
        np.testing.assert_allclose(place_in_triangle(triangle, point), (a, b), atol=1e-5)


def textured_file(path: Path, pixels: NDArray[np.uint8] = PIXELS) -> Path:
    """The wall in the axes of its format, written by trimesh."""
    image = Picture.fromarray(pixels)
    visual = trimesh.visual.TextureVisuals(uv=CORNERS_UV, image=image)
    if path.suffix == ".glb":
        visual = trimesh.visual.TextureVisuals(
            uv=CORNERS_UV, material=trimesh.visual.material.PBRMaterial(baseColorTexture=image)
        )
        corners = QUAD[:, [1, 2, 0]] * [1.0, -1.0, -1.0]  # x east, y up, z south
    else:
        corners = QUAD[:, [1, 0, 2]] * [1.0, 1.0, -1.0]  # x east, y north, z up
    trimesh.Trimesh(corners, FACES, visual=visual, process=False).export(path)
    return path


@pytest.mark.parametrize("name", ["wall.glb", "wall.obj"])
def test_the_picture_of_a_file_is_seen_the_right_way_up(name: str, tmp_path: Path) -> None:
    mesh = load_mesh(textured_file(tmp_path / name), None, (1.0, 1.0, 1.0))
    thing = MeshObject(kind="mesh", file=Path(name)).with_geometry(mesh)
    painted = mesh.painted
    assert painted is not None
    assert [picture.shape for picture in painted.pictures] == [(4, 6, 3)]
    cells, clear = expected()
    np.testing.assert_allclose(seen_by(thing)[clear], cells[clear], atol=0.003)


def test_a_large_picture_is_reduced(tmp_path: Path) -> None:
    large = np.full((8, 2 * LARGEST_PICTURE, 3), 90, np.uint8)
    painted = load_mesh(textured_file(tmp_path / "wall.glb", large), None, (1.0, 1.0, 1.0)).painted
    assert painted is not None
    assert painted.pictures[0].shape == (4, LARGEST_PICTURE, 3)


def test_a_mesh_without_coordinates_keeps_one_colour_a_triangle(tmp_path: Path) -> None:
    trimesh.creation.box((1.0, 1.0, 1.0)).export(tmp_path / "box.glb")
    assert load_mesh(tmp_path / "box.glb", None, (1.0, 1.0, 1.0)).painted is None
