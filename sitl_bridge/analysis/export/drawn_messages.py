"""What ROS's tools draw beside the vehicles: plans, fences and slots as markers, occupancy maps as grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sitl_bridge.analysis.export.plans import SLOT, SLOT_SIZE, PlannedLine, planned_lines, slot_places
from sitl_bridge.analysis.export.ros_topics import (
    WORLD,
    RosMessages,
    begin_messages,
    ros_name,
    set_axes,
    stamp,
    to_enu,
)
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.record.run_reader import RecordedRun

MARKERS, GRID = "/markers", "nav_msgs/OccupancyGrid"
LINE_STRIP, SPHERE_LIST = 4, 7
"""visualization_msgs/Marker."""
LINE_WIDTH = 0.05
"""m."""
MOST_POINTS = 200
"""Of a line; of longer ones some points are left out."""
OCCUPIED, FREE, UNKNOWN = 100, 0, -1
"""Of nav_msgs/OccupancyGrid, as map_server has them."""


def marker_messages(run: RecordedRun) -> Iterator[RosMessages]:
    """Markers of plans and fences at the start of a run, if it has any, then of a formation's slots."""
    lines = list(planned_lines(run))
    if lines:
        yield _markers(run.start, lines, LINE_STRIP, LINE_WIDTH)
    for time, places in slot_places(run):
        yield _markers(time, [PlannedLine("slots", places, SLOT)], SPHERE_LIST, SLOT_SIZE)


def _markers(time: int, lines: Sequence[PlannedLine], kind: int, size: float) -> RosMessages:
    """One message with a marker of each line, at ``time`` in us."""
    drawn = []
    for line in lines:
        points = to_enu(line.path)
        picked = np.linspace(0, len(points) - 1, min(len(points), MOST_POINTS))
        drawn.append(points[np.round(picked).astype(np.int64)])
    strings: dict[str, str] = {}
    lengths = {"markers": len(lines)}
    for k, (line, points) in enumerate(zip(lines, drawn, strict=True)):
        strings |= {f"markers.{k}.header.frame_id": WORLD, f"markers.{k}.ns": line.name}
        lengths[f"markers.{k}.points"] = len(points)
    times = np.array([time * 1000])
    made, table = begin_messages(MARKERS, "visualization_msgs/MarkerArray", times, strings, lengths)
    for k, (line, points) in enumerate(zip(lines, drawn, strict=True)):
        marker = f"markers.{k}"
        stamp(table, times, f"{marker}.header.stamp")
        table[f"{marker}.id"], table[f"{marker}.type"] = k, kind
        table[f"{marker}.pose.orientation.w"] = 1.0
        set_axes(table, f"{marker}.scale", np.full((1, 3), size))
        for name, value in zip("rgba", line.color, strict=True):
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
