"""Samples of a sensor in shared memory, for other programs on this machine: bridges to ROS, viewers.

All integers are little-endian.  The memory begins with a header:

====== ======= =================================================================================
offset type    content
====== ======= =================================================================================
0      8 bytes ``SITLRING``
8      u32     version, 1
12     u32     number of slots
16     u64     bytes from the start of the memory to the first slot
24     u64     bytes from a slot to the next
32     u64     samples written so far; sample k, counted from 0, is in slot k modulo the number of slots
40     u64     1 when the sensor has ended
48     u32     length of the description in bytes
52     text    the description, JSON in UTF-8: ``sensor``, ``arrays`` (a list of ``name``, ``dtype``,
               ``shape`` and ``offset`` from the start of the slot)
====== ======= =================================================================================

A slot begins with a u64, 2 k + 1 while sample k is written and 2 k + 2 when it is complete, and an i64, the
time of the sample in us of simulated time.  A reader copies the slot and looks again at its first number: if
that has changed, the writer has overtaken it.
"""

from __future__ import annotations

import json
import mmap
import struct
import time as clock
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.perception.view import Arrays

MAGIC = b"SITLRING"
VERSION = 1
HEAD = struct.Struct("<8sIIQQQQI")
WRITTEN, ENDED = 32, 40
SLOT = struct.Struct("<Qq")
SLOTS = 4
LINE = 64
"""Bytes to which slots and arrays are aligned."""
PLACE = Path("/dev/shm")  # noqa: S108  (where Linux has named shared memory)
PREFIX = "sitl-"
POLL = 0.002
"""s of wall time between two looks for a new sample."""


def _aligned(size: int) -> int:
    return -(-size // LINE) * LINE


class SampleRing:
    """Writes samples.

    Args:
        name: of the sensor; the memory is called ``sitl-NAME``.
        example: a sample with the names, types and shapes of all.

    Raises:
        UserError: when the memory cannot be made.
    """

    def __init__(self, name: str, example: Arrays) -> None:
        self.name = name
        described: list[dict[str, Any]] = []
        at = _aligned(SLOT.size)
        for title, array in example.items():
            entry = {"name": title, "dtype": array.dtype.str, "shape": array.shape, "offset": at}
            described.append(entry)
            at += _aligned(array.nbytes)
        text = json.dumps({"sensor": name, "arrays": described}).encode()
        start = _aligned(HEAD.size + len(text))
        try:
            self._memory = SharedMemory(PREFIX + name, create=True, size=start + SLOTS * at)
        except FileExistsError as error:
            raise UserError(
                f"{PLACE / (PREFIX + name)}: exists; another simulation shares a sensor of this name"
            ) from error
        except OSError as error:
            raise UserError(f"{PLACE / (PREFIX + name)}: cannot be made: {error.strerror}") from error
        self._buffer: memoryview[int] = self._memory.buf  # type: ignore[assignment] # open until close
        self._start, self._size, self._count = start, at, 0
        HEAD.pack_into(self._buffer, 0, MAGIC, VERSION, SLOTS, start, at, 0, 0, len(text))
        self._buffer[HEAD.size : HEAD.size + len(text)] = text
        self._arrays = [(entry["name"], entry["offset"], example[entry["name"]]) for entry in described]

    def put(self, time: int, arrays: Arrays) -> None:
        """Write a sample of a time in us.

        Raises:
            UserError: for one that differs in type or shape.
        """
        place = self._start + self._count % SLOTS * self._size
        SLOT.pack_into(self._buffer, place, 2 * self._count + 1, time)
        for name, offset, example in self._arrays:
            array = arrays[name]
            if array.dtype != example.dtype or array.shape != example.shape:
                raise UserError(f"{self.name}: {name} has changed from {example.shape} to {array.shape}")
            into = np.ndarray(array.shape, array.dtype, self._buffer, place + offset)
            into[...] = array
        SLOT.pack_into(self._buffer, place, 2 * self._count + 2, time)
        self._count += 1
        struct.pack_into("<Q", self._buffer, WRITTEN, self._count)

    def close(self) -> None:
        """Mark the end and remove the name; readers keep what they have.  Safe to call twice."""
        if self._start:
            self._start = 0
            struct.pack_into("<Q", self._buffer, ENDED, 1)
            del self._buffer
            self._memory.close()
            self._memory.unlink()


@dataclass(frozen=True)
class SharedSample:
    """A sample.

    Attributes:
        number: from 0, in the order of time.
        time: s of simulated time.
        arrays: by name.
    """

    number: int
    time: float
    arrays: dict[str, NDArray[Any]]


class SampleReader:
    """Reads the samples that a sensor with ``share: true`` offers, from any process of this machine.

    Iterating gives the samples as they come, until the sensor ends; samples that were overwritten meanwhile
    are left out.

    Args:
        name: of the sensor, e.g. ``camera_0``; in a fleet it begins with the vehicle's, ``a-camera_0``.
        timeout: s of wall time to wait until the sensor is there.

    Raises:
        UserError: when there is no such sensor.
    """

    def __init__(self, name: str, timeout: float = 0.0) -> None:
        path = PLACE / (PREFIX + name)
        end = clock.monotonic() + timeout
        while True:
            try:
                with path.open("rb") as file:
                    self._memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
                if self._memory[:8] == MAGIC:
                    break
                self._memory.close()
            except (FileNotFoundError, ValueError):  # not there yet, or still empty
                pass
            except OSError as error:
                raise UserError(f"{path}: cannot be read: {error.strerror}") from error
            if clock.monotonic() >= end:
                raise UserError(f"{path}: no sensor shares samples under this name; is share: true set?")
            clock.sleep(POLL)
        _, version, self._slots, self._start, self._size, *_, length = HEAD.unpack_from(self._memory)
        if version != VERSION:
            raise UserError(f"{path}: has version {version}; this program reads {VERSION}")
        description = json.loads(self._memory[HEAD.size : HEAD.size + length])
        self._arrays = [
            (entry["name"], np.dtype(entry["dtype"]), tuple(entry["shape"]), entry["offset"])
            for entry in description["arrays"]
        ]

    @property
    def count(self) -> int:
        """Samples written so far."""
        return int(struct.unpack_from("<Q", self._memory, WRITTEN)[0])

    @property
    def ended(self) -> bool:
        """Whether the sensor has ended."""
        return bool(struct.unpack_from("<Q", self._memory, ENDED)[0])

    def latest(self) -> SharedSample | None:
        """The last sample; None before the first."""
        while (count := self.count) > 0:
            sample = self._read(count - 1)
            if sample is not None:
                return sample
        return None

    def __iter__(self) -> Iterator[SharedSample]:
        number = 0
        while True:
            count = self.count
            if number >= count:
                if self.ended:
                    return
                clock.sleep(POLL)
                continue
            number = max(number, count - self._slots + 1)
            sample = self._read(number)
            if sample is not None:
                yield sample
            number += 1

    def _read(self, number: int) -> SharedSample | None:
        """A sample; None where it is overwritten."""
        place = self._start + number % self._slots * self._size
        state, time = SLOT.unpack_from(self._memory, place)
        if state != 2 * number + 2:
            return None
        arrays = {
            name: np.ndarray(shape, kind, self._memory, place + offset).copy()
            for name, kind, shape, offset in self._arrays
        }
        if SLOT.unpack_from(self._memory, place)[0] != state:
            return None
        return SharedSample(number, time * 1e-6, arrays)

    def close(self) -> None:
        """Let the memory go."""
        self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
