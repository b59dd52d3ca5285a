"""Reads the plans of a recorded run, to be drawn: legs of plans, fences, ways and slots of a formation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sitl_bridge.analysis.export.ros_topics import ros_name
from sitl_bridge.base.arrays import Floats, interpolate
from sitl_bridge.core.world.world import Origin
from sitl_bridge.plan.recorded_plan import PlanPlaces, recorded_plan
from sitl_bridge.record.run_reader import RecordedRun
from sitl_bridge.swarm.formation.files import read_csv
from sitl_bridge.swarm.formation.trajectory import Trajectory

PLANNED, ALLOWED = (0.0, 0.45, 0.7, 1.0), (0.0, 0.6, 0.5, 1.0)
FORBIDDEN, SLOT = (0.8, 0.4, 0.0, 1.0), (0.9, 0.6, 0.0, 0.6)
"""Colours that the colour-blind tell apart (Okabe and Ito)."""
SLOT_SIZE = 0.3
"""m, of a drawn slot."""
SLOT_INTERVAL = 0.5
"""s between places of a formation's slots."""


@dataclass(frozen=True)
class PlannedLine:
    """A line to be drawn."""

    name: str  # of what it belongs to; several lines may have one
    points: Floats  # (k, 3) m NED
    color: tuple[float, float, float, float]  # red, green, blue and opacity, 0 to 1
    numbered: bool = False  # whether its points are items of a mission


def planned_lines(run: RecordedRun) -> Iterator[PlannedLine]:
    """Plans, fences and the ways of a formation's slots; plans whose files are gone are left out."""
    world = PlanPlaces(Origin.model_validate(run.description["world"].get("origin") or {}))
    drawn: set[object] = set()
    for vehicle in run.description["vehicles"]:
        name, plan = ros_name(vehicle["name"]), recorded_plan(run.description, vehicle, [])
        if plan is None:
            continue
        legs = np.nan_to_num([world.of_item(item) for item in plan.legs])
        if len(legs) > 1:
            yield PlannedLine(f"{name} plan", legs, PLANNED, numbered=True)
        for area in plan.areas:
            if area not in drawn:  # all vehicles may have the same fence
                edge = world.of_area(area)
                points = np.column_stack([edge, np.zeros(len(edge))])
                yield PlannedLine(f"{name} fence", points, ALLOWED if area.inclusion else FORBIDDEN)
            drawn.add(area)
    for way in _formation(run)[1]:
        yield PlannedLine("slots' ways", way.position, SLOT)


def _formation(run: RecordedRun) -> tuple[float, list[Trajectory]]:
    """Start in s, and the ways of the slots of a formation that was recorded; empty without one."""
    for directory in (run.path / "formation", run.path):
        files = sorted((directory / "plan").glob("vehicle_*.csv"))
        if files and (directory / "summary.json").is_file():
            begun = json.loads((directory / "summary.json").read_text(encoding="utf-8"))["started_at_s"]
            return float(begun), [read_csv(file) for file in files]
    return 0.0, []


def slot_places(run: RecordedRun) -> Iterator[tuple[int, Floats]]:
    """The slots of a recorded formation along their ways: us, (n, 3) m NED."""
    begun, ways = _formation(run)
    for moment in np.arange(0.0, ways[0].time[-1], SLOT_INTERVAL) if ways else ():
        time = run.start + round(1e6 * (begun + float(moment)))
        yield time, np.array([interpolate(float(moment), way.time, way.position) for way in ways])
