"""Plans saved by QGroundControl: their content, and figures computed from it.

The format is that of the QGroundControl developer guide, "Plan File Format".  ``plan_file.py`` reads and
checks plans, ``session/plan_flight.py`` flies them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.plan import commands

EARTH_RADIUS = 6_371_000.0
"""m, of PX4's sphere (src/lib/geo)."""

Point: TypeAlias = tuple[float, float]
"""deg latitude, deg longitude."""


@dataclass(frozen=True)
class Item:
    """One mission item in the form of MAVLink's MISSION_ITEM_INT, and its place in the file."""

    where: str  # its place, for messages: ``item 3`` or ``item 4 (survey), part 2``
    command: int  # MAV_CMD
    frame: int  # MAV_FRAME
    # seven; nan stands for the file's null. Params 5 to 7 are deg latitude, deg longitude and m altitude in a
    # frame with a position.
    params: tuple[float, float, float, float, float, float, float]
    auto_continue: bool = True  # whether the mission continues by itself
    jump_id: int = 0  # the file's number for jumps; 0 for none

    @property
    def has_position(self) -> bool:
        """Whether params 5 to 7 are a position that the vehicle flies to."""
        return self.frame in commands.POSITION_FRAMES and self.command not in commands.AIMS

    @property
    def aims(self) -> bool:
        """Whether params 5 to 7 are a position that the vehicle looks at."""
        return self.frame in commands.POSITION_FRAMES and self.command in commands.AIMS

    @property
    def point(self) -> Point:
        """Deg latitude and longitude."""
        return self.params[4], self.params[5]


@dataclass(frozen=True)
class FenceCircle:
    """A circle of the geofence: centre in deg, radius in m."""

    centre: Point
    radius: float
    inclusion: bool

    def contains(self, point: Point) -> bool:
        """Whether the point is inside; a radius of 0 encloses nothing, as in PX4."""
        return distance_on_sphere(self.centre, point) < self.radius


@dataclass(frozen=True)
class Polygon:
    """A polygon of the geofence: vertices in deg."""

    vertices: tuple[Point, ...]
    inclusion: bool

    def contains(self, point: Point) -> bool:
        """Whether the point is inside, by the even-odd rule, as in PX4."""
        latitude, longitude = point
        inside = False
        for (lat_a, lon_a), (lat_b, lon_b) in zip(
            self.vertices, self.vertices[-1:] + self.vertices[:-1], strict=True
        ):
            if (lon_a >= longitude) != (lon_b >= longitude) and latitude <= (lat_b - lat_a) * (
                longitude - lon_a
            ) / (lon_b - lon_a) + lat_a:
                inside = not inside
        return inside


@dataclass(frozen=True)
class Plan:
    """A checked plan."""

    source: str  # the file
    # planned, deg latitude, deg longitude, m AMSL; the altitude is nan if it is open
    home: tuple[float, float, float]
    items: tuple[Item, ...]  # of the mission, complex items expanded
    # circles, polygons: the geofence
    circles: tuple[FenceCircle, ...] = ()
    polygons: tuple[Polygon, ...] = ()
    rally_points: tuple[tuple[float, float, float], ...] = ()  # deg latitude, deg longitude, m over home
    notes: tuple[str, ...] = ()  # parts of the file that are ignored, with the reason

    @cached_property
    def landing(self) -> int:
        """Number of the item, from 0 on, with which the mission itself ends on the ground; -1 without."""
        return next(
            (
                i
                for i, item in enumerate(self.items)
                if item.command in (mavlink.MAV_CMD_NAV_LAND, mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH)
            ),
            -1,
        )

    @property
    def areas(self) -> tuple[FenceCircle | Polygon, ...]:
        """The geofence."""
        return (*self.circles, *self.polygons)

    @property
    def lands(self) -> bool:
        """Whether the mission itself ends on the ground."""
        return self.landing >= 0

    @cached_property
    def legs(self) -> tuple[Item, ...]:
        """The items to which the vehicle flies, in order, without following jumps."""
        return tuple(
            item for item in self.items if item.has_position and item.command in commands.POSITION_COMMANDS
        )

    @property
    def length(self) -> float:
        """Horizontal length in m from item to item."""
        points = [item.point for item in self.legs]
        return sum(distance_on_sphere(a, b) for a, b in itertools.pairwise(points))

    def sequence_of(self, jump_id: int) -> int:
        """Index of the item with a jump id.

        Raises:
            KeyError: if there is none.
        """
        for index, item in enumerate(self.items):
            if item.jump_id == jump_id:
                return index
        raise KeyError(jump_id)


def with_fence_of(plan: Plan, fence: Plan | None) -> Plan:
    """The plan with the geofence of another, and with its rally points if it has any."""
    if fence is None:
        return plan
    points = fence.rally_points or plan.rally_points
    return replace(plan, circles=fence.circles, polygons=fence.polygons, rally_points=points)


def distance_on_sphere(a: Point, b: Point) -> float:
    """Great-circle distance in m on PX4's sphere (haversine formula)."""
    lat_a, lat_b = math.radians(a[0]), math.radians(b[0])
    half_lat, half_lon = (lat_b - lat_a) / 2, math.radians(b[1] - a[1]) / 2
    h = math.sin(half_lat) ** 2 + math.cos(lat_a) * math.cos(lat_b) * math.sin(half_lon) ** 2
    return 2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(h)))


def command_name(command: int) -> str:
    """MAVLink's name of a command and its number."""
    entry = mavlink.enums["MAV_CMD"].get(command)
    return f"{entry.name} ({command})" if entry else f"command {command}"


def fence_breach(plan: Plan, point: Point) -> str:
    """How ``point`` violates the plan's geofence; empty if it does not.

    As PX4's Geofence::isInsidePolygonOrCircle: inside every inclusion area, outside every exclusion area.
    """
    if any(not area.contains(point) for area in plan.areas if area.inclusion):
        return "is outside the geofence"
    if any(area.contains(point) for area in plan.areas if not area.inclusion):
        return "is in an exclusion area of the geofence"
    return ""
