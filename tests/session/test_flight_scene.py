"""Whole flights among objects: from one roof to another, and into a wall."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sitl_bridge.analysis.evaluation.summary import Outcome
from sitl_bridge.core.world.world import World
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions

BUILT_IN, PX4 = ("builtin", 8), ("px4", 22)
"""Flight stack and its instance."""
HOME_ROOF, FAR_ROOF = -3.0, -1.5
"""m, down of the two roofs."""
AWAY = 25.0
"""m north, of the second."""


BOXES = {
    "garage": ((0.0, 0.0, HOME_ROOF / 2), (5.0, 5.0, -HOME_ROOF)),
    "shed": ((AWAY, 0.0, FAR_ROOF / 2), (8.0, 8.0, -FAR_ROOF)),
    "wall": ((12.0, 0.0, -10.0), (0.3, 30.0, 20.0)),
}


def plan(path: Path) -> Path:
    """Take off to 5 m above the start, fly to the second roof, land there."""
    home = World()
    items: list[dict[str, object]] = []
    for command, north in ((22, 0.0), (16, AWAY), (21, AWAY)):
        latitude, longitude, _ = home.geodetic(np.array([north, 0.0, 0.0]))
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


def flown(directory: Path, stack: tuple[str, int], *, wall: bool) -> tuple[Outcome, Session]:
    autopilot, instance = stack
    plan(directory / "roofs.plan")
    vehicle = {
        "airframe": "iris",
        "autopilot": autopilot,
        "position": [0.0, 0.0, HOME_ROOF],
        "mission": "roofs.plan",
    }
    objects = [
        {"kind": "box", "name": name, "position": place, "size": size}
        for name, (place, size) in BOXES.items()
        if wall or name != "wall"
    ]
    scenario = {
        "vehicles": [vehicle],
        "world": {"scene": {"objects": objects}},
        "time_limit": 70 if wall else 200,
    }
    file = directory / "roofs.yaml"
    file.write_text(json.dumps(scenario), encoding="utf-8")
    choices = FlightOptions(instance=instance, speed=10.0, runs=directory / "runs")
    with Session(scenario_settings(file, choices)) as session:
        session.fly()
    return session.conclude().vehicles[0][0], session


def lands_on_another_roof(directory: Path, stack: tuple[str, int]) -> None:
    outcome, session = flown(directory, stack, wall=False)
    assert outcome.succeeded, outcome.reason
    assert not outcome.contacts
    assert 0.0 < outcome.impact_speed < 1.5
    north, east, down = session.simulation.states[0]["position"]
    assert north == pytest.approx(AWAY, abs=2.0)
    assert east == pytest.approx(0.0, abs=2.0)
    assert down == pytest.approx(FAR_ROOF - 0.0525, abs=0.01)
    assert session.simulation.states[0]["in_contact"] == 4


def hits_the_wall(directory: Path, stack: tuple[str, int]) -> None:
    outcome, session = flown(directory, stack, wall=True)
    assert not outcome.succeeded
    assert outcome.contacts[0].object == "wall"
    assert outcome.contacts[0].speed > 1.0
    summary = json.loads((session.directory.path / "summary.json").read_text(encoding="utf-8"))
    assert summary["contacts"][0]["object"] == "wall"
    assert any("hit wall at" in reason for reason in summary["verdict"]["reasons"])


def test_a_flight_from_one_roof_lands_on_another(tmp_path: Path) -> None:
    lands_on_another_roof(tmp_path, BUILT_IN)


@pytest.mark.px4
def test_a_flight_of_px4_from_one_roof_lands_on_another(tmp_path: Path) -> None:
    lands_on_another_roof(tmp_path, PX4)


def test_a_flight_into_a_wall_ends_and_names_the_wall(tmp_path: Path) -> None:
    hits_the_wall(tmp_path, BUILT_IN)


@pytest.mark.px4
def test_a_flight_of_px4_into_a_wall_ends_and_names_the_wall(tmp_path: Path) -> None:
    hits_the_wall(tmp_path, PX4)
