"""Cameras: projection against OpenCV, images against closed forms, noise by its model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.core.sensors.perception.camera import CameraSpecification
from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.sensors.perception.shading import paint, shade
from sitl_bridge.core.sensors.perception.view import Poses, View
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.ray_casting import GROUND, NOTHING
from sitl_bridge.core.world.records import CHECKER, IMAGE, MESH_PAINT, SCENE, SHAPE, STRIPES, TEXTURE
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification

XTDRONE: dict[str, Any] = {"model": "brown_conrady", "k1": -0.2, "k2": 0.08, "p1": 5e-5, "p2": -1e-4}
"""Of XTDrone's stereo camera (sitl_config/models/stereo_camera)."""
FISHEYE: dict[str, Any] = {"model": "fisheye", "k1": -0.01, "k2": 0.02, "k3": -0.01, "k4": 0.002}
GROUND_COLOR = (0.4, 0.45, 0.3)
PLATE = BoxObject(kind="box", size=(0.2, 2.0, 2.0), position=(5.1, 0.0, -50.0), color=(0.0, 0.0, 0.0))
"""Black, 2 m wide, its face 5 m ahead of a camera at (0, 0, -50)."""


def camera(**fields: Any) -> CameraSpecification:
    return CameraSpecification.model_validate({"kind": "camera", "full_well": 0.0, **fields})


def level(turn_rate: float = 0.0) -> Poses:
    time = np.arange(0, 40_001, 4_000)
    half, zero = 0.5 * turn_rate * time * 1e-6, np.zeros(len(time))
    return Poses(
        time,
        np.tile([0.0, 0, -50], (len(time), 1)),
        np.stack([np.cos(half), zero, zero, np.sin(half)], axis=1),
    )


def photograph(
    specification: CameraSpecification, poses: Poses | None = None, seed: int = 1
) -> NDArray[np.float64]:
    poses = poses or level()
    caster = SceneCaster(Scene(SceneSpecification(objects=(PLATE,))), 0, np.zeros((0, 4)))
    view = View(caster, poses, int(poses.time[-1]), np.random.default_rng(seed))
    image = specification.measure(view)["image"]
    assert image.dtype == np.uint8
    return image.astype(float)


def edges(row: NDArray[np.float64]) -> tuple[float, float]:
    """Columns of the left and right edge of what is black in a row, to a fraction of a pixel."""
    dark = np.flatnonzero(row < 0.5 * row.max())
    first, last = dark[0], dark[-1]
    covered = 1.0 - row / row.max()
    return (
        first + 1.5 - covered[first - 1 : first + 2].sum(),
        last - 1.5 + covered[last - 1 : last + 2].sum(),
    )


def projected(lens: CameraSpecification, distortion: dict[str, Any] | None, points: Any) -> Any:
    """Columns and rows (n, 2) at which OpenCV shows points (n, 3) in the sensor's axes."""
    cv2 = pytest.importorskip("cv2")
    fx, fy, cx, cy = lens.intrinsics
    matrix = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    optical, still = np.ascontiguousarray(points[:, [1, 2, 0]]), np.zeros(3)
    if distortion is FISHEYE:
        figures = np.array([FISHEYE[k] for k in ("k1", "k2", "k3", "k4")])
        shown, _ = cv2.fisheye.projectPoints(optical[:, None], still, still, matrix, figures)
    else:
        figures = np.array([(distortion or {}).get(k, 0.0) for k in ("k1", "k2", "p1", "p2", "k3")])
        shown, _ = cv2.projectPoints(optical, still, still, matrix, figures)
    return shown.reshape(-1, 2)


@pytest.mark.parametrize("distortion", [None, XTDRONE, FISHEYE])
def test_every_pixel_looks_where_a_point_is_shown_at_it(distortion: dict[str, Any] | None) -> None:
    lens = camera(distortion=distortion, width=120, height=80, focal_length=(60.0, 62.0), center=(58.5, 40.0))
    shown = projected(lens, distortion, lens.directions * 7.0)
    columns, rows = np.meshgrid(np.arange(120), np.arange(80))
    assert np.abs(shown - np.stack([columns.ravel(), rows.ravel()], axis=1)).max() < 1e-6


@pytest.mark.parametrize("distortion", [None, {**XTDRONE, "p1": 0.0, "p2": 0.0}, FISHEYE])
def test_an_edge_is_shown_where_it_projects_to(distortion: dict[str, Any] | None) -> None:
    lens = camera(distortion=distortion, width=161, height=21, focal_length=(150.0, 150.0), supersampling=8)
    left, right = edges(photograph(lens)[10])
    expected = projected(lens, distortion, np.array([[5.0, -1.0, 0.0], [5.0, 1.0, 0.0]]))[:, 0]
    assert [left, right] == pytest.approx(expected, abs=0.1)


def test_a_rolling_shutter_slants_an_edge_by_the_turn_during_the_readout() -> None:
    lens = camera(width=161, height=41, focal_length=(150.0, 150.0), supersampling=8, row_time=8e-4)
    image = photograph(lens, level(turn_rate=2.0))
    for row in (4, 20, 36):
        turned = 2.0 * (0.04 - 8e-4 * (40 - row))
        corners = np.array([[5.0, -1.0], [5.0, 1.0]])
        ahead = corners[:, 0] * np.cos(turned) + corners[:, 1] * np.sin(turned)
        right = corners[:, 1] * np.cos(turned) - corners[:, 0] * np.sin(turned)
        assert edges(image[row]) == pytest.approx(80.0 + 150.0 * right / ahead, abs=0.1)
    # With a global shutter the edge is upright.
    upright = photograph(lens.model_copy(update={"row_time": 0.0}), level(turn_rate=2.0))
    assert edges(upright[4]) == pytest.approx(edges(upright[36]), abs=0.05)


def test_an_exposure_smears_an_edge_by_the_turn_during_it() -> None:
    lens = camera(width=161, height=21, focal_length=(150.0, 150.0), supersampling=8, exposure_time=0.02)
    shown = photograph(lens, level(turn_rate=2.0))[10]
    right = shown[80:] / shown.max()
    # 0.02 s of 2 rad/s are 6 pixels about the edge in the middle of the exposure, 0.01 s before its end.
    assert ((right > 0.02) & (right < 0.98)).sum() == pytest.approx(6, abs=1)
    _, edge = edges(photograph(lens.model_copy(update={"exposure_time": 0.0}), level(turn_rate=1.5))[10])
    assert 79.5 + (1.0 - right).sum() == pytest.approx(edge, abs=0.1)


def test_noise_has_the_variance_of_the_emva_1288_model() -> None:
    quiet = camera(width=320, height=240, color=True)
    noisy = quiet.model_copy(update={"full_well": 8000.0, "read_noise": 20.0})
    share = photograph(quiet) / 255.0
    difference = photograph(noisy, seed=1) - photograph(noisy, seed=2)
    inside = (share > 0.05) & (share < 0.9)
    variance = (share * 8000.0 + 400.0) / 8000.0**2 * 255.0**2 + 1.0 / 12.0
    assert (difference[inside] ** 2 / (2.0 * variance[inside])).mean() == pytest.approx(1.0, rel=0.03)


def test_the_same_seed_gives_the_same_image() -> None:
    lens = camera(width=64, height=48, full_well=1000.0)
    assert (photograph(lens, seed=3) == photograph(lens, seed=3)).all()
    assert (photograph(lens, seed=3) != photograph(lens, seed=4)).any()


def shaded(
    origin: tuple[float, float, float], point: tuple[float, float, float], shape: int, pixel: float
) -> NDArray[np.float32]:
    """Light from one point with an upward normal, the sun 60 deg above the north."""
    way = np.subtract(point, origin)
    distance = float(np.linalg.norm(way))
    shapes, scene = np.zeros(1, SHAPE), np.zeros(1, SCENE)
    scene["ground_color"] = GROUND_COLOR
    shapes["color"], shapes["rotation"] = (1.0, 0.5, 0.2), np.eye(3)
    light = np.array([0.5, 0.0, -np.sqrt(0.75), 0.2])
    out = np.empty((1, 3), np.float32)
    hits = (
        np.array([distance]), np.array([[0.0, 0.0, -1.0]]), np.array([shape]), np.full(1, -1, np.int32),
    )  # fmt: skip
    world = (shapes, np.zeros(1, MESH_PAINT), scene)
    shade(np.array([origin], float), way[None] / distance, hits, world, light, pixel, out)
    first: NDArray[np.float32] = out[0]
    return first


def test_surfaces_scatter_by_lamberts_law() -> None:
    lit = 0.2 + 0.8 * np.sqrt(0.75)
    blurred = 1e6  # A pixel that sees more than the largest squares.
    assert shaded((0, 0, -10), (1, 2, 0), 0, blurred) == pytest.approx(
        lit * np.array([1.0, 0.5, 0.2]), rel=1e-5
    )
    assert shaded((0, 0, -10), (1, 2, 0), GROUND, blurred) == pytest.approx(
        lit * np.array(GROUND_COLOR), rel=1e-5
    )
    sky = shaded((0, 0, -10), (0, 0, -20), NOTHING, 1e-3)
    assert sky[2] > sky[0]


def test_the_pattern_of_the_ground_is_fixed_to_the_world() -> None:
    points = [(0.1 * i, 0.07 * i * i, 0.0) for i in range(40)]
    near = np.array([shaded((0, 0, -2), p, GROUND, 1e-6) for p in points])
    far = np.array([shaded((3, 1, -4), p, GROUND, 1e-6) for p in points])
    assert near == pytest.approx(far, rel=1e-5)
    assert near[:, 0].std() > 0.05


def painted(
    texture: Packed, point: tuple[float, float, float], normal: tuple[float, float, float]
) -> list[float]:
    color = np.array([0.9, 0.9, 0.9])
    paint(texture, np.array(point), np.array(normal, float), color)
    return [round(float(value), 3) for value in color]


def test_patterns_lie_along_the_axes_of_the_object() -> None:
    texture = np.zeros(1, TEXTURE)[0]
    texture["size"], texture["color"], texture["kind"] = 0.5, (0.1, 0.2, 0.3), CHECKER
    own, other, up, north = [0.9] * 3, [0.1, 0.2, 0.3], (0, 0, -1), (1, 0, 0)
    assert painted(texture, (-0.2, 0.2, 0.0), up) == own
    assert painted(texture, (-0.2, 0.7, 0.0), up) == other
    assert painted(texture, (-0.7, 0.7, 0.0), up) == own
    assert painted(texture, (0.0, 0.2, 0.7), north) == other
    texture["kind"] = STRIPES
    assert painted(texture, (-0.7, 0.2, 0.0), up) == own
    assert painted(texture, (0.0, 0.7, 0.7), north) == other


def test_a_marker_faces_up_with_its_upper_edge_to_the_north() -> None:
    texture = np.zeros(1, TEXTURE)[0]
    red, green, blue, white = [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [1.0, 1.0, 1.0]
    image = (np.array([[red, green], [blue, white]]) * 255).astype(np.uint8)
    texture["kind"], texture["cells"], texture["size"], texture["face"] = IMAGE, image.ctypes.data, 0.4, 1
    texture["rows"] = texture["columns"] = 2
    up = (0, 0, -1)
    places = [(0.1, -0.1), (0.1, 0.1), (-0.1, -0.1), (-0.1, 0.1)]  # north, east
    assert [painted(texture, (n, e, 0.0), up) for n, e in places] == [red, green, blue, white]
    assert painted(texture, (0.3, 0.1, 0.0), up) == [0.9] * 3  # beside it
    assert painted(texture, (0.1, 0.1, 0.0), (0, 0, 1)) == [0.9] * 3  # its lower side
    texture["face"] = 0
    assert painted(texture, (0.5, 0.3, 0.0), up) == red  # it repeats


def test_vignetting_follows_the_cosine_to_the_fourth() -> None:
    plain = camera(width=200, height=150)
    dark = plain.model_copy(update={"vignetting": 1.0})
    bright, fallen = photograph(plain), photograph(dark)
    expected = bright.ravel() * plain.directions[:, 0] ** 4
    assert np.abs(fallen.ravel() - expected).max() < 1.01


def test_impossible_cameras_are_refused() -> None:
    with pytest.raises(ValidationError, match="the distortion folds the image"):
        camera(distortion={"model": "brown_conrady", "k1": -0.9})
    with pytest.raises(ValidationError, match="needs distortion"):
        camera(field_of_view=200.0)
    with pytest.raises(ValidationError, match="an image takes longer than the period"):
        camera(row_time=1e-3, rate=50.0)
    assert camera(field_of_view=200.0, distortion={"model": "fisheye"}).directions[:, 0].min() < 0.0


def test_an_example_airframe_carries_cameras() -> None:
    ahead, below = load_airframe("iris_camera").perception_sensors()
    assert (ahead.name, below.name) == ("camera_0", "camera_1")
    caster = SceneCaster(Scene(SceneSpecification()), 0, np.zeros((0, 4)))
    assert isinstance(below, CameraSpecification)
    image = below.measure(View(caster, level(), 40_000, np.random.default_rng(1)))["image"]
    assert image.shape == (480, 640, 3)
    assert image.std() > 5.0  # the pattern of the ground
