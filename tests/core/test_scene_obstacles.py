"""Obstacles of the avoidance controller from a world's scene."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.paths import MISSIONS
from support.swarm_scenarios import load_avoidance

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.core.world.scene_specification import SceneSpecification
from sitl_bridge.session.scenario import load_scenario
from sitl_bridge.swarm.avoidance.neighbours import Obstacle
from sitl_bridge.swarm.avoidance.records import BOX, CYLINDER, SPHERE
from sitl_bridge.swarm.avoidance.scene_obstacles import obstacles_of_scene
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
    found = {obstacle.name: obstacle for obstacle in obstacles_of_scene(scene, ROUTES)}
    assert sorted(found) == ["ball", "crate", "log", "pole", "turned"]
    assert found["ball"] == Obstacle(SPHERE, (0, 1, -2), (0.5, 0, 0))
    assert found["pole"] == Obstacle(CYLINDER, (1, 1, -3), (0.2, 3.0, 0))
    for name, edges in (("crate", (1, 2, 2)), ("turned", (2, 1, 2)), ("log", (0.4, 4.0, 0.4))):
        assert found[name].kind == BOX
        assert 2.0 * np.array(found[name].size) == pytest.approx(edges)


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


def test_arguments_without_a_mission_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "made.yaml"
    file.write_text("arguments: [--height, '6']\nvehicles: [{airframe: iris, mission: hover.py}]\n")
    (tmp_path / "hover.py").write_text("")
    with pytest.raises(ConfigurationError, match=r"arguments: .*give each vehicle its own arguments"):
        load_scenario(file)


def test_the_shipped_scenario_with_poles_has_those_of_its_world() -> None:
    names = {o.name for o in load_avoidance(MISSIONS / "poles_swap.yaml").obstacles}
    assert names == {"pole_north", "pole_south", "pole_east", "balloon", "crate"}
