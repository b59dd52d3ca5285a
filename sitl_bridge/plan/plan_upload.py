"""A plan in the form in which an autopilot takes it: rows of mission, geofence and rally points.

``session/missions/plan_runner.py`` sends them over MAVSDK, ``api/linked.py`` over the monitor's link;
``api/in_process.py`` gives them to a built-in stack in the same process.
"""

from __future__ import annotations

from dataclasses import dataclass

from sitl_bridge.plan.plan import (
    DO_CHANGE_SPEED,
    DO_JUMP,
    FENCE_EXCLUSION_CIRCLE,
    FENCE_EXCLUSION_POLYGON,
    FENCE_INCLUSION_CIRCLE,
    FENCE_INCLUSION_POLYGON,
    GLOBAL,
    LOITER_TIME,
    RALLY_POINT,
    RELATIVE,
    WAYPOINT,
    Plan,
)
from sitl_bridge.plan.plan_file import MAX_LEG

SLOWEST = 1.0
"""m/s from which the time limit of a mission is computed if the plan sets no speed: a fifth of PX4's default
cruise speed of 5 m/s (MPC_XY_CRUISE)."""

END_GRACE = 5.0
"""s of the vehicle's time in Hold before its last item after which a mission counts as stopped.  Derived:
several periods of the 1 Hz messages that carry mode and progress."""


@dataclass(frozen=True)
class UploadRow:
    """One item of MISSION_ITEM_INT.

    Attributes:
        command: MAV_CMD.
        frame: MAV_FRAME.
        params: seven; 5 to 7 are deg latitude, deg longitude and m in a frame with a position.
        auto_continue: whether the mission continues by itself.
    """

    command: int
    frame: int
    params: tuple[float, ...]
    auto_continue: bool = True


def mission_rows(plan: Plan) -> list[UploadRow]:
    """The mission; jumps refer to sequence numbers."""
    rows = []
    for item in plan.items:
        params: tuple[float, ...] = item.params
        if item.command == DO_JUMP:
            params = (float(plan.sequence_of(int(params[0]))), *params[1:])
        rows.append(UploadRow(item.command, item.frame, params, item.auto_continue))
    return rows


def fence_rows(plan: Plan) -> list[UploadRow]:
    """The geofence: the corners of the polygons, then the circles, as QGroundControl does.

    PX4 takes every area after a circle for a circle (navigator/geofence.cpp, ``_updateFence``), and then
    drops the polygon because it does not contain home.
    """
    rows: list[tuple[int, float, tuple[float, float]]] = []
    for polygon in plan.polygons:
        command = FENCE_INCLUSION_POLYGON if polygon.inclusion else FENCE_EXCLUSION_POLYGON
        rows += [(command, float(len(polygon.vertices)), vertex) for vertex in polygon.vertices]
    for circle in plan.circles:
        command = FENCE_INCLUSION_CIRCLE if circle.inclusion else FENCE_EXCLUSION_CIRCLE
        rows.append((command, circle.radius, circle.centre))
    return [UploadRow(command, GLOBAL, (first, 0, 0, 0, *point, 0)) for command, first, point in rows]


def rally_rows(plan: Plan) -> list[UploadRow]:
    """The rally points."""
    return [UploadRow(RALLY_POINT, RELATIVE, (0, 0, 0, 0, *point)) for point in plan.rally_points]


def time_limit(plan: Plan) -> float:
    """Generous time limit of a mission in s of the vehicle's time."""
    speeds = [item.params[1] for item in plan.items if item.command == DO_CHANGE_SPEED and item.params[1] > 0]
    slowest = min([SLOWEST, *(speed / 2 for speed in speeds)])
    holds = sum(item.params[0] for item in plan.items if item.command in (WAYPOINT, LOITER_TIME, 93))
    heights = [item.params[6] for item in plan.legs]
    climbs = sum(
        abs(b - a) for a, b in zip([0.0, *heights], [*heights, 0.0], strict=True) if abs(b - a) < MAX_LEG
    )
    repeats = 1 + sum(item.params[1] for item in plan.items if item.command == DO_JUMP)
    once = plan.length / slowest + holds + climbs / 0.5 + 10.0 * len(plan.items)
    return 120.0 + repeats * once
