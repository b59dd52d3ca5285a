"""Reads the error that ended a Python program from what it prints."""

from __future__ import annotations

import re
from pathlib import Path

_BEGIN = "Traceback (most recent call last):"
_FRAME = re.compile(r' +File "(.*)", line (\d+)')


class UncaughtError:
    """The last traceback that a program has printed.

    An error's text may have many lines, of which the first says what happened.

    Args:
        script: of the program, whose lines are named.

    Attributes:
        last: the line that names the error; empty before one.
    """

    def __init__(self, script: str) -> None:
        self._script = script
        self._within = False
        self._place = ""
        self.last = ""

    def read(self, line: str) -> None:
        """Take a line that the program has printed."""
        if line == _BEGIN:
            self._within, self._place, self.last = True, "", ""
        elif self._within and not line.startswith(" "):
            self._within, self.last = False, line
        elif self._within:
            frame = _FRAME.match(line)
            if frame is not None and Path(frame[1]) == Path(self._script).absolute():
                self._place = f" ({Path(self._script).name}, line {frame[2]})"

    @property
    def text(self) -> str:
        """The error, with the line of the script in which it came up; empty if there was none."""
        return self.last + self._place if self.last else ""
