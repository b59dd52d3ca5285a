"""Opens ULog files, PX4's and the built-in flight stack's, for those who analyse them."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyulog import ULog

from sitl_bridge.base.arrays import Columns
from sitl_bridge.base.error_log import cause
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject


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


PASS = 128 << 20
"""Bytes of a file from which it is read in several passes, each for some of the topics."""
COLOUR = re.compile("\x1b\\[[0-9;]*m")
"""A terminal's colours, which PX4 logs with some of its messages."""
Fields = Mapping[str, Sequence[str]]
"""Topics, each with those of its fields that are kept; none stands for all."""


@dataclass(frozen=True)
class UlogColumns:
    """Some columns of a ULog."""

    topics: dict[tuple[str, int], Columns]  # columns by topic and instance, then by field
    # (us, level, text) in order; the level is its digit's character code
    messages: list[tuple[int, int, str]]
    info: JsonObject  # of the writer, by name
    version: str  # of the writer, such as v1.16.0; its commit where it is no release; empty if unknown
    parameters: dict[str, float]  # by name, at the start of the log
    damaged: bool  # whether parts cannot be read


def read_columns(path: Path, fields: Fields) -> UlogColumns:
    """Read some columns of a ULog, as far as the file goes; a field that it lacks is left out.

    pyulog holds every field of the topics that it reads.  A long flight's topics are therefore read one after
    the other, and only the columns are kept.

    Raises:
        UserError: for a file that cannot be read or is no ULog.
    """
    try:
        passes = min(1 + path.stat().st_size // PASS, len(fields))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    names = list(fields)
    found: dict[tuple[str, int], Columns] = {}
    for first in range(passes):
        log = read_ulog(path, names[first::passes])
        for data in log.data_list:
            kept = fields[data.name]
            columns = {name: np.array(c) for name, c in data.data.items() if not kept or name in kept}
            found.setdefault((data.name, data.multi_id), columns)
    messages = [(m.timestamp, m.log_level, COLOUR.sub("", m.message)) for m in log.logged_messages]
    info = log.msg_info_dict
    version = str(log.get_version_info_str() or info.get("ver_sw") or "")[:20]
    return UlogColumns(found, messages, info, version, dict(log.initial_parameters), log.file_corruption)
