"""Lets simulated time wait for a mission that steers: the mission says how far time may run, over a pipe.

A mission steers in wall time what flies in simulated time, so on a busy computer, or at as fast as it goes,
its setpoints come late.  One that says so is waited for; without a word from it for PATIENCE, time goes on.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

VARIABLE = "SITL_BRIDGE_KEEP_UP"
"""Environment variable of a mission: number of the file descriptor to write to.  A line is a whole number of
us on the vehicles' clock up to which time may run, or empty, for as far as it likes."""

Limit = Callable[[int | None], None]


class Announcer:
    """The mission's end; says nothing where nobody listens, as with real vehicles."""

    def __init__(self) -> None:
        number = os.environ.get(VARIABLE, "")
        self._file = int(number) if number.isdigit() else None
        if self._file is not None:
            os.set_blocking(self._file, False)

    @property
    def heard(self) -> bool:
        """Whether time waits for this mission."""
        return self._file is not None

    def until(self, time: int | None) -> None:
        """Time may run to ``time`` us, or freely."""
        if self._file is None:
            return
        try:
            os.write(self._file, b"\n" if time is None else b"%d\n" % time)
        except BlockingIOError:
            return  # not read at the moment; the next word says more
        except OSError:
            self._file = None  # whoever listened has gone


class Listener:
    """The simulation's end.

    Args:
        limit: told each word, from a thread; None when the mission lets time run, or has ended.

    Attributes:
        mission_end: file descriptor that the mission inherits; close it here once it has.
    """

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._own_end, self.mission_end = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="keep up", daemon=True)

    def start(self) -> None:
        """Close the mission's end here and listen until the mission has closed its own."""
        os.close(self.mission_end)
        self._thread.start()

    def _listen(self) -> None:
        with os.fdopen(self._own_end, "rb") as words:
            for word in words:
                with contextlib.suppress(ValueError):  # no number: nothing that could be followed
                    self._limit(int(word) if word.strip() else None)
        self._limit(None)
