"""Files that partners may read: those about the autopilot, kept in memory, and a directory of logs.

Nothing outside of these can be reached, and nothing is written.  Log download and file transfer share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

LOGS = "log"
"""Name of the log directory in the root."""


@dataclass(frozen=True)
class ServedFile:
    """A file as it was when it was opened; a log may grow, and its growth is not served.

    Attributes:
        content: the bytes, or where they are on this computer.
        size: bytes.
    """

    content: bytes | Path
    size: int

    def read(self, offset: int, count: int) -> bytes:
        """Bytes from ``offset``; fewer at the end, none if the file is gone."""
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
        logs: the directory whose logs are served; None for none.
    """

    def __init__(self, made: Mapping[str, bytes], logs: Path | None = None) -> None:
        self._made = made
        self._logs = logs.resolve() if logs is not None else None

    def open(self, path: str) -> ServedFile | None:
        """The file at a path; None if there is none."""
        parts = _parts(path)
        if parts is not None and len(parts) == 1 and parts[0] in self._made:
            content = self._made[parts[0]]
            return ServedFile(content, len(content))
        place = self._on_disk(parts)
        return ServedFile(place, place.stat().st_size) if place is not None and place.is_file() else None

    def entries(self, path: str) -> list[str] | None:
        """Entries of a directory as MAVLink's file transfer lists them; None if there is no such one."""
        parts = _parts(path)
        if parts == ():
            files = [f"F{name}\t{len(content)}" for name, content in self._made.items()]
            return files if self._logs is None else [*files, f"D{LOGS}"]
        place = self._on_disk(parts)
        if place is None or not place.is_dir():
            return None
        return [
            f"D{entry.name}" if entry.is_dir() else f"F{entry.name}\t{entry.stat().st_size}"
            for entry in sorted(place.iterdir())
            if self._is_served(entry)
        ]

    def logs(self) -> list[Path]:
        """All logs, by name; the last is the newest."""
        if self._logs is None:
            return []
        return sorted(place for place in self._logs.rglob("*.ulg") if self._is_served(place))

    def _on_disk(self, parts: tuple[str, ...] | None) -> Path | None:
        """Where a path in the log directory is; None if that is outside, or nothing is there."""
        if self._logs is None or not parts or parts[0] != LOGS:
            return None
        place = self._logs.joinpath(*parts[1:])
        return place if self._is_served(place) else None

    def _is_served(self, place: Path) -> bool:
        """Whether a place is there and, with all links followed, in the log directory."""
        assert self._logs is not None
        try:
            there = place.resolve(strict=True)
        except OSError:
            return False
        return there.is_relative_to(self._logs) and (there.is_file() or there.is_dir())


def _parts(path: str) -> tuple[str, ...] | None:
    """Names in a path from the root; None if it could lead out of it."""
    if "\0" in path:
        return None
    parts = PurePosixPath("/", path).parts[1:]
    return None if ".." in parts else parts
