"""Files that partners may read: metadata in memory and a directory of logs.

Other files are inaccessible, and nothing is written.  Log download and file transfer share this access.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

LOGS = "log"
"""Name of the log directory in the root."""


@dataclass(frozen=True)
class ServedFile:
    """A file with its size at opening; data appended later is not served.

    Attributes:
        content: the bytes, or the path on this computer.
        size: bytes.
    """

    content: bytes | Path
    size: int

    def read(self, offset: int, count: int) -> bytes:
        """Return bytes from ``offset``; fewer at the end, none if the file no longer exists."""
        end = min(offset + count, self.size)
        if isinstance(self.content, bytes):
            return self.content[offset:end]
        try:
            with self.content.open("rb") as file:
                file.seek(offset)
                return file.read(max(end - offset, 0))
        except OSError:
            return b""


class ServedFiles:
    """Files of one vehicle.

    Args:
        made: contents of the files in the root, by name.
        logs: the directory of logs; None if there is none.
    """

    def __init__(self, made: Mapping[str, bytes], logs: Path | None = None) -> None:
        self._made = made
        self._logs = logs.resolve() if logs is not None else None

    def open(self, path: str) -> ServedFile | None:
        """Return the file at a path; None if there is none."""
        parts = _parts(path)
        if parts is not None and len(parts) == 1 and parts[0] in self._made:
            content = self._made[parts[0]]
            return ServedFile(content, len(content))
        location = self._on_disk(parts)
        return (
            ServedFile(location, location.stat().st_size)
            if location is not None and location.is_file()
            else None
        )

    def entries(self, path: str) -> list[str] | None:
        """Return the entries of a directory in MAVLink's format; None if it does not exist."""
        parts = _parts(path)
        if parts == ():
            files = [f"F{name}\t{len(content)}" for name, content in self._made.items()]
            return files if self._logs is None else [*files, f"D{LOGS}"]
        location = self._on_disk(parts)
        if location is None or not location.is_dir():
            return None
        return [
            f"D{entry.name}" if entry.is_dir() else f"F{entry.name}\t{entry.stat().st_size}"
            for entry in sorted(location.iterdir())
            if self._is_served(entry)
        ]

    def logs(self) -> list[Path]:
        """Return all logs, by name; the last is the newest."""
        if self._logs is None:
            return []
        return sorted(location for location in self._logs.rglob("*.ulg") if self._is_served(location))

    def _on_disk(self, parts: tuple[str, ...] | None) -> Path | None:
        """Return the location of a path in the log directory; None if it is outside or does not exist."""
        if self._logs is None or not parts or parts[0] != LOGS:
            return None
        location = self._logs.joinpath(*parts[1:])
        return location if self._is_served(location) else None

    def _is_served(self, location: Path) -> bool:
        """Return whether a file exists and, with all links resolved, lies in the log directory."""
        assert self._logs is not None
        try:
            there = location.resolve(strict=True)
        except OSError:
            return False
        return there.is_relative_to(self._logs) and (there.is_file() or there.is_dir())


def _parts(path: str) -> tuple[str, ...] | None:
    """Return the parts of a path from the root; None if it could leave the root."""
    if "\0" in path:
        return None
    parts = PurePosixPath("/", path).parts[1:]
    return None if ".." in parts else parts
