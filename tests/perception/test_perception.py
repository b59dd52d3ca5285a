"""Sensors that see the scene: what they measure, when it arrives, and that the machine does not matter."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import sitl_bridge as sb
from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.scanner import ScannerSpecification
from sitl_bridge.core.sensors.perception.view import Arrays, Poses, View
from sitl_bridge.core.sensors.perception.visual_odometry import VisualOdometrySpecification
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.perception.sensor_runner import SeenSample, SensorRunner

WALL = BoxObject(kind="box", size=(2.0, 40.0, 20.0), position=(6.0, 0.0, 0.0))


def simulation(*positions: tuple[float, float, float]) -> Simulation:
    iris = load_airframe("iris")
    setups = [
        VehicleSetup(iris.vehicle(), iris.sensor_records(), place, name=str(i))
        for i, place in enumerate(positions)
    ]
    return Simulation(World(WorldSpecification(scene=SceneSpecification(objects=(WALL,)))), setups)


def last(core: Simulation, runner: SensorRunner, steps: int) -> SeenSample | None:
    """Advance by some steps; returns the last sample that was delivered."""
    for _ in range(steps):
        core.advance()
        if runner.due <= core.time:
            runner.run(core.states[runner.vehicle], core.time)
    return runner.latest


def test_a_scanner_measures_a_wall_and_its_sample_arrives_at_its_latency() -> None:
    core = simulation((0.0, 0.0, 0.0))
    scanner = ScannerSpecification(kind="scanner", rate=10.0, latency=0.02, noise=0.0, position=(0, 0, -0.2))
    runner = SensorRunner(scanner, core)
    assert last(core, runner, 29) is None
    sample = last(core, runner, 1)
    assert sample is not None
    assert sample.time == 100_000
    ranges = sample.arrays["ranges"]
    assert ranges.dtype == np.float32
    ahead = np.abs(scanner.angles) < np.radians(60.0)
    assert ranges[ahead] == pytest.approx(5.0 / np.cos(scanner.angles[ahead]), rel=2e-3)
    assert np.isinf(ranges[np.abs(scanner.angles) > np.radians(100.0)]).all()
    runner.close()


def test_a_depth_camera_measures_depth_along_its_axis() -> None:
    core = simulation((0.0, 0.0, 0.0))
    camera = DepthCameraSpecification(
        kind="depth_camera", rate=10.0, width=64, height=48, quadratic_noise=0.0, position=(0, 0, -0.5)
    )
    runner = SensorRunner(camera, core)
    sample = last(core, runner, 40)
    assert sample is not None
    depth = sample.arrays["depth"]
    assert depth.shape == (48, 64)
    assert depth[10] == pytest.approx(np.full(64, 5.0), rel=2e-3)
    assert depth[47, 32] < 4.0  # the ground
    runner.close()


def test_vehicles_see_one_another() -> None:
    core = simulation((0.0, 0.0, 0.0), (-3.0, 0.0, 0.0))
    scanner = ScannerSpecification(kind="scanner", rate=10.0, latency=0.0, noise=0.0, rotation=(0, 0, 180))
    runner = SensorRunner(scanner, core)
    sample = last(core, runner, 25)
    assert sample is not None
    assert 2.5 < float(sample.arrays["ranges"].min()) < 3.0
    runner.close()


def test_visual_odometry_does_not_ask_where_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    core = simulation((0.0, 0.0, 0.0), (0.0, 5.0, 0.0))
    monkeypatch.setattr("sitl_bridge.perception.sensor_runner.spheres_beside", None)
    runner = SensorRunner(VisualOdometrySpecification(kind="visual_odometry"), core)
    assert last(core, runner, 30) is not None
    runner.close()


def test_poses_are_interpolated_on_the_way() -> None:
    half = np.radians(45.0) / 2
    poses = Poses(
        np.array([0, 1000]),
        np.array([[0.0, 0, 0], [2.0, 0, 0]]),
        np.array([[1.0, 0, 0, 0], [-np.cos(half), 0, 0, -np.sin(half)]]),
    )
    position, rotation = poses.at(np.array([-5.0, 500.0, 2000.0]))
    assert position[:, 0] == pytest.approx([0.0, 1.0, 2.0])
    heading = np.degrees(np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0]))
    assert heading == pytest.approx([0.0, 22.5, 45.0])


def test_the_same_seed_gives_the_same_samples() -> None:
    def samples(seed: int) -> bytes:
        world = sb.World(scene=SceneSpecification(objects=(WALL,)))
        with sb.Sitl("iris_depth", world=world, seed=seed) as fleet:
            fleet.run(0.3)
            return bytes(fleet.sensor("scanner")["ranges"].tobytes())

    assert samples(3) == samples(3) != samples(4)


def test_a_sample_is_measured_when_it_is_taken_and_does_not_depend_on_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = simulation((0.0, 0.0, 0.0))
    core.armed[0], core.controls[0, :4] = 1, (0.7, 0.72, 0.7, 0.72)
    scanner = ScannerSpecification(kind="scanner", rate=10.0, latency=0.02, noise=0.05, position=(0, 0, -0.2))
    idle, followed = SensorRunner(scanner, core), SensorRunner(scanner, core)
    taken: list[SeenSample] = []
    followed.listeners.append(taken.append)
    measured: list[int] = []
    measure = ScannerSpecification.measure

    def note(self: ScannerSpecification, view: View) -> Arrays:
        measured.append(view.time)
        return measure(self, view)

    monkeypatch.setattr(ScannerSpecification, "measure", note)
    for k in range(1, 143):
        core.advance()
        for runner in (idle, followed):
            runner.run(core.states[0], core.time)
        if k == 90:
            late = idle.latest
    assert measured.count(200_000) == measured.count(500_000) == 1
    assert measured.count(300_000) == measured.count(400_000) == 2  # once it was asked for, so is the next
    assert late is not None
    assert late.time == 300_000
    last = idle.latest
    assert last is not None
    assert idle.latest is last
    assert [late.arrays["ranges"].tobytes(), last.arrays["ranges"].tobytes()] == [
        taken[k].arrays["ranges"].tobytes() for k in (2, 4)
    ]
    idle.close()
    followed.close()


@pytest.mark.parametrize(
    "airframe",
    [
        "iris_depth",
        "iris_lidar",
        "iris_camera",
        pytest.param("iris_vi_sensor", marks=pytest.mark.slow),
        "iris_vio",
        pytest.param("iris_marker", marks=pytest.mark.slow),
    ],
)
def test_nothing_is_compiled_once_time_runs(airframe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sb.Airframe.load(airframe)
    with sb.Sitl(made, world=sb.World(scene=SceneSpecification(objects=(WALL,)))) as fleet:
        fleet.run(0.05)  # the vehicle's own kernels
        compiled: list[str] = []
        compile_one = Dispatcher.compile

        def noted(self: Dispatcher, signature: object) -> object:
            compiled.append(self.py_func.__module__)
            return compile_one(self, signature)

        monkeypatch.setattr(Dispatcher, "compile", noted)
        fleet.run(0.4)
        assert [name for name in compiled if "perception" in name or "world" in name] == []
