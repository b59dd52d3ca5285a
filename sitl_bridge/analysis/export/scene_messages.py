"""What stands in the world and what was planned, as Foxglove's SceneUpdate: objects, plan, fence, slots.

Axes as in ros_topics.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from foxglove.messages import (
    Color,
    CubePrimitive,
    CylinderPrimitive,
    LinePrimitive,
    LinePrimitiveLineType,
    Point3,
    Pose,
    Quaternion,
    SceneEntity,
    SceneUpdate,
    SpherePrimitive,
    Timestamp,
    Vector3,
)  # fmt: skip
from numpy.typing import NDArray

from sitl_bridge.analysis.export.ros_topics import WORLD, ros_name, to_enu, to_enu_flu
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import quaternion_from_euler
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.core.world.world import Origin
from sitl_bridge.plan.plan import FenceCircle, Plan, Polygon
from sitl_bridge.plan.plan_file import load_plan
from sitl_bridge.record.run_reader import RecordedRun
from sitl_bridge.swarm.trajectory_file import read_csv

SCENE_TOPIC = "/scene"
PLANNED, ALLOWED = (0.0, 0.45, 0.7, 1.0), (0.0, 0.6, 0.5, 1.0)
FORBIDDEN, SLOT = (0.8, 0.4, 0.0, 1.0), (0.9, 0.6, 0.0, 0.6)
"""Colours that the colour-blind tell apart (Okabe and Ito)."""
CIRCLE_POINTS = 64
SLOT_SIZE, LINE_WIDTH = 0.3, 2.0
SLOT_INTERVAL = 0.5
"""s between updates of a formation's slots."""


def _time(microseconds: int) -> Timestamp:
    return Timestamp(sec=microseconds // 1_000_000, nsec=microseconds % 1_000_000 * 1000)


def _vector(values: Iterable[float]) -> Vector3:
    x, y, z = (float(value) for value in values)
    return Vector3(x=x, y=y, z=z)


def _pose(position: NDArray[np.float64], attitude: NDArray[np.float64] | None = None) -> Pose:
    """A pose in ENU of a place in NED and, w x y z, an attitude of axes x ahead, y right, z down in NED."""
    x, y, z, w = (
        (0.0, 0.0, 0.0, 1.0) if attitude is None else (float(q) for q in to_enu_flu(attitude[None])[0])
    )
    return Pose(position=_vector(to_enu(position[None])[0]), orientation=Quaternion(x=x, y=y, z=z, w=w))


def _color(color: tuple[float, ...]) -> Color:
    r, g, b, a = (*color, 1.0)[:4]
    return Color(r=r, g=g, b=b, a=a)


def _entity(name: str, time: int, **parts: list[Any]) -> SceneEntity:
    return SceneEntity(timestamp=_time(time), frame_id=WORLD, id=name, **parts)


def _line(points: NDArray[np.float64], color: tuple[float, ...], *, closed: bool = False) -> LinePrimitive:
    """A line of a fixed width on the screen through (k, 3) m NED."""
    return LinePrimitive(
        type=LinePrimitiveLineType.LineLoop if closed else LinePrimitiveLineType.LineStrip,
        pose=_pose(np.zeros(3)),
        thickness=LINE_WIDTH,
        scale_invariant=True,
        points=[Point3(x=x, y=y, z=z) for x, y, z in to_enu(points).tolist()],
        color=_color(color),
    )


def scene_messages(run: RecordedRun) -> list[tuple[int, SceneUpdate]]:
    """Scene updates of a run: (ns, message); plans whose files are gone are left out."""
    start = run.start
    entities = [*_objects(run, start)]
    for vehicle in run.description["vehicles"]:
        mission = vehicle.get("mission")
        if mission is not None and mission.endswith(".plan"):
            entities += _planned(run, ros_name(vehicle["name"]), mission, start)
    return [(start * 1000, _update(*entities)), *_slots(run)]


def _objects(run: RecordedRun, start: int) -> list[SceneEntity]:
    """Objects that a box, a sphere or a cylinder stands for; meshes and maps are not drawn."""
    found = []
    for number, thing in enumerate(run.description["world"]["scene"]["objects"]):
        place = np.array(thing["position"], float)
        rotation = np.array(quaternion_from_euler(*map(math.radians, thing["rotation"])))
        pose, color = _pose(place, rotation), _color(tuple(thing["color"]))
        name = f"object {thing['name'] or number}"
        if thing["kind"] == "box":
            box = CubePrimitive(pose=pose, color=color, size=_vector(thing["size"]))
            found.append(_entity(name, start, cubes=[box]))
        elif thing["kind"] == "sphere":
            sphere = SpherePrimitive(pose=pose, color=color, size=_vector([2.0 * thing["radius"]] * 3))
            found.append(_entity(name, start, spheres=[sphere]))
        elif thing["kind"] == "cylinder":
            size = _vector((2.0 * thing["radius"], 2.0 * thing["radius"], thing["length"]))
            cylinder = CylinderPrimitive(pose=pose, color=color, size=size, bottom_scale=1.0, top_scale=1.0)
            found.append(_entity(name, start, cylinders=[cylinder]))
    return found

    """A plan's legs and its fence."""
    try:
        plan = load_plan(Path(run.description["directory"]) / mission)
    except UserError:
        return []
    origin = Origin.model_validate(run.description["world"]["origin"])
    projection = Projection(math.radians(origin.latitude), math.radians(origin.longitude), origin.altitude)

    def ned(point: tuple[float, float], height: float) -> tuple[float, float, float]:
        north, east = projection.local(*point)
        return north, east, -height

    found = []
    legs = [ned(item.point, _height(plan, item.frame, item.params[6])) for item in plan.legs]
    if len(legs) > 1:
        found.append(_entity(f"{name} plan", start, lines=[_line(np.array(legs), PLANNED)]))
    lines = []
    areas: list[FenceCircle | Polygon] = [*plan.circles, *plan.polygons]
    for area in areas:
        if isinstance(area, FenceCircle):
            north, east, _ = ned(area.centre, 0.0)
            angles = np.linspace(0.0, 2.0 * np.pi, CIRCLE_POINTS, endpoint=False)
            ring = np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=1) * area.radius
            points = ring + np.array([north, east, 0.0])
        else:
            points = np.array([ned(vertex, 0.0) for vertex in area.vertices])
        lines.append(_line(points, ALLOWED if area.inclusion else FORBIDDEN, closed=True))
    if lines:
        found.append(_entity(f"{name} fence", start, lines=lines))
    return found


def _height(plan: Plan, frame: int, altitude: float) -> float:
    """m over the ground at the start; frames 3 and 6 are relative to home, others to sea level."""
    above = altitude if frame in (3, 6) else altitude - plan.home[2]
    return above if math.isfinite(above) else 0.0


def _slots(run: RecordedRun) -> list[tuple[int, SceneUpdate]]:
    """Ways of the slots of a formation that was recorded, and the slots along them."""
    for directory in (run.path / "formation", run.path):
        files = sorted((directory / "plan").glob("vehicle_*.csv"))
        if files and (directory / "summary.json").is_file():
            break
    else:
        return []
    begun = json.loads((directory / "summary.json").read_text(encoding="utf-8"))["started_at_s"]
    ways = [read_csv(file) for file in files]
    lines = [_line(way.position, SLOT) for way in ways]
    start = run.start
    messages = [(start * 1000, _update(_entity("slots' ways", start, lines=lines)))]
    size = _vector([SLOT_SIZE] * 3)
    for moment in np.arange(0.0, ways[0].time[-1], SLOT_INTERVAL):
        time = start + round(1e6 * (begun + float(moment)))
        spheres = []
        for way in ways:
            place = np.array([np.interp(moment, way.time, column) for column in way.position.T])
            spheres.append(SpherePrimitive(pose=_pose(place), size=size, color=_color(SLOT)))
        messages.append((time * 1000, _update(_entity("slots", time, spheres=spheres))))
    return messages


def _update(*entities: SceneEntity) -> SceneUpdate:
    return SceneUpdate(entities=list(entities))
