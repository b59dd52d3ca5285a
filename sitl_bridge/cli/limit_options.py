"""Options of commands whose runs have limits and reports, and what follows from them after a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sitl_bridge.run.limit_check import limit_faults

LimitOption = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=VALUE of a measure, with which the run succeeds; may be repeated (docs/report.md)"
    ),
]
ReportOption = Annotated[bool, typer.Option("--report", help="write report.html into the run directory")]


def parse_limits(options: Iterable[str] | None) -> dict[str, float | None]:
    """Limits by name, of ``--limit``.

    Raises:
        UserError: for a faulty one.
    """
    if not options:
        return {}
    from sitl_bridge.report.measures import limit_of_option

    return dict(limit_of_option(text) for text in options)


def judge(directory: Path, limits: Mapping[str, float | None], console: Console, *, report: bool) -> bool:
    """Check a finished run against its limits and write its report if it is wanted.

    Returns:
        whether the run keeps all limits.

    Raises:
        UserError: if the run cannot be read, or the report not written.
    """
    faults = limit_faults(directory, limits)
    for fault in faults:
        console.print(Text(fault, "red"), soft_wrap=True)
    if report:
        from sitl_bridge.report.report_page import PAGE, write_report
        from sitl_bridge.report.reported_run import report as reported
        from sitl_bridge.report.run_record import read_run

        page = write_report(reported([read_run(directory)], limits), directory / PAGE)
        console.print(Text(f"report: {page}"), soft_wrap=True)
    return not faults
