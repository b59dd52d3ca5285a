"""Rays into scenes: against closed forms and against brute force."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from support.scenes import make_every_shape, scene_of, terrain, tetrahedra, voxels

from sitl_bridge.base.rotations import matrix_from_euler
from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.world.ray_casting import GROUND, NOTHING
from sitl_bridge.core.world.records import TRIANGLE
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import (
    BoxObject,
    CylinderObject,
    PathSpecification,
    SceneSpecification,
    SphereObject,
)

NOBODY = np.zeros((0, 4))
Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def unit(vectors: Array) -> Array:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def random_rays(count: int, seed: int, reach: float = 25.0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    origins = random.uniform(-reach, reach, (count, 3)) * [1, 1, 0.4] - [0, 0, 6]
    return origins, unit(random.normal(size=(count, 3)))


def world_triangles(shape: NDArray[np.void]) -> Array:
    """Corners (t, 3, 3) in m NED of the triangles of a SHAPE () of kind MESH."""
    count = int(shape["triangle_count"])
    memory = (ctypes.c_char * (count * TRIANGLE.itemsize)).from_address(int(shape["triangles"]))
    triangles: NDArray[np.void] = np.ndarray(count, TRIANGLE, memoryview(memory))
    corners = np.repeat(triangles["corner"].astype(float)[:, None], 3, axis=1)
    corners[:, 1:] += triangles["edge"]
    return np.asarray(corners @ shape["rotation"].T + shape["position"])


def brute_force(corners: Array, origins: Array, directions: Array) -> Array:
    """Least distance of each ray to any triangle, by solving for each pair."""
    best = np.full(len(origins), math.inf)
    for p in corners:
        u, v = p[1] - p[0], p[2] - p[0]
        cross = np.cross(directions, v)
        determinant = cross @ u
        with np.errstate(divide="ignore", invalid="ignore"):
            s = origins - p[0]
            a = np.sum(s * cross, axis=1) / determinant
            q = np.cross(s, u)
            b = np.sum(directions * q, axis=1) / determinant
            t = q @ v / determinant
            hit = (a >= 0) & (b >= 0) & (a + b <= 1) & (t >= 0)
        best[hit & (t < best)] = t[hit & (t < best)]
    return best


def test_a_sphere_is_met_where_geometry_has_it() -> None:
    caster = SceneCaster(scene_of(SphereObject(kind="sphere", radius=2.0, position=(50, 0, 0))), 0, NOBODY)
    offset = np.linspace(-1.99, 1.99, 101)
    origins = np.column_stack([np.zeros(101), offset, np.zeros(101)])
    hits = caster.cast(origins, np.tile([1.0, 0.0, 0.0], (101, 1)), 100.0)
    assert hits.distance == pytest.approx(50.0 - np.sqrt(4.0 - offset**2), rel=1e-9)
    assert hits.normal[:, 1] == pytest.approx(offset / 2.0, abs=1e-9)


def test_a_turned_box_and_a_lying_cylinder_are_met_where_geometry_has_them() -> None:
    box = BoxObject(kind="box", size=(2, 2, 2), position=(10, 0, 0), rotation=(0, 0, 45))
    pipe = CylinderObject(kind="cylinder", radius=0.5, length=8, position=(-10, 0, 0), rotation=(90, 0, 0))
    caster = SceneCaster(scene_of(box, pipe), 0, NOBODY)
    hits = caster.cast(
        np.zeros((1, 3)), np.array([[1.0, 0, 0], [-1.0, 0, 0], unit(np.array([-10.0, 3.9, 0.0]))]), 100.0
    )
    assert hits.distance[:2] == pytest.approx([10.0 - math.sqrt(2.0), 9.5], rel=1e-9)
    assert hits.normal[1] == pytest.approx([1, 0, 0], abs=1e-9)
    assert hits.distance[2] == pytest.approx(9.5 * math.hypot(10, 3.9) / 10, rel=1e-9)


def test_distances_lie_on_the_surface_of_every_kind_of_shape() -> None:
    """What is met is at zero distance of a shape, and nothing lies before it."""
    caster = SceneCaster(scene_of(*make_every_shape(3)), 0, NOBODY)
    origins, directions = random_rays(3000, 3)
    hits = caster.cast(origins, directions, 200.0)
    met = np.isfinite(hits.distance) & (hits.distance > 1e-3)
    assert met.sum() > 800
    outward = np.sum(hits.normal[met] * directions[met], axis=1)
    assert np.linalg.norm(hits.normal[met], axis=1) == pytest.approx(np.ones(met.sum()), rel=1e-6)
    # From outside, the normal looks at the ray's origin; rays that begin in a mesh or the terrain leave it.
    assert (outward < 1e-9).mean() > 0.95
    again = caster.cast(origins[met], directions[met], 200.0)
    assert (again.distance == hits.distance[met]).all()
    short = caster.cast(
        origins[met] + 0.5 * hits.distance[met, None] * directions[met], directions[met], 200.0
    )
    assert short.distance == pytest.approx(0.5 * hits.distance[met], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_a_mesh_is_met_as_by_brute_force(seed: int) -> None:
    thing = tetrahedra(120, seed, 8.0, 3.0)
    thing = thing.model_copy(update={"position": (3.0, -2.0, 1.0), "rotation": (20.0, -30.0, 50.0)})
    scene = scene_of(thing)
    origins, directions = random_rays(400, seed, 12.0)
    found = SceneCaster(scene, 0, NOBODY).cast(origins, directions, 200.0).distance
    expected = brute_force(world_triangles(scene.shapes[0]), origins, directions)
    same = np.isclose(found, expected, rtol=1e-9, atol=1e-9) | (np.isinf(found) & np.isinf(expected))
    assert np.isfinite(expected).sum() > 60
    assert same.all()


def test_terrain_is_met_as_its_triangles_are() -> None:
    thing = terrain(14, 11, 5, 1.5, position=(-8.0, -6.0, -1.0))
    grid = thing.geometry
    assert grid is not None
    x, y = np.meshgrid(np.arange(14) * 1.5 - 8.0, np.arange(11) * 1.5 - 6.0, indexing="ij")
    points = np.stack([x, y, -1.0 - grid.heights.astype(float)], axis=-1)
    a, b, c, d = points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]
    corners = np.concatenate(
        [np.stack([a, b, c], axis=2).reshape(-1, 3, 3), np.stack([a, c, d], axis=2).reshape(-1, 3, 3)]
    )
    random = np.random.default_rng(5)
    origins = random.uniform([-12, -10, -12], [16, 14, -4], (2000, 3))
    directions = unit(random.normal((0.0, 0.0, 0.7), size=(2000, 3)))
    found = SceneCaster(scene_of(thing), 0, NOBODY).cast(origins, directions, 100.0).distance
    expected = brute_force(corners, origins, directions)
    same = np.isclose(found, expected, rtol=1e-6) | (np.isinf(found) & np.isinf(expected))
    assert np.isfinite(expected).sum() > 400
    assert (~same).sum() == 0


def test_voxels_are_met_as_boxes_are() -> None:
    thing = voxels((7, 6, 5), 0.2, 8, 0.5, position=(1.0, 2.0, -3.0), rotation=(10.0, 20.0, 30.0))
    grid = thing.geometry
    assert grid is not None
    turn = matrix_from_euler(*np.radians((10.0, 20.0, 30.0)))
    boxes = []
    for cell in np.argwhere(grid.occupied):
        x, y, z = (float(v) for v in turn @ ((cell + 0.5) * 0.5) + [1.0, 2.0, -3.0])
        boxes.append(
            BoxObject(kind="box", size=(0.5, 0.5, 0.5), position=(x, y, z), rotation=(10.0, 20.0, 30.0))
        )
    random = np.random.default_rng(8)
    origins = unit(random.normal(size=(1500, 3))) * 8.0
    directions = unit(random.uniform([0, 0, -5], [4, 5, 0], (1500, 3)) - origins)
    found = SceneCaster(scene_of(thing), 0, NOBODY).cast(origins, directions, 100.0)
    expected = SceneCaster(scene_of(*boxes), 0, NOBODY).cast(origins, directions, 100.0)
    same = np.isclose(found.distance, expected.distance, rtol=1e-9) | (
        np.isinf(found.distance) & np.isinf(expected.distance)
    )
    assert np.isfinite(expected.distance).sum() > 500
    assert (~same).sum() <= 1  # a ray between two boxes


def test_moving_things_are_met_where_their_path_has_them() -> None:
    path = PathSpecification(points=((10, -5, 0), (10, 5, 0)), speed=2.0, start=1.0)
    scene = Scene(
        SceneSpecification(ground=False, objects=(BoxObject(kind="box", size=(1, 1, 1), path=path),))
    )
    ahead = np.array([[1.0, 0.0, 0.0]])
    for seconds, met in ((0.0, False), (3.5, True), (6.0, False), (8.5, True), (13.5, True)):
        hits = SceneCaster(scene, round(seconds * 1e6), NOBODY).cast(np.zeros((1, 3)), ahead, 50.0)
        assert bool(np.isfinite(hits.distance[0])) is met, seconds


def test_ground_and_nothing_are_told_apart() -> None:
    caster = SceneCaster(scene_of(ground=True), 0, NOBODY)
    down_and_up = np.array([[0.0, 0, 1], [0, 0, -1]])
    hits = caster.cast(np.array([[0.0, 0, -4]]), down_and_up, 100.0)
    assert hits.shape.tolist() == [GROUND, NOTHING]
    assert hits.distance.tolist() == [4.0, math.inf]
