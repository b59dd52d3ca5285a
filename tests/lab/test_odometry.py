"""Estimators of motion over lidars and stereo pairs of a scene, and the command that compares them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError
from pymavlink.dialects.v20 import common as mavlink
from scipy.spatial.transform import Rotation
from support.commands import run_command

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system import launch
from sitl_bridge.core.odometry.lidar import LIDAR_ESTIMATORS, LidarTurn, deskew
from sitl_bridge.core.odometry.stereo import StereoImages, StereoOdometry
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.lidar_odometry import TURN_ON, TurnGyroscope
from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.sensors.perception.stereo_camera import StereoCameraSpecification
from sitl_bridge.core.sensors.perception.view import Arrays, Poses, View
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.cloud_file import read_cloud
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification
from sitl_bridge.lab.odometry.evaluation import external_estimator
from sitl_bridge.lab.odometry.sensor_run import (
    RecordedSensor,
    recorded_sensors,
    stereo_rig,
    true_way,
    turns,
)
from sitl_bridge.link.px4.airframe_parameters import parameters_for
from sitl_bridge.perception.flight_stack_messages import link_messages
from sitl_bridge.perception.sample_files import OPTICAL, CloudFolder, EurocFolder

KISS_ICP = importlib.util.find_spec("kiss_icp") is not None
"""Whether the estimator is installed: 76 MB, which only its users need."""


def _box(position: tuple[float, float, float], size: tuple[float, float, float]) -> BoxObject:
    return BoxObject(kind="box", position=position, size=size)


SCENE = Scene(
    SceneSpecification(
        objects=(
            _box((10.0, 0.0, -3.0), (0.4, 20.0, 6.0)),
            _box((-8.0, 0.0, -3.0), (0.4, 20.0, 6.0)),
            _box((0.0, 9.0, -3.0), (20.0, 0.4, 6.0)),
            _box((0.0, -7.0, -3.0), (20.0, 0.4, 6.0)),
            _box((5.0, 4.0, -1.5), (1.0, 2.0, 3.0)),
            _box((7.0, -4.0, -1.0), (1.5, 1.0, 2.0)),
        )
    )
)
"""A hall of 18 m x 16 m with two blocks."""
LIDAR = LidarSpecification(kind="lidar", columns=600, rings=64, lowest=-30, highest=30, noise=0.01)
"""Point-to-point ICP sticks to the rings of a lidar with few of them: its height lags."""
PAIR = StereoCameraSpecification(
    kind="stereo_camera", width=320, height=240, color=False, rate=10, field_of_view=80
)
STEPS, PERIOD = 20, 100_000
"""Samples, and us between them."""


def way() -> Iterator[tuple[int, Poses]]:
    """A curve with a turn and a climb, from rest to 2 m/s, and the poses during each sample."""
    times = np.arange(0, (STEPS + 1) * PERIOD + 1, PERIOD // 10)
    seconds = times * 1e-6
    yaw = np.radians(10.0) * seconds**2
    position = np.stack([0.5 * seconds**2, -0.1 * seconds**2, -1.5 - 0.1 * seconds**2], axis=1)
    zero = np.zeros(len(yaw))
    attitude = np.stack([np.cos(yaw / 2), zero, zero, np.sin(yaw / 2)], axis=1)
    inertial = np.zeros((len(yaw), 9))
    inertial[:, 5] = np.radians(20.0) * seconds
    for k in range(1, STEPS + 1):
        span = slice(10 * (k - 1), 10 * k + 1)
        yield k * PERIOD, Poses(times[span], position[span], attitude[span], inertial[span])


def view(time: int, poses: Poses) -> View:
    return View(SceneCaster(SCENE, time, np.zeros((0, 4))), poses, time, np.random.default_rng(time))


def turn_of(arrays: Arrays) -> LidarTurn:
    points = arrays["points"].astype(float)
    met = np.isfinite(points[:, 0])
    return LidarTurn(points[met], arrays["offset"].astype(float)[met])


def true_motion(first: Poses, last: Poses, axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pose (4, 4) of axes of the body at the end of ``last`` in those at the end of ``first``."""
    matrices = []
    for poses in (first, last):
        position, rotation = poses.at(poses.time[-1:].astype(float))
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = rotation[0] @ axes, position[0]
        matrices.append(matrix)
    return np.asarray(np.linalg.inv(matrices[0]) @ matrices[1])


def test_motion_within_a_turn_is_taken_out_of_its_points() -> None:
    wall = np.array([[4.0, 1.0, 0.5], [4.0, 1.0, 0.5], [4.0, 1.0, 0.5]])
    share = np.array([-1.0, -0.5, 0.0])
    angle = 0.2
    seen = []
    for s, point in zip(share, wall, strict=True):
        c, n = np.cos(s * angle), np.sin(s * angle)
        seen.append(np.array([[c, n, 0.0], [-n, c, 0.0], [0.0, 0.0, 1.0]]) @ point)
    motion = np.eye(4)
    c, n = np.cos(angle), np.sin(angle)
    motion[:2, :2] = [[c, -n], [n, c]]
    assert deskew(LidarTurn(np.array(seen), 0.1 * share), motion) == pytest.approx(wall, abs=1e-12)
    ahead = np.eye(4)
    ahead[0, 3] = 0.3
    moved = LidarTurn(wall + np.outer(-share, [0.3, 0.0, 0.0]), 0.1 * share)
    assert deskew(moved, ahead) == pytest.approx(wall, abs=1e-12)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                name == "kiss-icp" and not KISS_ICP, reason="kiss-icp is not installed (extra odometry)"
            ),
        )
        for name in LIDAR_ESTIMATORS
    ],
)
def test_a_lidars_motion_is_followed(name: str) -> None:
    samples = [(poses, turn_of(LIDAR.measure(view(time, poses)))) for time, poses in way()]
    estimator = LIDAR_ESTIMATORS[name](0.3)
    first = estimator.update(samples[0][1])
    poses = [first, *(estimator.update(turn) for _, turn in samples[1:])]
    found = np.linalg.inv(first) @ poses[-1]
    true = true_motion(samples[0][0], samples[-1][0], np.eye(3))
    assert found[:3, 3] == pytest.approx(true[:3, 3], abs=0.06)
    assert found[:3, :3] == pytest.approx(true[:3, :3], abs=0.02)
    again = LIDAR_ESTIMATORS[name](0.3)
    repeated = [again.update(turn) for _, turn in samples[: len(samples) // 2]]
    assert np.array_equal(repeated, poses[: len(repeated)]), "equal clouds give equal poses"


def test_a_pairs_motion_is_followed(tmp_path: Path) -> None:
    folder = EurocFolder(PAIR, tmp_path / "pair")
    folder.close()
    estimator = StereoOdometry(stereo_rig(tmp_path / "pair"))
    found, poses = [], []
    for time, during in way():
        arrays = PAIR.measure(view(time, during))
        images = StereoImages(arrays["left"].astype(np.uint8), arrays["right"].astype(np.uint8))
        found.append(estimator.update(images))
        poses.append(during)
    assert found[0] == pytest.approx(np.eye(4), abs=1e-9)
    # The left camera is beside the middle of the body by half the baseline.
    true = true_motion(poses[0], poses[-1], OPTICAL)
    side = np.eye(4)
    side[0, 3] = -0.5 * PAIR.baseline
    true = np.linalg.inv(side) @ true @ side
    assert found[-1][:3, 3] == pytest.approx(true[:3, 3], abs=0.08)
    assert found[-1][:3, :3] == pytest.approx(true[:3, :3], abs=0.02)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with a recorded lidar."""
    path = tmp_path_factory.mktemp("run")
    (path / "sensors").mkdir()
    folder = CloudFolder(LIDAR, path / "sensors" / "lidar_0")
    for time, poses in way():
        new = Poses(poses.time[1:], poses.position[1:], poses.attitude[1:])
        folder.write(time, LIDAR.measure(view(time, poses)), new)
    folder.close()
    return path


def test_recorded_clouds_come_back_with_their_times(run: Path) -> None:
    (sensor,) = recorded_sensors(run)
    assert (sensor.kind, sensor.name) == ("clouds", "lidar_0")
    read = list(turns(sensor.path))
    assert [time for time, _ in read] == pytest.approx(np.arange(1, STEPS + 1) * 0.1)
    assert read[0][1].offset.min() == pytest.approx(-0.1, abs=0.005)
    assert len(true_way(sensor)) > STEPS


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"P5 2 2 255\n", "no PCD or PLY"),
        (b"FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nPOINTS 9\nDATA binary\nabc", "cut short"),
        (b"FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nPOINTS 1\nDATA binary_compressed\nabc", "binary_compressed"),
        (b"FIELDS a b c\nSIZE 4 4 4\nTYPE F F F\nPOINTS 0\nDATA ascii\n", "no x, y, z"),
        (b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\nq\n", "no number"),
        (b"ply\nelement vertex 1\nproperty float x\nend_header\n1\n", "no valid PLY header"),
    ],
)
def test_a_broken_cloud_is_named(content: bytes, fault: str, tmp_path: Path) -> None:
    file = tmp_path / "1.pcd"
    file.write_bytes(b"# .PCD\n" + content if content.startswith(b"FIELDS") else content)
    with pytest.raises(UserError, match=fault):
        read_cloud(file)


def test_clouds_as_text_are_read(tmp_path: Path) -> None:
    file = tmp_path / "1.pcd"
    file.write_text(
        "VERSION 0.7\nFIELDS x y z t\nSIZE 4 4 4 4\nTYPE F F F F\nPOINTS 2\nDATA ascii\n1 2 3 5\nnan 0 0 6\n"
    )
    points, offset = read_cloud(file)
    assert (points.tolist(), offset.tolist()) == ([[1.0, 2.0, 3.0]], [0.0])


def command(*words: str) -> tuple[int, str]:
    outcome = run_command("odometry", *words)
    return outcome.exit_code, outcome.output + (str(outcome.exception) if outcome.exception else "")


def test_estimators_are_compared_side_by_side(run: Path, tmp_path: Path) -> None:
    script = "import shutil, sys; shutil.copy(sys.argv[1] + '/groundtruth.txt', sys.argv[2])"
    copy = f'{sys.executable} -c "{script}"'
    names = ["kiss-icp", "small-gicp"] if KISS_ICP else ["small-gicp"]
    code, printed = command(
        str(run), "--with", ",".join(names), "--external", f"copy={copy} {{clouds}} {{trajectory}}",
        "--align", "origin", "--json", "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert code == 0, printed
    facts = json.loads(printed)
    assert facts["copy"]["ape"]["translation"]["max"] < 1e-6
    for name in names:
        assert facts[name]["poses"] == STEPS
        assert facts[name]["ape"]["translation"]["rmse"] < 0.06
        assert facts[name]["cpu_s"] > 0.0
        assert facts[name]["memory_bytes"] > facts["copy"]["memory_bytes"] > 1e6
        assert (tmp_path / "out" / name / "trajectory.txt").is_file()
    for picture in ("trajectories.png", "errors.png"):
        assert (tmp_path / "out" / picture).stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ((), "choose at least one estimator"),
        (("--with", "orb"), "choose from kiss-icp, small-gicp, stereo-vo"),
        (("--with", "stereo-vo"), "needs the images of a stereo pair; the run holds lidar_0"),
        (("--external", "x=cat {clouds}"), "{trajectory} is missing"),
        (("--external", "cat {clouds}"), "write NAME=PROGRAM"),
        (("--external", "x=nonesuch {clouds} {trajectory}"), "no program nonesuch"),
        (("--with", "kiss-icp", "--voxel", "0"), "--voxel"),
        (("--with", "kiss-icp", "--align", "x"), "--align"),
    ],
)
def test_what_cannot_run_is_named_before_anything_runs(words: tuple[str, ...], fault: str, run: Path) -> None:
    code, printed = command(str(run), *words)
    assert code != 0
    assert fault in printed
    assert not (run / "odometry").exists()


def test_a_failing_program_is_reported_beside_the_others(run: Path, tmp_path: Path) -> None:
    code, printed = command(
        str(run), "--external", "bad=false {clouds} {trajectory}", "--output", str(tmp_path / "out")
    )
    assert code != 0
    assert "exited with status 1" in printed
    assert (tmp_path / "out" / "results.json").is_file()


def test_a_measured_program_ends_with_what_measures_it(tmp_path: Path) -> None:
    script = "import os, time; print(os.getpid(), flush=True); time.sleep(100)"
    program_line = [str(tmp_path / "use.json"), sys.executable, "-c", script]
    line = launch.command("measure", program_line, watched=False)
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as measuring:
        assert measuring.stdout is not None
        program = psutil.Process(int(measuring.stdout.readline()))
        measuring.kill()
    program.wait(timeout=30)


def test_a_missing_package_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kiss_icp.config", None)
    code, printed = command(str(run), "--with", "kiss-icp")
    assert code != 0
    assert "pip install kiss-icp, or pip install 'sitl-bridge[odometry]'" in printed


def test_a_directory_without_recordings_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no recorded lidar"):
        recorded_sensors(tmp_path)
    with pytest.raises(UserError, match="is no directory"):
        recorded_sensors(tmp_path / "nothing")
    (tmp_path / "mav0").mkdir()
    with pytest.raises(UserError, match="no true trajectory"):
        true_way(RecordedSensor("stereo", tmp_path))


def test_a_command_keeps_its_words(tmp_path: Path) -> None:
    sensor = RecordedSensor("clouds", tmp_path)
    found = external_estimator("x=cat 'a b' --in={clouds} {trajectory}", [sensor], None)
    assert found.command == ("cat", "a b", f"--in={tmp_path}", "{trajectory}")


def test_a_lidars_odometry_is_sent_to_px4_in_a_level_frame_with_the_vehicles_heading() -> None:
    lidar = LidarSpecification(
        kind="lidar", columns=300, position=(0.1, 0.0, -0.1), rotation=(0.0, 0.0, 90.0), odometry="small-gicp"
    )
    process = lidar.processor()
    assert process is not None
    for number, (time, poses) in enumerate(way()):
        sample = view(time, poses)
        arrays = process(sample, lidar.measure(sample))
        if number == 0:
            begin = lidar.pose(sample)[0]
            heading = sample.poses.at(np.array([float(time)]))[1][0]
    assert arrays["position"] == pytest.approx(heading.T @ (lidar.pose(sample)[0] - begin), abs=0.06)
    true = heading.T @ sample.poses.at(np.array([float(time)]))[1][0]
    (message,) = link_messages(lidar, time, arrays)
    w, x, y, z = message.q
    assert (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z)) == pytest.approx(true[:2, 0], abs=0.02)
    assert (message.x, message.y, message.z) == pytest.approx(arrays["position"].tolist())
    assert np.isnan([message.vx, message.vy, message.vz]).all()
    assert message.estimator_type == mavlink.MAV_ESTIMATOR_TYPE_VISION, "PX4 drops those of the type lidar"


class TrueMotion:
    """An estimator without errors, for a lidar whose axes are the body's."""

    def __init__(self, _voxel: float) -> None:
        self._poses = [poses for _, poses in way()]
        self._count = 0

    def update(self, _turn: LidarTurn) -> NDArray[np.float64]:
        self._count += 1
        return true_motion(self._poses[0], self._poses[self._count - 1], np.eye(3))


def test_a_map_by_the_lidars_odometry_is_off_by_the_errors_of_the_odometry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(LIDAR_ESTIMATORS, "small-gicp", TrueMotion)
    lidar = LIDAR.model_copy(update={"odometry": "small-gicp", "map_pose": "odometry", "map_cell": 0.2})
    process = lidar.processor()
    assert process is not None
    for time, poses in way():
        seen = view(time, poses)
        arrays = process(seen, lidar.measure(seen))
    true, estimated = lidar.sight(seen, arrays), lidar.sight_for_map(seen, arrays)
    np.testing.assert_array_equal(np.isfinite(true.ranges), np.isfinite(estimated.ranges))
    assert np.isfinite(true.ranges).mean() > 0.5
    # The motion within a turn is taken for even: half of 1 m/s^2 and 20 deg/s^2 over a tenth of a second.
    limit = 0.5 * (1.0 + np.radians(20.0) * 18.0) * 0.1**2
    assert np.abs(estimated.points() - true.points()).max() < limit
    free = np.isinf(true.ranges)
    assert estimated.directions[free] == pytest.approx(
        true.directions[free], abs=0.5 * np.radians(20.0) * 0.1**2
    )
    plain = LIDAR.measure(seen)
    assert LIDAR.sight_for_map(seen, plain).points().tobytes() == LIDAR.sight(seen, plain).points().tobytes()


@pytest.mark.usefixtures("compiled_in_silence")
def test_turns_without_points_are_passed_over_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    estimator = LIDAR_ESTIMATORS["small-gicp"](0.5)
    for _ in range(3):
        pose = estimator.update(LidarTurn(np.empty((0, 3)), np.empty(0)))
        np.testing.assert_array_equal(pose, np.eye(4))
    assert capfd.readouterr() == ("", "")


def test_a_map_by_odometry_needs_an_estimator() -> None:
    with pytest.raises(ValidationError, match="map_pose: odometry needs odometry"):
        LidarSpecification(kind="lidar", map_cell=0.2, map_pose="odometry")


def test_px4_fuses_the_position_of_lidar_odometry() -> None:
    found = parameters_for(load_airframe("iris_lidar_odometry"))
    assert found["EKF2_EV_CTRL"] == 3
    iris = load_airframe("iris")
    kiss = LidarSpecification(kind="lidar", odometry="kiss-icp")
    level = parameters_for(iris.model_copy(update={"sensors": (*iris.sensors, kiss)}))
    assert level["EKF2_EV_CTRL"] == 1, "its height sticks to the rings"
    assert found["EKF2_EV_DELAY"] == pytest.approx(100.0)
    assert found["EKF2_EV_POS_Z"] == pytest.approx(-0.12)
    assert "EKF2_EV_CTRL" not in parameters_for(load_airframe("iris_lidar"))


def test_obstacles_and_odometry_come_from_one_lidar() -> None:
    lidar = LidarSpecification(kind="lidar", columns=200, obstacle_distance=True, odometry="small-gicp")
    time, poses = next(way())
    process = lidar.processor()
    assert process is not None
    arrays = process(view(time, poses), lidar.measure(view(time, poses)))
    assert {"points", "position", "attitude", "obstacles"} <= arrays.keys()


def shaken() -> Iterator[tuple[int, Poses]]:
    """A flight from rest to 1 m/s that pitches to and fro by 20 deg, 1.2 times a second."""
    times = np.arange(0, (STEPS + 1) * PERIOD + 1, PERIOD // 25)
    seconds = times * 1e-6
    beat, largest = 2.0 * np.pi * 1.2, np.radians(20.0)
    pitch, zero = largest * np.sin(beat * seconds), np.zeros(len(times))
    position = np.stack([0.25 * seconds**2, zero, zero - 1.5], axis=1)
    attitude = np.stack([np.cos(pitch / 2), zero, np.sin(pitch / 2), zero], axis=1)
    inertial = np.zeros((len(times), 9))
    inertial[:, 4] = largest * beat * np.cos(beat * seconds)
    for k in range(1, STEPS + 1):
        span = slice(25 * (k - 1), 25 * k + 1)
        yield k * PERIOD, Poses(times[span], position[span], attitude[span], inertial[span])


def test_a_gyroscope_measures_the_rotation_of_a_turn() -> None:
    gyroscope = TurnGyroscope(LIDAR.mounting(), 1e-6 * PERIOD)
    for time, poses in shaken():
        sample = view(time, poses)
        ends = poses.at(np.array([time - PERIOD, time], float))[1]
        error = Rotation.from_matrix((ends[0].T @ ends[1]).T @ gyroscope.rotation(sample)).magnitude()
        # The bias at the start, three deviations on each axis, and the sampling at 200 Hz.
        assert error < 3.0 * np.sqrt(3.0) * TURN_ON * 1e-6 * PERIOD + 1e-4
    with pytest.raises(ValueError, match="inertial quantities"):
        gyroscope.rotation(view(time, poses._replace(inertial=None)))


def test_a_gyroscope_keeps_the_odometry_on_its_way_while_the_vehicle_pitches() -> None:
    def error(*, gyroscope: bool) -> float:
        lidar = LIDAR.model_copy(update={"odometry": "small-gicp", "odometry_gyroscope": gyroscope})
        process = lidar.processor()
        assert process is not None
        errors = []
        for number, (time, poses) in enumerate(shaken()):
            sample = view(time, poses)
            arrays = process(sample, lidar.measure(sample))
            place = lidar.pose(sample)[0]
            if number == 0:
                begin = place
            errors.append(np.linalg.norm(arrays["position"].astype(float) - (place - begin)))
        return float(max(errors))

    with_it, without = error(gyroscope=True), error(gyroscope=False)
    print(f"{with_it:.3f} m, {without:.3f} m without")
    assert with_it < 0.06
    assert without > 2.0 * with_it
