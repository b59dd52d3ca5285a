"""Samples of sensors that see as messages of ROS 2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore

from sitl_bridge.analysis.export.live_samples import sample_messages
from sitl_bridge.core.sensors.perception.camera import CameraSpecification
from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.scanner import ScannerSpecification
from sitl_bridge.core.sensors.perception.stereo_camera import StereoCameraSpecification
from sitl_bridge.core.sensors.perception.view import Arrays, PerceptionSpecification

STORE = get_typestore(Stores.ROS2_HUMBLE)
TIME = 1_500_000


def decoded(sensor: PerceptionSpecification, arrays: Arrays) -> dict[str, Any]:
    """The messages of a sample by the ends of their topics, decoded by rosbags."""
    made = sample_messages(sensor, "a", TIME, arrays)
    prefix = f"/a/{sensor.name}/"
    return {
        m.topic.removeprefix(prefix): STORE.deserialize_cdr(m.data[0].tobytes(), m.name.replace("/", "/msg/"))
        for m in made
    }


def test_pictures_come_with_their_intrinsics() -> None:
    sensor = StereoCameraSpecification(
        kind="stereo_camera",
        width=4,
        height=2,
        color=False,
        baseline=0.2,
        focal_length=(3.0, 5.0),
        distortion={"model": "brown_conrady", "k1": -0.01, "p2": 0.002},
    )
    left = np.arange(8, dtype=np.uint8).reshape(2, 4)
    found = decoded(sensor, {"left": left, "right": left + 1})
    assert sorted(found) == ["cam0", "cam0/camera_info", "cam1", "cam1/camera_info"]
    image, info = found["cam1"], found["cam1/camera_info"]
    assert (image.header.stamp.sec, image.header.stamp.nanosec) == (1, 500_000_000)
    assert (image.encoding, image.height, image.width, image.step) == ("mono8", 2, 4, 4)
    assert image.data.tolist() == list(range(1, 9))
    assert info.header == image.header
    assert (info.height, info.width, info.distortion_model) == (2, 4, "plumb_bob")
    assert info.d.tolist() == [-0.01, 0.0, 0.0, 0.002, 0.0]
    assert info.k.tolist() == [3.0, 0.0, 1.5, 0.0, 5.0, 0.5, 0.0, 0.0, 1.0]
    assert info.p[3] == -3.0 * 0.2  # sensor_msgs/CameraInfo: Tx = -fx' * B
    assert found["cam0/camera_info"].p[3] == 0.0


def test_a_fisheye_is_equidistant() -> None:
    lens = {"model": "fisheye", "k1": 0.1, "k4": 0.01}
    sensor = CameraSpecification(
        kind="camera", rate=10, width=8, height=8, field_of_view=180, distortion=lens
    )
    info = decoded(sensor, {"image": np.zeros((8, 8), np.uint8)})["cam0/camera_info"]
    assert (info.distortion_model, info.d.tolist()) == ("equidistant", [0.1, 0.0, 0.0, 0.01])


def test_depths_are_metres() -> None:
    sensor = DepthCameraSpecification(kind="depth_camera", width=3, height=2, color=True)
    depth = np.array([[1.0, 2.5, np.nan], [3.0, 4.0, 5.0]], np.float32)
    found = decoded(sensor, {"depth": depth, "color": np.ones((2, 3, 3), np.uint8)})
    assert sorted(found) == ["depth", "depth/camera_info", "rgb", "rgb/camera_info"]
    assert found["depth"].encoding == "32FC1"
    np.testing.assert_array_equal(found["depth"].data.view(np.float32).reshape(2, 3), depth)
    assert (found["rgb"].encoding, found["rgb"].step) == ("rgb8", 9)
    assert found["depth/camera_info"].k[0] == pytest.approx(sensor.focal_length)


def test_a_cloud_and_a_scan_hold_what_was_measured() -> None:
    lidar = LidarSpecification(kind="lidar", columns=4, elevations=(0.0,))
    points = np.array([[1.0, 2.0, 3.0], [np.nan] * 3], np.float32)
    layout: Arrays = {"ring": np.zeros(2, np.uint8), "offset": np.array([-0.1, -0.05], np.float32)}
    arrays: Arrays = {"points": points, "intensity": np.array([0.5, 0.0], np.float32), **layout}
    cloud = decoded(lidar, arrays)["points"]
    assert (cloud.width, [field.name for field in cloud.fields][:3]) == (1, ["x", "y", "z"])
    assert cloud.data[:12].view(np.float32).tolist() == [1.0, 2.0, 3.0]
    scanner = ScannerSpecification(kind="scanner", field_of_view=90, step=45, rate=10, sweep=0.5)
    scan = decoded(scanner, {"ranges": np.array([1.0, np.inf, 2.0], np.float32)})["scan"]
    assert scan.ranges.tolist() == [1.0, np.inf, 2.0]
    assert scan.angle_min + 2 * scan.angle_increment == pytest.approx(scan.angle_max)
    # The time is that of the first ray; the scan takes half of its period.
    assert scan.header.stamp.nanosec == 450_000_000
    assert 2 * scan.time_increment == pytest.approx(0.05)
