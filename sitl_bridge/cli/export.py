"""``sitl-bridge export``: the recording of a run as MCAP, a bag of rosbag2, CSV or Parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.terminal import QuietOption, Terminal, VerboseOption

Format = Literal["csv", "mcap", "rosbag2", "parquet", "csv-tables"]


def export(
    run: Annotated[Path, typer.Argument(help="run directory or truth.npy")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="file, or directory of tables or a bag (default: in the run)"),
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="one step of the truth in N")] = 1,
    to: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="csv: truth as one table; mcap: messages of ROS 2; rosbag2: a bag of them; parquet, "
            "csv-tables: a file per table (default: by the suffix of --output, else csv)",
        ),
    ] = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Hz of truth and transforms in MCAP and bags")] = 50.0,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Convert the recording of a run, also of one that was killed.

    MCAP contains sensor samples, motor commands, ground truth, transforms, wind, the flight stack's
    estimates, recorded pictures and point clouds as ROS 2 messages, and objects, plan, fence and formation
    slots as Foxglove's scene.
    """
    chosen = to or _choose_by_ending(output)
    terminal = Terminal(quiet=quiet, verbose=verbose)
    with terminal.step(f"converting {run}"):
        if chosen == "csv":
            lines = _truth(run, output, every)
        elif chosen in ("mcap", "rosbag2"):
            lines = _mcap(run, output, rate, terminal.say, bag=chosen == "rosbag2")
        else:
            lines = _tables(run, output, every, parquet=chosen == "parquet")
    for line in lines:
        terminal.say(line)


def _choose_by_ending(output: Path | None) -> Format:
    if output is not None and output.suffix == ".mcap":
        return "mcap"
    if output is not None and output.suffix == ".parquet":
        raise UserError(f"{output}: Parquet has one file per table; give --format parquet and a directory")
    return "csv"


def _truth(run: Path, output: Path | None, every: int) -> list[str]:
    import numpy as np

    from sitl_bridge.analysis.export.recorded_tables import write_csv_table
    from sitl_bridge.record.truth_log import map_truth

    source = run / "truth.npy" if run.is_dir() else run
    table, note = map_truth(source)
    steps = np.cumsum(table["vehicle"] == 0) - 1
    table = table[steps % every == 0]
    target = output or source.with_suffix(".csv")
    write_csv_table(target, table)
    written = f"{target}: {len(table)} rows of {len(table.dtype.names or ())} columns"
    return [f"note: {note}", written] if note else [written]


def _mcap(
    run: Path, output: Path | None, rate: float, notify: Callable[[str], None], *, bag: bool
) -> list[str]:
    from sitl_bridge.analysis.export.mcap_file import write_mcap
    from sitl_bridge.record.run_reader import RecordedRun

    recorded = RecordedRun(run)
    name = "rosbag2" if bag else f"{recorded.path.name}.mcap"
    target = output or recorded.path / name
    count = write_mcap(recorded, target, rate, notify, bag=bag)
    written = f"{target}: {count} messages"
    return [*(f"note: {note}" for note in recorded.notes), written]


def _tables(run: Path, output: Path | None, every: int, *, parquet: bool) -> list[str]:
    from sitl_bridge.analysis.export.recorded_tables import (
        recorded_tables,
        write_csv_table,
        write_parquet_table,
    )
    from sitl_bridge.base.output_file import make_directory
    from sitl_bridge.record.run_reader import RecordedRun

    recorded = RecordedRun(run)
    directory = output or recorded.path / "tables"
    make_directory(directory)
    lines = []
    for name, table in recorded_tables(recorded, every).items():
        target = directory / f"{name}.{'parquet' if parquet else 'csv'}"
        (write_parquet_table if parquet else write_csv_table)(target, table)
        lines.append(f"{target}: {len(table)} rows of {len(table.dtype.names or ())} columns")
    return [*(f"note: {note}" for note in recorded.notes), *lines]
