"""``sitl-bridge campaign``: many flights of one scenario with varied values, and what came of them."""

from __future__ import annotations

import os
import shlex
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.system import signals
from sitl_bridge.cli.terminal import QuietOption, Terminal, VerboseOption

if TYPE_CHECKING:
    from sitl_bridge.lab.campaign import CampaignProgress, CampaignSpace, Engine, RunRow

campaign = typer.Typer(
    no_args_is_help=True,
    help="Fly a scenario many times with varied values: designs, searches, two stages, one table of results.",
)
EVERY = 10.0
"""s of wall time between lines of the progress where there is no terminal."""
DirectoryArgument = Annotated[Path, typer.Argument(help="directory of the campaign")]


@campaign.command()
def run(
    file: Annotated[Path, typer.Argument(help="campaign file (.yaml)")],
    out: Annotated[
        Path | None, typer.Option(help="directory of the campaign (default: campaigns/NAME)")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=0, help="runs flown at once on this machine; 0: one for each processor")
    ] = 0,
    engine: Annotated[
        str, typer.Option(help="processes: of this machine; dask://HOST:PORT: workers of a Dask scheduler")
    ] = "processes",
    px4: Annotated[Path | None, typer.Option(help="PX4's checkout, for the stage px4")] = None,
    anew: Annotated[bool, typer.Option("--anew", help="remove the results that the directory has")] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Fly a campaign, or go on with it where it was interrupted.

    No finished run is repeated.  The exit code is 0 if the campaign came to its end, whatever its flights
    came to.
    """
    from sitl_bridge.lab.campaign import CampaignSpace
    from sitl_bridge.link.px4.find import find_px4

    space = CampaignSpace.load(file)
    space.check()
    if "px4" in space.specification.stages:
        px4 = find_px4(px4).root
    elif px4 is not None:
        raise UserError(f"--px4: {file} has no stage px4, which flies with it; leave it out")
    place = out or Path("campaigns") / space.name
    terminal = Terminal(quiet=quiet, verbose=verbose)
    raise typer.Exit(
        signals.run(lambda: _run(space, place, lambda: _engine(engine, jobs, space), px4, anew, terminal))
    )


def _engine(name: str, jobs: int, space: CampaignSpace) -> Engine:
    from sitl_bridge.lab.campaign import SCHEME, DaskEngine, WorkerPool

    if name == "processes":
        return WorkerPool(jobs or os.cpu_count() or 1, space.specification.run_limit)
    if name.startswith(SCHEME):
        return DaskEngine(name)
    raise UserError(f"--engine {name!r}: give processes, or dask://HOST:PORT of a Dask scheduler")


def _run(
    space: CampaignSpace,
    place: Path,
    engine_of: Callable[[], Engine],
    px4: Path | None,
    anew: bool,
    terminal: Terminal,
) -> int:
    from sitl_bridge.lab.campaign import (
        CampaignRun,
        Ledger,
        campaign_header,
        read_rows,
        write_campaign_report,
        write_tables,
    )

    with Ledger(place, space, anew=anew) as ledger:
        terminal.say(f"campaign directory {place}")
        if len(ledger):
            terminal.say(f"{len(ledger)} runs have been flown before")
        engine = engine_of()
        try:
            with _Display(terminal, campaign_header(place)) as display:
                flown = CampaignRun(space, ledger, engine, px4=px4, on_progress=display.show)
                progress = flown.fly()
        except signals.Interrupted:
            terminal.point(f"{len(ledger)} runs are kept; the same command goes on from there")
            raise
        finally:
            engine.close()
    for line in progress.lost:
        terminal.say(f"a worker was lost: {line}", "yellow")
    if progress.ended:
        terminal.say(f"ended early: {progress.ended}")
    files = write_tables(place)
    _print_status(place, terminal)
    for path in files:
        terminal.say(f"table: {path}")
    with terminal.step("writing the report"):
        page = write_campaign_report(place)
    terminal.say(f"report: {page}")
    bad = next((row for row in read_rows(place) if not row.succeeded), None)
    if bad is not None:
        terminal.point(
            f"look at a run that failed: sitl-bridge campaign reproduce {shlex.quote(str(place))} {bad.id}"
        )
    return 0


class _Display:
    """The progress: a live table on a terminal, else a line now and then where runs have ended."""

    def __init__(self, terminal: Terminal, header: JsonObject) -> None:
        from rich.live import Live

        self._say, self._header = terminal.say, header
        self._live_shown, self._every = terminal.live, 0.0 if terminal.verbose else EVERY
        self._live = Live(console=terminal.console, refresh_per_second=4, transient=True)
        self._printed = time.monotonic()
        self._done = -1

    def __enter__(self) -> _Display:
        if self._live_shown:
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live_shown:
            self._live.stop()

    def show(self, progress: CampaignProgress) -> None:
        """Show how far the campaign is."""
        if self._live_shown:
            self._live.update(_table(self._cells(progress)))
        elif time.monotonic() - self._printed > self._every and progress.done != self._done:
            self._printed, self._done = time.monotonic(), progress.done
            if not progress.done:
                self._say("workers start; a new version is compiled first")
                return
            self._say(", ".join(f"{name} {value}" for name, value in self._cells(progress)))

    def _cells(self, progress: CampaignProgress) -> list[tuple[str, str]]:
        from sitl_bridge.lab.campaign import clopper_pearson, is_sample

        good, bad = progress.of("succeeded"), progress.of("failed")
        low, high = clopper_pearson(good, good + bad)
        success = f"{low:.1%} to {high:.1%}" if good + bad else "unknown"
        rate = progress.rate
        left = (progress.total - progress.done) / rate if rate > 0.0 else float("inf")
        others = progress.of("invalid") + progress.of("lost")
        return [
            ("stage", progress.stage),
            ("runs", f"{progress.done} of {progress.total}"),
            ("succeeded", str(good)),
            ("failed", str(bad)),
            *([("not flown", str(others))] if others else []),
            *([("success rate", success)] if is_sample(self._header, progress.stage) else []),
            ("runs/s", f"{rate:.2f}"),
            ("time left", f"{left:.0f} s" if left < 1e7 else "unknown"),
        ]


def _table(cells: Sequence[tuple[str, str]]) -> Table:
    table = Table(show_edge=False)
    for name, _ in cells:
        table.add_column(name)
    table.add_row(*(value for _, value in cells))
    return table


# -------------------------------------------------------------------------- afterwards


@campaign.command()
def status(directory: DirectoryArgument) -> None:
    """Print how far a campaign is, and what came of its flights."""
    _print_status(directory, Terminal())


def _print_status(directory: Path, terminal: Terminal) -> None:
    from sitl_bridge.lab.campaign import campaign_header, clopper_pearson, cluster_of, is_sample, read_rows

    header = campaign_header(directory)
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    missed = 0
    for row in read_rows(directory):
        missed += bool(row.missed_events)
        counts[row.stage, row.result] += 1
        if not row.succeeded:
            reasons[cluster_of(row)] += 1
    rows = []
    for stage in header["asked"]["stages"]:
        good, bad = counts[stage, "succeeded"], counts[stage, "failed"]
        low, high = clopper_pearson(good, good + bad)
        rate = f"{good / (good + bad):.2%}, {low:.2%} to {high:.2%}" if good + bad else "unknown"
        if not is_sample(header, stage):
            rate = "runs were chosen"
        others = [str(counts[stage, name]) for name in ("invalid", "lost")]
        rows.append((stage, str(good), str(bad), *others, rate))
    head = ("stage", "succeeded", "failed", "invalid", "lost", "success rate (95 %)")
    terminal.table(head, rows, title=header["name"])
    for reason, count in reasons.most_common(10):
        terminal.say(f"{count} x {reason}")
    if missed:
        terminal.say(f"{missed} flights had ended before an event; missed_events in the table names it")


@campaign.command()
def report(directory: DirectoryArgument) -> None:
    """Write the table and the report of a campaign, also of one that is not over."""
    from sitl_bridge.lab.campaign import write_campaign_report, write_tables

    for path in [*write_tables(directory), write_campaign_report(directory)]:
        Terminal().say(str(path))


@campaign.command()
def reproduce(
    directory: DirectoryArgument,
    run: Annotated[str, typer.Argument(help="name of the run, or its beginning")],
    runs_dir: Annotated[Path, typer.Option(help="parent directory of run directories")] = Path("runs"),
    px4: Annotated[Path | None, typer.Option(help="PX4's checkout, for a run of the stage px4")] = None,
) -> None:
    """Fly one run of a campaign again, with all its files, and compare it."""
    from sitl_bridge.lab.campaign import CampaignSpace, campaign_header, read_rows

    header = campaign_header(directory)
    rows = [row for row in read_rows(directory) if row.id.startswith(run)]
    if len(rows) != 1:
        count = f"{len(rows)} runs begin so; give more of the name" if rows else "there is no such run"
        raise UserError(f"{run}: {count}; {directory}/results.csv lists them")
    file = Path(header["file"])
    if not file.is_file():
        raise UserError(f"{file}: the campaign file is not there any more")
    space = CampaignSpace.load(file)
    if space.digest != header["digest"]:
        raise UserError(f"{file}: the program, or the scenario and its files, changed since that run")
    raise typer.Exit(signals.run(lambda: _reproduce(space, rows[0], runs_dir, px4)))


def _reproduce(space: CampaignSpace, before: RunRow, runs: Path, px4: Path | None) -> int:
    from sitl_bridge.analysis.evaluation.measures import sort_names
    from sitl_bridge.lab.campaign import Job, fly_job
    from sitl_bridge.link.px4.find import find_px4

    terminal = Terminal()
    values = tuple(before.values[name] for name in space.names)
    for name, value in before.values.items():
        terminal.say(f"{name}: {value}")
    if before.stage == "px4":
        px4 = find_px4(px4).root
    elif px4 is not None:
        raise UserError(f"--px4: run {before.id} is of the built-in stack; leave it out")
    row = fly_job(
        Job(
            file=space.file.resolve(),
            id=before.id,
            number=before.number,
            point=before.point,
            values=values,
            seed=before.seed,
            stage="px4" if before.stage == "px4" else "built_in",
            work=runs.resolve(),
            px4=px4,
        )
    )
    rows = [
        (name, *(f"{one.measures[name]:.6g}" if name in one.measures else "" for one in (before, row)))
        for name in sort_names({**before.measures, **row.measures})
    ]
    terminal.table(("measure", "in the campaign", "now"), rows, title=f"run {before.id}")
    same = row.measures == before.measures and row.succeeded == before.succeeded
    terminal.say("the same in every figure" if same else "differs from the run of the campaign")
    terminal.say(*(("succeeded", "green") if row.succeeded else (f"failed: {row.reason}", "red")))
    terminal.say(f"run directory {row.directory}")
    return 0 if row.succeeded == before.succeeded else 1
