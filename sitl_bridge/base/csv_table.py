"""Rows of a user's CSV file, with their line numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.input_file import MAX_TABLE_BYTES, read_text


def read_rows(path: Path) -> list[tuple[list[str], int]]:
    """Cells and line number of every row that is not blank, the header's first.

    Raises:
        ConfigurationError: for a file that cannot be read or is not CSV.
    """
    text = read_text(path, MAX_TABLE_BYTES)
    try:
        reader = csv.reader(io.StringIO(text, newline=""))
        return [(row, reader.line_num) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise ConfigurationError(str(path), [f"cannot be read: {error}"]) from error
