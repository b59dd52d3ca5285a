"""Occupancy maps from casts in scenes whose surfaces are known in closed form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.world.octree_file import load_octree
from sitl_bridge.core.world.ray_casting import cast_rays
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification, SphereObject
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap

CELL, RANGE = 0.25, 15.0
BOX = BoxObject(kind="box", size=(4.0, 6.0, 8.0), position=(8.0, 0.0, -4.0))
BALL = SphereObject(kind="sphere", radius=2.0, position=(-6.0, 3.0, -5.0))


def from_box(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Signed distance of points from the box."""
    away = np.abs(points - np.array(BOX.position)) - 0.5 * np.array(BOX.size)
    return np.asarray(np.linalg.norm(np.maximum(away, 0.0), axis=1) + np.minimum(away.max(axis=1), 0.0))


def from_scene(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Signed distance of points from box, ball and ground."""
    ball = np.linalg.norm(points - np.array(BALL.position), axis=1) - BALL.radius
    return np.asarray(np.minimum(np.minimum(from_box(points), ball), -points[:, 2]))


@pytest.fixture(scope="module")
def seen() -> OccupancyMap:
    """The map of a box, a ball and the ground from clouds taken all around."""
    scene = Scene(SceneSpecification(objects=(BOX, BALL)))
    rng = np.random.default_rng(4)
    made = OccupancyMap(CELL)
    for place in ((0, 0, -5), (15, 0, -3), (8, 10, -10), (8, -9, -2), (-12, 3, -4), (-6, 8, -9), (2, 2, -12)):
        origin = np.array([place], float)
        directions = rng.normal(size=(8000, 3))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        distance = np.empty(len(directions))
        cast_rays(
            scene.record[0],
            origin,
            directions,
            RANGE,
            distance,
            np.empty_like(directions),
            np.empty(len(directions), np.int64),
        )
        made.insert_ranges(origin, directions, distance, RANGE)
    return made


def test_no_free_cell_is_inside_a_solid_and_no_occupied_cell_is_away_from_a_surface(
    seen: OccupancyMap,
) -> None:
    reach = CELL * np.sqrt(3.0)
    assert from_scene(seen.centers(seen.free)).min() > -reach
    assert np.abs(from_scene(seen.centers(seen.occupied))).max() < reach
    assert seen.occupied.sum() > 3000
    assert seen.free.sum() > 50_000
    assert seen.unknown.sum() + seen.free.sum() + seen.occupied.sum() == seen.log_odds.size


def test_the_inside_of_a_solid_and_what_no_ray_reached_stay_unknown(seen: OccupancyMap) -> None:
    unknown = seen.centers(seen.unknown)
    assert (from_box(unknown) < -1.0).sum() == pytest.approx(2.0 * 4.0 * 6.0 / CELL**3, rel=0.2)


def test_log_odds_follow_the_published_model_and_its_limits() -> None:
    made = OccupancyMap(1.0)
    ray = [[3.5, 0.5, 0.5]]
    made.insert([0.5, 0.5, 0.5], ray)
    hit, miss = np.log(0.7 / 0.3), np.log(0.4 / 0.6)
    row = [made.log_odds[tuple(np.floor([n, 0, 0] - made.corner).astype(int))] for n in range(5)]
    assert row[:4] == pytest.approx([miss, miss, miss, hit], rel=1e-6)
    assert np.isnan(row[4])
    for _ in range(20):
        made.insert([0.5, 0.5, 0.5], ray)
    assert np.nanmax(made.log_odds) == pytest.approx(np.log(0.97 / 0.03), rel=1e-6)
    assert np.nanmin(made.log_odds) == pytest.approx(np.log(0.12 / 0.88), rel=1e-6)


def test_a_scan_changes_a_cell_once_and_a_hit_outweighs_passing_rays() -> None:
    made = OccupancyMap(1.0)
    ends = [[2.5, 0.5, 0.5]] + [[5.5, 0.5 + 0.01 * i, 0.5] for i in range(20)]
    made.insert([0.5, 0.5, 0.5], ends)
    assert made.occupied.sum() == 2
    assert np.nanmax(made.log_odds) == pytest.approx(np.log(0.7 / 0.3), rel=1e-6)
    assert np.nanmin(made.log_odds) == pytest.approx(np.log(0.4 / 0.6), rel=1e-6)


def test_a_ray_beyond_the_range_frees_cells_and_hits_none() -> None:
    made = OccupancyMap(1.0)
    made.insert_ranges([0.5, 0.5, 0.5], [[1, 0, 0], [0, 1, 0]], [np.inf, np.nan], 10.0)
    assert made.occupied.sum() == 0
    assert made.free.sum() == 10


def test_a_copy_takes_scans_by_the_limits_of_its_map() -> None:
    built = OccupancyMap(0.5, clamping=(0.35, 0.85))
    copy = built.copy()
    for one in (built, copy):
        for _ in range(20):
            one.insert((0.1, 0.1, 0.1), [[3.1, 0.1, 0.1]])
    assert copy.log_odds.tobytes() == built.log_odds.tobytes()


def test_a_map_is_read_as_it_was_saved(seen: OccupancyMap, tmp_path: Path) -> None:
    read = OccupancyMap.load(seen.save(tmp_path / "map.npz"))
    assert read.cell == seen.cell
    assert read.corner.tolist() == seen.corner.tolist()
    np.testing.assert_array_equal(read.log_odds, seen.log_odds)


@pytest.mark.parametrize("suffix", ["bt", "ot"])
def test_an_octree_holds_the_same_occupied_cells(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("pyoctomap")
    made = OccupancyMap(0.5)
    made.insert([0.3, 0.2, -3.2], [[4.3, 1.2, -0.2], [-3.3, 2.2, -5.2], [0.2, -7.1, -1.1]])
    grid = load_octree(made.save(tmp_path / f"map.{suffix}"), "z_up")
    centers = (np.argwhere(grid.occupied) + 0.5) * grid.size + grid.corner
    expected = made.centers(made.occupied)
    assert sorted(map(tuple, centers.round(6).tolist())) == sorted(map(tuple, expected.round(6).tolist()))


def test_a_fault_is_one_message(tmp_path: Path) -> None:
    made = OccupancyMap(0.1)
    with pytest.raises(UserError, match="use larger cells or a shorter range"):
        made.insert([0, 0, 0], [[4000.0, 4000.0, 4000.0]])
    with pytest.raises(UserError, match="the map is empty; insert a scan"):
        made.save(tmp_path / "map.npz")
    with pytest.raises(UserError, match="give a size"):
        OccupancyMap(0.0)
    with pytest.raises(UserError, match="give 3 finite figures each"):
        made.insert([0, 0], [[1, 1, 1]])
    with pytest.raises(UserError, match=r"ends of shape \(6, 4\)"):  # x, y, z and intensity
        made.insert([0, 0, 0], np.ones((6, 4)))
    made.insert([0, 0, 0], [[1, 1, 1]])
    whole = made.save(tmp_path / "map.npz").read_bytes()
    for content in (b"no map", b"", whole[:100], whole[:-100]):
        (tmp_path / "no.npz").write_bytes(content)
        with pytest.raises(UserError, match="is no map that was saved here"):
            OccupancyMap.load(tmp_path / "no.npz")
