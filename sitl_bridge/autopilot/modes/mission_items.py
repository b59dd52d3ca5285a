"""Mission, fence and rally items as in MAVLink, and the checks of their transfer.

Two stages as in PX4: the transfer rejects single items (mavlink_mission.cpp), the feasibility check rejects
whole missions (FeasibilityChecker.cpp).  The navigator flies missions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.plan import commands
from sitl_bridge.plan.plan_file import MAX_FENCE_ITEMS, MAX_MISSION_ITEMS, MAX_RALLY_ITEMS
from sitl_bridge.plan.plan_upload import FENCE, MISSION, RALLY, MissionItem

IN_POSITION_FRAME = commands.POSITION_COMMANDS - {mavlink.MAV_CMD_CONDITION_GATE}
"""Commands with a position that the transfer accepts."""

MAX_ITEMS = {MISSION: MAX_MISSION_ITEMS, FENCE: MAX_FENCE_ITEMS, RALLY: MAX_RALLY_ITEMS}

ROI_NONE, ROI_NEXT, ROI_INDEX, ROI_LOCATION = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class MissionFault:
    """Reason for rejecting items."""

    seq: int  # sequence number of the faulty item
    result: int  # MAV_MISSION_RESULT
    reason: str  # text


def check_transfer(items: Sequence[MissionItem], kind: int) -> MissionFault | None:
    """Return the first fault for which a transfer of ``kind`` (MAV_MISSION_TYPE) is rejected, or None."""
    if len(items) > MAX_ITEMS[kind]:
        reason = f"{len(items)} items exceed the limit of {MAX_ITEMS[kind]}"
        return MissionFault(MAX_ITEMS[kind], mavlink.MAV_MISSION_NO_SPACE, reason)
    for number, item in enumerate(items):
        if item.seq != number:
            reason = f"item {number} has the sequence number {item.seq}"
            return MissionFault(number, mavlink.MAV_MISSION_INVALID_SEQUENCE, reason)
        fault = _check_item(item, kind)
        if fault is not None:
            return fault
    return None


def _check_item(item: MissionItem, kind: int) -> MissionFault | None:
    def fault(result: int, reason: str) -> MissionFault:
        return MissionFault(item.seq, result, f"item {item.seq}: {reason}")

    if item.frame not in commands.POSITION_FRAMES and item.frame != mavlink.MAV_FRAME_MISSION:
        return fault(mavlink.MAV_MISSION_UNSUPPORTED_FRAME, f"frame {item.frame} is not supported")
    has_position = item.frame in commands.POSITION_FRAMES
    if kind == FENCE:
        allowed = commands.FENCE_COMMANDS
    elif kind == RALLY:
        allowed = frozenset({mavlink.MAV_CMD_NAV_RALLY_POINT})
    else:
        allowed = IN_POSITION_FRAME if has_position else commands.PLAIN_COMMANDS
    if item.command not in allowed or (kind != MISSION and not has_position):
        reason = f"command {item.command} is not supported in frame {item.frame}"
        return fault(mavlink.MAV_MISSION_UNSUPPORTED, reason)
    if has_position and not (
        kind == MISSION and item.command in commands.ROI_COMMANDS and item.param1 != ROI_LOCATION
    ):
        if not abs(item.x) <= 90.0:
            return fault(mavlink.MAV_MISSION_INVALID_PARAM5_X, f"{item.x:g} is not a latitude")
        if not abs(item.y) <= 180.0:
            return fault(mavlink.MAV_MISSION_INVALID_PARAM6_Y, f"{item.y:g} is not a longitude")
        if not math.isfinite(item.z):
            return fault(mavlink.MAV_MISSION_INVALID_PARAM7, "altitude missing")
    if item.command in commands.ROI_COMMANDS:
        known = (ROI_NONE, ROI_LOCATION) if has_position else (ROI_NONE, ROI_NEXT, ROI_INDEX)
        if item.param1 not in known:
            reason = f"region of interest of kind {item.param1:g} is not supported"
            return fault(mavlink.MAV_MISSION_INVALID_PARAM1, reason)
    return None
