"""A plan in the form in which an autopilot takes it: items of mission, geofence and rally points.

``session/linked.py`` sends them over MAVLink, ``api/in_process.py`` gives them to a stack in this process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.plan import commands
from sitl_bridge.plan.plan import Plan
from sitl_bridge.plan.plan_file import MAX_LEG

MISSION, FENCE, RALLY = 0, 1, 2
"""MAV_MISSION_TYPE."""

SLOWEST = 1.0
"""m/s from which the time limit of a mission is computed if the plan sets no speed: a fifth of PX4's default
cruise speed of 5 m/s (MPC_XY_CRUISE)."""

END_GRACE = 5.0
"""s of the vehicle's time in Hold before its last item after which a mission counts as stopped.  Derived:
several periods of the 1 Hz messages that carry mode and progress."""


@dataclass(frozen=True, slots=True)
class MissionItem:
    """An item of a mission, fence or rally points: MISSION_ITEM_INT with its position in degrees."""

    seq: int  # sequence number, from 0
    frame: int  # MAV_FRAME
    command: int  # MAV_CMD
    current: bool = False  # whether it is the first item to fly
    autocontinue: bool = True  # whether the mission continues automatically
    param1: float = 0.0  # of the command; also 2 to 4; nan if not set
    param2: float = 0.0
    param3: float = 0.0
    param4: float = math.nan
    x: float = 0.0  # deg latitude in a frame with a position, else param5
    y: float = 0.0  # deg longitude, else param6
    z: float = 0.0  # m altitude in the frame, else param7
    mission_type: int = MISSION  # MAV_MISSION_TYPE

    @property
    def is_destination(self) -> bool:
        """Whether the item has a destination."""
        return self.command in commands.DESTINATIONS

    def altitude(self, home_altitude: float) -> float:
        """Return the altitude in m above mean sea level for a home at ``home_altitude``."""
        return self.z + home_altitude if self.frame in commands.RELATIVE_FRAMES else self.z

    def message(self, address: tuple[int, int]) -> MavlinkMessage:
        """MISSION_ITEM_INT to a system and component; a position that is not set is sent as 0."""
        scale = 1e7 if self.frame in commands.POSITION_FRAMES else 1.0  # degE7, or whole numbers as they are
        x, y = (0 if math.isnan(value) else round(value * scale) for value in (self.x, self.y))
        return mavlink.MAVLink_mission_item_int_message(
            *address,
            self.seq,
            self.frame,
            self.command,
            int(self.current),
            int(self.autocontinue),
            self.param1,
            self.param2,
            self.param3,
            self.param4,
            x,
            y,
            self.z,
            self.mission_type,
        )


def _item(
    seq: int, kind: int, command: int, frame: int, params: Sequence[float], auto_continue: bool = True
) -> MissionItem:
    p1, p2, p3, p4, x, y, z = params
    z = 0.0 if math.isnan(z) else z
    return MissionItem(seq, frame, command, seq == 0, auto_continue, p1, p2, p3, p4, x, y, z, kind)


def mission_items(plan: Plan) -> list[MissionItem]:
    """The mission; jumps refer to sequence numbers."""
    found = []
    for seq, item in enumerate(plan.items):
        params: tuple[float, ...] = item.params
        if item.command == mavlink.MAV_CMD_DO_JUMP:
            params = (float(plan.sequence_of(int(params[0]))), *params[1:])
        found.append(_item(seq, MISSION, item.command, item.frame, params, item.auto_continue))
    return found


def fence_items(plan: Plan) -> list[MissionItem]:
    """The geofence: the corners of the polygons, then the circles, as QGroundControl does.

    PX4 takes every area after a circle for a circle (navigator/geofence.cpp, ``_updateFence``), and then
    drops the polygon because it does not contain home.
    """
    rows: list[tuple[int, float, tuple[float, float]]] = []
    for polygon in plan.polygons:
        command = (
            mavlink.MAV_CMD_NAV_FENCE_POLYGON_VERTEX_INCLUSION
            if polygon.inclusion
            else mavlink.MAV_CMD_NAV_FENCE_POLYGON_VERTEX_EXCLUSION
        )
        rows += [(command, float(len(polygon.vertices)), vertex) for vertex in polygon.vertices]
    for circle in plan.circles:
        command = (
            mavlink.MAV_CMD_NAV_FENCE_CIRCLE_INCLUSION
            if circle.inclusion
            else mavlink.MAV_CMD_NAV_FENCE_CIRCLE_EXCLUSION
        )
        rows.append((command, circle.radius, circle.centre))
    return [
        _item(seq, FENCE, command, mavlink.MAV_FRAME_GLOBAL, (first, 0.0, 0.0, 0.0, *point, 0.0))
        for seq, (command, first, point) in enumerate(rows)
    ]


def rally_items(plan: Plan) -> list[MissionItem]:
    """The rally points."""
    return [
        _item(
            seq,
            RALLY,
            mavlink.MAV_CMD_NAV_RALLY_POINT,
            mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT,
            (0.0, 0.0, 0.0, 0.0, *point),
        )
        for seq, point in enumerate(plan.rally_points)
    ]


def time_limit(plan: Plan) -> float:
    """Generous time limit of a mission in s of the vehicle's time."""
    speeds = [
        item.params[1]
        for item in plan.items
        if item.command == mavlink.MAV_CMD_DO_CHANGE_SPEED and item.params[1] > 0
    ]
    slowest = min([SLOWEST, *(speed / 2 for speed in speeds)])
    holds = sum(
        item.params[0]
        for item in plan.items
        if item.command
        in (mavlink.MAV_CMD_NAV_WAYPOINT, mavlink.MAV_CMD_NAV_LOITER_TIME, mavlink.MAV_CMD_NAV_DELAY)
    )
    heights = [item.params[6] for item in plan.legs]
    climbs = sum(
        abs(b - a) for a, b in zip([0.0, *heights], [*heights, 0.0], strict=True) if abs(b - a) < MAX_LEG
    )
    repeats = 1 + sum(item.params[1] for item in plan.items if item.command == mavlink.MAV_CMD_DO_JUMP)
    once = plan.length / slowest + holds + climbs / 0.5 + 10.0 * len(plan.items)
    return 120.0 + repeats * once
