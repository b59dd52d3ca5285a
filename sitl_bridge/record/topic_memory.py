"""Samples of ULog topics kept in memory, as ``ulog_writer.py`` writes them, for flights without a log."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from sitl_bridge.base.arrays import Columns
from sitl_bridge.base.c_types import CODES
from sitl_bridge.record.ulog_writer import Formats, spread, structure_of

_TYPES = {kind: "<" + code for kind, code in CODES.items()} | {"bool": "<i1", "char": "<i1"}
"""Types of columns, those of pyulog."""


class TopicMemory:
    """Takes samples as a ULog file does, with the file's precision.

    Args:
        formats: all formats, nested ones too.
        topics: names of those that are kept; samples of others are dropped.

    Attributes:
        messages: (us, level, text) in order; level 0 emergency to 7 debug.
    """

    def __init__(self, formats: Formats, topics: Sequence[str]) -> None:
        self._formats = formats
        self._rows: dict[str, tuple[struct.Struct, bytearray]] = {
            name: (structure_of(formats, name), bytearray()) for name in topics if name in formats
        }
        self.messages: list[tuple[int, int, str]] = []

    @property
    def topics(self) -> list[str]:
        """Names of the topics that are kept."""
        return list(self._rows)

    def write(self, topic: str, timestamp: int, *values: float) -> None:
        """Keep one sample: all fields after the timestamp, with arrays and nested formats flattened."""
        structure, rows = self._rows[topic]
        rows += structure.pack(timestamp, *values)

    def say(self, timestamp: int, level: int, text: str) -> None:
        """Keep a text message."""
        self.messages.append((timestamp, level, text))

    def parameter(self, name: str, value: float) -> None:
        """Parameters are not kept."""

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""

    def columns(self, topic: str) -> Columns:
        """The (k,) columns of a topic by field; an array has one column an entry, ``name[0]`` and so on."""
        structure, rows = self._rows[topic]
        names: list[tuple[str, str]] = []
        for name, kind, count in spread(self._formats, topic):
            entries = [name] if count == 1 else [f"{name}[{i}]" for i in range(count)]
            names += [(entry, _TYPES[kind]) for entry in entries]
        table = np.frombuffer(bytes(rows), np.dtype(names))
        assert table.itemsize == structure.size
        return {name: table[name] for name, _ in names}
