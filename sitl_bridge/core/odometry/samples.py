"""What estimators of motion get and return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sitl_bridge.base.arrays import Bytes, Floats

Pose = Floats
"""(4, 4), axes of the sensor at a sample to its axes at the first sample."""
EXTRA = "odometry"
"""Extra of this package that installs the estimators."""


class LidarTurn(NamedTuple):
    """The points of one turn of a lidar."""

    points: Floats  # (n, 3) m in the sensor's axes, each at its own time
    offset: Floats  # (n,) s from the end of the turn, 0 or negative
    # (3, 3) of a gyroscope, axes at the end of the turn to axes at its beginning; None without one: the
    # estimator then expects the motion of the turn before
    rotation: Floats | None = None


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


class LidarEstimator(Protocol):
    """Follows the motion of a lidar."""

    def update(self, turn: LidarTurn) -> Pose:
        """Return the pose at the end of the turn."""
        ...
