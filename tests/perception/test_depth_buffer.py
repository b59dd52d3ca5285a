"""Images by the depth buffer: the same as a ray for every pixel, and as pinhole geometry has them."""

from __future__ import annotations

import numpy as np
import pytest
from support.scenes import make_every_shape, mesh_object, scene_of, terrain

from sitl_bridge.base.rotations import matrix_from_euler
from sitl_bridge.core.sensors.perception.camera import CameraSpecification
from sitl_bridge.core.sensors.perception.depth_buffer import Pinhole
from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.sensors.perception.view import Poses, View
from sitl_bridge.core.world.ray_casting import GROUND, NOTHING
from sitl_bridge.core.world.scene_specification import AnyObject, CylinderObject, SphereObject

CAMERA = Pinhole(160, 120, 140.0, 79.5, 59.5)
NOBODY = np.zeros((0, 4))


def pixel_directions(camera: Pinhole) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    u, v = np.meshgrid(np.arange(camera.width), np.arange(camera.height))
    rays = np.stack(
        [np.ones(u.shape), (u - camera.cx) / camera.focal, (v - camera.cy) / camera.focal], axis=-1
    )
    return rays.reshape(-1, 3)


@pytest.mark.parametrize("seed", range(6))
def test_an_image_is_that_of_a_ray_for_every_pixel(seed: int) -> None:
    caster = SceneCaster(scene_of(*make_every_shape(seed), ground=seed % 2 == 0), 0, NOBODY)
    random = np.random.default_rng(seed)
    rays = pixel_directions(CAMERA)
    lengths = np.linalg.norm(rays, axis=1)
    different = other = seen = 0
    for _ in range(4):
        place = random.uniform(-10, 10, 3) * [1, 1, 0.3] - [0, 0, 12]
        turn = matrix_from_euler(*random.uniform([-0.5, -0.9, -3.0], [0.5, -0.2, 3.0]))
        image = caster.draw(place, turn, 50.0, CAMERA)
        hits = caster.cast(place[None], (rays / lengths[:, None]) @ turn.T, 200.0)
        depth = hits.distance / lengths
        depth[depth > 50.0] = np.inf
        with np.errstate(divide="ignore"):
            drawn = (1.0 / image.inverse).reshape(-1).astype(float)
        inside = hits.distance == 0.0  # the camera is in a solid: a ray ends at once, an image shows its back
        same = np.isclose(drawn, depth, rtol=1e-5, atol=0.0) | (np.isinf(drawn) & np.isinf(depth)) | inside
        different += int((~same).sum())
        agree = same & np.isfinite(depth) & ~inside
        other += int((image.shape.reshape(-1)[agree] != hits.shape[agree]).sum())
        seen += int(agree.sum())
    # Only rays along an edge may differ.
    assert different <= 4
    assert other <= 4
    assert seen > 10_000


@pytest.mark.parametrize("seed", range(4))
def test_spheres_and_cylinders_around_a_camera_are_drawn_as_rays_meet_them(seed: int) -> None:
    random = np.random.default_rng(100 + seed)
    objects: list[AnyObject] = []
    for k in range(60):
        place = random.uniform(-6.0, 6.0, 3) - [0.0, 0.0, 10.0]
        turn = random.uniform(-180.0, 180.0, 3) if k % 3 else np.zeros(3)  # every third stands upright
        radius, length = random.uniform(0.1, 1.5), random.uniform(0.1, 12.0)
        common = {"position": tuple(place.tolist()), "rotation": tuple(turn.tolist()), "radius": radius}
        if k % 4:
            objects.append(CylinderObject.model_validate({"kind": "cylinder", "length": length, **common}))
        else:
            objects.append(SphereObject.model_validate({"kind": "sphere", **common}))
    caster = SceneCaster(scene_of(*objects, ground=False), 0, NOBODY)
    rays = pixel_directions(CAMERA)
    lengths = np.linalg.norm(rays, axis=1)
    different = seen = 0
    for _ in range(4):
        place = random.uniform(-3.0, 3.0, 3) - [0.0, 0.0, 10.0]
        angles = random.uniform([-0.5, -1.5, -3.0], [0.5, 1.5, 3.0])
        turn = matrix_from_euler(*(angles if seed else (0.0, 0.0, 0.0)))  # level: rays along the caps
        hits = caster.cast(place[None], (rays / lengths[:, None]) @ turn.T, 200.0)
        if (hits.distance == 0.0).any():
            continue  # the camera is in a solid
        image = caster.draw(place, turn, 50.0, CAMERA)
        with np.errstate(divide="ignore"):
            drawn = (1.0 / image.inverse).reshape(-1).astype(float)
        depth = hits.distance / lengths
        different += int((~np.isclose(drawn, depth, rtol=1e-5, atol=0.0) & (depth < 50.0)).sum())
        seen += int((depth < 50.0).sum())
    assert different <= 2
    assert seen > 5_000


def test_a_triangle_that_reaches_behind_the_camera_is_drawn() -> None:
    vertices = [[-5.0, -50.0, 1.0], [60.0, 0.0, 1.0], [-5.0, 50.0, 1.0]]
    caster = SceneCaster(scene_of(mesh_object(vertices, [[0, 1, 2]], solid=False)), 0, NOBODY)
    image = caster.draw(np.zeros(3), np.eye(3), 100.0, CAMERA)
    rows = (np.arange(CAMERA.height) - CAMERA.cy) / CAMERA.focal
    below = rows > 0.05
    assert image.inverse[below, 80] == pytest.approx(rows[below], rel=1e-6)
    assert (image.shape[~below & (rows < 0), :] == NOTHING).all()


def test_terrain_of_many_blocks_is_drawn_as_rays_meet_it() -> None:
    caster = SceneCaster(
        scene_of(terrain(90, 70, 3, 2.0, position=(-80.0, -60.0, 0.0)), ground=False), 0, NOBODY
    )
    rays = pixel_directions(CAMERA)
    lengths = np.linalg.norm(rays, axis=1)
    for angles in ((0.0, -0.3, 0.5), (0.2, -0.1, 2.5), (0.0, -1.5, 0.0)):
        turn, place = matrix_from_euler(*angles), np.array([3.0, 5.0, -9.0])
        hits = caster.cast(place[None], (rays / lengths[:, None]) @ turn.T, 100.0)
        image = caster.draw(place, turn, 40.0, CAMERA)
        depth = hits.distance / lengths
        depth[depth > 40.0] = np.inf
        with np.errstate(divide="ignore"):
            drawn = (1.0 / image.inverse).reshape(-1).astype(float)
        assert (~(np.isclose(drawn, depth, rtol=1e-5, atol=0.0) | (drawn == depth))).sum() <= 2
    below = caster.draw(np.array([3.0, 5.0, 1.0]), np.eye(3), 40.0, CAMERA)
    assert (below.shape == NOTHING).all()


def test_the_ground_is_seen_to_the_limit_of_depth() -> None:
    caster = SceneCaster(scene_of(ground=True), 0, NOBODY)
    image = caster.draw(np.array([0.0, 0.0, -2.0]), np.eye(3), 20.0, CAMERA)
    slope = (np.arange(CAMERA.height) - CAMERA.cy) / CAMERA.focal
    assert (image.shape[slope > 0.1] == GROUND).all()
    assert (image.shape[slope < 0.1] == NOTHING).all()
    assert image.inverse[slope > 0.1, 3] == pytest.approx(slope[slope > 0.1] / 2.0, rel=1e-6)


@pytest.mark.parametrize(("seed", "samples"), [(1, 1), (2, 2)])
def test_a_drawn_photograph_is_that_of_a_ray_for_every_sample(seed: int, samples: int) -> None:
    scene = scene_of(*make_every_shape(seed), ground=True)
    caster = SceneCaster(scene, 0, NOBODY)
    camera = CameraSpecification(
        kind="camera", width=160, height=120, color=True, full_well=0.0, read_noise=0.0, supersampling=samples
    )
    attitude = np.array([[0.9, 0.05, -0.2, 0.35]]) / np.linalg.norm([0.9, 0.05, -0.2, 0.35])
    poses = Poses(np.array([0]), np.array([[2.0, 1.0, -12.0]]), attitude)
    view = View(caster, poses, 0, np.random.default_rng(0))
    origins, turned = camera.rays(view, camera.directions)
    drawn, cast = camera.hits(view, origins, turned), caster.cast(origins, turned, camera.maximum)
    same = drawn.shape == cast.shape
    near = np.isfinite(cast.distance) & same
    assert same.mean() > 0.9995
    assert near.mean() > 0.4
    assert drawn.distance[near] == pytest.approx(cast.distance[near], rel=1e-5)
    edges = np.abs(drawn.normal[near] - cast.normal[near]).max(axis=1) > 1e-4
    assert edges.mean() < 2e-3  # along the edges of boxes, cylinders and terrain
