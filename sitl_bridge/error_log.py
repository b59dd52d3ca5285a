"""Errors that a flight outlives: each kind is reported once, counted, and named again in the final report."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

from sitl_bridge.errors import UserError


class ErrorLog:
    """Collects errors from any thread.

    Args:
        notify: takes the first error of a kind as a line for the user, on the thread where it happened.
    """

    def __init__(self, notify: Callable[[str], None] = lambda _line: None) -> None:
        self._notify = notify
        self._lock = threading.Lock()
        self._first: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def add(self, task: str, error: BaseException) -> None:
        """Count an error; the first one of a task is reported.

        Args:
            task: what failed, which is also the kind of the error.
            error: why.
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
        """Let no exception of the block out; it is added instead."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (reported and counted; the flight goes on)
            self.add(task, error)

    @property
    def lines(self) -> list[str]:
        """One sentence a task, with the number of its errors where there are several."""
        with self._lock:
            return [
                text if self._counts[task] == 1 else f"{text} ({self._counts[task]} times)"
                for task, text in self._first.items()
            ]


def print_error(line: str) -> None:
    """Print a line to standard error."""
    print(line, file=sys.stderr, flush=True)


def cause(error: BaseException) -> str:
    """An error in words: its message where it was written for the user, else with its kind."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
