"""The recorder of a run: truth, commands, frames, wall times and events of every step, as they happen.

Every file can be read at any moment: after a killed run, after a full disk, and while the flight goes on.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Bytes, Records
from sitl_bridge.base.closing import Closing
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.base.output_file import LineLog, append_whole
from sitl_bridge.core.simulation.events import ScheduledEvent
from sitl_bridge.record.records import STEP, row_type
from sitl_bridge.record.truth_log import TruthLog

TRUTH, FRAMES, STEPS, EVENTS = "truth.npy", "frames.bin", "steps.npy", "events.jsonl"
"""Names of the files in a run directory."""
TASK = "recording of the flight"
"""Name of the fault where a recording ends early, as an ``ErrorLog`` counts it."""


class RunRecorder(Closing):
    """Writes truth.npy, frames.bin, steps.npy and events.jsonl into a run directory.

    The frames of a step are written before the rows that count them, so the rows in the header of truth.npy
    never count bytes that are missing.  A disk that fills up ends all four files together.

    Args:
        directory: of the run.
        errors: takes the end of a recording that cannot go on.
        rotors: of the vehicle that has most.

    Raises:
        UserError: if a file exists or cannot be written.
    """

    def __init__(self, directory: Path, errors: ErrorLog, rotors: int) -> None:
        self.directory = directory
        self._errors = errors
        self.complete = True
        """False once a file could not be written any more."""
        self._lock = threading.Lock()
        self._truth = TruthLog(directory / TRUTH, row_type(rotors))
        self._steps = TruthLog(directory / STEPS, STEP)
        try:
            self._frames = (directory / FRAMES).open("xb", buffering=0)
        except OSError as error:
            raise UserError(f"{directory / FRAMES}: cannot be written: {error.strerror}") from error
        self._events = LineLog(directory / EVENTS)

    def write(self, rows: Records, frames: Bytes, steps: Records) -> None:
        """Append steps; does nothing once the recording has ended."""
        with self._errors.guard(TASK), self._recording() as goes_on:
            if not goes_on:
                return
            try:
                append_whole(self._frames, np.ascontiguousarray(frames).data)
            except OSError as error:
                ended = f"the recording ends after {len(self._truth)} rows"
                raise UserError(f"{self.directory / FRAMES}: {error.strerror}; {ended}") from error
            self._truth.write(rows)
            self._steps.write(steps)

    @contextlib.contextmanager
    def _recording(self) -> Iterator[bool]:
        """Give whether the recording goes on; one thread at a time writes, and an error ends it."""
        with self._lock:
            try:
                yield self.complete
            except Exception:
                self.complete = False
                raise

    def note(self, time: int, kind: str, **facts: object) -> None:
        """Append an event, from any thread; does nothing once the recording has ended.

        Args:
            time: us of simulated time; what it changes acts on the step that begins then.
            kind: of entry: event, command, restart (of a vehicle) or link.
            facts: plain values.
        """
        with self._errors.guard(TASK), self._recording() as goes_on:
            if goes_on:
                self._events.write(json.dumps({"time": time, "kind": kind, **facts}))

    def note_scheduled(self, time: int, event: ScheduledEvent, begins: bool, vehicles: Sequence[int]) -> None:
        """Note a scheduled event that begins or ends; arguments as of ``note`` and ``OnEvent``."""
        facts = event.model_dump(mode="json")
        self.note(time, "event", begins=begins, vehicles=list(vehicles), event=facts)

    def restart(self, time: int, vehicle: int) -> None:
        """Note that a vehicle was put back to its start for a new flight stack; ``time`` as of ``note``."""
        self.note(time, "restart", vehicle=vehicle)

    def command(self, time: int, name: str, vehicle: int | None, data: ReadJson, refused: str | None) -> None:
        """Note a command of the bus.

        Args:
            time: as of ``note``.
            name: last level of the command's topic.
            vehicle: its number; None for the whole run.
            data: the message.
            refused: why it was refused; None if it was executed.
        """
        self.note(time, "command", command=name, vehicle=vehicle, data=dict(data), refused=refused)

    def close(self) -> None:
        """Close the files; safe to call twice."""
        self._truth.close()
        self._steps.close()
        self._frames.close()
        self._events.close()
