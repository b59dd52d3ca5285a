"""Draws what is beside the vehicles: objects, plans, fences and slots as markers, occupancy maps as grids."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sitl_bridge.analysis.export.plans import SLOT, SLOT_SIZE, planned_lines, slot_places
from sitl_bridge.analysis.export.ros_topics import (
    WORLD,
    RosMessages,
    begin_messages,
    ros_name,
    set_axes,
    stamp,
    to_enu,
    to_enu_flu,
)
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.rotations import quaternion_from_euler
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.record.run_reader import RecordedRun

MARKERS, GRID = "/markers", "nav_msgs/OccupancyGrid"
CUBE, SPHERE, CYLINDER, LINE_STRIP, SPHERE_LIST = 1, 2, 3, 4, 7
"""visualization_msgs/Marker."""
LINE_WIDTH = 0.05
"""m."""
MOST_POINTS = 200
"""Of a line; of longer ones some points are left out."""
OCCUPIED, FREE, UNKNOWN = 100, 0, -1
"""Of nav_msgs/OccupancyGrid, as map_server has them."""


@dataclass(frozen=True)
class _Marker:
    """A marker, in NED."""

    name: str
    kind: int
    size: tuple[float, float, float]  # m
    color: tuple[float, ...]  # red, green, blue and opacity, 0 to 1
    # of a line, or of a list of spheres; none of a solid
    points: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    # of a solid: m, and w, x, y, z of its axes
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rotation: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)


def marker_messages(run: RecordedRun) -> Iterator[RosMessages]:
    """Markers of objects, plans and fences at the start of a run, if any, then of a formation's slots."""
    width = (LINE_WIDTH,) * 3
    lines = (_Marker(one.name, LINE_STRIP, width, one.color, one.points) for one in planned_lines(run))
    if markers := [*_objects(run), *lines]:
        yield _message(run.start, markers)
    for time, places in slot_places(run):
        yield _message(time, [_Marker("slots", SPHERE_LIST, (SLOT_SIZE,) * 3, SLOT, places)])


def _objects(run: RecordedRun) -> Iterator[_Marker]:
    """Objects that are boxes, spheres or cylinders; others are not drawn."""
    for number, thing in enumerate(run.description["world"]["scene"]["objects"]):
        match thing["kind"]:
            case "box":
                kind, size = CUBE, tuple(thing["size"])
            case "sphere":
                kind, size = SPHERE, (2.0 * thing["radius"],) * 3
            case "cylinder":
                kind, size = CYLINDER, (2.0 * thing["radius"], 2.0 * thing["radius"], thing["length"])
            case _:
                continue
        rotation = quaternion_from_euler(*map(math.radians, thing["rotation"]))
        name, color = f"object {thing['name'] or number}", (*thing["color"], 1.0)
        yield _Marker(name, kind, size, color, position=tuple(thing["position"]), rotation=rotation)


def _message(time: int, markers: Sequence[_Marker]) -> RosMessages:
    """One message with some markers, at ``time`` in us."""
    strings: dict[str, str] = {}
    lengths = {"markers": len(markers)}
    drawn = []
    for k, one in enumerate(markers):
        picked = np.linspace(0, max(len(one.points) - 1, 0), min(len(one.points), MOST_POINTS))
        drawn.append(to_enu(one.points[np.round(picked).astype(np.int64)]))
        strings |= {f"markers.{k}.header.frame_id": WORLD, f"markers.{k}.ns": one.name}
        lengths[f"markers.{k}.points"] = len(picked)
    times = np.array([time * 1000])
    made, table = begin_messages(MARKERS, "visualization_msgs/MarkerArray", times, strings, lengths)
    for k, (one, points) in enumerate(zip(markers, drawn, strict=True)):
        marker = f"markers.{k}"
        stamp(table, times, f"{marker}.header.stamp")
        table[f"{marker}.id"], table[f"{marker}.type"] = k, one.kind
        if not len(points):
            set_axes(table, f"{marker}.pose.position", to_enu(np.array([one.position], np.float64)))
            set_axes(table, f"{marker}.pose.orientation", to_enu_flu(np.array([one.rotation])))
        else:
            table[f"{marker}.pose.orientation.w"] = 1.0
        set_axes(table, f"{marker}.scale", np.array([one.size], np.float64))
        for name, value in zip("rgba", one.color, strict=True):
            table[f"{marker}.color.{name}"] = value
        for j, point in enumerate(points):
            set_axes(table, f"{marker}.points.{j}", point[None])
    return made


def map_topic(name: str) -> str:
    """Topic of the map that a vehicle's sensors build."""
    return f"/{ros_name(name)}/map"


def map_message(name: str, seen: OccupancyMap) -> RosMessages:
    """The occupancy map that a vehicle builds in flight, from above.

    A cell is occupied if anything is in its column, above the first cell over the level of the origin.
    """
    above = (seen.first[2] + np.arange(seen.log_odds.shape[2]) + 0.5) * seen.cell < -seen.cell
    occupied, free = (cells[:, :, above].any(axis=2) for cells in (seen.occupied, seen.free))
    columns = np.where(occupied, OCCUPIED, np.where(free, FREE, UNKNOWN))  # rows along north: y
    times = np.array([round(seen.time * 1e9)])
    made, table = begin_messages(
        map_topic(name), GRID, times, {"header.frame_id": WORLD}, {"data": columns.size}
    )
    stamp(table, times, "info.map_load_time")
    table["info.resolution"] = seen.cell
    table["info.height"], table["info.width"] = columns.shape
    set_axes(table, "info.origin.position", np.array([[seen.corner[1], seen.corner[0], 0.0]]))
    table["info.origin.orientation.w"] = 1.0
    table["data"] = columns.reshape(1, -1)
    return made
