"""Paths around obstacles: clearance, length against closed forms, limits, and what cannot be planned."""

from __future__ import annotations

import runpy
import sys

import numpy as np
import pytest
from support.paths import MISSIONS

import sitl_bridge as sb
from sitl_bridge import planning
from sitl_bridge.api.path_planning import distances_from_legs, flyable_trajectory, gps_error
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification
from sitl_bridge.perception.mapping import path_planner
from sitl_bridge.perception.mapping.clearance import MapObstacles, SceneObstacles
from sitl_bridge.perception.mapping.path_planner import PathPlanner

PLANT = MISSIONS / "worlds" / "power_plant.yaml"
WALL = BoxObject(kind="box", size=(2.0, 20.0, 60.0), position=(10.0, 0.0, 0.0))
"""From 9 to 11 m north, -10 to 10 m east, up to 30 m."""
BOUNDS = ((-5.0, -20.0, -20.0), (25.0, 20.0, 0.0))


def planner(needed: float = 1.0, cell: float = 0.5) -> PathPlanner:
    obstacles = SceneObstacles(Scene(SceneSpecification(objects=(WALL,))))
    return PathPlanner(obstacles, needed, bounds=BOUNDS, cell=cell)


def test_a_clear_way_is_a_straight_line() -> None:
    path = planner().plan((0, 15, -5), (20, 15, -8))
    assert path.tolist() == [[0, 15, -5], [20, 15, -8]]


def test_the_way_around_a_wall_keeps_the_clearance_and_is_nearly_the_shortest() -> None:
    plan = planner()
    path = plan.plan((0, 2, -5), (20, 2, -5))
    assert plan.clearances(path).min() >= 1.0 - 1e-9
    # The shortest way touches circles of 1 m about the wall's edges at (9, 10) and (11, 10).
    tangent = np.sqrt(9.0**2 + 8.0**2 - 1.0)
    turned = np.arctan2(8.0, 9.0) + np.arcsin(1.0 / np.hypot(9.0, 8.0))
    shortest = 2.0 * tangent + 2.0 + 2.0 * turned
    length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    assert shortest <= length + 1e-6
    assert length < 1.06 * shortest


@pytest.mark.parametrize(
    ("start", "goal", "fault"),
    [
        ((10, 0, -5), (20, 0, -5), r"the start .* is inside an obstacle"),
        ((0, 0, -5), (8.5, 0, -5), r"the goal .* is 0.50 m from an obstacle or the ground"),
        ((0, 0, -0.2), (20, 0, -5), r"the start .* is 0.20 m from an obstacle or the ground"),
        ((0, 0, -5), (200, 0, -5), r"the goal .* is outside of the world to plan in"),
        ((0, 0, -5), (20, 0), "the goal must be three figures"),
    ],
)
def test_places_that_do_not_do_are_named(
    start: tuple[float, ...], goal: tuple[float, ...], fault: str
) -> None:
    with pytest.raises(sb.UserError, match=fault):
        planner().plan(start, goal)


def test_a_closed_room_has_no_path() -> None:
    plan = planner(needed=11.0)
    with pytest.raises(sb.UserError, match=r"there is no path .* use a smaller margin"):
        PathPlanner(plan.obstacles, 1.0, bounds=((-5, -9, -20), (25, 9, 0)), cell=0.5).plan(
            (0, 0, -5), (20, 0, -5)
        )


def test_a_trajectory_keeps_its_limits_and_a_part_of_the_margin() -> None:
    world = sb.World(scene=[sb.scene.Box((2, 20, 60), position=(10, 0, 0))])
    path = planning.plan_path((0, 2, -5), (20, 2, -8), world=world, margin=0.8, speed=4.0, acceleration=2.0)
    moments = path.at(np.linspace(0.0, path.duration, 2000))
    assert np.linalg.norm(moments.velocity, axis=1).max() <= 4.0 * 1.001
    assert np.linalg.norm(moments.acceleration, axis=1).max() <= 2.0 * 1.01
    assert np.abs(moments.velocity[:, 2]).max() <= 1.2 * 1.001
    assert moments.position[0] == pytest.approx([0, 2, -5])
    assert moments.position[-1] == pytest.approx([20, 2, -8])
    assert path.clearance > 0.4
    away = np.abs(moments.position - [10.0, 0.0, 0.0]) - [1.0, 10.0, 30.0]
    assert np.linalg.norm(np.maximum(away, 0.0), axis=1).min() == pytest.approx(path.clearance, abs=0.02)


def test_a_trajectory_stays_near_its_waypoints_and_within_its_bounds() -> None:
    bounds = ((-5, -25, -21.6), (70, 30, 0))
    path = planning.plan_path((0, -17.5, -5), (62, 5, -6), world=PLANT, margin=2.5, speed=4.0, bounds=bounds)
    places = path.at(np.linspace(0.0, path.duration, 3000)).position
    assert (places >= np.array(bounds[0]) - 0.01).all()
    assert distances_from_legs(path.waypoints, places).min(axis=1).max() <= 2.05
    assert path.clearance > 1.5


def test_a_path_crosses_the_power_plant() -> None:
    path = planning.plan_path((0, 0, -4), (60, 5, -6), world=PLANT, margin=1.0)
    assert len(path.waypoints) > 2
    assert path.clearance > 0.5
    assert path.length < 120.0


def test_a_map_keeps_a_path_in_what_is_known_to_be_free() -> None:
    seen = planning.OccupancyMap(0.5)
    rng = np.random.default_rng(0)
    ends = np.stack([np.full(4000, 20.2), rng.uniform(-6, 6, 4000), rng.uniform(-8, 0, 4000)], axis=1)
    for north in (0.2, 5.2, 10.2):
        seen.insert((north, 0.2, -4.2), ends)
    kept = PathPlanner(MapObstacles(seen), 0.6, cell=0.5)
    path = kept.plan((9, 0.2, -4.2), (17, 2, -5))
    assert kept.clearances(path).min() >= 0.6 - 1e-9
    with pytest.raises(sb.UserError, match="inside an obstacle, or in unknown space"):
        kept.plan((9, 0.2, -4.2), (30, 0, -4))
    with pytest.raises(sb.UserError, match="the map is empty"):
        MapObstacles(planning.OccupancyMap(0.5))


def test_the_default_margin_holds_the_error_of_the_satellite_receiver() -> None:
    """Three deviations of the iris's GPS: 3 sqrt(2 (2 0.245^2 + 0.49^2)) m."""
    world = sb.World(scene=[sb.scene.Box((2, 20, 60), position=(10, 0, 0))])
    ends = (0, 2, -8), (20, 2, -8)
    assert gps_error(sb.Airframe.load("iris")) == pytest.approx(2.55, abs=0.05)
    assert gps_error(sb.Airframe.load("iris_rtk")) == pytest.approx(0.08, abs=0.01)
    by_gps = planning.plan_path(*ends, world=world)
    stated = planning.plan_path(*ends, world=world, position_error=2.55)
    by_rtk = planning.plan_path(*ends, world=world, airframe="iris_rtk")
    assert by_gps.waypoints == pytest.approx(stated.waypoints, abs=0.05)
    assert by_gps.clearance > 1.8 > by_rtk.clearance
    with pytest.raises(sb.UserError, match="give a margin or a position error, not both"):
        planning.plan_path(*ends, world=world, margin=1.0, position_error=1.0)
    with pytest.raises(sb.UserError, match="a position error of -1 m; give 0 or more"):
        planning.plan_path(*ends, world=world, position_error=-1.0)


def test_a_trajectory_that_keeps_no_clearance_is_refused() -> None:
    plan = planner()
    waypoints = np.array([[0.0, 2.0, -5.0], [20.0, 2.0, -5.0]])  # through the wall
    with pytest.raises(sb.UserError, match=r"there is no trajectory through the 2 waypoints"):
        flyable_trajectory(plan, waypoints, 0.5, np.ones(3), speed=3.0, acceleration=2.0)


def test_ompl_plans_behind_the_same_function(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ompl")
    monkeypatch.setattr(path_planner, "SECONDS", 1.0)  # it uses all of them; a path this short takes 0.05 s
    world = sb.World(scene=[sb.scene.Box((2, 20, 60), position=(10, 0, 0))])
    path = planning.plan_path(
        (0, 2, -5), (20, 2, -5), world=world, bounds=BOUNDS, margin=0.5, method="bit_star", seed=1
    )
    assert path.clearance > 0.25
    assert path.length < 35.0


def test_a_missing_ompl_and_an_unknown_method_are_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ompl", None)
    with pytest.raises(sb.UserError, match=r"pip install 'sitl-bridge\[planning\]'; or plan by 'a_star'"):
        planning.plan_path((0, 0, -5), (9, 0, -5), method="rrt_star")
    with pytest.raises(sb.UserError, match="choose 'a_star', 'rrt_star' or 'bit_star'"):
        planning.plan_path((0, 0, -5), (9, 0, -5), method="dijkstra")  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_power_plant_is_crossed_without_contact(seed: int) -> None:
    mission = MISSIONS / "api" / "power_plant_path.py"
    cross = runpy.run_path(str(mission))["main"]
    assert cross(seed) > 0.5
