"""Feasibility check of a whole mission: PX4's FeasibilityChecker for a multirotor, fence included.

mission_items.py checks single items when they are transferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sitl_bridge.autopilot.modes.mission_items import (
    CONDITION_DELAY,
    CONDITION_DISTANCE,
    DO_JUMP,
    INVALID,
    LAND,
    RELATIVE_FRAMES,
    ROI,
    TAKEOFF,
    UNSUPPORTED,
    VTOL_LAND,
    VTOL_TAKEOFF,
    VTOL_TRANSITION,
    MissionFault,
    MissionItem,
)
from sitl_bridge.autopilot.safety.geofence import Geofence
from sitl_bridge.core.world.geography import distance


@dataclass(slots=True)
class Verdict:
    """Result of the check.

    Attributes:
        fault: reason why the mission is infeasible; None if it is feasible.
        warnings: texts for the pilot.
        waits_for_home: whether the check is incomplete because home is unknown.
    """

    fault: MissionFault | None = None
    warnings: list[str] = field(default_factory=list)
    waits_for_home: bool = False


def check_mission(
    items: Sequence[MissionItem],
    home: tuple[float, float, float] | None,
    landed: bool,
    fence: Geofence,
    values: dict[str, float],
) -> Verdict:
    """Check a mission of at least one item.

    Args:
        items: the items after an accepted transfer.
        home: deg, deg, m above mean sea level; None if unknown.
        landed: whether the vehicle is on the ground.
        fence: the geofence.
        values: parameter values.
    """
    verdict = Verdict()
    verdict.fault = _check_items(items, landed) or _check_order(items, home)
    if verdict.fault is not None:
        return verdict
    relative = any(item.is_destination and item.frame in RELATIVE_FRAMES for item in items)
    if home is None:
        verdict.waits_for_home = relative or fence.needs_home
        if verdict.waits_for_home:
            return verdict
    _check_first(items, home, values["MIS_DIST_1WP"], verdict)
    verdict.fault = _check_fence(items, home, fence)
    return verdict


def _rejected(item: MissionItem, result: int, reason: str) -> MissionFault:
    return MissionFault(item.seq, result, f"Mission rejected: item {item.seq + 1}: {reason}")


def _check_items(items: Sequence[MissionItem], landed: bool) -> MissionFault | None:
    """Check each item by itself."""
    for number, item in enumerate(items):
        if item.command in (CONDITION_DELAY, CONDITION_DISTANCE, ROI):
            return _rejected(item, UNSUPPORTED, f"unsupported command: {item.command}")
        if item.command in (VTOL_TAKEOFF, VTOL_LAND, VTOL_TRANSITION):
            return _rejected(item, UNSUPPORTED, "VTOL items but vehicle is not a VTOL")
        if number == 0 and item.command == LAND and landed:
            return _rejected(item, INVALID, "starts with landing")
        if item.command == DO_JUMP and not 0 <= item.param1 < len(items):
            return _rejected(item, INVALID, f"jump to item {item.param1 + 1:g} of {len(items)}")
    return None


def _check_order(
    items: Sequence[MissionItem], home: tuple[float, float, float] | None
) -> MissionFault | None:
    """Check that take-off precedes all other positions and is above home."""
    flown = False
    for item in items:
        if item.command == TAKEOFF:
            height = item.z if item.frame in RELATIVE_FRAMES else item.z - home[2] if home else 1.0
            if height < 1e-6:
                return _rejected(item, INVALID, "Takeoff altitude below home altitude!")
            if flown:
                return _rejected(item, INVALID, "takeoff not first waypoint item")
        flown |= item.is_destination
    return None


def _check_first(
    items: Sequence[MissionItem], home: tuple[float, float, float] | None, limit: float, verdict: Verdict
) -> None:
    """Add a warning if the first waypoint is far away."""
    first = next((item for item in items if item.is_destination), None)
    if first is None or home is None or limit <= 0.0:
        return
    away = distance(home[0], home[1], first.x, first.y)
    if away >= limit:
        verdict.warnings.append(f"First waypoint far away from home: {away:.0f}m. Correct mission loaded?")


def _check_fence(
    items: Sequence[MissionItem], home: tuple[float, float, float] | None, fence: Geofence
) -> MissionFault | None:
    """Check that all destinations are within the fence."""
    if not fence.active:
        return None
    for item in items:
        if item.is_destination:
            breach = fence.breach(item.x, item.y, item.altitude(home[2] if home else 0.0), home)
            if breach is not None:
                reason = f"Geofence violation for waypoint {item.seq + 1}: {breach}"
                return MissionFault(item.seq, INVALID, reason)
    return None
