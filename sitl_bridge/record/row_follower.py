"""Reads the rows of a recording while it is written."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.closing import Closing
from sitl_bridge.base.errors import UserError
from sitl_bridge.record.records import row_type_of
from sitl_bridge.record.run_recorder import TRUTH

COUNT = re.compile(rb"'shape': \((\d+),\)")


class RowFollower(Closing):
    """The rows of a run's truth.npy so far.

    Args:
        directory: of the run.
        vehicles: their number.

    Raises:
        UserError: if the file cannot be read or is no recording of this version.
    """

    def __init__(self, directory: Path, vehicles: int) -> None:
        path = directory / TRUTH
        self._vehicles = vehicles
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        try:
            npy.read_magic(self._file)
            _, _, dtype = npy.read_array_header_2_0(self._file)
        except Exception as error:  # numpy raises whatever its parsers meet
            self.close()
            raise UserError(f"{path}: cannot be read as a table of a recording") from error
        kind = row_type_of(dtype)
        if kind is None:
            self.close()
            raise UserError(f"{path}: was written by another version of sitl-bridge: it has other columns")
        self._offset = self._file.tell()
        self._rows = np.zeros(0, kind)

    def rows(self) -> Records:
        """(k,) rows of the whole steps so far, mapped into memory."""
        found = COUNT.search(os.pread(self._file.fileno(), self._offset, 0))
        count = int(found[1]) // self._vehicles * self._vehicles if found else 0
        if count > len(self._rows):
            self._rows = np.memmap(self._file, self._rows.dtype, "r", self._offset, (count,))
        return self._rows

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._file.close()
