"""Recordings of sensors: the layouts' files, their clock, and what a full disk does."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image
from test_perception import last, simulation

from sitl_bridge.base.rotations import matrix_from_euler, quaternion_from_matrix
from sitl_bridge.core.sensors.perception.camera import CameraSpecification
from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.scanner import ScannerSpecification
from sitl_bridge.core.sensors.perception.stereo_camera import VisualInertialSpecification
from sitl_bridge.core.sensors.perception.view import Arrays, PerceptionSpecification, Poses
from sitl_bridge.perception import recording as recording_module
from sitl_bridge.perception.recording import SampleRecording, recording_of
from sitl_bridge.perception.sample_files import OPTICAL, POINT
from sitl_bridge.perception.sensor_runner import SensorRunner
from sitl_bridge.record.picture_files import sensor_folders

POSES = Poses(
    np.array([96_000, 100_000]),
    np.array([[1.0, 2.0, -3.0], [1.004, 2.0, -3.0]]),
    np.array([[1.0, 0, 0, 0], [1.0, 0, 0, 0]]),
)


def record(sensor: PerceptionSpecification, path: Path, *samples: tuple[int, Arrays]) -> Path:
    recording = SampleRecording(sensor, path / "x")
    for time, arrays in samples:
        recording.put(time, arrays, POSES)
    recording.close()
    recording.close()
    return path / "x"


def table(path: Path) -> list[list[str]]:
    return [line.split(",") for line in path.read_text().splitlines()]


def test_a_vi_sensor_is_recorded_in_eurocs_layout(tmp_path: Path) -> None:
    sensor = VisualInertialSpecification(
        kind="vi_sensor",
        width=4,
        height=2,
        imu_samples=2,
        position=(0.1, 0.0, 0.0),
        baseline=0.2,
        distortion={"model": "brown_conrady", "k1": -0.05},
    )
    left = np.arange(8, dtype=np.uint8).reshape(2, 4)
    sample: Arrays = {
        "left": left,
        "right": left + 10,
        "imu_time": np.array([-0.025, 0.0]),
        "specific_force": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        "angular_velocity": np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]),
    }
    folder = record(sensor, tmp_path, (100_000, sample))
    assert np.asarray(Image.open(folder / "mav0/cam1/data/100000000.png")).tolist() == (left + 10).tolist()
    assert table(folder / "mav0/cam0/data.csv")[1] == ["100000000", "100000000.png"]
    sheet = yaml.safe_load((folder / "mav0/cam0/sensor.yaml").read_text())
    matrix = np.array(sheet["T_BS"]["data"]).reshape(4, 4)
    # A point 5 m ahead of the left camera is 5.1 m ahead of the body and 0.1 m to its left.
    assert matrix @ [0.0, 0.0, 5.0, 1.0] == pytest.approx([5.1, -0.1, 0.0, 1.0])
    assert sheet["resolution"] == [4, 2]
    assert sheet["intrinsics"] == pytest.approx(sensor.intrinsics)
    assert sheet["distortion_coefficients"] == [-0.05, 0.0, 0.0, 0.0]
    rows = table(folder / "mav0/imu0/data.csv")[1:]
    assert [row[0] for row in rows] == ["75000000", "100000000"]
    assert [float(x) for x in rows[0][1:]] == [0.1, 0.2, 0.3, 1.0, 2.0, 3.0]
    assert yaml.safe_load((folder / "mav0/imu0/sensor.yaml").read_text())["rate_hz"] == 40
    truth = table(folder / "mav0/state_groundtruth_estimate0/data.csv")
    assert len(truth[0]) == len(truth[1]) == 17
    assert float(truth[2][8]) == pytest.approx(1.0)  # 4 mm in 4 ms
    way = (folder / "groundtruth.txt").read_text().splitlines()[2].split()
    assert [float(x) for x in way[:4]] == pytest.approx([0.1, 1.104, 1.9, -3.0])


def test_a_depth_camera_is_recorded_in_tums_layout(tmp_path: Path) -> None:
    sensor = DepthCameraSpecification(kind="depth_camera", width=2, height=2)
    depth = np.array([[1.0, np.nan], [2.5, 8.0]], np.float32)
    folder = record(sensor, tmp_path, (100_000, {"depth": depth}))
    image = np.asarray(Image.open(folder / "depth/0.100000.png"))
    assert image.tolist() == [[5000, 0], [12500, 40000]]
    assert (folder / "depth.txt").read_text().splitlines()[1] == "0.100000 depth/0.100000.png"
    assert not (folder / "rgb.txt").exists()


@pytest.mark.parametrize("ending", ["pcd", "ply"])
def test_a_lidar_is_recorded_as_binary_clouds_without_the_lost_beams(tmp_path: Path, ending: Any) -> None:
    sensor = LidarSpecification(kind="lidar", columns=4, rings=1, cloud_format=ending)
    points = np.array([[1, 2, 3], [np.nan] * 3, [4, 5, 6], [7, 8, 9]], np.float32)
    sample: Arrays = {
        "points": points,
        "intensity": np.array([0.1, 0.0, 0.2, 0.3], np.float32),
        "ring": np.zeros(4, np.uint8),
        "offset": np.array([-0.1, -0.075, -0.05, -0.025], np.float32),
    }
    folder = record(sensor, tmp_path, (100_000, sample))
    content = (folder / f"100000000.{ending}").read_bytes()
    mark = {"pcd": b"DATA binary\n", "ply": b"end_header\n"}[ending]
    header, body = content.split(mark, 1)
    cloud = np.frombuffer(body, POINT)
    assert cloud["x"].tolist() == [1.0, 4.0, 7.0]
    assert cloud["time"] == pytest.approx([-0.1, -0.05, -0.025])
    assert {"pcd": b"POINTS 3\n", "ply": b"element vertex 3\n"}[ending] in header
    trimesh = pytest.importorskip("trimesh")
    if ending == "ply":
        assert trimesh.load(folder / "100000000.ply").vertices.tolist() == points[[0, 2, 3]].tolist()


def test_quaternions_of_rotations_turn_back_into_them() -> None:
    rng = np.random.default_rng(4)
    for angles in [*rng.uniform(-np.pi, np.pi, (200, 3)), (np.pi, 0, 0), (0, np.pi, 0), (0, 0, np.pi)]:
        rotation = matrix_from_euler(*angles) @ OPTICAL
        q = quaternion_from_matrix(rotation)
        poses = Poses(np.array([0, 1]), np.zeros((2, 3)), np.array([q, q]))
        assert poses.at(np.array([0.0]))[1][0] == pytest.approx(rotation, abs=1e-9)


def test_a_full_disk_ends_one_recording_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def __init__(self, *_: object) -> None:
            self.left = 2

        def write(self, *_: object) -> None:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr(recording_module, "folder_for", Full)
    lines: list[str] = []
    recording = SampleRecording(CameraSpecification(kind="camera"), tmp_path / "x", lines.append)
    for k in range(100):  # more than its queue holds
        recording.put(k, {}, POSES)
    recording.close()
    assert lines == [f"{tmp_path / 'x'}: No space left on device; the recording ends after 2 samples"]


def test_a_recording_is_made_where_the_airframe_asks_for_it(tmp_path: Path) -> None:
    plain = ScannerSpecification(kind="scanner", rate=20.0, latency=0.0)
    assert recording_of(plain, tmp_path, "x") is None
    asked = plain.model_copy(update={"record": True})
    assert recording_of(asked, None, "x") is None
    core = simulation((0.0, 0.0, 0.0))
    runner = SensorRunner(asked, core, recording=recording_of(asked, tmp_path, "scanner_0"))
    sample = last(core, runner, 40)
    runner.close()
    assert sample is not None
    folder, of_fleet = sensor_folders(tmp_path, "0", "scanner_0")  # where reports and exports look
    assert (folder, of_fleet) == (tmp_path / "sensors" / "scanner_0", tmp_path / "sensors" / "0-scanner_0")
    assert sorted(path.name for path in folder.glob("*.npz")) == [
        "100000000.npz",
        "152000000.npz",
        "52000000.npz",
    ]
    with np.load(folder / "100000000.npz") as stored:
        assert stored["ranges"].shape == (1081,)
    # The way has every step once, though samples overlap.
    stamps = [float(line.split()[0]) for line in (folder / "groundtruth.txt").read_text().splitlines()[1:]]
    assert np.diff(stamps) == pytest.approx(np.full(len(stamps) - 1, 0.004))
    assert len(stamps) >= 35
