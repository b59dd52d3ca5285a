"""The truth log: one table per run, a ``.npy`` file that is complete after every write."""

from __future__ import annotations

import io
import mmap
import os
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.closing import Closing
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.output_file import append_whole
from sitl_bridge.record.records import ROW, convert_rows, flat, row_type_of


class StepRecorder(Protocol):
    """Records the steps of a flight."""

    def write(self, rows: NDArray[np.void], frames: NDArray[np.uint8], steps: NDArray[np.void]) -> None:
        """Record the steps since the last call; the caller overwrites all arrays after it.

        Args:
            rows: (k,) ROW, ordered by step and vehicle.
            frames: the bytes that ``rows`` count, in their order; empty if none are recorded.
            steps: (j,) STEP; empty if there is no link.
        """
        ...


_NONE = b"(0,), }"
"""Ends the description of a table without rows; blanks follow."""


def _header_of_none(columns: np.dtype[np.void]) -> bytes:
    """Header of a table without rows.

    numpy takes a millisecond for so many columns.  It leaves room for a count of 21 digits
    (GROWTH_AXIS_MAX_DIGITS), so a header with another count has the same length.
    """
    fields = {"descr": npy.dtype_to_descr(columns), "fortran_order": False, "shape": (0,)}
    header = io.BytesIO()
    npy.write_array_header_2_0(header, fields)
    return header.getvalue()


class TruthLog(Closing):
    """Appends rows to a structured ``.npy`` file with one scalar column per component.

    The header has room for any number of rows and is rewritten after each block of rows, so ``numpy.load``
    reads all rows counted in the last header, even if the writer was killed or the disk is full.

    Args:
        path: new file.
        dtype: of the rows; sub-arrays become one column per component.

    Raises:
        UserError: if the file exists or cannot be written.
    """

    def __init__(self, path: Path, dtype: np.dtype[np.void] = ROW) -> None:
        self.path = path
        self._dtype = dtype
        self._empty = _header_of_none(flat(dtype))
        self._count = 0
        self._ended = False
        try:
            self._file = path.open("xb", buffering=0)
            append_whole(self._file, self._empty)
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}") from error

    def _header(self, count: int) -> bytes:
        """Header of a table of ``count`` rows; its length is the same for every count."""
        before, _, room = self._empty.rpartition(_NONE)
        counted = b"(%d,), }" % count
        return before + counted + room[len(counted) - len(_NONE) :]

    def write(self, rows: NDArray[np.void]) -> None:
        """Append rows ((k,) of the log's dtype, or ROW); does nothing once the log has ended.

        Raises:
            UserError: for the block that could not be written; the rows before it remain readable.
        """
        if self._ended:
            return
        try:
            append_whole(self._file, convert_rows(rows, self._dtype).view(np.uint8).data)
            os.pwrite(self._file.fileno(), self._header(self._count + len(rows)), 0)
        except OSError as error:
            self._ended = True
            raise UserError(
                f"{self.path}: {error.strerror}; the log ends after {self._count} rows"
            ) from error
        self._count += len(rows)

    def __len__(self) -> int:
        return self._count

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._file.close()


def read_truth(path: Path) -> NDArray[np.void]:
    """Read a truth log into memory, as far as the file goes; the columns are of ``flat(row_type(...))``.

    Raises:
        UserError: if the file is missing or is not a truth log.
    """
    return np.array(map_truth(path)[0])


def map_truth(path: Path) -> tuple[NDArray[np.void], str]:
    """Open a truth log without loading it, as far as the file goes.

    Returns:
        the rows, and a note about those that are missing of what the header counts; empty if none are.

    Raises:
        UserError: if the file is missing or is not a truth log.
    """
    table, note = map_table(path, "a truth log")
    if "position_north" not in (table.dtype.names or ()):
        raise UserError(f"{path}: not a truth log (it has no column position_north)")
    return table, note


def map_table(path: Path, what: str = "a table of a recording") -> tuple[NDArray[np.void], str]:
    """Open a table of a recording without loading it; returns and raises as ``map_truth``."""
    try:
        with path.open("rb") as file:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            (counted, *others), _, dtype = read(file)
            start = file.tell()
            size = file.seek(0, os.SEEK_END)
        if others or dtype.names is None:
            raise UserError(f"{path}: not {what}")
        count = min(counted, (size - start) // dtype.itemsize)
        # Nothing can be mapped of a table without rows.
        table: NDArray[np.void] = (
            np.memmap(path, dtype, "r", start, (count,)) if count else np.zeros(0, dtype)
        )
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # numpy raises whatever its parsers meet
        raise UserError(f"{path}: cannot be read as {what}") from error
    missing = f"{path}: is cut off; of {counted} rows the first {count} are there and used"
    return table, "" if count == counted else missing


def as_rows(table: Records, file: Path) -> Records:
    """The table of a truth log as rows with a field for each quantity.

    Raises:
        UserError: if the columns are not those of this version.
    """
    kind = row_type_of(table.dtype)
    if kind is None:
        raise UserError(
            f"{file}: has other columns than this version records; `sitl-bridge export` of the file reads it"
        )
    return table.view(kind)


BLOCK = 8 << 20
"""Bytes of a mapped truth log that are in memory at a time while its columns are read."""


def read_columns(rows: NDArray[np.void], *names: str) -> Floats:
    """Columns (k, c) of rows of a truth log.

    Of a log that ``map_table`` opened, each block leaves the memory once it was read, as a long flight's log
    is larger than it.

    Raises:
        UserError: for a column that the rows do not have.
    """
    if missing := [name for name in names if name not in (rows.dtype.names or ())]:
        raise UserError(f"the truth has no column {missing[0]}: it is damaged, or of another version")
    base: object = rows
    while isinstance(base, np.ndarray):
        base = base.base
    found = np.empty((len(rows), len(names)))
    step = max(1, BLOCK // (rows.strides[0] or 1))  # 0 of no rows
    for first in range(0, len(rows), step):
        block = rows[first : first + step]
        for k, name in enumerate(names):
            found[first : first + step, k] = block[name]
        if isinstance(base, mmap.mmap):
            base.madvise(mmap.MADV_DONTNEED)
    return found
