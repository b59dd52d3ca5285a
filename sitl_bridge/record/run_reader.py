"""Reads the recording of a run, of one that goes on or was killed as well as of a finished one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np

from sitl_bridge.base.arrays import Bytes, Ints, Records
from sitl_bridge.base.error_log import cause
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.record.records import STEP
from sitl_bridge.record.run_recorder import EVENTS, FRAMES, STEPS, TRUTH
from sitl_bridge.record.truth_log import as_rows, map_table

R = TypeVar("R")
LAST_TIME = 1 << 53
"""us, 285 years: no flight lasts so long, and ns of it are numbers of 64 bits."""


def bytes_before(rows: Records) -> Ints:
    """(k,) where the bytes of each row begin, after those of the rows before it."""
    sizes = rows["message_bytes"].astype(np.int64) + rows["frame_bytes"]
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


@contextlib.contextmanager
def readable(file: Path) -> Iterator[None]:
    """Report what a recorded file lacks, or holds in another form, as damage of the file.

    Raises:
        UserError: where reading it fails.
    """
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise UserError(f"{file}: is damaged: {cause(error)}") from error


class RecordedRun:
    """The files of a run directory as arrays.

    Args:
        path: of the directory.

    Attributes:
        notes: what is missing of the recording, for the user.

    Raises:
        UserError: if it is no run directory, or its truth.npy cannot be read.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise UserError(f"{path}: no such run directory")
        if not (path / TRUTH).is_file():
            raise UserError(
                f"{path}: has no {TRUTH}: it is no run directory, or of point masses or avoidance by simulate"
            )
        self.path = path.resolve()
        self.notes: list[str] = []
        self.rows = self._rows()

    def _table(self, name: str) -> Records:
        table, note = map_table(self.path / name)
        self.notes += [note] if note else []
        return table

    def _rows(self) -> Records:
        table = as_rows(self._table(TRUTH), self.path / TRUTH)
        times = table["time"]
        if len(times) and not 0 <= times.min() <= times.max() < LAST_TIME:
            raise UserError(f"{self.path / TRUTH}: is damaged: a row has a time that cannot be")
        count = int(table["vehicle"][: len(table)].max(initial=0)) + 1
        return table[: len(table) // count * count]

    @cached_property
    def description(self) -> JsonObject:
        """Content of run.json.

        Raises:
            UserError: if it is missing or damaged.
        """
        file = self.path / "run.json"
        try:
            found: JsonObject = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"{file}: cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise UserError(f"{file}: is damaged: {error}") from error
        if not isinstance(found, dict):
            raise UserError(f"{file}: is damaged: it is not an object")
        return found

    def describe(self, read: Callable[[JsonObject], R]) -> R:
        """Return the result of ``read`` in ``description``.

        Raises:
            UserError: if it is not there.
        """
        with readable(self.path / "run.json"):
            return read(self.description)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the vehicles."""
        return self.describe(lambda found: tuple(str(vehicle["name"]) for vehicle in found["vehicles"]))

    @property
    def rotors(self) -> tuple[int, ...]:
        """Number of each vehicle's rotors."""
        return self.describe(
            lambda found: tuple(len(vehicle["airframe"]["rotors"]) for vehicle in found["vehicles"])
        )

    @property
    def count(self) -> int:
        """Number of vehicles."""
        return int(self.rows["vehicle"].max(initial=0)) + 1

    @property
    def start(self) -> int:
        """us of simulated time at which the run began."""
        return self.describe(lambda found: int(found["start"]))

    @property
    def step(self) -> int:
        """us of simulated time between two steps."""
        step = self.describe(lambda found: int(found["step"]))
        if step < 1:
            raise UserError(f"{self.path / 'run.json'}: is damaged: step: {step} us")
        return step

    @cached_property
    def frames(self) -> Bytes:
        """The bytes of frames.bin that ``rows`` count; empty if the file is missing."""
        file = self.path / FRAMES
        size = int(self.rows["message_bytes"].sum() + self.rows["frame_bytes"].sum())
        if size == 0 or not file.is_file():
            return np.zeros(0, np.uint8)
        if min(self.rows["message_bytes"].min(), self.rows["frame_bytes"].min()) < 0:
            raise UserError(f"{self.path / TRUTH}: is damaged: a row counts less than no bytes of frames")
        if file.stat().st_size < size:
            raise UserError(f"{file}: is truncated; the rows of {TRUTH} count {size} bytes")
        return np.memmap(file, np.uint8, "r", shape=(size,))

    @cached_property
    def offsets(self) -> Ints:
        """(k,) where the bytes of each row begin in ``frames``: its messages, then its frames."""
        return bytes_before(self.rows)

    @cached_property
    def steps(self) -> Records:
        """(j,) STEP, wall times; empty for a run without a link."""
        return self._table(STEPS).view(STEP) if (self.path / STEPS).is_file() else np.zeros(0, STEP)

    @cached_property
    def events(self) -> tuple[JsonObject, ...]:
        """The entries of events.jsonl in order; a last line that is not whole is left out."""
        return read_events(self.path / EVENTS) or ()


def vehicle_logs(directory: Path, vehicle: str, *, alone: bool) -> list[Path]:
    """The flight logs (ULog) of a vehicle in a run directory, the largest last.

    Args:
        directory: of the run.
        vehicle: its name.
        alone: whether it is the run's only vehicle.
    """
    place, name = directory / f"vehicle-{vehicle}", "*.ulg"
    if not place.is_dir():
        place, name = directory / "autopilot", "*.ulg" if alone else f"{vehicle}.ulg"
    return sorted(place.rglob(name), key=lambda file: file.stat().st_size) if place.is_dir() else []


def vehicle_log(directory: Path, vehicle: str, *, alone: bool) -> tuple[Path | None, str | None]:
    """A vehicle's flight log, the largest where the flight stack began several, and a note on them."""
    found = vehicle_logs(directory, vehicle, alone=alone)
    if len(found) < 2:
        return (found[0] if found else None), None
    return found[-1], f"{vehicle}: has {len(found)} flight logs; {found[-1].name}, the largest, is used"


def read_events(file: Path) -> tuple[JsonObject, ...] | None:
    """The entries of events.jsonl up to the first that is not whole; None without the file."""
    if not file.is_file():
        return None
    found = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            break
        if not isinstance(entry, dict):
            break
        found.append(entry)
    return tuple(found)
