"""Textures and visual markers of scenes, as they reach the records that a camera reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.core.world.records import BOX, CHECKER, IMAGE, NOISE, STRIPES
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_geometry import marker_pixels
from sitl_bridge.core.world.world_file import load_world

Image: Any = pytest.importorskip("PIL.Image")


def _load(directory: Path, text: str) -> Scene:
    file = directory / "world.yaml"
    file.write_text(text, encoding="utf-8")
    return Scene(load_world(file).scene)


def _pixels(texture: NDArray[np.void]) -> NDArray[np.uint8]:
    rows, columns = int(texture["rows"]), int(texture["columns"])
    found: NDArray[np.uint8] = array_at(int(texture["cells"]), rows * columns * 3, np.uint8)
    return found.reshape(rows, columns, 3).copy()


def test_patterns_and_pictures_of_objects_and_the_ground_are_in_the_records(tmp_path: Path) -> None:
    picture = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    Image.fromarray(picture).save(tmp_path / "wall.png")
    scene = _load(
        tmp_path,
        """
scene:
  ground_color: [0.1, 0.2, 0.3]
  ground_texture: {file: wall.png, size: 4}
  objects:
    - {kind: box, size: [1, 1, 1], texture: {pattern: checker, size: 0.25, color: [1, 0, 0]}}
    - {kind: sphere, radius: 1, texture: {pattern: stripes}}
    - {kind: plane, position: [0, 0, 5], texture: {pattern: noise}}
    - {kind: cylinder, radius: 1, length: 1, texture: {file: wall.png, size: 2}}
    - {kind: cylinder, radius: 1, length: 1}
""",
    )
    textures = {name: shape["texture"] for name, shape in scene.objects()}
    kinds = [int(textures[name]["kind"]) for name in scene.names]
    assert kinds == [CHECKER, STRIPES, NOISE, IMAGE, 0]
    assert (float(textures["box 0"]["size"]), textures["box 0"]["color"].tolist()) == (0.25, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(_pixels(textures["cylinder 3"]), picture)
    record = scene.record[0]
    assert record["ground_color"].tolist() == [0.1, 0.2, 0.3]
    assert (int(record["ground_texture"]["kind"]), float(record["ground_texture"]["size"])) == (IMAGE, 4.0)
    np.testing.assert_array_equal(_pixels(record["ground_texture"]), picture)


def test_faults_of_textures_are_reported_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "torn.png").write_bytes(b"\x89PNG\r\n")
    (tmp_path / "clip.gif").write_bytes(b"GIF89a")
    with pytest.raises(ConfigurationError) as caught:
        _load(
            tmp_path,
            """scene:
  ground_texture: {file: none.png}
  objects:
    - {kind: sphere, radius: 1, texture: {file: torn.png}}
    - {kind: sphere, radius: 1, texture: {file: clip.gif}}
    - {kind: marker, size: 1, id: 50}
""",
        )
    lines = sorted(str(caught.value).replace(str(tmp_path), "").splitlines())
    for line, said in zip(
        lines,
        (
            "line 2: scene.ground_texture.file: /none.png: cannot be read",
            "line 4: scene.objects[0].texture.file: /torn.png: is broken or not a picture",
            "line 5: scene.objects[1].texture.file: /clip.gif: is not a supported picture; the formats",
            "line 6: scene.objects[2].id: the dictionary 4x4_50 has the markers 0 to 49, but not 50",
        ),
        strict=True,
    ):
        assert line.startswith(f"/world.yaml: {said}"), line
    with pytest.raises(ConfigurationError, match="texture: give one of `pattern` and `file`"):
        _load(tmp_path, "scene:\n  objects: [{kind: sphere, radius: 1, texture: {size: 2}}]\n")


def test_a_marker_is_a_plate_that_faces_up_with_the_pattern_that_opencv_finds(tmp_path: Path) -> None:
    cv2: Any = pytest.importorskip("cv2")
    scene = _load(
        tmp_path,
        "scene:\n  objects: [{kind: marker, dictionary: 5x5_100, id: 42, size: 0.7, position: [2, 1, -1]}]\n",
    )
    (shape,) = scene.shapes
    # 5 cells and two black ones make 0.7 m; the white border adds two.
    assert (int(shape["kind"]), int(shape["texture"]["face"])) == (BOX, 1)
    assert float(shape["texture"]["size"]) == pytest.approx(0.9)
    np.testing.assert_allclose(shape["half_size"], [0.45, 0.45, 0.001])
    pixels = _pixels(shape["texture"])
    assert pixels.shape == (9, 9, 3)
    seen = np.kron(pixels[:, :, 0], np.ones((20, 20), np.uint8))
    detector = cv2.aruco.ArucoDetector(cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_5X5_100))
    corners, numbers, _ = detector.detectMarkers(seen)
    assert np.asarray(numbers).ravel().tolist() == [42]
    # The first corner is the marker's upper left, so it is not turned.
    np.testing.assert_allclose(np.asarray(corners).reshape(4, 2)[0], [20.0, 20.0], atol=1.5)


def test_a_marker_that_is_stood_up_faces_south_with_its_upper_edge_up(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    text = "scene:\n  objects: [{kind: marker, size: 0.7, rotation: [0, 90, 0]}]\n"
    (shape,) = _load(tmp_path, text).shapes
    np.testing.assert_allclose(-shape["rotation"][:, 2], [-1.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(shape["rotation"][:, 0], [0.0, 0.0, -1.0], atol=1e-12)


def test_a_missing_opencv_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cv2", None)
    with pytest.raises(ConfigurationError, match="markers need the package opencv-python-headless"):
        _load(tmp_path, "scene:\n  objects: [{kind: marker, size: 1}]\n")


def test_a_sheet_of_sdf_has_its_picture(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "tag.png")
    file = tmp_path / "world.sdf"
    file.write_text(
        "<sdf><world name='w'><model name='m'><static>1</static><link name='l'><visual name='v'>"
        "<geometry><plane><size>0.5 0.5</size></plane></geometry>"
        "<material><pbr><metal><albedo_map>tag.png</albedo_map></metal></pbr></material>"
        "</visual></link></model></world></sdf>",
        encoding="utf-8",
    )
    (shape,) = Scene(load_world(file).scene).shapes
    assert (int(shape["texture"]["kind"]), float(shape["texture"]["size"])) == (IMAGE, 0.5)


def test_textures_and_markers_are_made_in_python(tmp_path: Path) -> None:
    pixels = np.full((2, 2, 3), 9, np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    scene = (
        sb.World(
            scene=[
                sb.scene.Box((1, 1, 1), texture=sb.scene.Texture("checker", 0.5)),
                sb.scene.Sphere(1.0, texture=sb.scene.Texture(tmp_path / "a.png", 2.0)),
                sb.scene.Sphere(1.0, texture=sb.scene.Texture(pixels)),
                sb.scene.Marker(0.4, id=3),
            ]
        )
        .build()
        .scene
    )
    textures = {name: shape["texture"] for name, shape in scene.objects()}
    kinds = [int(textures[name]["kind"]) for name in scene.names]
    assert kinds == [CHECKER, IMAGE, IMAGE, IMAGE]
    np.testing.assert_array_equal(_pixels(textures["sphere 1"]), pixels)
    np.testing.assert_array_equal(_pixels(textures["marker 3"]), marker_pixels("4x4_50", 3))
    with pytest.raises(sb.UserError, match=r"pixels are \(rows, columns, 3\) of uint8"):
        sb.scene.Texture([[1, 2], [3, 4]])
