"""Occupancy maps that sensors build in flight, and their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sitl_bridge as sb
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification
from sitl_bridge.perception.mapping.clearance import SceneObstacles
from sitl_bridge.session.stacks import ROUND

WALL = BoxObject(kind="box", name="wall", size=(2.0, 12.0, 6.0), position=(8.0, 0.0, -3.0))
SENSORS = {
    "lidar": {"kind": "lidar", "rate": 5, "columns": 120, "position": [0, 0, -0.12], "map_cell": 0.25},
    "scanner": {"kind": "scanner", "rate": 10, "step": 1.0, "position": [0, 0, -0.1], "map_cell": 0.25},
    "depth_camera": {"kind": "depth_camera", "rate": 5, "width": 160, "height": 120, "map_cell": 0.25},
}


def carrying(*names: str) -> sb.Airframe:
    return sb.Airframe.load("iris").changed(sensors=[SENSORS[name] for name in names])


def world() -> sb.World:
    return sb.World(scene=SceneSpecification(objects=(WALL,)))


def flown(
    names: tuple[str, ...], seed: int = 0, each: Callable[[sb.Sitl], None] | None = None
) -> sb.planning.OccupancyMap:
    with sb.Sitl(carrying(*names), world=world(), seed=seed) as fleet:
        fleet.arm()
        fleet.go_to((0.5, 0.0, -2.0), wait=False)
        fleet.run(2.5, each=each)
        return fleet.map()


@pytest.mark.parametrize("names", [("lidar",), ("scanner", "depth_camera")])
def test_a_map_built_in_flight_has_its_occupied_cells_on_surfaces(names: tuple[str, ...]) -> None:
    built = flown(names)
    centers = built.centers(built.occupied)
    away = SceneObstacles(world().build().scene).clearance(centers, 5.0)
    # Half a diagonal of a cell, three deviations of the noise, and the motion within a sweep.
    assert len(centers) > 100
    assert np.abs(away).max() < 0.5 * np.sqrt(3.0) * 0.25 + 0.25
    front = np.abs(centers - [7.0, 0.0, -2.0]) < [0.4, 4.0, 2.0]
    assert front.all(axis=1).sum() > 30
    assert built.free.sum() > 5_000


NEAR = [
    {"kind": "lidar", "rate": 5, "columns": 120, "lowest": -90.0, "map_cell": 0.25},
    {"kind": "scanner", "rate": 10, "step": 1.0, "rotation": [90, 0, 0], "minimum": 0.5, "map_cell": 0.25},
]


@pytest.mark.parametrize("sensor", NEAR, ids=("lidar", "scanner"))
def test_a_beam_that_meets_something_too_near_for_a_return_frees_nothing(sensor: JsonObject) -> None:
    with sb.Sitl(sb.Airframe.load("iris").changed(sensors=[sensor])) as fleet:
        fleet.run(1.0)
        built = fleet.map()
    assert built.free.any()
    assert built.centers(built.free)[:, 2].max() < 0.25


def test_one_seed_builds_one_map_and_reading_it_changes_nothing() -> None:
    first, again, other = flown(("lidar",), 3), flown(("lidar",), 3), flown(("lidar",), 4)
    assert first.log_odds.tobytes() == again.log_odds.tobytes()
    assert first.time == again.time > 2.0
    assert first.log_odds.tobytes() != other.log_odds.tobytes()
    read: list[sb.planning.OccupancyMap] = []
    often = flown(("lidar",), 3, each=lambda fleet: read.append(fleet.map()))
    assert often.log_odds.tobytes() == first.log_odds.tobytes()
    assert read[-1].time == first.time


def test_the_run_directory_has_the_map_in_flight_and_afterwards(tmp_path: Path) -> None:
    with sb.Sitl(carrying("lidar"), world=world(), runs=tmp_path) as fleet:
        fleet.run(1.5)
        file = next(fleet.directory.rglob("maps/*.npz"))
        live = sb.planning.OccupancyMap.load(file)
        assert 0.3 < live.time - ROUND * 1e-6 <= 1.5
        assert live.occupied.any()
        fleet.run(0.5)
        built = fleet.map()
    saved = sb.planning.OccupancyMap.load(file)
    assert saved.time == built.time
    assert saved.log_odds.tobytes() == built.log_odds.tobytes()


def test_pyoctomap_reads_every_cell_of_the_octree(tmp_path: Path) -> None:
    pyoctomap = pytest.importorskip("pyoctomap")
    built = sb.planning.OccupancyMap(0.25)
    rng = np.random.default_rng(1)
    built.log_odds = rng.choice(np.array([np.nan, -1.0, 1.0], np.float32), (24, 17, 9), p=[0.2, 0.5, 0.3])
    built.log_odds[:8, :8, :8] = -1.0  # eight equal cells are one node
    built.first = np.array([-5, 3, -20])
    tree = pyoctomap.OcTree(0.25)
    assert tree.readBinary(str(built.save(tmp_path / "map.bt")))
    for kind, expected in ((built.free, False), (built.occupied, True)):
        for north, east, down in built.centers(kind):
            node = tree.search(np.array([east, north, -down]))
            assert node is not None
            assert tree.isNodeOccupied(node) == expected
    for north, east, down in built.centers(built.unknown):
        assert tree.search(np.array([east, north, -down])) is None


def test_pyoctomap_reads_the_log_odds_of_every_cell(tmp_path: Path) -> None:
    pyoctomap = pytest.importorskip("pyoctomap")
    built = sb.planning.OccupancyMap(0.25)
    rng = np.random.default_rng(1)
    built.log_odds = rng.choice(np.array([np.nan, -1.0, 0.5, 2.25], np.float32), (24, 17, 9))
    built.log_odds[:8, :8, :8] = -1.0  # blocks of equal cells are one node
    built.first = np.array([-5, 3, -20])
    tree = pyoctomap.OcTree(0.25).read(str(built.save(tmp_path / "map.ot")))
    known = ~built.unknown
    for (north, east, down), value in zip(built.centers(known), built.log_odds[known], strict=True):
        node = tree.search(np.array([east, north, -down]))
        assert node is not None
        assert node.getLogOdds() == pytest.approx(float(value))
    for north, east, down in built.centers(built.unknown):
        assert tree.search(np.array([east, north, -down])) is None


def test_a_vehicle_without_a_map_and_two_sizes_of_cells_are_one_message() -> None:
    with sb.Sitl("iris") as fleet, pytest.raises(sb.UserError, match="vehicle 0 builds no map"):
        fleet.map()
    airframe = carrying("lidar", "scanner")
    lidar = airframe.perception_sensors()[0].model_copy(update={"map_cell": 0.5})
    others = [sensor for sensor in airframe.sensors if getattr(sensor, "kind", "") != "lidar"]
    two = airframe.model_copy(update={"sensors": (*others, lidar)})
    with pytest.raises(sb.UserError, match=r"give lidar_0 the map_cell of the others, 0.25 m"):
        sb.Sitl(two)
