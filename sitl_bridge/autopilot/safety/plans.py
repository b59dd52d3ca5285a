"""The plans of a vehicle: mission, geofence and rally points, checked before use."""

from __future__ import annotations

from collections.abc import Sequence

from sitl_bridge.autopilot.commander_data import CRITICAL
from sitl_bridge.autopilot.modes.mission_items import MissionFault, check_transfer
from sitl_bridge.autopilot.modes.navigator import Navigator
from sitl_bridge.autopilot.safety.geofence import Area, Geofence, allows, read_areas
from sitl_bridge.autopilot.vehicle_part import Vehicle, VehiclePart
from sitl_bridge.core.world.geography import distance
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.plan import commands
from sitl_bridge.plan.plan_upload import MISSION, RALLY, MissionItem

Home = tuple[float, float, float] | None


def check_mission(
    items: Sequence[MissionItem], home: Home, landed: bool, fence: Geofence, values: dict[str, float]
) -> tuple[MissionFault | None, list[str]]:
    """Why a mission of at least one item is infeasible, and warnings for the pilot.

    Without a home, what needs one is not checked.
    """
    fault = _check_items(items, landed) or _check_order(items, home)
    relative = any(item.is_destination and item.frame in commands.RELATIVE_FRAMES for item in items)
    if fault is not None or (home is None and (relative or fence.needs_home)):
        return fault, []
    warnings: list[str] = []
    first, limit = next((item for item in items if item.is_destination), None), values["MIS_DIST_1WP"]
    if first is not None and home is not None and limit > 0.0:
        away = distance(home[:2], (first.x, first.y))
        if away >= limit:
            warnings.append(f"First waypoint far away from home: {away:.0f}m. Correct mission loaded?")
    if any(item.command == mavlink.MAV_CMD_NAV_LAND and item.param2 > 0.0 for item in items):
        warnings.append("No precision landing in this flight stack: lands at the item's place")
    return _check_fence(items, home, fence), warnings


def _reject(item: MissionItem, result: int, reason: str) -> MissionFault:
    return MissionFault(item.seq, result, f"Mission rejected: item {item.seq + 1}: {reason}")


def _check_items(items: Sequence[MissionItem], landed: bool) -> MissionFault | None:
    for number, item in enumerate(items):
        if item.command in (
            mavlink.MAV_CMD_CONDITION_DELAY,
            mavlink.MAV_CMD_CONDITION_DISTANCE,
            mavlink.MAV_CMD_NAV_ROI,
        ):
            return _reject(item, mavlink.MAV_MISSION_UNSUPPORTED, f"unsupported command: {item.command}")
        if item.command in (
            mavlink.MAV_CMD_NAV_VTOL_TAKEOFF,
            mavlink.MAV_CMD_NAV_VTOL_LAND,
            mavlink.MAV_CMD_DO_VTOL_TRANSITION,
        ):
            return _reject(item, mavlink.MAV_MISSION_UNSUPPORTED, "VTOL items but vehicle is not a VTOL")
        if number == 0 and item.command == mavlink.MAV_CMD_NAV_LAND and landed:
            return _reject(item, mavlink.MAV_MISSION_INVALID, "starts with landing")
        if item.command == mavlink.MAV_CMD_DO_JUMP and not 0 <= item.param1 < len(items):
            reason = f"jump to item {item.param1 + 1:g} of {len(items)}"
            return _reject(item, mavlink.MAV_MISSION_INVALID, reason)
    return None


def _check_order(items: Sequence[MissionItem], home: Home) -> MissionFault | None:
    flown = False
    for item in items:
        if item.command == mavlink.MAV_CMD_NAV_TAKEOFF:
            height = item.z if item.frame in commands.RELATIVE_FRAMES else item.z - home[2] if home else 1.0
            if height < 1e-6:
                return _reject(item, mavlink.MAV_MISSION_INVALID, "Takeoff altitude below home altitude!")
            if flown:
                return _reject(item, mavlink.MAV_MISSION_INVALID, "takeoff not first waypoint item")
        flown |= item.is_destination
    return None


def _check_fence(items: Sequence[MissionItem], home: Home, fence: Geofence) -> MissionFault | None:
    if not fence.active:
        return None
    for item in items:
        if item.is_destination:
            breach = fence.breach(item.x, item.y, item.altitude(home[2] if home else 0.0))
            if breach is not None:
                reason = f"Geofence violation for waypoint {item.seq + 1}: {breach}"
                return MissionFault(item.seq, mavlink.MAV_MISSION_INVALID, reason)
    return None


class Plans(VehiclePart):
    """The plans of one vehicle.

    Attributes:
        mission_valid: whether there is a feasible mission.
    """

    def __init__(self, vehicle: Vehicle, navigator: Navigator, geofence: Geofence) -> None:
        super().__init__(vehicle)
        self._navigator = navigator
        self._geofence = geofence
        self.fence: tuple[MissionItem, ...] = ()
        self.rally: tuple[MissionItem, ...] = ()
        self.mission_valid = False

    def set_mission(self, items: Sequence[MissionItem], now: int) -> MissionFault | None:
        """Replace the mission; return the first fault of a faulty one, which is rejected."""
        fault = check_transfer(items, MISSION)
        if fault is None and items:
            fault, warnings = self._check(items)
            for warning in warnings:
                self._send_text(CRITICAL, warning)
        if fault is not None:
            self._send_text(CRITICAL, fault.reason)
            return fault
        self._navigator.flight.set_items(tuple(items), max(now, 0))
        self.check_mission()
        return None

    def set_fence(self, items: Sequence[MissionItem]) -> MissionFault | None:
        """Replace the fence; see :meth:`set_mission`.

        As in PX4 (Geofence::_updateFence), areas that home or the vehicle already violates are discarded with
        a text; the other areas are activated.
        """
        areas, fault = read_areas(items)
        if fault is not None:
            self._send_text(CRITICAL, fault.reason)
            return fault
        self.fence = tuple(items)
        self._geofence.areas = tuple(area for area in areas if self._is_kept(area))
        self.check_mission()
        return None

    def set_rally(self, items: Sequence[MissionItem]) -> MissionFault | None:
        """Replace the rally points; see :meth:`set_mission`."""
        fault = check_transfer(items, RALLY)
        if fault is not None:
            self._send_text(CRITICAL, fault.reason)
            return fault
        self.rally = self._navigator.rally = tuple(items)
        return None

    def _is_kept(self, area: Area) -> bool:
        """Return whether home and, in the air, the vehicle are on the allowed side of an area."""
        state, home = self._state, self._home.place
        if home is not None and not allows(area, *home[:2]):
            self._send_text(CRITICAL, "Geofence invalid, doesn't contain Home position")
            return False
        if self._land.landed or state.projection is None or not self._values["GF_ACTION"]:
            return True
        if not allows(area, *state.projection.point(state.x, state.y)):
            self._send_text(CRITICAL, "Geofence invalid, doesn't contain current vehicle position")
            return False
        return True

    def check_mission(self) -> None:
        """Check the mission from the present position, with home and the fence."""
        self.mission_valid = False
        items = self._navigator.flight.items
        if not items or self._home.place is None:
            return
        fault, _ = self._check(items)
        self.mission_valid = fault is None
        if fault is not None:
            self._send_text(CRITICAL, fault.reason)

    def _check(self, items: Sequence[MissionItem]) -> tuple[MissionFault | None, list[str]]:
        return check_mission(items, self._home.place, self._land.landed, self._geofence, self._values)
