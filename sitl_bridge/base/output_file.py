"""Files that stay complete on a full disk: written whole or not at all, and logs that end after an entry."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sitl_bridge.base.arrays import Columns
from sitl_bridge.base.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def make_directory(directory: Path) -> None:
    """Make a directory for output, and those above it, where there is none.

    Raises:
        UserError: if it cannot be made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{directory}: cannot be made: {error.strerror}") from error


def write_whole(path: Path, content: bytes | str) -> Path:
    """Write a file whole or not at all; an existing file stays until then.

    Raises:
        UserError: if it cannot be written.
    """
    # Paths may have bytes that are no UTF-8.
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    with whole_file(path) as place:
        place.write_bytes(data)
    return path


def write_json(path: Path, data: object) -> Path:
    """Write plain data as a JSON file, whole or not at all; what is not plain as its text.

    Raises:
        UserError: if it cannot be written.
    """
    return write_whole(path, json.dumps(data, indent=2, default=str) + "\n")


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which is renamed to ``path`` at the end of the block.

    A device or a pipe is written directly.

    Raises:
        UserError: if it cannot be written; an existing file stays.
    """
    # With the same suffix, by which some writers choose their compression.
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        if path.exists() and not path.is_file():
            yield path
        else:
            yield temporary
            temporary.replace(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_figure(path: Path, figure: Figure) -> Path:
    """Write a matplotlib figure as a PNG file, whole or not at all.

    Raises:
        UserError: when it cannot be written.
    """
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return write_whole(path, picture.getvalue())


def write_arrays(path: Path, arrays: Columns) -> Path:
    """Write arrays as a compressed ``.npz`` file, whole or not at all.

    Raises:
        UserError: when it cannot be written.
    """
    table = io.BytesIO()
    np.savez_compressed(table, allow_pickle=False, **arrays)
    return write_whole(path, table.getvalue())


def append_whole(file: io.FileIO, data: bytes | memoryview) -> None:
    """Append data to an unbuffered file, completely or not at all.

    Raises:
        OSError: if it does not fit; the file is unchanged.
    """
    begin = file.seek(0, os.SEEK_END)
    left = memoryview(data)
    try:
        while left:
            # On a disk that fills up, a first write is incomplete and only the next one fails.
            left = left[file.write(left) :]
    except OSError:
        with contextlib.suppress(OSError):  # if truncating fails too, a part of the data remains
            file.truncate(begin)
        raise


class LineLog:
    """A text file of lines, which ends after a complete line if it can no longer be written.

    Args:
        path: of the file; overwritten.
        most: bytes after which it ends, too.

    Raises:
        UserError: if it cannot be created.
    """

    def __init__(self, path: Path, most: float = math.inf) -> None:
        self.path, self._room = path, most
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}") from error
        self._ended = False

    def write(self, line: str) -> None:
        """Append a line; does nothing once the log has ended or is closed.

        Raises:
            UserError: once, for the line that could not be written.
        """
        if self._ended or self._file.closed:
            return
        data = line.encode("utf-8", "replace") + b"\n"
        self._room -= len(data)
        self._ended = self._room < 0
        if self._ended:
            raise UserError(f"{self.path}: has as many bytes as it may have; the log ends here")
        try:
            append_whole(self._file, data)
        except OSError as error:
            self._ended = True
            raise UserError(f"{self.path}: {error.strerror}; the log ends here") from error

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._file.close()
