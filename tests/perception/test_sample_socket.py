"""Samples on a local socket, as a bridge to ROS reads them."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from rosbags.typesys import Stores, get_typestore
from test_perception import simulation

from sitl_bridge.analysis.export.live_samples import sample_messages
from sitl_bridge.analysis.export.sample_socket import LONGEST, MOST, SampleSocket
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.perception.camera import CameraSpecification
from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.scanner import ScannerSpecification
from sitl_bridge.core.sensors.perception.stereo_camera import StereoCameraSpecification
from sitl_bridge.core.sensors.perception.view import Arrays, SeeingSpecification
from sitl_bridge.perception.sensor_runner import SeenSample, SensorRunner

STREAM: Any = pytest.importorskip("mcap.stream_reader")
STORE = get_typestore(Stores.ROS2_HUMBLE)
TIME = 1_500_000


def decoded(sensor: SeeingSpecification, arrays: Arrays) -> dict[str, Any]:
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


@pytest.fixture
def runner() -> Any:
    scanner = ScannerSpecification(kind="scanner", field_of_view=90, step=45)
    made = SensorRunner(scanner, simulation((0.0, 0.0, 0.0)))
    yield made
    made.close()


def test_a_program_that_connects_gets_an_mcap_stream(tmp_path: Path, runner: SensorRunner) -> None:
    path = tmp_path / "samples"
    offered = SampleSocket(path, [runner], ["7th"])
    offered.start()
    (listener,) = runner.listeners
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(30.0)
        link.connect(str(path))
        received = link.recv(8)  # the greeting: the program is known from now on
        assert received == b"\x89MCAP0\r\n"
        for k in range(3):
            listener(SeenSample(k * 100_000 + 100_000, {"ranges": np.full(3, k, np.float32)}))
        offered.close()
        while part := link.recv(1 << 16):
            received += part
    assert not path.exists()
    file = tmp_path / "x.mcap"
    file.write_bytes(received)
    with file.open("rb") as stream:
        records = list(STREAM.StreamReader(stream, validate_crcs=True).records)
    kinds = [type(record).__name__ for record in records]
    assert kinds == ["Header", "Schema", "Channel", *["Message"] * 3, "DataEnd", "Footer"]
    assert (records[1].name, records[2].topic) == ("sensor_msgs/msg/LaserScan", "/vehicle_7th/scanner_0/scan")
    scans = [STORE.deserialize_cdr(record.data, records[1].name) for record in records[3:6]]
    assert [scan.ranges.tolist() for scan in scans] == [[k] * 3 for k in range(3)]
    assert [record.sequence for record in records[3:6]] == [1, 2, 3]


def test_a_program_that_reads_nothing_does_not_hold_up_the_simulation(
    tmp_path: Path, runner: SensorRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sitl_bridge.analysis.export.sample_socket.FAREWELL", 0.0)
    offered = SampleSocket(tmp_path / "samples", [runner], ["a"])
    offered.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.connect(str(tmp_path / "samples"))
        link.recv(8)
        for k in range(200):  # 80 MB; the kernel keeps some hundred kB
            runner.listeners[0](SeenSample(k, {"ranges": np.zeros(100_000, np.float32)}))
        offered.close()


def test_programs_that_have_left_cost_nothing(
    tmp_path: Path, runner: SensorRunner, wait_for: Callable[..., None]
) -> None:
    said: list[str] = []
    offered = SampleSocket(tmp_path / "samples", [runner], ["a"], said.append)
    offered.start()
    process = psutil.Process()

    def cost() -> tuple[int, int]:
        return process.num_fds(), process.num_threads()

    def connected() -> tuple[socket.socket, bytes]:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.settimeout(30.0)
        link.connect(str(tmp_path / "samples"))
        return link, link.recv(8)

    first, _ = connected()
    before = cost()
    for _ in range(60):
        link, _ = connected()
        link.sendall(b"something")
        link.close()
    wait_for(lambda: cost() == before, "all to be let go")
    others = [connected() for _ in range(MOST)]
    assert [greeting for _, greeting in others] == [b"\x89MCAP0\r\n"] * (MOST - 1) + [b""]
    assert "32 programs are connected" in said[-1]
    for link, _ in others:
        link.close()
    wait_for(lambda: cost() == before, "all to be let go")
    first.close()
    offered.close()


def test_the_socket_of_a_program_that_was_killed_is_removed(
    tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path;"
        "from sitl_bridge.analysis.export.sample_socket import SampleSocket;"
        "SampleSocket(Path(sys.argv[1]), [], []).start(); print(os.path.exists(sys.argv[1]), flush=True);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = tmp_path / "samples"
    killed = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "True\n")
    wait_for(lambda: not path.exists(), "the socket to be removed")


def test_paths_that_cannot_be_used_are_named(tmp_path: Path, runner: SensorRunner) -> None:
    (tmp_path / "file").write_text("x")
    for path, said in (
        (tmp_path / ("x" * LONGEST), "bytes at most"),
        (tmp_path / "none" / "samples", "there is no directory"),
        (tmp_path / "file", "is no socket"),
    ):
        with pytest.raises(UserError, match=said):
            SampleSocket(path, [runner], ["a"])
    first = SampleSocket(tmp_path / "samples", [runner], ["a"])
    first.start()
    with pytest.raises(UserError, match="another simulation"):
        SampleSocket(tmp_path / "samples", [runner], ["a"])
    first.close()
    first.close()
