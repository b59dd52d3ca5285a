"""``sitl-bridge report``: evaluates runs and writes their report, one HTML file."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.extras import missing_package
from sitl_bridge.cli.exit_codes import ExitCode
from sitl_bridge.cli.options import parse_limits
from sitl_bridge.cli.terminal import QuietOption, Terminal, VerboseOption

if TYPE_CHECKING:
    from sitl_bridge.analysis.evaluation.run_record import RunRecord
    from sitl_bridge.analysis.report.reported_run import Reported


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="run directories, or flight logs (.ulg); several are compared")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="HTML file (default: report.html in the run directory, or here for several)"),
    ] = None,
    limits: Annotated[
        Path | None, typer.Option(help="YAML file with a limit for each name of a measure; null for none")
    ] = None,
    limit: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of one measure, or NAME=none; may be repeated")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="directory for figures for papers: PNG, SVG and PDF of each")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the measures as JSON")] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Evaluate runs and write a report: one HTML file that needs no network.

    Any run can be reported: of fly and simulate, old ones, and those that were killed.  The verdict is that
    of the flight; with limits of your own a run is judged anew.  The exit code is 0 only if each run
    succeeded, or is a flight log alone that kept its limits; 1 if not, 2 if a run cannot be read.
    """
    from sitl_bridge.analysis.evaluation.measures import limits_of_file
    from sitl_bridge.analysis.evaluation.verdict import UNKNOWN
    from sitl_bridge.analysis.report.report_page import PAGE, write_report
    from sitl_bridge.analysis.report.report_page import as_json as plain
    from sitl_bridge.analysis.report.reported_run import report as reported

    if figures is not None:
        try:
            from sitl_bridge.analysis.report.paper_figures import write_figures
        except ModuleNotFoundError as error:
            raise missing_package("matplotlib", "figures", "figures") from error

    chosen = ({} if limits is None else limits_of_file(limits)) | parse_limits(limit)
    terminal = Terminal(quiet=quiet, verbose=verbose, stderr=as_json)
    with terminal.step("reading the runs"):
        records = _read(runs)
    with terminal.step("evaluating"):
        found = reported(records, chosen)
    place = out or (records[0].path / PAGE if len(records) == 1 and records[0].path.is_dir() else Path(PAGE))
    with terminal.step("writing the report"):
        write_report(found, place)
    written = [place]
    if figures is not None:
        with terminal.step("drawing the figures"):
            written += write_figures(found, figures)
    for record in records:
        for damage in record.damage if terminal.quiet else ():
            print(f"sitl-bridge: {record.path}: {damage}", file=sys.stderr)
    for one in found:
        show_measures(terminal.console, one)
    for path in written:
        terminal.say(f"written: {path}")
    # A flight log alone has no verdict: nothing is known to be wrong.
    good = all(
        one.verdict.succeeded or (record.path.is_file() and one.verdict.word == UNKNOWN)
        for one, record in zip(found, records, strict=True)
    )
    if not good:
        terminal.point(f"look at {place}")
    if as_json:
        print(json.dumps(plain(found), indent=2, ensure_ascii=False))
    if len(records) < len(runs):
        raise typer.Exit(ExitCode.USER_ERROR)
    raise typer.Exit(ExitCode.SUCCESS if good else ExitCode.FAILED)


def _read(runs: list[Path]) -> list[RunRecord]:
    """Runs that can be read; of each other one the reason is printed."""
    from sitl_bridge.analysis.evaluation.run_record import read_run

    records, faults = [], []
    for path in runs:
        try:
            records.append(read_run(path))
        except UserError as error:
            faults.append(str(error))
    if not records:
        raise UserError("\n".join(faults))
    for fault in faults:
        print(f"sitl-bridge: {fault}", file=sys.stderr)
    return records


def show_measures(console: Console, one: Reported) -> None:
    """Print the verdict, the measures and what the reader has to know of a run."""
    from sitl_bridge.cli.flight_display import verdict_lines, verdict_text

    verdict = one.verdict
    origin = f" ({verdict.origin})" if verdict.origin else ""
    console.print(Text.assemble(f"{one.label}: ", verdict_text(verdict), origin), soft_wrap=True)
    for line in verdict_lines(replace(verdict, notes=tuple(one.notes))):
        console.print(line, soft_wrap=True)
    table = Table.grid(padding=(0, 2))
    for m in verdict.measures:
        # Of a fleet the measures of each vehicle are in the page and in --json.
        if m.vehicle and m.passed is not False:
            continue
        value = f"{m.value:.3g} {m.kind.unit}" if math.isfinite(m.value) else "never"
        bound = "" if m.limit is None else f"{'at least' if m.kind.at_least else 'at most'} {m.limit:g}"
        mark = {True: Text("kept", "green"), False: Text("exceeded", "bold red"), None: Text("")}[m.passed]
        title = f"{m.vehicle}: {m.kind.title}" if m.vehicle else m.kind.title
        table.add_row(Text(f"  {title}"), Text(value), Text(bound), mark)
    console.print(table)


def write_report_of(directory: Path, console: Console) -> bool:
    """Write the report of a run that has ended into its directory; return whether it could be written.

    Raises:
        UserError: if the run cannot be read.
    """
    from sitl_bridge.analysis.evaluation.run_record import read_run
    from sitl_bridge.analysis.report.report_page import PAGE, write_report
    from sitl_bridge.analysis.report.reported_run import report

    reported = report([read_run(directory)])
    try:
        page = write_report(reported, directory / PAGE)
    except UserError as error:
        console.print(Text(f"report: {error}", "red"), soft_wrap=True)
        return False
    console.print(Text(f"report: {page}"), soft_wrap=True)
    return True
