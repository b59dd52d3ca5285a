"""MAVLink's numbers in plans: frames, and the commands of missions, geofences and rally points."""

from __future__ import annotations

# --- MAV_FRAME
GLOBAL, MISSION_FRAME, RELATIVE, GLOBAL_INT, RELATIVE_INT = 0, 2, 3, 5, 6
RELATIVE_FRAMES = frozenset({RELATIVE, RELATIVE_INT})
POSITION_FRAMES = RELATIVE_FRAMES | {GLOBAL, GLOBAL_INT}

# --- MAV_CMD
WAYPOINT, LOITER_UNLIMITED, LOITER_TIME, RETURN, LAND, TAKEOFF, LOITER_TO_ALT = 16, 17, 19, 20, 21, 22, 31
ROI, DELAY, CONDITION_DELAY, CONDITION_DISTANCE = 80, 93, 112, 114
DO_JUMP, DO_CHANGE_SPEED, DO_SET_HOME, DO_SET_ROI = 177, 178, 179, 201
DO_SET_ROI_LOCATION, DO_SET_ROI_NONE = 195, 197
ROI_COMMANDS = frozenset({ROI, DO_SET_ROI})
AIMS = ROI_COMMANDS | {DO_SET_ROI_LOCATION}
VTOL_TAKEOFF, VTOL_LAND, VTOL_TRANSITION, CONDITION_GATE = 84, 85, 3000, 4501
FENCE_RETURN_POINT = 5000
FENCE_INCLUSION_POLYGON, FENCE_EXCLUSION_POLYGON = 5001, 5002
FENCE_INCLUSION_CIRCLE, FENCE_EXCLUSION_CIRCLE = 5003, 5004
FENCE_COMMANDS = frozenset(range(5000, 5005))
"""The return point, and the corners and circles to stay in and out of."""
RALLY_POINT = 5100
DESTINATIONS = frozenset({WAYPOINT, LOITER_UNLIMITED, LOITER_TIME, LAND, TAKEOFF, LOITER_TO_ALT})
"""Items with a destination."""

POSITION_COMMANDS = frozenset({16, 17, 19, 21, 22, 31, 80, 84, 85, 195, 201, 4501})
"""Commands that PX4 accepts with a position (mavlink_mission.cpp, parse_mavlink_mission_item)."""
PLAIN_COMMANDS = frozenset(
    {20, 80, 93, 112, 114, 177, 178, 179, 187, 189, 196, 197, 200, 201, 203, 204, 205, 206, 211, 214, 260}
    | {530, 531, 532, 534, 1000, 1001, 2000, 2001, 2003, 2500, 2501, 42600}
)
"""Commands that PX4 accepts in the mission frame (same function).

In the built-in stack those of cameras, gimbals and triggers are for ``payload_control.py``, and those of
grippers, actuators and winches have no effect.
"""
VTOL_COMMANDS = frozenset({VTOL_TAKEOFF, VTOL_LAND, VTOL_TRANSITION})
"""Commands for which PX4 rejects a multirotor's mission (FeasibilityChecker.cpp)."""
