"""The results of a campaign as one table: a row for each run, as CSV and as Parquet."""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sitl_bridge.analysis.evaluation.measures import KINDS
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.extras import EXPORT, missing
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.output_file import whole_file
from sitl_bridge.lab.campaign.flight_job import RunRow
from sitl_bridge.lab.campaign.ledger import ROWS, campaign_header, read_rows

CSV, PARQUET = "results.csv", "results.parquet"
FIRST = ("id", "number", "stage", "status", "succeeded", "seed", "weight", "margin", "attempt")
LAST = ("simulated_seconds", "wall_seconds", "reason", "directory")
"""Columns before and after those of values and measures."""
BLOCK = 5000
"""Rows that are in memory at once."""


def columns_of(directory: Path) -> list[str]:
    """Names of the columns: values are called by their paths, measures by their names."""
    asked = campaign_header(directory)["asked"]
    found = {name for row in read_rows(directory) for name in row.measures}
    return [*FIRST, *asked["vary"], *(name for name in KINDS if name in found), *LAST]


def _cells(row: RunRow, columns: Sequence[str]) -> JsonObject:
    cells: JsonObject = {name: getattr(row, name) for name in (*FIRST, *LAST)}
    cells |= row.measures
    cells |= row.values  # `seed` is both a field and perhaps a value; they are equal
    return {name: cells.get(name) for name in columns}


def write_tables(directory: Path) -> list[Path]:
    """Write the table as CSV, and as Parquet where pyarrow is installed; returns the files.

    Raises:
        UserError: for a directory without a campaign, and for a file that cannot be written.
    """
    columns = columns_of(directory)
    rows = sorted_rows(directory)
    written = [directory / CSV]
    with whole_file(directory / CSV) as place, place.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        for row in rows:
            cells = _cells(row, columns)
            writer.writerow({name: "" if _unknown(cell) else cell for name, cell in cells.items()})
    try:
        written.append(write_parquet(directory, columns))
    except UserError as error:
        if not isinstance(error.__cause__, ImportError):
            raise
    return written


def _unknown(cell: object) -> bool:
    return isinstance(cell, float) and math.isnan(cell)


def write_parquet(directory: Path, columns: Sequence[str]) -> Path:
    """Write the table as Parquet.

    Raises:
        UserError: where pyarrow is missing.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing("pyarrow", "Parquet files", EXPORT) from error
    schema = _schema(pa, directory, columns)
    with whole_file(directory / PARQUET) as place, pq.ParquetWriter(place, schema) as writer:
        for block in _batched(sorted_rows(directory)):
            cells = [_cells(row, columns) for row in block]
            arrays = [
                pa.array(
                    [_typed(cell[name], schema.field(name).type, pa) for cell in cells],
                    schema.field(name).type,
                )
                for name in columns
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    return directory / PARQUET


def _schema(pa: Any, directory: Path, columns: Sequence[str]) -> Any:
    """Column types: whole numbers and flags where all rows have them, else numbers, else text."""
    kinds: dict[str, set[type]] = {name: set() for name in columns}
    for row in read_rows(directory):
        for name, cell in _cells(row, columns).items():
            if cell is not None:
                kinds[name].add(type(cell))

    def kind(found: set[type]) -> Any:
        if found <= {bool}:
            return pa.bool_()
        if found <= {int}:
            return pa.int64()
        return pa.float64() if found <= {int, float} else pa.string()

    return pa.schema([(name, kind(found) if found else pa.float64()) for name, found in kinds.items()])


def _typed(cell: Any, kind: Any, pa: Any) -> Any:
    if cell is None:
        return None
    return str(cell) if kind == pa.string() else float(cell) if kind == pa.float64() else cell


def _batched(rows: Iterator[RunRow]) -> Iterator[tuple[RunRow, ...]]:
    while block := tuple(itertools.islice(rows, BLOCK)):
        yield block


def sorted_rows(directory: Path) -> Iterator[RunRow]:
    """The rows by stage and number, so that the table does not depend on which run ended first."""
    file = directory / ROWS
    places: list[tuple[str, int, int]] = []
    at = 0
    with file.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                data = json.loads(line)
                places.append((data["stage"], data["number"], at))
            at += len(line)
        for _, _, place in sorted(places):
            lines.seek(place)
            yield RunRow.of_data(json.loads(lines.readline()))
