"""Groups the MAVLink commands and frames of plans by what they mean."""

from __future__ import annotations

from sitl_bridge.link.mavlink import common as mavlink

RELATIVE_FRAMES = frozenset(
    {mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT, mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT}
)
POSITION_FRAMES = RELATIVE_FRAMES | {mavlink.MAV_FRAME_GLOBAL, mavlink.MAV_FRAME_GLOBAL_INT}

ROI_COMMANDS = frozenset({mavlink.MAV_CMD_NAV_ROI, mavlink.MAV_CMD_DO_SET_ROI})
AIMS = ROI_COMMANDS | {mavlink.MAV_CMD_DO_SET_ROI_LOCATION}
FENCE_COMMANDS = frozenset(
    range(mavlink.MAV_CMD_NAV_FENCE_RETURN_POINT, mavlink.MAV_CMD_NAV_FENCE_CIRCLE_EXCLUSION + 1)
)
"""The return point, and the corners and circles to stay in and out of."""
DESTINATIONS = frozenset(
    {
        mavlink.MAV_CMD_NAV_WAYPOINT,
        mavlink.MAV_CMD_NAV_LOITER_UNLIM,
        mavlink.MAV_CMD_NAV_LOITER_TIME,
        mavlink.MAV_CMD_NAV_LAND,
        mavlink.MAV_CMD_NAV_TAKEOFF,
        mavlink.MAV_CMD_NAV_LOITER_TO_ALT,
    }
)
"""Items with a destination."""
VTOL_COMMANDS = frozenset(
    {mavlink.MAV_CMD_NAV_VTOL_TAKEOFF, mavlink.MAV_CMD_NAV_VTOL_LAND, mavlink.MAV_CMD_DO_VTOL_TRANSITION}
)
"""Commands for which PX4 rejects a multirotor's mission (FeasibilityChecker.cpp)."""

POSITION_COMMANDS = (
    DESTINATIONS
    | AIMS
    | {mavlink.MAV_CMD_NAV_VTOL_TAKEOFF, mavlink.MAV_CMD_NAV_VTOL_LAND, mavlink.MAV_CMD_CONDITION_GATE}
)
"""Commands that PX4 accepts with a position (mavlink_mission.cpp, parse_mavlink_mission_item)."""
PLAIN_COMMANDS = frozenset(
    {
        mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH,
        mavlink.MAV_CMD_NAV_ROI,
        mavlink.MAV_CMD_NAV_DELAY,
        mavlink.MAV_CMD_CONDITION_DELAY,
        mavlink.MAV_CMD_CONDITION_DISTANCE,
        mavlink.MAV_CMD_DO_JUMP,
        mavlink.MAV_CMD_DO_CHANGE_SPEED,
        mavlink.MAV_CMD_DO_SET_HOME,
        mavlink.MAV_CMD_DO_SET_ACTUATOR,
        mavlink.MAV_CMD_DO_LAND_START,
        mavlink.MAV_CMD_DO_SET_ROI_WPNEXT_OFFSET,
        mavlink.MAV_CMD_DO_SET_ROI_NONE,
        mavlink.MAV_CMD_DO_CONTROL_VIDEO,
        mavlink.MAV_CMD_DO_SET_ROI,
        mavlink.MAV_CMD_DO_DIGICAM_CONTROL,
        mavlink.MAV_CMD_DO_MOUNT_CONFIGURE,
        mavlink.MAV_CMD_DO_MOUNT_CONTROL,
        mavlink.MAV_CMD_DO_SET_CAM_TRIGG_DIST,
        mavlink.MAV_CMD_DO_GRIPPER,
        mavlink.MAV_CMD_DO_SET_CAM_TRIGG_INTERVAL,
        mavlink.MAV_CMD_OBLIQUE_SURVEY,
        mavlink.MAV_CMD_SET_CAMERA_MODE,
        mavlink.MAV_CMD_SET_CAMERA_ZOOM,
        mavlink.MAV_CMD_SET_CAMERA_FOCUS,
        mavlink.MAV_CMD_SET_CAMERA_SOURCE,
        mavlink.MAV_CMD_DO_GIMBAL_MANAGER_PITCHYAW,
        mavlink.MAV_CMD_DO_GIMBAL_MANAGER_CONFIGURE,
        mavlink.MAV_CMD_IMAGE_START_CAPTURE,
        mavlink.MAV_CMD_IMAGE_STOP_CAPTURE,
        mavlink.MAV_CMD_DO_TRIGGER_CONTROL,
        mavlink.MAV_CMD_VIDEO_START_CAPTURE,
        mavlink.MAV_CMD_VIDEO_STOP_CAPTURE,
        mavlink.MAV_CMD_DO_WINCH,
    }
)
"""Commands that PX4 accepts in the mission frame (same function).

In the built-in stack those of cameras, gimbals and triggers are for ``payload_control.py``, and those of
grippers, actuators and winches have no effect.
"""
