"""Options of commands whose runs have limits and reports."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sitl_bridge.base.errors import UserError

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
    from sitl_bridge.analysis.report.measures import limit_of_option

    return dict(limit_of_option(text) for text in options)


def write_report_of(directory: Path, console: Console) -> bool:
    """Write the report of a run that has ended into its directory; return whether it could be written.

    Raises:
        UserError: if the run cannot be read.
    """
    from sitl_bridge.analysis.report.report_page import PAGE, write_report
    from sitl_bridge.analysis.report.reported_run import report
    from sitl_bridge.analysis.report.run_record import read_run

    reported = report([read_run(directory)])
    try:
        page = write_report(reported, directory / PAGE)
    except UserError as error:
        console.print(Text(f"report: {error}", "red"), soft_wrap=True)
        return False
    console.print(Text(f"report: {page}"), soft_wrap=True)
    return True
