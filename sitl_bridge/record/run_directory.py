"""The run directory: description, console log, the flight stack's logs, ground truth and summary."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import sys
import tempfile
import weakref
from importlib.metadata import version
from pathlib import Path

from sitl_bridge.base.errors import UserError, mask_passwords
from sitl_bridge.base.output_file import LineLog, write_json

_ROOM = 256 * 1024
"""Bytes that are kept free for summary.json; that of twenty vehicles has a third of it."""


class RunDirectory:
    """``<parent>/<UTC time>-<name>``, never an existing one; ``<parent>/latest`` points to it once it is
    described.

    Contains run.json (configuration, seed, versions), console.log, the recording (run_recorder.py),
    autopilot/ (the flight stack's working directory) and, after the flight, summary.json.

    Args:
        parent: directory of all runs.
        name: of the mission.

    Attributes:
        give_room: frees the room that is kept for summary.json, which is written next.

    Raises:
        UserError: if it cannot be created, or has no room.
    """

    def __init__(self, parent: Path, name: str) -> None:
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self.path = self._make(parent, f"{stamp}-{name}")
        except OSError as error:
            raise UserError(
                f"{parent}: cannot create run directories there: {error.strerror};"
                " choose another place by --runs-dir"
            ) from error
        self.give_room = weakref.finalize(self, os.close, self._keep_room())
        self._console = LineLog(self.path / "console.log")

    @staticmethod
    def _make(parent: Path, name: str) -> Path:
        for suffix in ("", *(f"-{i}" for i in range(2, 1000))):
            path = (parent / f"{name}{suffix}").resolve()
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
        raise UserError(f"{parent}: contains a thousand runs called {name}; remove some")

    def _keep_room(self) -> int:
        """Keep room for the verdict; returns the descriptor of a file without a name, which has it.

        Otherwise a recording that fills the disk leaves a flight that was judged without its verdict.
        """
        room, name = tempfile.mkstemp(dir=self.path)
        Path(name).unlink()
        try:
            os.posix_fallocate(room, 0, _ROOM)
        except OSError as error:
            os.close(room)
            self.path.rmdir()
            raise UserError(f"{self.path.parent}: no room for a run: {error.strerror}") from error
        return room

    def _link_latest(self) -> None:
        parent = self.path.parent
        link, temporary = parent / "latest", parent / f".latest-{os.getpid()}"
        # The flight does not depend on it: some file systems have no links.
        with contextlib.suppress(OSError):
            temporary.symlink_to(self.path.name)
            temporary.replace(link)

    @property
    def truth(self) -> Path:
        """The truth log."""
        return self.path / "truth.npy"

    @property
    def autopilot(self) -> Path:
        """The flight stack's working directory."""
        return self.path / "autopilot"

    def say(self, line: str) -> None:
        """Append a line to the console log; does nothing after the log has ended or been closed.

        Raises:
            UserError: for the line that could not be written, on a full disk.
        """
        self._console.write(line.rstrip())

    def describe(self, **facts: object) -> None:
        """Write run.json: the given facts, software versions and the command line."""
        # Not above: it loads the compiler, which who only reads a run does without.
        from sitl_bridge.base.kernels.numba_extensions import get_host_cpu_name

        packages = ("sitl-bridge", "numpy", "numba", "llvmlite", "scipy", "pymavlink", "mavsdk")
        write_json(
            self.path / "run.json",
            {
                "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "command": [Path(sys.argv[0]).name, *(mask_passwords(word) for word in sys.argv[1:])],
                "versions": {name: version(name) for name in packages}
                | {"python": platform.python_version()},
                "machine": {
                    "system": platform.system(),
                    "architecture": platform.machine(),
                    "processor": get_host_cpu_name(),
                },
                **facts,
            },
        )
        self._link_latest()

    def close(self) -> None:
        """Close the console log."""
        self._console.close()
