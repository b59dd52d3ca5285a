"""Which message is due when on a link: PX4's sets of streams, and the intervals a partner asks for.

Intervals run on simulated time.  A stream is sent at most once a poll, so that no link is faster than the
stack that fills it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sitl_bridge.autopilot.mavlink.telemetry import MESSAGES
from sitl_bridge.mavlink import common as mavlink

SECOND = 1_000_000

GPS_RATE = 5.0
"""Hz where PX4 sends each fix as it comes."""

NORMAL = {
    mavlink.MAVLINK_MSG_ID_ALTITUDE: 1.0,
    mavlink.MAVLINK_MSG_ID_ATTITUDE: 50.0,
    mavlink.MAVLINK_MSG_ID_ATTITUDE_QUATERNION: 50.0,
    mavlink.MAVLINK_MSG_ID_ATTITUDE_TARGET: 50.0,
    mavlink.MAVLINK_MSG_ID_BATTERY_STATUS: 0.5,
    mavlink.MAVLINK_MSG_ID_DISTANCE_SENSOR: 0.5,
    mavlink.MAVLINK_MSG_ID_ESTIMATOR_STATUS: 0.5,
    mavlink.MAVLINK_MSG_ID_EXTENDED_SYS_STATE: 1.0,
    mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT: 50.0,
    mavlink.MAVLINK_MSG_ID_GPS_GLOBAL_ORIGIN: 1.0,
    mavlink.MAVLINK_MSG_ID_GPS_RAW_INT: GPS_RATE,
    mavlink.MAVLINK_MSG_ID_HOME_POSITION: 0.5,
    mavlink.MAVLINK_MSG_ID_LOCAL_POSITION_NED: 50.0,
    mavlink.MAVLINK_MSG_ID_ORBIT_EXECUTION_STATUS: 2.0,
    mavlink.MAVLINK_MSG_ID_POSITION_TARGET_LOCAL_NED: 50.0,
    mavlink.MAVLINK_MSG_ID_CURRENT_MODE: 0.5,
    mavlink.MAVLINK_MSG_ID_SCALED_PRESSURE: 1.0,
    mavlink.MAVLINK_MSG_ID_SERVO_OUTPUT_RAW: 50.0,
    mavlink.MAVLINK_MSG_ID_SYS_STATUS: 1.0,
    mavlink.MAVLINK_MSG_ID_VFR_HUD: 4.0,
    mavlink.MAVLINK_MSG_ID_VIBRATION: 0.1,
}
"""Hz on the ground station's link (mavlink_main.cpp, MAVLINK_MODE_NORMAL, and px4-rc.mavlink of SITL)."""

ONBOARD = {
    mavlink.MAVLINK_MSG_ID_HIGHRES_IMU: 50.0,
    mavlink.MAVLINK_MSG_ID_LOCAL_POSITION_NED: 30.0,
    mavlink.MAVLINK_MSG_ID_ATTITUDE: 100.0,
    mavlink.MAVLINK_MSG_ID_ALTITUDE: 10.0,
    mavlink.MAVLINK_MSG_ID_DISTANCE_SENSOR: 10.0,
    mavlink.MAVLINK_MSG_ID_ODOMETRY: 30.0,
    mavlink.MAVLINK_MSG_ID_ATTITUDE_QUATERNION: 50.0,
    mavlink.MAVLINK_MSG_ID_ATTITUDE_TARGET: 10.0,
    mavlink.MAVLINK_MSG_ID_BATTERY_STATUS: 0.5,
    mavlink.MAVLINK_MSG_ID_ESTIMATOR_STATUS: 1.0,
    mavlink.MAVLINK_MSG_ID_EXTENDED_SYS_STATE: 5.0,
    mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT: 50.0,
    mavlink.MAVLINK_MSG_ID_GPS_GLOBAL_ORIGIN: 1.0,
    mavlink.MAVLINK_MSG_ID_GPS_RAW_INT: GPS_RATE,
    mavlink.MAVLINK_MSG_ID_HOME_POSITION: 0.5,
    mavlink.MAVLINK_MSG_ID_ORBIT_EXECUTION_STATUS: 5.0,
    mavlink.MAVLINK_MSG_ID_POSITION_TARGET_LOCAL_NED: 10.0,
    mavlink.MAVLINK_MSG_ID_CURRENT_MODE: 0.5,
    mavlink.MAVLINK_MSG_ID_SCALED_PRESSURE: 1.0,
    mavlink.MAVLINK_MSG_ID_SERVO_OUTPUT_RAW: 10.0,
    mavlink.MAVLINK_MSG_ID_SYS_STATUS: 5.0,
    mavlink.MAVLINK_MSG_ID_SYSTEM_TIME: 1.0,
    mavlink.MAVLINK_MSG_ID_VFR_HUD: 10.0,
    mavlink.MAVLINK_MSG_ID_VIBRATION: 0.5,
}
"""Hz on the offboard and payload links (MAVLINK_MODE_ONBOARD)."""


class Streams:
    """What is sent by itself on one link.

    Args:
        rates: Hz by message id.
    """

    def __init__(self, rates: dict[int, float]) -> None:
        self._defaults = {number: round(SECOND / rate) for number, rate in rates.items()}
        self._intervals = dict(self._defaults)
        self._next = dict.fromkeys(self._intervals, 0)

    def set_interval(self, number: int, interval: float) -> bool:
        """Change an interval (SET_MESSAGE_INTERVAL).

        Args:
            number: message id.
            interval: us; 0 for PX4's own, below 0 for never.

        Returns:
            whether there is such a message.
        """
        if number not in MESSAGES:
            return False
        if interval < 0 or (interval == 0 and number not in self._defaults):
            self._intervals.pop(number, None)
            self._next.pop(number, None)
        else:
            self._intervals[number] = round(interval) or self._defaults[number]
            self._next[number] = 0
        return True

    def interval(self, number: int) -> int:
        """us between messages; -1 where it is not sent, 0 where there is no such message."""
        if number not in MESSAGES:
            return 0
        return self._intervals.get(number, -1)

    def due(self, now: int) -> Iterator[int]:
        """Ids of the messages whose time has come."""
        for number, at in self._next.items():
            if now >= at:
                interval = self._intervals[number]
                # Keep the pace where the poll is a little late, and do not make up for what was missed.
                self._next[number] = at + interval if now < at + interval else now + interval
                yield number
