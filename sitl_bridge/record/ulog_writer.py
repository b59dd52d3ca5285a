"""Writes ULog files, the log format of PX4, so that pyulog, PlotJuggler and Flight Review open them.

Format: https://docs.px4.io/main/en/dev_log/ulog_file_format.html, version 1.  The caller chooses the topics.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sitl_bridge.base.c_types import CODES
from sitl_bridge.base.closing import Closing
from sitl_bridge.base.output_file import append_whole

_MAGIC = b"ULog\x01\x12\x35\x01"
LARGEST = (2.0 - 2.0**-23) * 2.0**127
"""The largest float of 32 bits."""
_FIELD = re.compile(r"(\w+)(?:\[(\d+)\])? (\w+)")

_UNSIGNED = frozenset({"ver_data_format", "ver_sw_release"})
"""Information keys that the format defines as uint32_t."""

Formats = Mapping[str, Sequence[str]]
"""Fields by format: ``"uint64_t timestamp"``, ``"float[3] position"``, or another format and a name."""


def structure_of(formats: Formats, topic: str) -> struct.Struct:
    """The layout of a sample.

    Raises:
        ValueError: for a field whose type ULog does not have.
    """
    return struct.Struct("<" + "".join(CODES[kind] * count for _, kind, count in spread(formats, topic)))


def spread(formats: Formats, name: str) -> list[tuple[str, str, int]]:
    """Fields of a format and of formats nested in it as (name, type, count); nested names have dots."""
    found: list[tuple[str, str, int]] = []
    for field in formats[name]:
        match = _FIELD.fullmatch(field)
        if match is None:
            raise ValueError(f"{name}: {field!r} is not a ULog field")
        kind, count, label = match.groups()
        if kind in CODES:
            found.append((label, kind, int(count or 1)))
        else:
            inner = spread(formats, kind) * int(count or 1)
            found += [(f"{label}.{part}", code, length) for part, code, length in inner]
    return found


def _as_float32(value: float) -> float:
    """A value as C converts it to a float: infinite beyond the range."""
    return math.copysign(math.inf, value) if abs(value) > LARGEST else value


class UlogWriter(Closing):
    """One log file.

    ``flush`` writes complete messages only, so a killed program leaves a readable file.  If the disk is full
    the log ends there, stays readable, and the flight goes on without it.

    Args:
        path: of the file; an existing one is overwritten.
        start: us, time of the first sample.
        formats: all formats, nested ones too.
        topics: names of the formats that are logged; their first field is ``uint64_t timestamp``.
        info: ULog information; integers get the type that ULog defines for the key.
        parameters: ULog parameters, int or float.
        notify: takes the message if the log ends early.

    Raises:
        ValueError: for a field whose type ULog does not have.
        OSError: if the file cannot be created.
    """

    def __init__(
        self,
        path: Path,
        start: int,
        formats: Formats,
        topics: Sequence[str],
        info: Mapping[str, str | int] | None = None,
        parameters: Mapping[str, int | float] | None = None,
        notify: Callable[[str], None] = lambda _line: None,
    ) -> None:
        structures = {name: structure_of(formats, name) for name in topics}
        self._path, self._notify = path, notify
        self._ended = False
        self._waiting = bytearray()
        self._file = path.open("wb", buffering=0)
        self._waiting += _MAGIC + struct.pack("<Q", start)
        self._message(b"B", bytes(40))
        for name, fields in formats.items():
            self._message(b"F", f"{name}:{';'.join(fields)};".encode())
        for key, known in (info or {}).items():
            if isinstance(known, int):
                kind = "uint32_t" if key in _UNSIGNED else "int32_t"
                self._write_key(b"I", f"{kind} {key}", struct.pack("<" + CODES[kind], known))
            else:
                value = known.encode()
                self._write_key(b"I", f"char[{len(value)}] {key}", value)
        for key, number in (parameters or {}).items():
            self.parameter(key, number)
        self._topics: dict[str, tuple[bytes, struct.Struct]] = {}
        for number, name in enumerate(topics):
            self._message(b"A", struct.pack("<BH", 0, number) + name.encode())
            structure = structures[name]
            self._topics[name] = struct.pack("<HcH", structure.size + 2, b"D", number), structure

    def _message(self, kind: bytes, payload: bytes) -> None:
        self._waiting += struct.pack("<Hc", len(payload), kind) + payload

    def _write_key(self, kind: bytes, key: str, value: bytes) -> None:
        self._message(kind, bytes([len(key)]) + key.encode() + value)

    def parameter(self, name: str, value: float) -> None:
        """Log the value that a parameter, int or float, has from now on."""
        kind = "int32_t" if isinstance(value, int) else "float"
        self._write_key(b"P", f"{kind} {name}", struct.pack("<" + CODES[kind], value))

    def write(self, topic: str, timestamp: int, *values: float) -> None:
        """Log one sample: all fields after the timestamp, with arrays and nested formats flattened."""
        head, structure = self._topics[topic]
        try:
            row = structure.pack(timestamp, *values)
        except OverflowError:
            row = structure.pack(timestamp, *map(_as_float32, values))
        self._waiting += head + row

    def say(self, timestamp: int, level: int, text: str) -> None:
        """Log a text message; level 0 emergency to 7 debug."""
        self._message(b"L", struct.pack("<BQ", ord("0") + level, timestamp) + text.encode())

    def flush(self) -> None:
        """Write everything to the file."""
        data, self._waiting = bytes(self._waiting), bytearray()
        if self._ended or self._file.closed:
            return
        try:
            append_whole(self._file, data)
        except OSError as error:
            self._ended = True
            self._notify(f"{self._path}: {error.strerror}; the log ends here")

    def close(self) -> None:
        """Finish the file; safe to call twice."""
        self.flush()
        self._file.close()
