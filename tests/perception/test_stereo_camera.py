"""The stereo pair's depth, and the VI-sensor's IMU between frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.sensors.perception.stereo_camera import (
    StereoCameraSpecification,
    VisualInertialSpecification,
)
from sitl_bridge.core.sensors.perception.view import Arrays, Poses, View
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.perception.sensor_runner import SensorRunner

PLATE = BoxObject(kind="box", size=(0.2, 1.0, 2.0), position=(4.1, 0.0, -50.0), color=(0.0, 0.0, 0.0))
"""Black, its face 4 m ahead of a camera at (0, 0, -50)."""


def poses(inertial: NDArray[np.float64] | None = None) -> Poses:
    time = np.arange(0, 100_001, 4_000)
    return Poses(
        time, np.tile([0.0, 0, -50], (len(time), 1)), np.tile([1.0, 0, 0, 0], (len(time), 1)), inertial
    )


def sample(
    sensor: StereoCameraSpecification | VisualInertialSpecification, way: Poses, seed: int = 1
) -> Arrays:
    caster = SceneCaster(Scene(SceneSpecification(objects=(PLATE,))), 0, np.zeros((0, 4)))
    return sensor.measure(View(caster, way, int(way.time[-1]), np.random.default_rng(seed)))


def pair(**fields: Any) -> StereoCameraSpecification:
    small = {
        "width": 81,
        "height": 5,
        "color": False,
        "supersampling": 8,
        "full_well": 0.0,
        "field_of_view": 50.0,
    }
    return StereoCameraSpecification.model_validate({"kind": "stereo_camera", **small, **fields})


def left_edge(row: NDArray[np.float64], bright: float, around: slice) -> float:
    """Column of the plate's left edge less a constant."""
    return float((row[around] / bright).sum())


def test_depth_follows_from_the_disparity_and_errs_as_pixel_noise_and_baseline_give_it() -> None:
    sensor = pair(baseline=0.2)
    f = sensor.intrinsics[0]
    quiet = sample(sensor, poses())
    row = {side: quiet[side][2].astype(float) for side in ("left", "right")}
    bright = float(row["left"][22:26].mean())
    # The brightness from column 22 to the plate's middle counts the pixels up to the plate's left edge.
    around = slice(22, 41)
    disparity = left_edge(row["left"], bright, around) - left_edge(row["right"], bright, around)
    assert f * 0.2 / disparity == pytest.approx(4.0, rel=0.02)
    noisy = sensor.model_copy(update={"full_well": 3000.0, "read_noise": 30.0})
    depths = []
    for seed in range(150):
        pictures = sample(noisy, poses(), seed)
        columns = [left_edge(pictures[side][2].astype(float), bright, around) for side in ("left", "right")]
        depths.append(f * 0.2 / (columns[0] - columns[1]))
    variance = 0.0
    for side in ("left", "right"):
        electrons = row[side][around] / 255.0 * 3000.0
        lit = electrons > 300.0  # where it is dark, negative values are cut off
        variance += float((((electrons + 900.0) / 3000.0**2)[lit]).sum() * 255.0**2 / bright**2)
        variance += float((~lit).sum()) * (30.0 / 3000.0 * 255.0 / bright) ** 2 * 0.34
    # sigma_z = z^2 sigma_d / (f b)
    assert np.std(depths) == pytest.approx(16.0 * np.sqrt(variance) / (f * 0.2), rel=0.2)


def test_the_two_images_differ_by_the_baseline() -> None:
    wide, narrow = (sample(pair(baseline=b), poses()) for b in (0.4, 0.1))
    shift = {}
    for name, images in (("wide", wide), ("narrow", narrow)):
        dark = [np.flatnonzero(images[side][2] < 60).mean() for side in ("left", "right")]
        shift[name] = dark[0] - dark[1]
    assert shift["wide"] == pytest.approx(4.0 * shift["narrow"], abs=1.0)
    assert shift["narrow"] > 0.5


def test_the_imu_samples_between_frames_share_the_clock_and_the_mounting() -> None:
    time = np.arange(0, 100_001, 4_000)
    inertial = np.zeros((len(time), 9))
    inertial[:, 0] = 3.0 + time * 1e-6  # specific force ahead, rising by 1 m/s^2 a second
    inertial[:, 5] = 2.0  # rad/s about down
    sensor = VisualInertialSpecification(
        kind="vi_sensor",
        width=8,
        height=4,
        rate=20.0,
        imu_samples=10,
        position=(0.5, 0.0, 0.0),
        rotation=(0.0, 0.0, 90.0),
        gyroscope_noise=0.0,
        accelerometer_noise=0.0,
    )
    found = sample(sensor, poses(inertial))
    assert found["imu_time"] == pytest.approx(np.arange(-9, 1) * 0.005)
    at = 0.1 + found["imu_time"].astype(float)
    # Centripetal acceleration at the arm of 0.5 m: 2 m/s^2 backward.  The sensor's y axis is the body's -x.
    assert found["specific_force"][:, 1] == pytest.approx(-(3.0 + at - 2.0))
    assert found["angular_velocity"] == pytest.approx(np.tile([0.0, 0.0, 2.0], (10, 1)), abs=1e-12)


def test_the_imus_noise_has_its_density() -> None:
    sensor = VisualInertialSpecification(
        kind="vi_sensor", width=2, height=2, rate=10.0, imu_samples=100, accelerometer_noise=0.01
    )
    still = poses(np.zeros((26, 9)))
    forces = np.concatenate([sample(sensor, still, seed)["specific_force"].ravel() for seed in range(10)])
    assert forces.std() == pytest.approx(0.01 * np.sqrt(1000.0), rel=0.05)


def test_a_simulated_vehicle_gives_the_imu_what_it_feels() -> None:
    airframe = load_airframe("iris_vi_sensor")
    core = Simulation(
        World(WorldSpecification()), [VehicleSetup(airframe.vehicle(), airframe.sensor_records(), name="0")]
    )
    core.remember_poses(0, 0.05)
    core.advance(20)
    way = Poses(*core.poses_of(0))
    assert way.inertial is not None
    assert way.inertial[-1, :3] == pytest.approx(core.states[0]["specific_force"])
    assert way.inertial[-1, 2] == pytest.approx(-9.8, abs=0.3)  # it stands on the ground
    sensor = airframe.perception_sensors()[0]
    assert isinstance(sensor, VisualInertialSpecification)
    view = View(None, way, core.time, np.random.default_rng(1))  # type: ignore[arg-type]
    force, _ = sensor.inertial_values(view, np.array([core.time]))
    assert force[0, 2] == pytest.approx(-9.8, abs=0.3)


def test_the_imus_biases_begin_at_random_and_walk_on_from_sample_to_sample() -> None:
    sensor = VisualInertialSpecification(
        kind="vi_sensor", width=2, height=2, rate=10.0, imu_samples=10, accelerometer_walk=0.5
    )
    random = np.random.default_rng(5)
    view = View(None, poses(), 0, random)  # type: ignore[arg-type]
    still: Arrays = {"specific_force": np.zeros((10, 3)), "angular_velocity": np.zeros((10, 3))}
    starts, steps = [], []
    for _ in range(200):
        process = sensor.processor()
        ways = np.concatenate([process(view, still)["specific_force"] for _ in range(3)])
        starts.append(ways[0])
        steps.append(np.diff(ways, axis=0))
    assert np.std(starts) == pytest.approx(np.hypot(0.196, 0.05), rel=0.1)
    assert np.std(steps) == pytest.approx(0.05, rel=0.03)  # 0.5 / sqrt(100 Hz), across samples too
    assert not still["specific_force"].any()


@pytest.mark.parametrize(
    "sensor",
    [
        StereoCameraSpecification(kind="stereo_camera", width=64, height=48, latency=0.01),
        VisualInertialSpecification(kind="vi_sensor", width=64, height=48, latency=0.01),
    ],
    ids=lambda sensor: sensor.kind,
)
def test_one_seed_gives_the_same_bytes_and_another_others(
    sensor: StereoCameraSpecification | VisualInertialSpecification,
) -> None:
    def delivered(seed: int) -> dict[str, bytes]:
        iris = load_airframe("iris")
        world = World(WorldSpecification(scene=SceneSpecification(objects=(PLATE,))))
        core = Simulation(world, [VehicleSetup(iris.vehicle(), iris.sensor_records())], seed=seed)
        runner = SensorRunner(sensor, core)
        while runner.latest is None or runner.latest.time < 100_000:
            core.advance()
            if runner.due <= core.time:
                runner.run(core.states[0], core.time)
        runner.close()
        return {name: array.tobytes() for name, array in runner.latest.arrays.items()}

    found = delivered(3)
    assert delivered(3) == found
    other = delivered(4)
    assert all(other[name] != found[name] for name in found if name != "imu_time")
