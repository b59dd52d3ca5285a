"""Errors after which a flight continues: reported once per kind, counted, and listed in the final report."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

from sitl_bridge.base.errors import UserError


class ErrorLog:
    """Collects errors from any thread.

    Args:
        notify: receives the first error of each kind as a line for the user, on the thread of the error.

    Attributes:
        losses: lines on what only showed the flight and has ended.
    """

    def __init__(self, notify: Callable[[str], None] = lambda _line: None) -> None:
        self._notify = notify
        self._lock = threading.Lock()
        self._first: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self.losses: list[str] = []

    def lose(self, what: str, error: BaseException) -> None:
        """Report what has ended, without which the flight goes on and may succeed."""
        line = f"{what} has ended, and the simulation went on without: {cause(error)}"
        self.losses.append(line)
        self._notify(line)

    def add(self, task: str, error: BaseException) -> None:
        """Count an error; the first one of a task is reported.

        Args:
            task: that failed, which is also the kind of the error.
        """
        line = f"{task} failed: {cause(error)}"
        with self._lock:
            first = task not in self._counts
            self._counts[task] = self._counts.get(task, 0) + 1
            if first:
                self._first[task] = line
        if first:
            self._notify(line)

    @contextlib.contextmanager
    def guard(self, task: str) -> Iterator[None]:
        """Add an exception of the block instead of raising it."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (reported and counted; the flight continues)
            self.add(task, error)

    @property
    def lines(self) -> list[str]:
        """One line per task, with the number of its errors if there are several."""
        with self._lock:
            return [
                text if self._counts[task] == 1 else f"{text} ({self._counts[task]} times)"
                for task, text in self._first.items()
            ]


def print_error(line: str) -> None:
    """Print a line to standard error."""
    print(line, file=sys.stderr, flush=True)


def cause(error: BaseException) -> str:
    """Text of an error: the message of a UserError, else the message with its type."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
