"""MAVLink events: numbered reports of health and arming checks, with retransmission.

The report has PX4's format, which MAVSDK, QGroundControl and this project's monitor read: a summary of arming
checks, each problem of the present mode, a summary of health.  Other messages are status texts.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any

from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.mavlink import metadata
from sitl_bridge.autopilot.mavlink.streams import SECOND
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.link.mavlink import common as mavlink

KEPT_EVENTS = 100
"""Number of events kept for retransmission: three reports with every problem."""

REPORT_INTERVAL = 500_000
"""Minimum interval between reports, us of simulated time, so that an intermittent check does not fill the
link."""

SEQUENCE_INTERVAL = 3 * SECOND
"""Interval between messages with the latest number, us (mavlink_events.h)."""

ARGUMENTS = 40
"""Length of the arguments in EVENT, bytes."""

PROTOCOL_LEVEL, ERROR_LEVEL = 0x88, 0x33
"""Internal and external log level: protocol and error."""

HEALTH = (
    (mavlink.MAV_SYS_STATUS_SENSOR_3D_GYRO, metadata.GYROSCOPE),
    (mavlink.MAV_SYS_STATUS_SENSOR_3D_ACCEL, metadata.ACCELEROMETER),
    (mavlink.MAV_SYS_STATUS_SENSOR_3D_MAG, metadata.MAGNETOMETER),
    (mavlink.MAV_SYS_STATUS_SENSOR_ABSOLUTE_PRESSURE, metadata.PRESSURE),
    (mavlink.MAV_SYS_STATUS_SENSOR_GPS, metadata.GPS),
    (mavlink.MAV_SYS_STATUS_SENSOR_OPTICAL_FLOW, metadata.FLOW),
    (mavlink.MAV_SYS_STATUS_SENSOR_LASER_POSITION, metadata.DISTANCE),
    (mavlink.MAV_SYS_STATUS_SENSOR_RC_RECEIVER, metadata.REMOTE),
    (mavlink.MAV_SYS_STATUS_SENSOR_MOTOR_OUTPUTS, metadata.MOTORS),
    (mavlink.MAV_SYS_STATUS_SENSOR_BATTERY, metadata.BATTERY),
    (mavlink.MAV_SYS_STATUS_AHRS, metadata.ATTITUDE),
    (mavlink.MAV_SYS_STATUS_SENSOR_XY_POSITION_CONTROL, metadata.POSITION),
)
"""Bits of SYS_STATUS and the matching health components."""

ALL_MODES = sum(1 << mode.nav_state for mode in flight_modes.MODES)


class EventLog:
    """Numbered events of the vehicle, shared by all links.

    Args:
        commander: supplies the arming problems.
    """

    def __init__(self, commander: Commander) -> None:
        self._commander = commander
        self._events: deque[Any] = deque(maxlen=KEPT_EVENTS)
        self._reported: Any = None
        self._report_at = -REPORT_INTERVAL
        self.latest = 0xFFFF

    def update(self, now: int) -> None:
        """Report health and arming checks if they changed."""
        commander, bits = self._commander, self._commander.health_bits
        state = (commander.arming_problems, commander.mode, bits.present, bits.healthy)
        if state != self._reported and now - self._report_at >= REPORT_INTERVAL:
            self.report(now)

    def report(self, now: int) -> None:
        """Report health and arming checks."""
        commander, bits = self._commander, self._commander.health_bits
        self._reported = (commander.arming_problems, commander.mode, bits.present, bits.healthy)
        self._report_at = now
        numbers = list(dict.fromkeys(map(metadata.problem_number, commander.arming_problems)))
        components = [metadata.PROBLEMS[number][1] for number in numbers]
        mode = 1 << commander.mode.nav_state
        can_arm = ALL_MODES & ~mode if numbers else ALL_MODES
        error = sum(1 << component for component in set(components))
        summary = struct.pack("<BIIII", 0, error, 0, can_arm, ALL_MODES)
        self._add(metadata.ARMING_SUMMARY, PROTOCOL_LEVEL, summary, now)
        for number, component in zip(numbers, components, strict=True):
            problem = struct.pack("<IB", mode, component)
            self._add(metadata.FIRST_PROBLEM + number, ERROR_LEVEL, problem, now)
        present, sick = (
            sum(1 << component for bit, component in HEALTH if value & bit)
            for value in (bits.present, bits.enabled & ~bits.healthy)
        )
        health = struct.pack("<BIII", 0, present, sick, 0)
        self._add(metadata.HEALTH_SUMMARY, PROTOCOL_LEVEL, health, now)

    def _add(self, number: int, levels: int, arguments: bytes, now: int) -> None:
        self.latest = (self.latest + 1) & 0xFFFF
        self._events.append(
            mavlink.MAVLink_event_message(
                destination_component=0,
                destination_system=0,
                id=metadata.event_id(number),
                event_time_boot_ms=now // 1000 & 0xFFFFFFFF,
                sequence=self.latest,
                log_levels=levels,
                arguments=list(arguments.ljust(ARGUMENTS, b"\0")),
            )
        )

    def events_after(self, sequence: int) -> list[Any]:
        """Return the stored events after this number."""
        missing = min((self.latest - sequence) & 0xFFFF, len(self._events))
        return list(self._events)[len(self._events) - missing :]

    def get(self, sequence: int) -> Any:
        """Return an event by number; None if it is no longer stored."""
        return next((event for event in self._events if event.sequence == sequence), None)

    @property
    def oldest(self) -> int:
        """Number of the oldest stored event."""
        return int(self._events[0].sequence) if self._events else self.latest


class EventProtocol:
    """Events on one link.

    Args:
        log: events of the vehicle.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._sent = log.latest
        self._told_at: int | None = None

    def poll(self, now: int) -> list[Any]:
        """Return new events and, at intervals, the latest number."""
        due: list[Any] = []
        if self._told_at is None or now - self._told_at >= SEQUENCE_INTERVAL:
            flags = mavlink.MAV_EVENT_CURRENT_SEQUENCE_FLAGS_RESET if self._told_at is None else 0
            self._told_at = now
            due.append(mavlink.MAVLink_current_event_sequence_message(self._sent, flags))
        if self._sent != self._log.latest:
            due += self._log.events_after(self._sent)
            self._sent = self._log.latest
        return due

    def handle(self, message: Any) -> list[Any]:
        """Answer REQUEST_EVENT."""
        count = min((message.last_sequence - message.first_sequence) & 0xFFFF, KEPT_EVENTS)
        return [
            self._log.get(sequence & 0xFFFF) or self._missing(message, sequence & 0xFFFF)
            for sequence in range(message.first_sequence, message.first_sequence + count + 1)
        ]

    def _missing(self, message: Any, sequence: int) -> Any:
        return mavlink.MAVLink_response_event_error_message(
            target_system=message.get_srcSystem(),
            target_component=message.get_srcComponent(),
            sequence=sequence,
            sequence_oldest_available=self._log.oldest,
            reason=mavlink.MAV_EVENT_ERROR_REASON_UNAVAILABLE,
        )
