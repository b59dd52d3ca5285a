"""Opens users' files: only ordinary files, up to a size limit.

A device never ends, a FIFO waits for a writer, and a huge file fills the memory; all are refused at once.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Columns
from sitl_bridge.base.errors import ConfigurationError, UserError, shorten

MAX_TABLE_BYTES = 20_000_000
"""Limit of a CSV table: an hour of eleven columns at 50 Hz."""
MAX_PROGRAM_BYTES = 2_000_000
"""Limit of a Python file."""

_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def is_file(path: Path) -> bool:
    """Whether there is an ordinary file; False also for an impossible name, such as one that is too long."""
    try:
        return path.is_file()
    except OSError:
        return False


def exists(path: Path) -> bool:
    """Whether there is a file or directory of that name; False also for an impossible name."""
    try:
        return path.exists()
    except OSError:
        return False


def read_bytes(path: Path, most: int) -> bytes:
    """Content of an ordinary file.

    Args:
        path: the file.
        most: greatest size in bytes.

    Raises:
        ConfigurationError: for a file that is missing, not ordinary, unreadable or larger than that.
    """
    source = str(path)
    try:
        # Without O_NONBLOCK, opening a FIFO waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                kind = next((name for test, name in _KINDS if test(mode)), "special")
                raise ConfigurationError(source, [f"is {kind}; it must be an ordinary file"])
            raw = stream.read(most + 1)
    except OSError as error:
        raise ConfigurationError(source, [f"cannot be read: {error.strerror}"]) from error
    except ValueError as error:  # a name with a NUL in it
        raise ConfigurationError(source, [f"cannot be read: {error}"]) from error
    if len(raw) > most:
        raise ConfigurationError(source, [f"is larger than {most} bytes, the limit for such a file"])
    return raw


def read_text(path: Path, most: int) -> str:
    """Content of a UTF-8 text file, with or without a byte order mark.

    Raises:
        ConfigurationError: as ``read_bytes``, and for text that is not UTF-8.
    """
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"line {line}: {error.reason}; save the file as UTF-8 text"
        raise ConfigurationError(str(path), [message]) from error


@contextlib.contextmanager
def name_broken(path: Path, kind: str, remedy: str = "") -> Iterator[None]:
    """Turn whatever a library raises about a file within the block into a UserError; those pass.

    Args:
        path: of the file.
        kind: that it is not: "a PNG".
        remedy: what the user can do; empty for none.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        what = f"{path}: is broken or not {kind}: {shorten(str(error))}"
        raise UserError(f"{what}; {remedy}" if remedy else what) from error


def read_arrays(path: Path, most: int) -> Columns:
    """Arrays of an ``.npz`` file; a file of kilobytes may hold gigabytes of equal numbers.

    Args:
        path: the file.
        most: greatest size of all arrays together in bytes.

    Raises:
        ValueError: for a file that cannot be read, is no ``.npz`` file or holds more than that.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            held = sum(member.file_size for member in archive.infolist())
        if held > most:
            raise ValueError(f"its arrays take {held:,} bytes, the limit is {most:,}")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, KeyError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(str(error)) from error


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
