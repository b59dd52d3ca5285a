"""MAVLink's file transfer (MAVFTP), read only.

Each peer has one session with the number 0, as MAVSDK assumes: the last file it opened.  Repeated requests
are answered again.  Write requests are rejected.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sitl_bridge.autopilot.mavlink.metadata import checksum
from sitl_bridge.link.mavlink import common as mavlink

LOGS = "log"
"""Name of the log directory in the root."""


@dataclass(frozen=True)
class ServedFile:
    """A file with its size at opening; data appended later is not served.

    Attributes:
        content: the bytes, or the path on this computer.
        size: bytes.
    """

    content: bytes | Path
    size: int

    def read(self, offset: int, count: int) -> bytes:
        """Return bytes from ``offset``; fewer at the end, none if the file no longer exists."""
        end = min(offset + count, self.size)
        if isinstance(self.content, bytes):
            return self.content[offset:end]
        try:
            with self.content.open("rb") as file:
                file.seek(offset)
                return file.read(max(end - offset, 0))
        except OSError:
            return b""


class ServedFiles:
    """Files of one vehicle.

    Args:
        made: contents of the files in the root, by name.
        logs: the directory of logs; None if there is none.
    """

    def __init__(self, made: Mapping[str, bytes], logs: Path | None = None) -> None:
        self._made = made
        self._logs = logs.resolve() if logs is not None else None

    def open(self, path: str) -> ServedFile | None:
        """Return the file at a path; None if there is none."""
        parts = _parts(path)
        if parts is not None and len(parts) == 1 and parts[0] in self._made:
            content = self._made[parts[0]]
            return ServedFile(content, len(content))
        location = self._on_disk(parts)
        return (
            ServedFile(location, location.stat().st_size)
            if location is not None and location.is_file()
            else None
        )

    def entries(self, path: str) -> list[str] | None:
        """Return the entries of a directory in MAVLink's format; None if it does not exist."""
        parts = _parts(path)
        if parts == ():
            files = [f"F{name}\t{len(content)}" for name, content in self._made.items()]
            return files if self._logs is None else [*files, f"D{LOGS}"]
        location = self._on_disk(parts)
        if location is None or not location.is_dir():
            return None
        return [
            f"D{entry.name}" if entry.is_dir() else f"F{entry.name}\t{entry.stat().st_size}"
            for entry in sorted(location.iterdir())
            if self._is_served(entry)
        ]

    def logs(self) -> list[Path]:
        """Return all logs, by name; the last is the newest."""
        if self._logs is None:
            return []
        return sorted(location for location in self._logs.rglob("*.ulg") if self._is_served(location))

    def _on_disk(self, parts: tuple[str, ...] | None) -> Path | None:
        """Return the location of a path in the log directory; None if it is outside or does not exist."""
        if self._logs is None or not parts or parts[0] != LOGS:
            return None
        location = self._logs.joinpath(*parts[1:])
        return location if self._is_served(location) else None

    def _is_served(self, location: Path) -> bool:
        """Return whether a file exists and, with all links resolved, lies in the log directory."""
        assert self._logs is not None
        try:
            there = location.resolve(strict=True)
        except OSError:
            return False
        return there.is_relative_to(self._logs) and (there.is_file() or there.is_dir())


def _parts(path: str) -> tuple[str, ...] | None:
    """Return the parts of a path from the root; None if it could leave the root."""
    if "\0" in path:
        return None
    parts = PurePosixPath("/", path).parts[1:]
    return None if ".." in parts else parts


HEADER = struct.Struct("<HBBBBBxI")
"""Sequence, session, opcode, size, requested opcode, end of burst, offset (MAVLink guide, "FTP Protocol")."""

SIZE = 251
DATA = SIZE - HEADER.size

BURST_PARTS = 100
"""Messages per burst, within the receiver's socket buffer; the peer requests the next burst."""

NOTHING, TERMINATE, RESET, LIST, OPEN, READ, CHECKSUM, BURST = 0, 1, 2, 3, 4, 5, 14, 15
WRITERS = frozenset({6, 7, 8, 9, 10, 11, 12, 13})
ACK, NAK = 128, 129
"""Opcodes."""

INVALID_SESSION, END_OF_FILE, UNKNOWN_COMMAND, PROTECTED, NOT_FOUND = 4, 6, 7, 9, 10
"""Errors."""


class FileProtocol:
    """Serves files for reading on one link.

    Args:
        files: readable files.
    """

    def __init__(self, files: ServedFiles) -> None:
        self._files = files
        self._open: dict[tuple[int, int], ServedFile] = {}

    def handle(self, message: Any) -> list[Any]:
        """Answer FILE_TRANSFER_PROTOCOL."""
        payload = bytes(message.payload)
        sequence, session, opcode, size, _, _, offset = HEADER.unpack_from(payload)
        data = payload[HEADER.size : HEADER.size + min(size, DATA)]
        peer = (message.get_srcSystem(), message.get_srcComponent())
        if opcode in (NOTHING, TERMINATE, RESET):
            parts = [(ACK, 0, 0, b"")]
        elif opcode in (OPEN, CHECKSUM):
            parts = [self._by_name(peer, opcode, data)]
        elif opcode in (READ, BURST):
            parts = self._read(peer if session == 0 else None, opcode, offset, size or DATA)
        elif opcode == LIST:
            parts = [self._list(_path(data), offset)]
        else:
            parts = [_refusal(PROTECTED if opcode in WRITERS else UNKNOWN_COMMAND)]
        return [_message(peer, sequence + 1 + number, opcode, part) for number, part in enumerate(parts)]

    def _by_name(self, peer: tuple[int, int], opcode: int, data: bytes) -> _Part:
        file = self._files.open(_path(data))
        if file is None:
            return _refusal(NOT_FOUND)
        if opcode == CHECKSUM:
            return (ACK, 0, 0, checksum(file.read(0, file.size)).to_bytes(4, "little"))
        self._open[peer] = file
        return (ACK, 0, 0, file.size.to_bytes(4, "little"))

    def _read(self, peer: tuple[int, int] | None, opcode: int, offset: int, size: int) -> list[_Part]:
        file = self._open.get(peer) if peer is not None else None
        if file is None:
            return [_refusal(INVALID_SESSION)]
        step = min(size, DATA)
        content = file.read(offset, step * (BURST_PARTS if opcode == BURST else 1))
        if not content:
            return [_refusal(END_OF_FILE)]
        starts = range(0, len(content), step)
        return [(ACK, int(at == starts[-1]), offset + at, content[at : at + step]) for at in starts]

    def _list(self, path: str, offset: int) -> _Part:
        entries = self._files.entries(path)
        if entries is None:
            return _refusal(NOT_FOUND)
        listed = b""
        for entry in entries[offset:]:
            row = entry.encode() + b"\0"
            if len(listed) + len(row) > DATA:
                break
            listed += row
        return (ACK, 0, offset, listed) if listed else _refusal(END_OF_FILE)


_Part = tuple[int, int, int, bytes]
"""Opcode, end-of-burst flag, offset, data."""


def _path(data: bytes) -> str:
    return data.split(b"\0")[0].decode("utf-8", "replace")


def _refusal(error: int) -> _Part:
    return (NAK, 0, 0, bytes([error]))


def _message(peer: tuple[int, int], sequence: int, requested: int, part: _Part) -> Any:
    opcode, complete, offset, data = part
    head = HEADER.pack(sequence & 0xFFFF, 0, opcode, len(data), requested, complete, offset)
    payload = (head + data).ljust(SIZE, b"\0")
    return mavlink.MAVLink_file_transfer_protocol_message(0, *peer, list(payload))
