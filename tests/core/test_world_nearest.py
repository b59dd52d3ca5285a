"""Signed distances from shapes of a scene: against closed forms, against brute force, and one another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.contact_scenes import box_mesh, mesh, terrain, voxels

from sitl_bridge.core.world.nearest_surface import nearest
from sitl_bridge.core.world.ray_casting import GROUND, NOTHING
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import (
    BoxObject,
    CylinderObject,
    PlaneObject,
    SceneSpecification,
    SphereObject,
)

Floats = NDArray[np.float64]


def distances(
    points: Floats, *objects: Any, limit: float = 100.0, ground: bool = False
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    scene = Scene(SceneSpecification(ground=ground, objects=objects))
    return nearest(scene.record[0], points, limit)


def triangle_distances(points: Floats, corners: Floats) -> Floats:
    """(n,) distances of points (n, 3) from the nearest of triangles (t, 3, 3): interior, then edges."""
    best = np.full(len(points), math.inf)
    for a, b, c in corners:
        normal = np.cross(b - a, c - a)
        normal /= np.linalg.norm(normal)
        height = (points - a) @ normal
        foot = points - height[:, None] * normal
        inside = np.ones(len(points), bool)
        for p, q in ((a, b), (b, c), (c, a)):
            inside &= np.cross(q - p, foot - p) @ normal >= 0.0
            share = np.clip((points - p) @ (q - p) / ((q - p) @ (q - p)), 0.0, 1.0)
            best = np.minimum(best, np.linalg.norm(points - p - share[:, None] * (q - p), axis=1))
        best[inside] = np.minimum(best, np.abs(height))[inside]
    return best


def winding_numbers(points: Floats, corners: Floats) -> Floats:
    """Winding number of closed triangles (t, 3, 3) about points (n, 3): solid angles over 4 pi (van Oosterom
    and Strackee, IEEE Trans. Biomed. Eng. 30(2), 1983)."""
    total = np.zeros(len(points))
    for triangle in corners:
        a, b, c = (corner - points for corner in triangle)
        la, lb, lc = (np.linalg.norm(v, axis=1) for v in (a, b, c))
        volume = np.einsum("ij,ij->i", a, np.cross(b, c))
        dots = (np.einsum("ij,ij->i", p, q) * r for p, q, r in ((a, b, lc), (b, c, la), (c, a, lb)))
        total += 2.0 * np.arctan2(volume, la * lb * lc + sum(dots))
    return total / (4.0 * math.pi)


def test_solids_have_their_closed_forms_wherever_they_stand() -> None:
    rng = np.random.default_rng(1)
    points = rng.uniform(-3.0, 3.0, (2000, 3))
    box = np.array([1.0, 2.0, 0.5])
    q = np.abs(points) - box / 2
    expected = np.linalg.norm(np.maximum(q, 0.0), axis=1) + np.minimum(q.max(axis=1), 0.0)
    angles = (20.0, -35.0, 110.0)
    place = np.array([4.0, -2.0, -7.0])
    tilted = BoxObject(kind="box", size=tuple(box), position=tuple(place), rotation=angles)
    rotation = Scene(SceneSpecification(objects=(tilted,))).shapes[0]["rotation"]
    found, normal, _ = distances(points @ rotation.T + place, tilted)
    assert found == pytest.approx(expected, abs=1e-12)
    assert np.linalg.norm(normal, axis=1) == pytest.approx(1.0)
    found, normal, _ = distances(points, SphereObject(kind="sphere", radius=1.2))
    assert found == pytest.approx(np.linalg.norm(points, axis=1) - 1.2, abs=1e-12)
    side = np.hypot(points[:, 0], points[:, 1]) - 0.7
    end = np.abs(points[:, 2]) - 1.0
    expected = np.hypot(np.maximum(side, 0), np.maximum(end, 0)) + np.minimum(np.maximum(side, end), 0)
    found, _, _ = distances(points, CylinderObject(kind="cylinder", radius=0.7, length=2.0))
    assert found == pytest.approx(expected, abs=1e-12)
    found, normal, _ = distances(points, PlaneObject(kind="plane", position=(0, 0, -1)))
    assert found == pytest.approx(-1.0 - points[:, 2], abs=1e-12)
    assert (normal == (0.0, 0.0, -1.0)).all()


def test_box_as_a_mesh_is_as_far_away_as_the_box() -> None:
    points = np.random.default_rng(2).uniform(-2.5, 2.5, (3000, 3))
    place = {"position": (0.3, 0.2, -0.4), "rotation": (10.0, 20.0, 30.0)}
    expected, expected_normal, _ = distances(points, BoxObject(kind="box", size=(1, 2, 3), **place))
    found, normal, _ = distances(points, box_mesh((1, 2, 3), **place))
    assert found == pytest.approx(expected, abs=1e-6)
    assert normal == pytest.approx(expected_normal, abs=1e-5)


def test_random_meshes_agree_with_brute_force_in_distance_and_side() -> None:
    """Bodies with sharp spikes and dents, where the nearest place is often an edge or a corner."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows, columns = 7, 10
        latitude = np.linspace(0.0, math.pi, rows + 1)
        turn = np.arange(columns) * 2.0 * math.pi / columns
        radius = rng.uniform(0.4, 1.6, (rows + 1, columns))
        radius[0], radius[-1] = 1.0, 1.0
        vertices = np.stack(
            [
                radius * np.outer(np.sin(latitude), np.cos(turn)),
                radius * np.outer(np.sin(latitude), np.sin(turn)),
                radius * np.cos(latitude)[:, None],
            ],
            axis=2,
        ).reshape(-1, 3)
        faces = []
        for i in range(rows):
            for j in range(columns):
                a, b = i * columns + j, i * columns + (j + 1) % columns
                c, d = a + columns, b + columns
                faces.append((a if i else 0, c if i < rows - 1 else rows * columns, d if i < rows - 1 else b))
                if 0 < i < rows - 1:
                    faces.append((a, d, b))
        corners = np.float32(vertices[np.array(faces)]).astype(float)
        points = rng.uniform(-1.7, 1.7, (400, 3))
        found, normal, _ = distances(points, mesh(vertices, np.array(faces)))
        expected = triangle_distances(points, corners)
        assert np.abs(found) == pytest.approx(expected, abs=1e-5)
        inside = winding_numbers(points, corners) > 0.5
        clear = expected > 1e-5
        assert ((found < 0.0) == inside)[clear].all()
        on_it, _, _ = distances(points - found[:, None] * normal, mesh(vertices, np.array(faces)))
        assert np.abs(on_it).max() < 1e-5


def test_open_mesh_has_two_sides_and_no_inside() -> None:
    sheet = mesh(
        np.array([(-1.0, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)]),
        np.array([(0, 1, 2), (0, 2, 3)]),
        solid=False,
    )
    found, normal, _ = distances(np.array([(0.2, 0.1, 0.3), (0.2, 0.1, -0.3), (2.0, 0.0, 0.0)]), sheet)
    assert found == pytest.approx([0.3, 0.3, 1.0])
    assert normal == pytest.approx(np.array([(0, 0, 1), (0, 0, -1), (1, 0, 0)]), abs=1e-9)


def test_terrain_agrees_with_its_triangles() -> None:
    rng = np.random.default_rng(3)
    heights = rng.uniform(0.0, 2.0, (9, 7))
    spacing = 0.8
    corners = []
    for i in range(8):
        for j in range(6):
            at = [
                (np.array([i + a, j + b, 0]) * spacing - np.array([0, 0, np.float32(heights[i + a, j + b])]))
                for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))
            ]
            corners += [(at[0], at[1], at[2]), (at[0], at[2], at[3])]
    points = rng.uniform((-1.0, -1.0, -3.5), (7.5, 6.0, 0.5), (1500, 3))
    found, _, _ = distances(points, terrain(heights, spacing))
    over = (points[:, :2] >= 0).all(axis=1) & (points[:, 0] <= 6.4) & (points[:, 1] <= 4.8)
    expected = triangle_distances(points, np.array(corners))
    under = found < 0.0
    walls = np.concatenate([points[:, :2], np.array([6.4, 4.8]) - points[:, :2]], axis=1).min(axis=1)
    expected[under] = np.minimum(expected, walls)[under]
    assert np.abs(found) == pytest.approx(expected, abs=1e-5)
    assert (found[~over] >= 0.0).all()
    assert (found[over & (points[:, 2] < -2.0)] > 0.0).all()
    assert (found[over & (points[:, 2] > 0.0)] < 0.0).all()


def test_voxels_agree_with_the_nearest_cube_of_the_other_kind() -> None:
    rng = np.random.default_rng(4)
    occupied = rng.random((5, 6, 4)) < 0.5
    size = 0.3
    padded = np.pad(occupied, 1)
    points = rng.uniform(-0.4, 2.1, (1500, 3))
    cells = np.argwhere(np.ones_like(padded)) - 1
    filled = padded.reshape(-1)
    gap = np.maximum(np.maximum(cells * size - points[:, None], points[:, None] - (cells + 1) * size), 0.0)
    apart = np.linalg.norm(gap, axis=2)
    to_filled = np.where(filled, apart, math.inf).min(axis=1)
    to_empty = np.where(filled, math.inf, apart).min(axis=1)
    found, normal, _ = distances(points, voxels(occupied, size))
    assert found == pytest.approx(np.where(to_filled > 0.0, to_filled, -to_empty), abs=1e-9)
    assert np.linalg.norm(normal, axis=1) == pytest.approx(1.0)


def test_normal_on_the_surface_is_that_of_the_surface() -> None:
    occupied = np.ones((3, 3, 1), bool)
    for thing in (box_mesh((2, 2, 2)), BoxObject(kind="box", size=(2, 2, 2))):
        _, normal, _ = distances(np.array([(0.3, 0.4, -1.0)]), thing)
        assert normal[0] == pytest.approx((0.0, 0.0, -1.0), abs=1e-6)
    for down in (0.0, -1e-12, 1e-12):
        found, normal, _ = distances(np.array([(0.5, 0.7, down)]), voxels(occupied, 0.3))
        assert found[0] == pytest.approx(0.0, abs=1e-9)
        assert tuple(normal[0]) == (0.0, 0.0, -1.0)
    found, normal, _ = distances(np.array([(0.5, 0.7, -2.0)]), terrain(np.full((3, 3), 2.0), 1.0))
    assert found[0] == pytest.approx(0.0, abs=1e-9)
    assert normal[0] == pytest.approx((0.0, 0.0, -1.0))


def test_the_deepest_of_several_counts_and_the_ground_is_one_of_them() -> None:
    things = [SphereObject(kind="sphere", radius=1.0, position=(3.0 * i, 0, -2.0)) for i in range(40)]
    points = np.array([(9.0, 0.2, -2.5), (9.0, 0.0, -0.2), (0.0, 0.0, -60.0)])
    scene = Scene(SceneSpecification(objects=tuple(things)))
    found, _, shape = nearest(scene.record[0], points, 5.0)
    assert scene.names[scene.shapes[shape[0]]["object"]] == "sphere 3"
    assert found[0] == pytest.approx(math.hypot(0.2, 0.5) - 1.0)
    assert shape[1] == GROUND
    assert found[1] == pytest.approx(0.2)
    assert shape[2] == NOTHING
    assert found[2] == math.inf
