"""What stands in the world and what was planned, as Foxglove's SceneUpdate: objects, plan, fence, slots.

Axes as in ros_topics.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
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

from sitl_bridge.analysis.export.plans import SLOT, SLOT_SIZE, PlannedLine, planned_lines, slot_places
from sitl_bridge.analysis.export.ros_topics import WORLD, to_enu, to_enu_flu
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.rotations import quaternion_from_euler
from sitl_bridge.record.run_reader import RecordedRun

SCENE_TOPIC = "/scene"
LINE_WIDTH = 2.0
"""m, of a slot's sphere; pixels."""


def _time(microseconds: int) -> Timestamp:
    return Timestamp(sec=microseconds // 1_000_000, nsec=microseconds % 1_000_000 * 1000)


def _vector(values: Iterable[float]) -> Vector3:
    x, y, z = (float(value) for value in values)
    return Vector3(x=x, y=y, z=z)


def _pose(position: Floats, attitude: Floats | None = None) -> Pose:
    """A pose in ENU of a place in NED and, w x y z, an attitude of axes x ahead, y right, z down in NED."""
    x, y, z, w = (
        (0.0, 0.0, 0.0, 1.0) if attitude is None else (float(q) for q in to_enu_flu(attitude[None])[0])
    )
    return Pose(position=_vector(to_enu(position[None])[0]), orientation=Quaternion(x=x, y=y, z=z, w=w))


def _color(color: tuple[float, ...]) -> Color:
    r, g, b, a = (*color, 1.0)[:4]
    return Color(r=r, g=g, b=b, a=a)


def _entity(name: str, time: int, **parts: Any) -> SceneEntity:
    return SceneEntity(timestamp=_time(time), frame_id=WORLD, id=name, **parts)


def _line(line: PlannedLine) -> LinePrimitive:
    """A line of a fixed width on the screen."""
    return LinePrimitive(
        type=LinePrimitiveLineType.LineLoop if line.closed else LinePrimitiveLineType.LineStrip,
        pose=_pose(np.zeros(3)),
        thickness=LINE_WIDTH,
        scale_invariant=True,
        points=[Point3(x=x, y=y, z=z) for x, y, z in to_enu(line.points).tolist()],
        color=_color(line.color),
    )


def scene_messages(run: RecordedRun) -> list[tuple[int, SceneUpdate]]:
    """Scene updates of a run: (ns, message); plans whose files are gone are left out."""
    start = run.start
    lines: dict[str, list[LinePrimitive]] = {}
    for line in planned_lines(run):
        lines.setdefault(line.name, []).append(_line(line))
    entities = [_entity(name, start, lines=drawn) for name, drawn in lines.items()]
    messages = [(start * 1000, SceneUpdate(entities=[*_objects(run, start), *entities]))]
    size, color = _vector([SLOT_SIZE] * 3), _color(SLOT)
    for time, places in slot_places(run):
        spheres = [SpherePrimitive(pose=_pose(place), size=size, color=color) for place in places]
        messages.append((time * 1000, SceneUpdate(entities=[_entity("slots", time, spheres=spheres)])))
    return messages


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
