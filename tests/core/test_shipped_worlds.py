"""The worlds in missions/worlds: they load, and their origin is free."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.paths import MISSIONS

from sitl_bridge.autopilot.process import Configuration
from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.facts import derive_facts
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.ray_casting import SCRATCH, cast_ray
from sitl_bridge.core.world.records import START
from sitl_bridge.core.world.scene import Scene, place_moving_shapes
from sitl_bridge.core.world.world import World
from sitl_bridge.core.world.world_file import load_world
from sitl_bridge.session.scenario import load_scenario

WORLDS = MISSIONS / "worlds"
NAMES = ("office", "arena", "power_plant", "forest", "hills", "warehouse")


def _distance(
    scene: Scene, origin: tuple[float, float, float], direction: tuple[float, float, float]
) -> float:
    local, stack = np.zeros((4, 3)), np.zeros(SCRATCH, np.int64)
    hit = cast_ray(scene.record[0], np.array(origin), np.array(direction), 100.0, local, stack)
    return float(hit[0])


@pytest.mark.parametrize("name", NAMES)
def test_the_origin_of_a_world_is_free_and_on_the_ground(name: str) -> None:
    scene = Scene(load_world(WORLDS / f"{name}.yaml").scene)
    assert scene
    assert _distance(scene, (0.0, 0.0, -3.0), (0.0, 0.0, 1.0)) == pytest.approx(3.0, abs=1e-6)
    for angle in np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False):
        direction = (float(np.cos(angle)), float(np.sin(angle)), 0.0)
        for height in (0.1, 0.5, 1.5):
            assert _distance(scene, (0.0, 0.0, -height), direction) > 1.0


def test_the_forklift_stays_in_its_aisle() -> None:
    scene = Scene(load_world(WORLDS / "warehouse.yaml").scene)
    moving = int(scene.record[0]["moving_first"])
    for seconds in np.linspace(0.0, 40.0, 41):
        place_moving_shapes(scene.record[0], seconds - START * 1e-6)
        low, high = scene.shapes["low"][moving:].min(axis=0), scene.shapes["high"][moving:].max(axis=0)
        assert low[0] > -19.9
        assert high[0] < 19.9
        assert low[1] > 3.1
        assert high[1] < 5.9


def test_the_built_in_stack_gets_the_place_of_a_world_without_its_scene() -> None:
    world = load_world(WORLDS / "hills.yaml")
    configuration = Configuration(airframe=load_airframe("iris"), world=world)
    handed = Configuration.model_validate_json(
        configuration.model_dump_json(by_alias=True, exclude_unset=True)
    ).world
    assert handed.origin == world.origin
    assert not World(handed).scene


def test_a_world_is_found_by_its_name_wherever_the_program_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_world(Path("wall")) == load_world(WORLDS / "wall.yaml")
    assert len(load_world(Path("hills")).scene.objects) == 1  # with its file of heights
    assert derive_facts("wall").keys() == derive_facts(str(WORLDS / "wall.yaml")).keys()
    with pytest.raises(UserError, match=r"no world is called 'ofice', did you mean 'office'\?; there are"):
        load_world(Path("ofice"))
    scenario = tmp_path / "flight.yaml"
    scenario.write_text("vehicles: [{airframe: iris}]\nworld: wall\nmission: hover.py\n", "utf-8")
    (tmp_path / "hover.py").write_text("", "utf-8")
    assert load_scenario(scenario).world == load_world(WORLDS / "wall.yaml")
