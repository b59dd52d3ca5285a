"""MAVLink's file transfer (MAVFTP), read only.

Each partner has one session with the number 0, as MAVSDK assumes: the last file it opened.  Repeated requests
are answered again.  Write requests are rejected.
"""

from __future__ import annotations

import struct
from typing import Any

from sitl_bridge.autopilot.mavlink.metadata import checksum
from sitl_bridge.autopilot.mavlink.served_files import ServedFile, ServedFiles
from sitl_bridge.link.mavlink import common as mavlink

HEADER = struct.Struct("<HBBBBBxI")
"""Sequence, session, opcode, size, requested opcode, end of burst, offset (MAVLink guide, "FTP Protocol")."""

SIZE = 251
DATA = SIZE - HEADER.size

BURST_PARTS = 100
"""Messages per burst, within the receiver's socket buffer; the partner requests the next burst."""

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
        partner = (message.get_srcSystem(), message.get_srcComponent())
        if opcode in (NOTHING, TERMINATE, RESET):
            parts = [(ACK, 0, 0, b"")]
        elif opcode in (OPEN, CHECKSUM):
            parts = [self._by_name(partner, opcode, data)]
        elif opcode in (READ, BURST):
            parts = self._read(partner if session == 0 else None, opcode, offset, size or DATA)
        elif opcode == LIST:
            parts = [self._list(_path(data), offset)]
        else:
            parts = [_refusal(PROTECTED if opcode in WRITERS else UNKNOWN_COMMAND)]
        return [_message(partner, sequence + 1 + number, opcode, part) for number, part in enumerate(parts)]

    def _by_name(self, partner: tuple[int, int], opcode: int, data: bytes) -> _Part:
        file = self._files.open(_path(data))
        if file is None:
            return _refusal(NOT_FOUND)
        if opcode == CHECKSUM:
            return (ACK, 0, 0, checksum(file.read(0, file.size)).to_bytes(4, "little"))
        self._open[partner] = file
        return (ACK, 0, 0, file.size.to_bytes(4, "little"))

    def _read(self, partner: tuple[int, int] | None, opcode: int, offset: int, size: int) -> list[_Part]:
        file = self._open.get(partner) if partner is not None else None
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


def _message(partner: tuple[int, int], sequence: int, requested: int, part: _Part) -> Any:
    opcode, complete, offset, data = part
    head = HEADER.pack(sequence & 0xFFFF, 0, opcode, len(data), requested, complete, offset)
    payload = (head + data).ljust(SIZE, b"\0")
    return mavlink.MAVLink_file_transfer_protocol_message(0, *partner, list(payload))
