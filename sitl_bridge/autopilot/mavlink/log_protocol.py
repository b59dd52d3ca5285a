"""Log download over MAVLink (LOG_REQUEST_*), as PX4 serves it (mavlink_log_handler.cpp)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.message import MavlinkMessage

DATA = 90
"""Bytes per LOG_DATA."""

BURST = 256
"""Messages per burst, within the receiver's socket buffer."""

BURST_PERIOD = 10_000
"""Interval between bursts, us of wall time."""


class _Log(NamedTuple):
    """A listed log with its size then; data appended later is not sent."""

    path: Path
    size: int  # bytes
    time: int  # s since 1970

    def read(self, offset: int, count: int) -> bytes:
        """Return bytes from ``offset``; fewer at the end, none if the file no longer exists."""
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                return file.read(max(min(offset + count, self.size) - offset, 0))
        except OSError:
            return b""


def _logs(directory: Path | None) -> list[_Log]:
    """All logs within a directory, by name; the last is the newest.  Links that leave it are left out."""
    if directory is None:
        return []
    root = directory.resolve()
    files = sorted(path for path in root.rglob("*.ulg") if path.resolve().is_relative_to(root))
    return [_Log(path, path.stat().st_size, int(path.stat().st_mtime)) for path in files if path.is_file()]


class LogProtocol:
    """Log download on one link.

    Args:
        directory: of the vehicle's logs; None without any.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._listed: list[_Log] = []
        self._entries: list[MavlinkMessage] = []
        self._sending: int | None = None
        self._at = self._end = 0
        self._sent = -BURST_PERIOD
        self._handlers = {
            "LOG_REQUEST_LIST": self._on_list,
            "LOG_REQUEST_DATA": self._on_data,
            "LOG_REQUEST_END": self._on_end,
        }

    def handle(self, message: MavlinkMessage) -> None:
        """Handle a LOG_* message for this vehicle; :meth:`poll` returns the answers."""
        handler = self._handlers.get(message.get_type())
        if handler is not None:
            handler(message)

    def poll(self, wall: int) -> list[MavlinkMessage]:
        """Return the next list entries or the next data, at a limited rate.

        Args:
            wall: wall time, us.
        """
        if not self._entries and self._sending is None:
            return []
        if 0 <= wall - self._sent < BURST_PERIOD:
            return []
        self._sent = wall
        if self._entries:
            due, self._entries = self._entries[:BURST], self._entries[BURST:]
            return due
        return self._data()

    def _data(self) -> list[MavlinkMessage]:
        assert self._sending is not None
        end = min(self._end, self._at + BURST * DATA)
        content = self._listed[self._sending].read(self._at, end - self._at)
        due = []
        for start in range(0, len(content), DATA):
            part = content[start : start + DATA]
            padded = list(part.ljust(DATA, b"\0"))
            due.append(mavlink.MAVLink_log_data_message(self._sending, self._at + start, len(part), padded))
        self._at = end
        if end >= self._end or not content:
            self._sending = None
        return due

    def _on_list(self, message: MavlinkMessage) -> None:
        self._listed = _logs(self._directory)
        count = len(self._listed)
        self._sending = None
        self._entries = [
            mavlink.MAVLink_log_entry_message(number, count, count - 1, log.time, log.size)
            for number, log in enumerate(self._listed)
            if message.start <= number <= message.end
        ]
        if not self._listed:
            self._entries = [mavlink.MAVLink_log_entry_message(0, 0, 0, 0, 0)]

    def _on_data(self, message: MavlinkMessage) -> None:
        self._sending = None
        if message.id >= len(self._listed):
            return
        size = self._listed[message.id].size
        if message.ofs < size:
            self._sending = message.id
            self._at = message.ofs
            self._end = min(size, message.ofs + message.count)

    def _on_end(self, _message: MavlinkMessage) -> None:
        self._sending = None
        self._entries = []
