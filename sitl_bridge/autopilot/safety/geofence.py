"""The geofence: inclusion and exclusion circles and polygons, and the largest distances from home.

failsafe.py reacts to a violation; safety/plans.py rejects missions outside the fence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from sitl_bridge.autopilot.modes.mission_items import MissionFault, check_transfer
from sitl_bridge.autopilot.vehicle_part import Vehicle, VehiclePart
from sitl_bridge.core.world.geography import distance
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.plan.plan import FenceCircle, Polygon
from sitl_bridge.plan.plan_upload import FENCE, MissionItem

Area: TypeAlias = FenceCircle | Polygon


def allows(area: Area, latitude: float, longitude: float) -> bool:
    """Return whether a point in degrees is on the allowed side of an area."""
    return area.contains((latitude, longitude)) == area.inclusion


def read_areas(items: Sequence[MissionItem]) -> tuple[tuple[Area, ...], MissionFault | None]:
    """Return the areas of fence items, or the first fault."""
    fault = check_transfer(items, FENCE)
    if fault is not None:
        return (), fault
    areas: list[Area] = []
    at = 0
    while at < len(items):
        item = items[at]
        if item.command == mavlink.MAV_CMD_NAV_FENCE_RETURN_POINT:
            at += 1
            continue
        inclusion = item.command in (
            mavlink.MAV_CMD_NAV_FENCE_CIRCLE_INCLUSION,
            mavlink.MAV_CMD_NAV_FENCE_POLYGON_VERTEX_INCLUSION,
        )
        if item.command in (
            mavlink.MAV_CMD_NAV_FENCE_CIRCLE_INCLUSION,
            mavlink.MAV_CMD_NAV_FENCE_CIRCLE_EXCLUSION,
        ):
            if not item.param1 >= 0.0:
                return (), _fault(item, f"invalid radius {item.param1:g} m")
            areas.append(FenceCircle((item.x, item.y), item.param1, inclusion))
            at += 1
            continue
        count = int(item.param1) if math.isfinite(item.param1) else 0
        corners = items[at : at + count]
        if count < 3 or len(corners) < count or any(corner.command != item.command for corner in corners):
            return (), _fault(item, f"polygon of {item.param1:g} vertices is incomplete")
        areas.append(Polygon(tuple((corner.x, corner.y) for corner in corners), inclusion))
        at += count
    return tuple(areas), None


def _fault(item: MissionItem, reason: str) -> MissionFault:
    return MissionFault(item.seq, mavlink.MAV_MISSION_INVALID_PARAM1, f"item {item.seq}: {reason}")


class Geofence(VehiclePart):
    """The fence of one vehicle.

    Attributes:
        areas: circles and polygons.
    """

    def __init__(self, vehicle: Vehicle) -> None:
        super().__init__(vehicle)
        self.areas: tuple[Area, ...] = ()

    @property
    def needs_home(self) -> bool:
        """Whether the fence needs a home position."""
        values = self._values
        return bool(values["GF_MAX_HOR_DIST"] or values["GF_MAX_VER_DIST"] or values["GF_ACTION"] == 3)

    @property
    def active(self) -> bool:
        """Whether the fence restricts the vehicle."""
        return bool(self.areas or self._values["GF_MAX_HOR_DIST"] or self._values["GF_MAX_VER_DIST"])

    def breach_at(
        self, latitude: float = math.nan, longitude: float = math.nan, altitude: float = math.nan
    ) -> str | None:
        """As :meth:`breach`; nan stands for the present place, which must be known."""
        state, projection = self._state, self._state.projection
        if projection is None or not self.active:
            return None
        if not (math.isfinite(latitude) and math.isfinite(longitude)):
            latitude, longitude = projection.point(state.x, state.y)
        if not math.isfinite(altitude):
            altitude = projection.altitude(state.z)
        return self.breach(latitude, longitude, altitude)

    def breach(self, latitude: float, longitude: float, altitude: float) -> str | None:
        """Return PX4's text for a violation at a point (deg, deg, m above mean sea level), or None."""
        values, home = self._values, self._home.place
        if home is not None:
            reach = values["GF_MAX_HOR_DIST"]
            if 0.0 < reach <= distance(home[:2], (latitude, longitude)):
                return "exceeding maximum distance to Home"
            if 0.0 < values["GF_MAX_VER_DIST"] <= altitude - home[2]:
                return "exceeding maximum altitude above Home"
        for area in self.areas:
            if not allows(area, latitude, longitude):
                return "approaching or outside geofence"
        return None
