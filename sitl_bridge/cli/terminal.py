"""Prints for commands: how much of it, the progress of long steps, and what to look at after a failure.

Progress is shown where stdout is a terminal.  Durations of steps and pointers go to stderr.  rich leaves
colours out where ``NO_COLOR`` is set or the output is no terminal.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="print only errors, and what to look at after a failure")
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="print every step and every logged line")
]


class Terminal:
    """The output of a command.

    Args:
        quiet: nothing is printed but errors and pointers.
        verbose: each step is printed with its duration.
        stderr: results go to stderr, for a command that prints JSON.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False, stderr: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose and not quiet
        self.console = Console(quiet=quiet, stderr=stderr)
        self._beside = Console(stderr=True)

    @property
    def live(self) -> bool:
        """Whether a live display can be shown."""
        return self.console.is_terminal and not self.quiet

    def say(self, line: str, style: str = "") -> None:
        """Print a line."""
        self.console.print(Text(line, style), soft_wrap=True)

    def table(
        self, head: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None, right: int = 0
    ) -> None:
        """Print a table; its last ``right`` columns are aligned to the right."""
        table = Table(title=title)
        for k, name in enumerate(head):
            table.add_column(name, justify="left" if k < len(head) - right else "right")
        for row in rows:
            table.add_row(*map(Text, row))
        self.console.print(table)

    @contextmanager
    def step(self, what: str) -> Iterator[Callable[[str], None]]:
        """Show a long step until it ends; the value of the block changes its text."""
        begun = time.monotonic()
        if self.live:
            with self.console.status(Text(what)) as status:
                yield lambda text: status.update(Text(text))
        else:
            yield lambda text: self._detail(text)
        self._detail(f"{what}: {time.monotonic() - begun:.1f} s")

    def _detail(self, line: str) -> None:
        if self.verbose:
            self._beside.print(Text(line, "dim"), soft_wrap=True)

    def point(self, *lines: str) -> None:
        """Print what to look at after a failure, also when quiet."""
        for line in lines:
            self._beside.print(Text(line), soft_wrap=True)

    def point_to_run(self, directory: Path, reason: str = "") -> None:
        """Print where a failed run can be examined."""
        log = directory / "console.log"
        self.point(
            *([f"failed: {reason}"] if reason and self.quiet else []),
            *([f"look at {log}"] if log.is_file() else []),
            f"then try: sitl-bridge report {shlex.quote(str(directory))}",
        )


def wind_words(north: float, east: float) -> str:
    """A wind in m/s by its speed and the direction that it comes from."""
    origin = math.degrees(math.atan2(-east, -north)) % 360.0
    return f"wind {math.hypot(north, east):.1f} m/s from {origin:.0f} deg"
