"""``sitl-bridge log-statistics``: whether the sensors in simulated logs look like those of real flights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.terminal import QuietOption, Terminal, VerboseOption


def log_statistics(
    real: Annotated[Path, typer.Argument(help="directory of ULogs of real flights")],
    logs: Annotated[list[Path], typer.Argument(help="ULogs of simulated flights")],
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Print what PX4's logs show of the sensors: the range of real flights, and simulated ones beside it.

    Each number is of the time in the air.  Those of a simulated flight that lie within the range are bold.
    """
    from sitl_bridge.lab.validation import statistics, table

    terminal = Terminal(quiet=quiet, verbose=verbose)
    found = []
    for file in sorted(real.glob("*.ulg")):
        try:
            found.append(statistics(file))
        except UserError as error:
            terminal.say(f"note: left out: {error}")
    if len(found) < 2:
        raise UserError(f"{real}: a range needs two flights at least, ULogs (.ulg); there are {len(found)}")
    for line in table(found, {name: statistics(log) for name, log in _name_logs(logs).items()}):
        terminal.say(line)


def _name_logs(logs: Sequence[Path]) -> dict[str, Path]:
    """Logs by their names, or by their paths from a common directory on where names are alike."""
    if len({log.stem for log in logs}) == len(logs):
        return {log.stem: log for log in logs}
    paths = [log.resolve() for log in logs]
    if len(set(paths)) < len(paths):
        raise UserError("logs: one is given twice")
    common = os.path.commonpath([path.parent for path in paths])
    return {str(path.relative_to(common).with_suffix("")): log for path, log in zip(paths, logs, strict=True)}
