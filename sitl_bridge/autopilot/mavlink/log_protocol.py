"""Log download over MAVLink (LOG_REQUEST_*), as PX4 serves it (mavlink_log_handler.cpp)."""

from __future__ import annotations

from typing import Any, NamedTuple

from sitl_bridge.autopilot.mavlink.file_protocol import ServedFile, ServedFiles
from sitl_bridge.link.mavlink import common as mavlink

DATA = 90
"""Bytes per LOG_DATA."""

BURST = 256
"""Messages per burst, within the receiver's socket buffer."""

BURST_PERIOD = 10_000
"""Interval between bursts, us of wall time."""


class _Log(NamedTuple):
    """A listed log."""

    file: ServedFile
    time: int  # s since 1970


class LogProtocol:
    """Log download on one link.

    Args:
        files: files of the vehicle, including the logs.
    """

    def __init__(self, files: ServedFiles) -> None:
        self._files = files
        self._listed: list[_Log] = []
        self._entries: list[Any] = []
        self._sending: int | None = None
        self._at = self._end = 0
        self._sent = -BURST_PERIOD
        self._handlers = {
            "LOG_REQUEST_LIST": self._on_list,
            "LOG_REQUEST_DATA": self._on_data,
            "LOG_REQUEST_END": self._on_end,
        }

    def handle(self, message: Any) -> None:
        """Handle a LOG_* message for this vehicle; :meth:`poll` returns the answers."""
        handler = self._handlers.get(message.get_type())
        if handler is not None:
            handler(message)

    def poll(self, wall: int) -> list[Any]:
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

    def _data(self) -> list[Any]:
        assert self._sending is not None
        end = min(self._end, self._at + BURST * DATA)
        content = self._listed[self._sending].file.read(self._at, end - self._at)
        due = []
        for start in range(0, len(content), DATA):
            part = content[start : start + DATA]
            padded = list(part.ljust(DATA, b"\0"))
            due.append(mavlink.MAVLink_log_data_message(self._sending, self._at + start, len(part), padded))
        self._at = end
        if end >= self._end or not content:
            self._sending = None
        return due

    def _on_list(self, message: Any) -> None:
        self._listed = [
            _Log(ServedFile(path, status.st_size), int(status.st_mtime))
            for path, status in ((path, path.stat()) for path in self._files.logs())
        ]
        count = len(self._listed)
        self._sending = None
        self._entries = [
            mavlink.MAVLink_log_entry_message(number, count, count - 1, log.time, log.file.size)
            for number, log in enumerate(self._listed)
            if message.start <= number <= message.end
        ]
        if not self._listed:
            self._entries = [mavlink.MAVLink_log_entry_message(0, 0, 0, 0, 0)]

    def _on_data(self, message: Any) -> None:
        self._sending = None
        if message.id >= len(self._listed):
            return
        size = self._listed[message.id].file.size
        if message.ofs < size:
            self._sending = message.id
            self._at = message.ofs
            self._end = min(size, message.ofs + message.count)

    def _on_end(self, _message: Any) -> None:
        self._sending = None
        self._entries = []
