"""All tables of a recorded run, and their files: CSV and Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.extras import missing_package
from sitl_bridge.base.output_file import whole_file
from sitl_bridge.link.hil.recorded_samples import samples_of
from sitl_bridge.record.records import flat
from sitl_bridge.record.run_reader import RecordedRun


def recorded_tables(run: RecordedRun, every: int = 1) -> dict[str, Records]:
    """Truth, wall times, samples of every kind of sensor and events, each with scalar columns.

    Args:
        every: of truth and wall times one step in so many.
    """
    n = run.count
    rows = run.rows.reshape(-1, n)[::every].reshape(-1)
    tables = {"truth": rows}
    if len(run.steps):
        tables["steps"] = run.steps[::every]
    tables |= samples_of(run)
    if run.events:
        tables["events"] = _events(run)
    return {name: scalar_columns(table) for name, table in tables.items()}


def scalar_columns(table: Records) -> Records:
    """The same table with one column a component."""
    return np.ascontiguousarray(table).view(flat(table.dtype))


def _events(run: RecordedRun) -> Records:
    entries = [
        (
            entry["time"],
            entry["kind"],
            json.dumps({key: value for key, value in entry.items() if key not in ("time", "kind")}),
        )
        for entry in run.events
    ]
    longest = max(len(facts) for _, _, facts in entries)
    return np.array(entries, [("time", "i8"), ("kind", "U16"), ("facts", f"U{longest}")])


def write_csv_table(path: Path, table: Records) -> None:
    """Write a table with a header line, whole or not at all.

    Raises:
        UserError: if it cannot be written.
    """
    names = table.dtype.names or ()
    kinds = {"i": "%d", "u": "%d", "U": "%s"}
    columns = [table.dtype[name] for name in names]
    # 9 digits are a float32; a longitude of 151 deg needs 10 for a receiver's 1e-7 deg.
    formats = [kinds.get(one.kind, "%.15g" if one.itemsize == 8 else "%.9g") for one in columns]
    texts = {name: np.char.replace(table[name], '"', '""') for name in names if table.dtype[name].kind == "U"}
    if texts:
        wider = [(name, texts[name].dtype if name in texts else table.dtype[name]) for name in names]
        table = table.astype(wider)
        for name, column in texts.items():
            table[name] = column
        formats = [f'"{one}"' if one == "%s" else one for one in formats]
    with whole_file(path) as place:
        np.savetxt(
            place, table, fmt=formats, delimiter=",", header=",".join(names), comments="", encoding="utf-8"
        )


def write_parquet_table(path: Path, table: Records) -> None:
    """Write a table as a Parquet file, whole or not at all.

    Raises:
        UserError: if it cannot be written, or the package pyarrow is missing.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise missing_package("pyarrow", "Parquet files", "export") from error
    columns = {name: np.ascontiguousarray(table[name]) for name in table.dtype.names or ()}
    arrays = {
        name: pyarrow.array(column.tolist() if column.dtype.kind == "U" else column)
        for name, column in columns.items()
    }
    with whole_file(path) as place:
        parquet.write_table(pyarrow.table(arrays), place, compression="zstd")
