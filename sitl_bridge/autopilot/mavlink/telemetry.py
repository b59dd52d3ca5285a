"""The messages that the vehicle sends, one function each.

Units and meanings follow PX4 (its mavlink/streams); a function notes where PX4 deviates from MAVLink's
specification.  The rates are in ``streams.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sitl_bridge.autopilot.mavlink import (
    estimate_messages,
    sensor_messages,
    setpoint_messages,
    vehicle_messages,
)
from sitl_bridge.autopilot.mavlink.vehicle_snapshot import Snapshot
from sitl_bridge.link.mavlink import common as mavlink

MESSAGES: dict[int, Callable[[Snapshot], Any]] = {
    mavlink.MAVLINK_MSG_ID_HEARTBEAT: vehicle_messages.heartbeat,
    mavlink.MAVLINK_MSG_ID_SYS_STATUS: vehicle_messages.sys_status,
    mavlink.MAVLINK_MSG_ID_BATTERY_STATUS: vehicle_messages.battery_status,
    mavlink.MAVLINK_MSG_ID_EXTENDED_SYS_STATE: vehicle_messages.extended_sys_state,
    mavlink.MAVLINK_MSG_ID_AUTOPILOT_VERSION: vehicle_messages.autopilot_version,
    mavlink.MAVLINK_MSG_ID_PROTOCOL_VERSION: vehicle_messages.protocol_version,
    mavlink.MAVLINK_MSG_ID_SYSTEM_TIME: vehicle_messages.system_time,
    mavlink.MAVLINK_MSG_ID_CURRENT_MODE: vehicle_messages.current_mode,
    mavlink.MAVLINK_MSG_ID_ORBIT_EXECUTION_STATUS: vehicle_messages.orbit_execution_status,
    mavlink.MAVLINK_MSG_ID_ATTITUDE: estimate_messages.attitude,
    mavlink.MAVLINK_MSG_ID_ATTITUDE_QUATERNION: estimate_messages.attitude_quaternion,
    mavlink.MAVLINK_MSG_ID_LOCAL_POSITION_NED: estimate_messages.local_position_ned,
    mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT: estimate_messages.global_position_int,
    mavlink.MAVLINK_MSG_ID_VFR_HUD: estimate_messages.vfr_hud,
    mavlink.MAVLINK_MSG_ID_ALTITUDE: estimate_messages.altitude,
    mavlink.MAVLINK_MSG_ID_ODOMETRY: estimate_messages.odometry,
    mavlink.MAVLINK_MSG_ID_ESTIMATOR_STATUS: estimate_messages.estimator_status,
    mavlink.MAVLINK_MSG_ID_GPS_GLOBAL_ORIGIN: estimate_messages.gps_global_origin,
    mavlink.MAVLINK_MSG_ID_HOME_POSITION: estimate_messages.home_position,
    mavlink.MAVLINK_MSG_ID_GPS_RAW_INT: sensor_messages.gps_raw_int,
    mavlink.MAVLINK_MSG_ID_HIGHRES_IMU: sensor_messages.highres_imu,
    mavlink.MAVLINK_MSG_ID_SCALED_PRESSURE: sensor_messages.scaled_pressure,
    mavlink.MAVLINK_MSG_ID_DISTANCE_SENSOR: sensor_messages.distance_sensor,
    mavlink.MAVLINK_MSG_ID_VIBRATION: sensor_messages.vibration,
    mavlink.MAVLINK_MSG_ID_ATTITUDE_TARGET: setpoint_messages.attitude_target,
    mavlink.MAVLINK_MSG_ID_POSITION_TARGET_LOCAL_NED: setpoint_messages.position_target_local_ned,
    mavlink.MAVLINK_MSG_ID_SERVO_OUTPUT_RAW: setpoint_messages.servo_output_raw,
}
"""Messages by id; a function returns None while its values are unknown."""
