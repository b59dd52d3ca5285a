"""Whole flights among objects: from one roof to another, and into a wall."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sitl_bridge.files.airframe_file import load_airframe
from sitl_bridge.report.summary import Outcome
from sitl_bridge.run.single_vehicle import FlightSession, FlightSettings
from sitl_bridge.world.scene_specification import BoxObject, SceneSpecification
from sitl_bridge.world.world import World, WorldSpecification

STACKS = [
    pytest.param("builtin", 8, id="built-in"),
    pytest.param("px4", 22, marks=pytest.mark.px4, id="px4"),
]
HOME_ROOF, FAR_ROOF = -3.0, -1.5
"""m, down of the two roofs."""
AWAY = 25.0
"""m north, of the second."""


def world(*, wall: bool) -> WorldSpecification:
    objects = [
        BoxObject(kind="box", name="garage", position=(0, 0, HOME_ROOF / 2), size=(5, 5, -HOME_ROOF)),
        BoxObject(kind="box", name="shed", position=(AWAY, 0, FAR_ROOF / 2), size=(8, 8, -FAR_ROOF)),
    ]
    if wall:
        objects.append(BoxObject(kind="box", name="wall", position=(12, 0, -10), size=(0.3, 30, 20)))
    return WorldSpecification(scene=SceneSpecification(objects=tuple(objects)))


def plan(path: Path) -> Path:
    """Take off to 5 m above the start, fly to the second roof, land there."""
    home = World()
    items = []
    for command, north in ((22, 0.0), (16, AWAY), (21, AWAY)):
        latitude, longitude, _ = home.geodetic(home.ned(*home.geodetic([north, 0.0, 0.0])))
        height = 0.0 if command == 21 else 5.0
        items.append(
            {
                "AMSLAltAboveTerrain": None,
                "Altitude": height,
                "AltitudeMode": 1,
                "autoContinue": True,
                "command": command,
                "doJumpId": len(items) + 1,
                "frame": 3,
                "params": [0, 0, 0, None, latitude, longitude, height],
                "type": "SimpleItem",
            }
        )
    origin = home.specification.origin
    mission = {
        "cruiseSpeed": 15,
        "firmwareType": 12,
        "globalPlanAltitudeMode": 1,
        "hoverSpeed": 5,
        "items": items,
        "plannedHomePosition": [origin.latitude, origin.longitude, origin.altitude],
        "vehicleType": 2,
        "version": 2,
    }
    document = {
        "fileType": "Plan",
        "geoFence": {"circles": [], "polygons": [], "version": 2},
        "groundStation": "QGroundControl",
        "mission": mission,
        "rallyPoints": {"points": [], "version": 2},
        "version": 1,
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def flown(tmp_path: Path, autopilot: Any, instance: int, *, wall: bool) -> tuple[Outcome, FlightSession]:
    settings = FlightSettings(
        plan(tmp_path / "roofs.plan"),
        load_airframe("iris"),
        world(wall=wall),
        position=(0.0, 0.0, HOME_ROOF),
        autopilot=autopilot,
        speed=10.0,
        instance=instance,
        runs=tmp_path,
        time_limit=200.0,
    )
    with FlightSession(settings) as session:
        session.fly()
    outcome, _ = session.conclude()
    return outcome, session


@pytest.mark.parametrize(("autopilot", "instance"), STACKS)
def test_a_flight_from_one_roof_lands_on_another(tmp_path: Path, autopilot: Any, instance: int) -> None:
    outcome, session = flown(tmp_path, autopilot, instance, wall=False)
    assert outcome.succeeded, outcome.reason
    assert outcome.contacts == ()
    assert 0.0 < outcome.impact_speed < 1.5
    north, east, down = session.simulation.states[0]["position"]
    assert north == pytest.approx(AWAY, abs=2.0)
    assert east == pytest.approx(0.0, abs=2.0)
    assert down == pytest.approx(FAR_ROOF - 0.0525, abs=0.01)
    assert session.simulation.states[0]["in_contact"] == 4


@pytest.mark.parametrize(("autopilot", "instance"), STACKS)
def test_a_flight_into_a_wall_ends_and_names_the_wall(tmp_path: Path, autopilot: Any, instance: int) -> None:
    outcome, session = flown(tmp_path, autopilot, instance, wall=True)
    assert not outcome.succeeded
    assert outcome.contacts[0].name == "wall"
    assert outcome.contacts[0].speed > 1.0
    summary = json.loads((session.directory.path / "summary.json").read_text(encoding="utf-8"))
    assert summary["contacts"][0]["object"] == "wall"
    assert any("hit wall at" in problem for problem in summary["problems"])
