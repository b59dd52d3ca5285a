"""The lidar: its geometry, its distortion by motion, and its noise, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

import sitl_bridge as sb
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.sensors.perception.view import Arrays, Poses, View
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification

WALL = BoxObject(kind="box", size=(2.0, 400.0, 200.0), position=(11.0, 0.0, 0.0), color=(0.5, 0.5, 0.5))
"""Its face is 10 m to the north."""


def sample(lidar: LidarSpecification, poses: Poses, seed: int = 1, ground: bool = False) -> Arrays:
    scene = Scene(SceneSpecification(objects=(WALL,), ground=ground))
    caster = SceneCaster(scene, 0, np.zeros((0, 4)))
    return lidar.measure(View(caster, poses, int(poses.time[-1]), np.random.default_rng(seed)))


def motion(velocity: tuple[float, float, float], turn_rate: float) -> Poses:
    """A straight way and a steady turn about the down axis, in steps of 4 ms over a turn of 0.1 s."""
    time = np.arange(0, 100_001, 4_000)
    half = 0.5 * turn_rate * time * 1e-6
    zero = np.zeros_like(half)
    position = np.array(velocity) * time[:, None] * 1e-6 + [0.0, 0.0, -5.0]
    return Poses(time, position, np.stack([np.cos(half), zero, zero, np.sin(half)], axis=1))


def distances(lidar: LidarSpecification, cloud: Arrays) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    points = cloud["points"].astype(float)
    hit = np.isfinite(points[:, 0])
    along = np.einsum("ij,ij->i", points[hit], lidar.directions[hit])
    assert np.linalg.norm(points[hit] - along[:, None] * lidar.directions[hit], axis=1).max() < 1e-5
    return hit, along


@pytest.mark.parametrize(("velocity", "turn_rate"), [((8.0, -3.0, 1.0), 0.0), ((5.0, 2.0, 0.0), 3.0)])
def test_points_are_distorted_by_the_motion_during_the_turn(
    velocity: tuple[float, float, float], turn_rate: float
) -> None:
    lidar = LidarSpecification(kind="lidar", columns=512, noise=0.0, position=(0.2, 0.0, -0.1))
    cloud = sample(lidar, motion(velocity, turn_rate))
    hit, measured = distances(lidar, cloud)
    seconds = 0.1 + cloud["offset"].astype(float)
    azimuth = np.repeat(lidar.azimuths, 16) + turn_rate * seconds
    elevation = np.tile(lidar.ring_elevations, 512)
    north = velocity[0] * seconds + 0.2 * np.cos(turn_rate * seconds)
    along_north = np.cos(elevation) * np.cos(azimuth)
    with np.errstate(divide="ignore"):
        expected = (10.0 - north) / along_north
    seen = (along_north > 0.0) & (expected < 100.0)
    assert hit.sum() > 3000
    assert measured == pytest.approx(expected[hit], rel=1e-5)
    assert (hit == seen)[np.abs(expected - 100.0) > 0.1].all()


def test_a_turn_without_rolling_is_not_distorted() -> None:
    lidar = LidarSpecification(kind="lidar", columns=256, noise=0.0, rolling=False)
    cloud = sample(lidar, motion((8.0, 0.0, 0.0), 0.0))
    hit, measured = distances(lidar, cloud)
    assert measured * lidar.directions[hit][:, 0] == pytest.approx(np.full(hit.sum(), 9.2), rel=1e-5)
    assert not cloud["offset"].any()


def test_the_defaults_are_those_of_the_vlp_16() -> None:
    lidar = LidarSpecification(kind="lidar")
    assert np.degrees(lidar.ring_elevations) == pytest.approx(np.arange(-15.0, 16.0, 2.0))
    assert np.degrees(np.diff(lidar.azimuths)) == pytest.approx(np.full(1799, 0.2))
    # Later columns are further clockwise, seen from above; the turn begins at the rear.
    assert lidar.azimuths[0] == -np.pi
    assert lidar.offsets[[0, -1]] == pytest.approx([-0.1, -0.1 / 1800])
    assert lidar.directions[15, 2] < 0.0  # the highest ring of the first column: upward is -z


def test_the_noise_has_its_standard_deviation() -> None:
    lidar = LidarSpecification(kind="lidar", columns=2048, noise=0.03)
    still = motion((0.0, 0.0, 0.0), 0.0)
    hit, measured = distances(lidar, sample(lidar, still))
    errors = measured - 10.0 / lidar.directions[hit][:, 0]
    near = measured < 50.0
    assert errors[near].std() == pytest.approx(0.03, rel=0.03)
    assert abs(errors[near].mean()) < 0.001


def test_intensity_follows_the_cosine_and_the_range_law() -> None:
    plain = LidarSpecification(kind="lidar", columns=512, noise=0.0)
    falling = plain.model_copy(update={"range_law_from": 10.0})
    still = motion((0.0, 0.0, 0.0), 0.0)
    cloud = sample(plain, still)
    hit, measured = distances(plain, cloud)
    cosine = plain.directions[hit][:, 0]
    assert cloud["intensity"][hit] == pytest.approx(0.5 * cosine, rel=1e-5)
    assert not cloud["intensity"][~hit].any()
    fallen = sample(falling, still)["intensity"][hit]
    assert fallen == pytest.approx(0.5 * cosine * (10.0 / measured) ** 2, rel=1e-5)
    ground = sample(plain, still, ground=True)
    down = (np.abs(plain.directions[:, 0]) < 0.1) & np.isfinite(ground["points"][:, 0])
    assert ground["intensity"][down] == pytest.approx(0.3 * plain.directions[down][:, 2], rel=1e-5)


def test_drop_outs_have_their_share_and_the_seed_repeats_the_bytes() -> None:
    lidar = LidarSpecification(kind="lidar", drop_out=0.2)
    still = motion((0.0, 0.0, 0.0), 0.0)
    full = np.isfinite(sample(lidar.model_copy(update={"drop_out": 0.0}), still)["points"][:, 0]).sum()
    first, again, other = (sample(lidar, still, seed)["points"] for seed in (1, 1, 2))
    assert np.isfinite(first[:, 0]).sum() == pytest.approx(0.8 * full, rel=0.03)
    assert first.tobytes() == again.tobytes() != other.tobytes()


def test_rings_can_be_listed_and_impossible_settings_are_refused() -> None:
    lidar = LidarSpecification(kind="lidar", elevations=(-20.0, -5.0, 0.0, 10.0), columns=8)
    assert lidar.directions.shape == (32, 3)
    assert sample(lidar, motion((0, 0, 0), 0.0))["ring"].tolist() == [0, 1, 2, 3] * 8
    with pytest.raises(ValidationError, match="minimum must be less than maximum"):
        LidarSpecification(kind="lidar", minimum=200.0)
    with pytest.raises(ValidationError, match="columns times rings"):
        LidarSpecification(kind="lidar", columns=16384, rings=128)


def test_an_example_airframe_carries_a_lidar() -> None:
    world = sb.World(scene=SceneSpecification(objects=(WALL,)))
    with sb.Sitl("iris_lidar", world=world) as fleet:
        fleet.run(0.2)
        points = fleet.sensor("lidar")["points"]
    assert points.shape == (28800, 3)
    ahead = points.reshape(1800, 16, 3)[900, 8]
    assert ahead == pytest.approx([10.0, 0.0, -0.17], abs=0.2)
