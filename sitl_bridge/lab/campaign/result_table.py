"""The results of a campaign as one table: a row for each run, as CSV and as Parquet."""

from __future__ import annotations

import csv
import math
from importlib.util import find_spec
from pathlib import Path

from sitl_bridge.analysis.evaluation.measures import KINDS
from sitl_bridge.base.output_file import whole_file
from sitl_bridge.lab.campaign.ledger import campaign_header, read_rows

CSV, PARQUET = "results.csv", "results.parquet"
FIRST = ("id", "number", "stage", "status", "succeeded", "seed", "weight", "margin", "attempt")
LAST = ("simulated_seconds", "wall_seconds", "reason", "missed_events", "directory")
"""Columns before and after those of values, which are called by their paths, and of measures."""
TEXTS = ("id", "stage", "status", "reason", "missed_events", "directory")
"""Columns that are text whatever is in them."""


def write_tables(directory: Path) -> list[Path]:
    """Write the table as CSV, and as Parquet where pyarrow is installed; returns the files.

    Raises:
        UserError: for a directory without a campaign, and for a file that cannot be written.
    """
    asked = campaign_header(directory)["asked"]
    rows = sorted(read_rows(directory), key=lambda row: (row.stage, row.number))
    measured = {name for row in rows for name in row.measures}
    measures = [name for name in KINDS if name in measured]
    columns = dict.fromkeys([*FIRST, *asked["vary"], *measures, *LAST])
    with whole_file(directory / CSV) as place, place.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(columns), extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            cells = {name: getattr(row, name) for name in (*FIRST, *LAST)} | {**row.measures, **row.values}
            unknown = (name for name, cell in cells.items() if isinstance(cell, float) and math.isnan(cell))
            writer.writerow(cells | dict.fromkeys(unknown, ""))
    return [directory / CSV, *([_as_parquet(directory)] if find_spec("pyarrow") is not None else [])]


def _as_parquet(directory: Path) -> Path:
    """Write the CSV file as Parquet, with a type for each column; what is unknown is null."""
    import pyarrow
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    options = arrow_csv.ConvertOptions(column_types=dict.fromkeys(TEXTS, pyarrow.string()))
    table = arrow_csv.read_csv(directory / CSV, convert_options=options)
    with whole_file(directory / PARQUET) as place:
        parquet.write_table(table, place)
    return directory / PARQUET
