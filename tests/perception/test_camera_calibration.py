"""Calibration of a simulated camera by photographs of a checkerboard, with OpenCV."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.core.sensors.perception.camera import CameraSpecification
from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.sensors.perception.view import Poses, View
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification, TextureSpecification

cv2: Any = pytest.importorskip("cv2")

SQUARE, CORNERS = 0.1, (9, 7)
"""m, and the inner corners of the board."""
VIEWS = [
    (distance, across, down, roll, pitch, yaw)
    for distance, across, down in ((1.3, 0.0, 0.0), (1.8, 0.45, 0.25), (1.8, -0.45, 0.25), (1.8, 0.0, -0.35))
    for roll, pitch, yaw in ((0, 0, 0), (10, 30, 0), (-15, 0, 35), (5, -28, -20))
]
"""m ahead, to the right and down of the camera; deg of the board."""


def photograph(camera: CameraSpecification, view: tuple[float, ...], number: int) -> NDArray[np.uint8]:
    """The board on a white plate, in the open before the sky."""
    distance, across, down, *angles = view
    place, rotation = (distance, across, down - 50.0), (angles[0], angles[1], angles[2])
    texture = TextureSpecification(pattern="checker", size=SQUARE, color=(0.05, 0.05, 0.05))
    board = {"kind": "box", "position": place, "rotation": rotation, "color": (0.95, 0.95, 0.95)}
    objects = (
        BoxObject.model_validate({**board, "size": (0.02, 10 * SQUARE, 8 * SQUARE), "texture": texture}),
        BoxObject.model_validate({**board, "size": (0.01, 12 * SQUARE, 10 * SQUARE)}),
    )
    scene = Scene(SceneSpecification(objects=objects))
    poses = Poses(np.array([0]), np.array([[0.0, 0.0, -50.0]]), np.array([[1.0, 0.0, 0.0, 0.0]]))
    caster = SceneCaster(scene, 0, np.zeros((0, 4)))
    image = camera.measure(View(caster, poses, 0, np.random.default_rng(number)))["image"]
    return np.asarray(image, np.uint8)


def corners(image: NDArray[np.uint8]) -> NDArray[np.float32] | None:
    found, places = cv2.findChessboardCornersSB(image, CORNERS, flags=cv2.CALIB_CB_ACCURACY)
    return np.asarray(places, np.float32).reshape(-1, 1, 2) if found else None


BOARD = np.zeros((CORNERS[0] * CORNERS[1], 1, 3), np.float32)
BOARD[:, 0, :2] = np.mgrid[0 : CORNERS[0], 0 : CORNERS[1]].T.reshape(-1, 2) * SQUARE


@pytest.mark.parametrize(
    "distortion",
    [
        {"model": "brown_conrady", "k1": -0.2, "k2": 0.08, "p1": 5e-4, "p2": -1e-3},
        {"model": "fisheye", "k1": -0.01, "k2": 0.02, "k3": -0.01, "k4": 0.002},
    ],
    ids=["brown_conrady", "fisheye"],
)
def test_opencv_finds_the_cameras_own_intrinsics_and_distortion(distortion: dict[str, Any]) -> None:
    camera = CameraSpecification.model_validate(
        {
            "kind": "camera", "width": 480, "height": 360,
            "focal_length": (330.0, 332.0), "center": (242.0, 176.0),
            "distortion": distortion, "supersampling": 2, "sun": (180.0, 30.0),
        }
    )  # fmt: skip
    seen = [
        found for n, view in enumerate(VIEWS) if (found := corners(photograph(camera, view, n))) is not None
    ]
    assert len(seen) >= 10
    size = (camera.width, camera.height)
    if distortion["model"] == "fisheye":
        flagged = cv2.fisheye if hasattr(cv2.fisheye, "CALIB_FIX_SKEW") else cv2  # OpenCV 4 and 5
        flags = flagged.CALIB_RECOMPUTE_EXTRINSIC | flagged.CALIB_FIX_SKEW
        board = [BOARD.astype(float).reshape(1, -1, 3)] * len(seen)
        places = [found.astype(float).reshape(1, -1, 2) for found in seen]
        error, matrix, found, *_ = cv2.fisheye.calibrate(board, places, size, None, None, flags=flags)
        names = ("k1", "k2", "k3", "k4")
    else:
        error, matrix, found, *_ = cv2.calibrateCamera(
            [BOARD] * len(seen), seen, size, None, None, flags=cv2.CALIB_FIX_K3
        )
        names = ("k1", "k2", "p1", "p2")
    assert error < 0.15, "pixels of reprojection"
    figures = matrix[0, 0], matrix[1, 1], matrix[0, 2], matrix[1, 2]
    assert figures[:2] == pytest.approx(camera.intrinsics[:2], rel=5e-3)
    assert figures[2:] == pytest.approx(camera.intrinsics[2:], abs=1.0)
    # Coefficients trade against one another; what counts is where points of the image lie.
    true = np.array([distortion[name] for name in names])
    assert shown(matrix, found, distortion) == pytest.approx(
        shown(np.array([[330.0, 0, 242.0], [0, 332.0, 176.0], [0, 0, 1.0]]), true, distortion), abs=0.8
    )


def shown(
    matrix: NDArray[np.float64], coefficients: NDArray[np.float64], distortion: dict[str, Any]
) -> NDArray[np.float64]:
    """Pixels (n, 2) of directions over the part of the image in which the board was seen."""
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, 9), np.linspace(-0.35, 0.35, 7))
    points = np.stack([x.ravel(), y.ravel(), np.ones(x.size)], axis=1)[:, None]
    project = cv2.fisheye.projectPoints if distortion["model"] == "fisheye" else cv2.projectPoints
    pixels = project(points, np.zeros(3), np.zeros(3), matrix, coefficients.reshape(-1))[0]
    return np.asarray(pixels).reshape(-1, 2)
