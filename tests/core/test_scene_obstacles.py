"""Obstacles of the avoidance controller from a world's scene and from an occupancy map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.paths import MISSIONS
from support.swarm_scenarios import load_avoidance

import sitl_bridge as sb
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.core.world.scene_specification import SceneSpecification
from sitl_bridge.session.scenario import load_scenario
from sitl_bridge.swarm.avoidance.neighbours import Obstacle
from sitl_bridge.swarm.avoidance.records import BOX, CYLINDER, SPHERE
from sitl_bridge.swarm.avoidance.scene_obstacles import obstacles_of_map, obstacles_of_scene
from sitl_bridge.swarm.avoidance.specification import RouteSpecification

ROUTES = (RouteSpecification(name="a", points=((-5.0, 0.0, -3.0), (5.0, 0.0, -3.0))),)

SCENARIO = """
avoidance:
  duration: 20
  routes: [{{name: a, points: [[-5, 0, -3], [5, 0, -3]]}}]
  {more}
world:
  scene:
    objects: [{objects}]
"""


def scenario(folder: Path, objects: str, more: str = "") -> Path:
    file = folder / "made.yaml"
    file.write_text(SCENARIO.format(objects=objects, more=more))
    return file


def test_objects_of_a_scene_become_spheres_cylinders_and_boxes() -> None:
    scene = SceneSpecification.model_validate(
        {
            "objects": [
                {"kind": "sphere", "name": "ball", "position": [0, 1, -2], "radius": 0.5},
                {"kind": "cylinder", "name": "pole", "position": [1, 1, -3], "radius": 0.2, "length": 6},
                {"kind": "box", "name": "crate", "position": [2, 2, -1], "size": [1, 2, 2]},
                {"kind": "box", "name": "turned", "position": [3, 2, -1], "rotation": [0, 0, 90],
                 "size": [1, 2, 2]},
                {"kind": "cylinder", "name": "log", "position": [0, 3, -1], "rotation": [90, 0, 0],
                 "radius": 0.2, "length": 4},
                {"kind": "box", "name": "far", "position": [100, 0, -1], "size": [1, 1, 1]},
            ]
        }
    )  # fmt: skip
    found = {plan.name: plan.obstacle() for plan in obstacles_of_scene(scene, ROUTES)}
    assert sorted(found) == ["ball", "crate", "log", "pole", "turned"]
    assert found["ball"] == Obstacle(SPHERE, (0, 1, -2), (0.5, 0, 0))
    assert found["pole"] == Obstacle(CYLINDER, (1, 1, -3), (0.2, 3.0, 0))
    for name, edges in (("crate", (1, 2, 2)), ("turned", (2, 1, 2)), ("log", (0.4, 4.0, 0.4))):
        assert found[name].kind == BOX
        assert 2.0 * np.array(found[name].size) == pytest.approx(edges)


def test_boxes_of_a_map_hold_its_occupied_cells_and_nothing_else() -> None:
    seen, random = sb.planning.OccupancyMap(0.5), np.random.default_rng(3)
    seen.log_odds = np.full((20, 12, 12), -1.0, np.float32)
    seen.log_odds[4:6, 3:9, 2:10] = 1.0
    seen.log_odds[random.random(seen.log_odds.shape) < 0.005] = 1.0
    seen.first = np.array([-10, -6, -12])
    boxes = obstacles_of_map(seen, ROUTES)
    centers = seen.centers(np.ones(seen.log_odds.shape, np.bool_))
    held = np.zeros(len(centers), np.int64)
    for box in boxes:
        held += (np.abs(centers - box.centre) < 0.5 * np.array(box.edges)).all(axis=1)
    assert (held == seen.occupied.ravel()).all()
    assert len(boxes) < 30


def test_a_map_of_too_many_boxes_is_one_message() -> None:
    seen, random = sb.planning.OccupancyMap(0.5), np.random.default_rng(3)
    seen.log_odds = np.where(random.random((20, 12, 12)) < 0.3, 1.0, -1.0).astype(np.float32)
    seen.first = np.array([-10, -6, -12])
    with pytest.raises(UserError, match="obstacles within 5 m of the routes"):
        obstacles_of_map(seen, ROUTES)


def test_a_scenario_takes_the_objects_of_its_world(tmp_path: Path) -> None:
    crate = "{kind: box, name: crate, position: [0, 2, -3], size: [1, 1, 1]}"
    assert [o.name for o in load_avoidance(scenario(tmp_path, crate)).obstacles] == ["crate"]
    assert load_avoidance(scenario(tmp_path, crate, "scene: false")).obstacles == ()
    inside = "{kind: box, name: crate, position: [5, 0, -3], size: [1, 1, 1]}"
    with pytest.raises(ConfigurationError, match=r"a: ends .* m from the surface of crate"):
        load_avoidance(scenario(tmp_path, inside))
    moving = "{kind: box, name: truck, size: [1, 1, 1], path: {points: [[0, -3, -3], [0, 3, -3]], speed: 1}}"
    with pytest.raises(ConfigurationError, match="truck moves"):
        load_avoidance(scenario(tmp_path, moving))


def test_a_scenario_takes_the_cells_of_a_map(tmp_path: Path) -> None:
    seen = sb.planning.OccupancyMap(0.5)
    seen.log_odds = np.full((20, 12, 12), -1.0, np.float32)
    seen.log_odds[10:12, 6:8, 2:10] = 1.0
    seen.first = np.array([-10, 0, -12])
    seen.save(tmp_path / "yard.npz")
    (plan,) = load_avoidance(scenario(tmp_path, "", "map: yard.npz")).obstacles
    assert plan.obstacle() == Obstacle(BOX, (0.5, 3.5, -3.0), (0.5, 0.5, 2.0))
    with pytest.raises(ConfigurationError, match=r"missing\.npz"):
        load_avoidance(scenario(tmp_path, "", "map: missing.npz"))


def test_arguments_without_a_mission_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "made.yaml"
    file.write_text("arguments: [--height, '6']\nvehicles: [{airframe: iris, mission: hover.py}]\n")
    (tmp_path / "hover.py").write_text("")
    with pytest.raises(ConfigurationError, match=r"arguments: .*give each vehicle its own arguments"):
        load_scenario(file)


def test_the_shipped_scenario_with_poles_has_those_of_its_world() -> None:
    names = {o.name for o in load_avoidance(MISSIONS / "poles_swap.yaml").obstacles}
    assert names == {"pole_north", "pole_south", "pole_east", "balloon", "crate"}


def test_what_is_too_large_for_an_obstacle_is_refused_with_its_line(tmp_path: Path) -> None:
    pole = "{kind: cylinder, name: pole, position: [0, 0, -3], radius: 250000000.0, length: 6}"
    with pytest.raises(
        ConfigurationError, match=r"line \d+: .*pole cannot be an obstacle: radius: .*1000000"
    ):
        load_scenario(scenario(tmp_path, pole))


def test_a_route_without_points_is_refused_in_a_world_with_a_scene(tmp_path: Path) -> None:
    file = scenario(tmp_path, "{kind: sphere, position: [0, 1, -3], radius: 0.5}")
    file.write_text(file.read_text().replace("routes: [", "routes: [{name: flown}, "))
    with pytest.raises(ConfigurationError, match=r"line \d+: .*flown: give either points or a table"):
        load_scenario(file)
