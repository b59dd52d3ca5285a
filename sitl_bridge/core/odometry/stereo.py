"""Visual odometry of a stereo pair, by OpenCV: corners of a keyframe in space, followed from image to image.

The corners of a keyframe get their depth from the disparity between left and right (Lucas-Kanade,
sub-pixel).  The same corners are followed in the left images; their places in space and in the image give
the pose relative to the keyframe (perspective-n-point with RANSAC, then least squares).  When too few corners
are left, the current image becomes the next keyframe.  There is no map, no loop closure and no IMU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sitl_bridge.base.arrays import Bytes, Floats, Mask, Singles
from sitl_bridge.base.extras import missing_package
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.odometry.lidar import Pose

STEREO_ESTIMATOR = "stereo-vo"
"""Its name."""
CORNERS, CORNER_DISTANCE = 600, 14
"""Most corners of a keyframe, and pixels between them."""
KEPT_SHARE, LEAST_CORNERS = 0.6, 60
"""A keyframe ends when fewer of its corners are followed."""
ROUND_TRIP = 0.5
"""Pixels by which a corner that is followed forth and back may be off."""
OFF_LINE = 1.0
"""Pixels by which the two views of a corner may be off one row."""
LEAST_DISPARITY = 1.0
"""Pixels."""
OUTLIER = 1.5
"""Pixels of reprojection."""
LEAST_INLIERS = 12
"""For a pose; with fewer, the motion of the last image goes on."""


class StereoImages(NamedTuple):
    """Two images of one time, (h, w) of 8 bit."""

    left: Bytes
    right: Bytes


@dataclass(frozen=True)
class CameraModel:
    """Geometry of a camera with OpenCV's meaning."""

    matrix: Floats  # (3, 3) in pixels
    distortion: Floats  # coefficients: k1, k2, p1, p2 and k3 of the radial-tangential model, or k1 to k4
    fisheye: bool = False  # the coefficients are those of the equidistant model


@dataclass(frozen=True)
class StereoRig:
    """Two cameras."""

    left: CameraModel  # camera
    right: CameraModel  # camera
    size: tuple[int, int]  # width and height in pixels
    rotation: Floats  # (3, 3) left camera's axes to the right one's
    translation: Floats  # (3,) m, the left camera's place in the right one's axes


class StereoOdometry:
    """Poses of the left camera of a pair.

    Args:
        rig: geometry of the pair.

    Raises:
        UserError: where OpenCV is missing.
    """

    def __init__(self, rig: StereoRig) -> None:
        try:
            import cv2
        except ImportError as error:
            raise missing_package("opencv-python-headless", "estimators of the kind stereo-vo") from error
        self._cv2: Any = cv2
        self._maps, self._axes, projection, shift = _rectification(cv2, rig)
        self._camera = projection[:, :3].copy()
        self._shift = -float(shift)
        """Disparity times depth: focal length times baseline."""
        self._previous: Bytes | None = None
        self._corners: Singles = np.zeros((0, 2), np.float32)
        self._space: Floats = np.zeros((0, 3))
        self._first = 0
        self._keyframe, self._pose, self._motion = np.eye(4), np.eye(4), np.eye(4)

    def update(self, images: StereoImages) -> Pose:
        """Return the pose at the time of the images."""
        left, right = (
            self._cv2.remap(image, first, second, self._cv2.INTER_LINEAR)
            for image, (first, second) in zip(images, self._maps, strict=True)
        )
        if self._previous is not None:
            before = self._pose
            self._pose = self._follow_keyframe(left)
            self._motion = np.linalg.inv(before) @ self._pose
        if len(self._corners) < max(KEPT_SHARE * self._first, LEAST_CORNERS):
            self._begin_keyframe(left, right)
        self._previous = left
        return np.asarray(np.linalg.inv(self._axes) @ self._pose @ self._axes)

    def _track(self, first: Bytes, second: Bytes, corners: Singles) -> tuple[Singles, Mask]:
        """Places of corners (n, 2) in a second image, and whether each is found."""
        if len(corners) == 0:
            return corners, np.zeros(0, bool)
        options: JsonObject = {"winSize": (21, 21), "maxLevel": 4}
        flow = self._cv2.calcOpticalFlowPyrLK
        there, found, _ = flow(first, second, corners[:, None], None, **options)
        back, again, _ = flow(second, first, there, None, **options)
        near = np.linalg.norm(back[:, 0] - corners, axis=1) < ROUND_TRIP
        return there[:, 0], (found[:, 0] > 0) & (again[:, 0] > 0) & near

    def _follow_keyframe(self, left: Bytes) -> Pose:
        """The pose by the keyframe's corners; those that are lost or do not fit are dropped."""
        assert self._previous is not None
        corners, kept = self._track(self._previous, left, self._corners)
        self._corners, self._space = corners[kept], self._space[kept]
        predicted = self._pose @ self._motion
        if len(self._corners) < LEAST_INLIERS:
            return predicted
        guess = np.linalg.inv(predicted) @ self._keyframe
        turn, place = self._cv2.Rodrigues(guess[:3, :3])[0], guess[:3, 3:].copy()
        self._cv2.setRNGSeed(0)
        found, turn, place, inliers = self._cv2.solvePnPRansac(
            self._space, self._corners.astype(float), self._camera, None, turn, place,
            useExtrinsicGuess=True, iterationsCount=200, reprojectionError=OUTLIER, confidence=0.999,
        )  # fmt: skip
        if not found or inliers is None or len(inliers) < LEAST_INLIERS:
            return predicted
        fits = inliers[:, 0]
        self._corners, self._space = self._corners[fits], self._space[fits]
        turn, place = self._cv2.solvePnPRefineLM(
            self._space, self._corners.astype(float), self._camera, None, turn, place
        )
        relative = np.eye(4)
        relative[:3, :3], relative[:3, 3] = self._cv2.Rodrigues(turn)[0], place[:, 0]
        return np.asarray(self._keyframe @ np.linalg.inv(relative))

    def _begin_keyframe(self, left: Bytes, right: Bytes) -> None:
        """Corners of this pair and their places in space take the place of the last keyframe's."""
        found = self._cv2.goodFeaturesToTrack(left, CORNERS, 0.01, CORNER_DISTANCE)
        corners = np.zeros((0, 2), np.float32) if found is None else found[:, 0]
        across, seen = self._track(left, right, corners)
        disparity = (corners - across).astype(float)
        good = seen & (disparity[:, 0] > LEAST_DISPARITY) & (np.abs(disparity[:, 1]) < OFF_LINE)
        corners = corners[good]
        depth = self._shift / disparity[good, 0]
        rays = np.column_stack([corners, np.ones(len(corners))]) @ np.linalg.inv(self._camera).T
        self._corners, self._space = corners, rays * depth[:, None]
        self._first = len(corners)
        self._keyframe = self._pose.copy()


def _rectification(cv2: Any, rig: StereoRig) -> tuple[list[Any], Pose, Floats, float]:
    """Maps of both images onto common rows.

    Returns:
        Maps of left and right; (4, 4) left camera's axes to the rectified ones; (3, 4) projection; focal
        length times the right camera's place, negative.
    """
    cameras = [(c.matrix, c.distortion) for c in (rig.left, rig.right)]
    given = (*cameras[0], *cameras[1], rig.size, rig.rotation, rig.translation.reshape(3, 1))
    maps: list[Any] = []
    if rig.left.fisheye:
        turns = cv2.fisheye.stereoRectify(*given, cv2.CALIB_ZERO_DISPARITY, balance=0.0)[:4]
        undistort = cv2.fisheye.initUndistortRectifyMap
    else:
        turns = cv2.stereoRectify(*given, flags=cv2.CALIB_ZERO_DISPARITY, alpha=0)[:4]
        undistort = cv2.initUndistortRectifyMap
    for (matrix, coefficients), turn, projection in zip(cameras, turns[:2], turns[2:], strict=True):
        maps.append(undistort(matrix, coefficients, turn, projection[:, :3], rig.size, cv2.CV_16SC2))
    axes = np.eye(4)
    axes[:3, :3] = turns[0]
    return maps, axes, np.asarray(turns[2]), float(turns[3][0, 3])
