"""Reads the plans of a recorded run, to be drawn: legs of plans, fences, ways and slots of a formation."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sitl_bridge.analysis.export.ros_topics import ros_name
from sitl_bridge.base.arrays import Floats, interpolate
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.core.world.world import Origin
from sitl_bridge.plan.plan import FenceCircle, Plan, Polygon
from sitl_bridge.plan.plan_file import load_plan
from sitl_bridge.record.run_reader import RecordedRun
from sitl_bridge.swarm.formation.files import read_csv
from sitl_bridge.swarm.formation.trajectory import Trajectory

PLANNED, ALLOWED = (0.0, 0.45, 0.7, 1.0), (0.0, 0.6, 0.5, 1.0)
FORBIDDEN, SLOT = (0.8, 0.4, 0.0, 1.0), (0.9, 0.6, 0.0, 0.6)
"""Colours that the colour-blind tell apart (Okabe and Ito)."""
SLOT_SIZE = 0.3
"""m, of a drawn slot."""
CIRCLE_POINTS = 64
SLOT_INTERVAL = 0.5
"""s between places of a formation's slots."""


@dataclass(frozen=True)
class PlannedLine:
    """A line to be drawn."""

    name: str  # of what it belongs to; several lines may have one
    points: Floats  # (k, 3) m NED
    color: tuple[float, float, float, float]  # red, green, blue and opacity, 0 to 1
    closed: bool = False  # whether the last point is joined to the first
    numbered: bool = False  # whether its points are items of a mission

    @property
    def path(self) -> Floats:
        """(k, 3) m NED: its points, of a closed line the first one again at the end."""
        return np.concatenate([self.points, self.points[:1]]) if self.closed else self.points


def planned_lines(run: RecordedRun) -> Iterator[PlannedLine]:
    """Plans, fences and the ways of a formation's slots; plans whose files are gone are left out."""
    for vehicle in run.description["vehicles"]:
        mission = vehicle.get("mission")
        if mission is not None and mission.endswith(".plan"):
            yield from _lines_of_plan(run, ros_name(vehicle["name"]), mission)
    for way in _formation(run)[1]:
        yield PlannedLine("slots' ways", way.position, SLOT)


def _lines_of_plan(run: RecordedRun, name: str, mission: str) -> Iterator[PlannedLine]:
    """A plan's legs and its fence."""
    try:
        plan = load_plan(Path(run.description["directory"]) / mission)
    except UserError:
        return
    origin = Origin.model_validate(run.description["world"]["origin"])
    projection = Projection.from_degrees(origin.latitude, origin.longitude, origin.altitude)

    def ned(point: tuple[float, float], height: float) -> tuple[float, float, float]:
        north, east = projection.local(*point)
        return north, east, -height

    legs = [ned(item.point, _height(plan, item.frame, item.params[6])) for item in plan.legs]
    if len(legs) > 1:
        yield PlannedLine(f"{name} plan", np.array(legs), PLANNED, numbered=True)
    areas: list[FenceCircle | Polygon] = [*plan.circles, *plan.polygons]
    for area in areas:
        if isinstance(area, FenceCircle):
            north, east, _ = ned(area.centre, 0.0)
            angles = np.linspace(0.0, 2.0 * np.pi, CIRCLE_POINTS, endpoint=False)
            ring = np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=1) * area.radius
            points = ring + np.array([north, east, 0.0])
        else:
            points = np.array([ned(vertex, 0.0) for vertex in area.vertices])
        yield PlannedLine(f"{name} fence", points, ALLOWED if area.inclusion else FORBIDDEN, closed=True)


def _height(plan: Plan, frame: int, altitude: float) -> float:
    """m over the ground at the start; frames 3 and 6 are relative to home, others to sea level."""
    above = altitude if frame in (3, 6) else altitude - plan.home[2]
    return above if math.isfinite(above) else 0.0


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
