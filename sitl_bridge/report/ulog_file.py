"""Opens ULog files, PX4's and the built-in flight stack's, for those who analyse them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path

from pyulog import ULog

from sitl_bridge.error_log import cause
from sitl_bridge.errors import UserError


def read_ulog(path: Path, topics: Sequence[str]) -> ULog:
    """Read some topics of a ULog, as far as the file goes.

    A file that ends in the middle is read up to there.  Of a damaged one pyulog keeps what it can read and
    sets ``file_corruption``; what it prints about each damaged place is dropped.

    Raises:
        UserError: for a file that cannot be read or is no ULog.
    """
    try:
        with path.open("rb") as file, contextlib.redirect_stdout(io.StringIO()):
            return ULog(file, list(topics))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # pyulog raises whatever its parser meets
        raise UserError(f"{path}: cannot be read as a ULog: {cause(error)}") from error
