"""Reads the steps of a run that goes on, part by part, with the frames that were sent in them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sitl_bridge.base.arrays import Bytes, Ints, Records
from sitl_bridge.base.closing import Closing
from sitl_bridge.record.row_follower import RowFollower
from sitl_bridge.record.run_reader import RecordedRun, bytes_before
from sitl_bridge.record.run_recorder import FRAMES


@dataclass(frozen=True)
class StepsPart:
    """Some steps of a run."""

    rows: Records  # (k,) ROW, one a step and vehicle in that order; whole steps
    frames: Bytes  # the bytes that ``rows`` count; empty if there are none
    offsets: Ints  # (k,) where the bytes of each row begin in ``frames``: its messages, then its frames
    start: int  # us of simulated time at which the run began
    step: int  # us of simulated time between two steps


RecordedSteps: TypeAlias = RecordedRun | StepsPart
"""Steps of a run with what was sent in them: a whole recording, or a part of one that goes on."""


class StepFollower(Closing):
    """The steps of a run since the last look at it.

    Args:
        directory: of the run.
        vehicles: their number.
        start: us of simulated time at which the run began.
        step: us of simulated time between two steps.
        most: rows of a part; earlier ones are skipped.

    Raises:
        UserError: if the files cannot be read or are no recording of this version.
    """

    def __init__(self, directory: Path, vehicles: int, start: int, step: int, most: int) -> None:
        self._rows = RowFollower(directory, vehicles)
        path = directory / FRAMES
        self._frames = os.open(path, os.O_RDONLY) if path.is_file() else None
        self._start, self._step, self._most = start, step, max(most // vehicles, 1) * vehicles
        self._next = 0
        self._position = 0

    def part(self) -> StepsPart:
        """The steps since the part before; without rows if there are none."""
        rows = self._rows.rows()
        first = max(self._next, len(rows) - self._most)
        self._position += _bytes_of(rows[self._next : first])
        new = np.array(rows[first:])
        size = _bytes_of(new)
        data = b"" if self._frames is None else os.pread(self._frames, size, self._position)
        self._next, self._position = len(rows), self._position + size
        # Frames are written before the rows that count them; fewer are there only if the file was cut.
        frames = np.frombuffer(data if len(data) == size else b"", np.uint8)
        offsets = bytes_before(new) if len(new) else np.zeros(0, np.int64)
        return StepsPart(new, frames, offsets, self._start, self._step)

    def skip(self) -> None:
        """Leave out the steps so far."""
        rows = self._rows.rows()
        self._position += _bytes_of(rows[self._next :])
        self._next = len(rows)

    def close(self) -> None:
        """Close the files; safe to call twice."""
        self._rows.close()
        descriptor, self._frames = self._frames, None
        if descriptor is not None:
            os.close(descriptor)


def _bytes_of(rows: Records) -> int:
    return int(rows["message_bytes"].sum(dtype=np.int64) + rows["frame_bytes"].sum(dtype=np.int64))
