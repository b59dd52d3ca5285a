"""``sitl-bridge export``: the truth log of a run as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from sitl_bridge.output_file import whole_file
from sitl_bridge.record.truth_log import read_truth


def export(
    run: Annotated[Path, typer.Argument(help="run directory or truth.npy")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="default: beside it")] = None,
    every: Annotated[int, typer.Option(min=1, help="one row in so many")] = 1,
) -> None:
    """Write the truth and the commands of a run as a table with a header line."""
    source = run / "truth.npy" if run.is_dir() else run
    table = read_truth(source)[::every]
    target = output or source.with_suffix(".csv")
    names = table.dtype.names or ()
    formats = ["%d" if np.issubdtype(table.dtype[name], np.integer) else "%.9g" for name in names]
    with whole_file(target) as place:
        np.savetxt(place, table, fmt=formats, delimiter=",", header=",".join(names), comments="")
    typer.echo(f"{target}: {len(table)} rows of {len(names)} columns")
