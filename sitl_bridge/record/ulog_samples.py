"""Finds the samples of a sound ULog in compiled code; the rest, a few thousand messages, is left to pyulog.

pyulog takes 5 us for each message, also for those that nobody asked for, and a long flight has millions.
Messages and their types: https://docs.px4.io/main/en/dev_log/ulog_file_format
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from sitl_bridge.base.arrays import Bytes, Columns, Ints
from sitl_bridge.base.kernels.compiled import compiled

if TYPE_CHECKING:
    from pyulog import ULog

HEADER = 16
"""Bytes of a file before its first message."""
_ADD, _DATA, _FLAGS = ord("A"), ord("D"), ord("B")
_OTHERS = tuple(b"FIMPQLCOSB")
"""Types of the other messages that pyulog knows."""
_SUBSCRIBED = -1
_IDS = 1 << 16


@compiled
def _survey(data: Bytes, counts: Ints, sizes: Ints, subscriptions: Ints) -> int:
    """Count what is in a log, up to its end or to where it is cut off.

    Args:
        data: (bytes,) the whole file.
        counts: (_IDS,) samples of each message id, written.
        sizes: (_IDS,) bytes of each of its messages, written.
        subscriptions: (k,) places of the subscription messages, written.

    Returns:
        number of subscriptions; -1 if it is damaged or has data appended.
    """
    at, found = HEADER, 0
    while at + 3 <= data.shape[0]:
        size, kind = data[at] + 256 * data[at + 1], data[at + 2]
        end = at + 3 + size
        if end > data.shape[0]:
            break
        if kind == _DATA and size > 2:
            k = data[at + 3] + 256 * data[at + 4]
            if sizes[k] == _SUBSCRIBED:
                sizes[k] = size
            if sizes[k] != size:
                return -1
            counts[k] += 1
        elif kind == _ADD and size > 3 and found < subscriptions.shape[0]:
            k = data[at + 4] + 256 * data[at + 5]
            if sizes[k] != 0:
                return -1
            sizes[k] = _SUBSCRIBED
            subscriptions[found] = at
            found += 1
        elif kind not in _OTHERS or size == 0 or (kind == _FLAGS and data[min(at + 11, end)] != 0):
            return -1
        at = end
    return found


@compiled
def _collect(data: Bytes, begins: Ints, places: Ints, rest: Bytes) -> int:
    """Write the places of the samples that are asked for; all else, and the first of them, goes to ``rest``.

    Args:
        begins: (_IDS,) index in ``places`` of the first sample of a message id, -1 if it is not asked for.
        places: (samples,) of their payloads.
        rest: bytes.

    Returns:
        the bytes in ``rest``.
    """
    ends = begins.copy()
    for k in range(HEADER):
        rest[k] = data[k]
    at, used = HEADER, HEADER
    while at + 3 <= data.shape[0]:
        end = at + 3 + data[at] + 256 * data[at + 1]
        if end > data.shape[0]:
            break
        copied = data[at + 2] != _DATA
        if not copied:
            k = data[at + 3] + 256 * data[at + 4]
            if begins[k] >= 0:
                copied = ends[k] == begins[k]
                places[ends[k]] = at + 5
                ends[k] += 1
        if copied:
            for k in range(at, end):
                rest[used] = data[k]
                used += 1
        at = end
    return used


@compiled
def _gather(data: Bytes, places: Ints, offset: int, out: Bytes) -> None:
    """Copy one field of (k,) samples to ``out``, (k, bytes)."""
    for i in range(places.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = data[places[i] + offset + j]


class UlogSamples:
    """The samples of some topics of a sound ULog.

    Attributes:
        rest: a ULog of all but samples, and with the first sample of each of the topics.
    """

    def __init__(self, data: Bytes, places: dict[int, Ints], rest: bytes) -> None:
        self._data, self._places, self.rest = data, places, rest

    @classmethod
    def find(cls, path: Path, topics: set[str]) -> Self | None:
        """Find the samples of topics; None if the file is not sound to its end, or to where it is cut off."""
        if path.stat().st_size < HEADER:
            return None
        data = np.asarray(np.memmap(path, np.uint8, "c"))
        counts, sizes, subscriptions = (np.zeros(_IDS, np.int64) for _ in range(3))
        number = _survey(data, counts, sizes, subscriptions)
        if number < 1:
            return None
        begins, end = np.full(_IDS, -1, np.int64), 0
        size = len(data) - int(counts @ (3 + sizes))
        for at in map(int, subscriptions[:number]):
            message = bytes(data[at : at + 3 + int(data[at]) + 256 * int(data[at + 1])])
            k = int.from_bytes(message[4:6], "little")
            if message[6:].decode(errors="ignore") in topics and counts[k]:
                begins[k], end, size = end, end + int(counts[k]), size + 3 + int(sizes[k])
        places, rest = np.zeros(end, np.int64), np.zeros(size, np.uint8)
        used = _collect(data, begins, places, rest)
        found = {int(k): places[begins[k] : begins[k] + counts[k]] for k in np.flatnonzero(begins >= 0)}
        return cls(data, found, rest[:used].tobytes())

    def columns(self, first: ULog.Data, kept: Sequence[str]) -> Columns:
        """The fields of a topic.

        Args:
            first: pyulog's data of the topic in ``rest``.
            kept: names of the fields; none stands for all.
        """
        places, offset, found = self._places[first.msg_id], 0, {}
        for field in first.field_data:
            kind = first.data[field.field_name].dtype
            if not kept or field.field_name in kept:
                out = np.empty((len(places), kind.itemsize), np.uint8)
                _gather(self._data, places, offset, out)
                found[field.field_name] = out.view(kind)[:, 0]
            offset += kind.itemsize
        return found
