"""A PX4 process of our own: started in a fresh directory, watched, and always stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import psutil

from sitl_bridge.errors import UserError
from sitl_bridge.px4.find import Px4Build
from sitl_bridge.px4.parameters import Parameters
from sitl_bridge.px4.startup import write_startup_files

AIRFRAME = 10016
"""PX4's none_iris, the generic quadcopter for an external simulator; parameters make it any multirotor."""
STOP_LIMIT = 3.0
"""s of wall time between asking PX4 to stop and killing it."""
LAST_LINES = 15


def stale_processes(instance: int) -> list[psutil.Process]:
    """PX4 processes of an earlier run that still hold this instance."""
    found = []
    for process in psutil.process_iter(["name", "cmdline"]):
        command = process.info["cmdline"] or []
        if process.info["name"] != "px4" or not command:
            continue
        given = "0"
        if "-i" in command and command.index("-i") + 1 < len(command):
            given = command[command.index("-i") + 1]
        if given == str(instance) and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


class Px4Process:
    """One running PX4.

    Args:
        build: which PX4.
        instance: PX4's ``-i``; decides its ports.
        directory: working directory, made fresh: parameters, dataman and logs live there.
        parameters: handed over at start.
        on_line: called with each line PX4 prints, from a thread.

    Raises:
        UserError: when a PX4 of an earlier run holds the instance, or PX4 cannot be started.
    """

    def __init__(
        self,
        build: Px4Build,
        instance: int,
        directory: Path,
        parameters: Parameters,
        on_line: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.build = build
        self.instance = instance
        self.directory = directory
        self._on_line = on_line
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        stale = stale_processes(instance)
        if stale:
            pids = " ".join(str(process.pid) for process in stale)
            raise UserError(f"a PX4 of an earlier run holds instance {instance}; type: kill -9 {pids}")
        directory.mkdir(parents=True, exist_ok=True)
        startup = directory / "startup"
        write_startup_files(startup.resolve(), parameters)
        environment = {
            "PATH": f"{startup.resolve()}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "HOME": os.environ.get("HOME", "/"),
            "LANG": "C.UTF-8",
            "PX4_SYS_AUTOSTART": str(AIRFRAME),
            "PX4_SIM_MODEL": "none_iris",
            "PX4_SIMULATOR": "none",
        }
        command = [str(build.executable), "-i", str(instance), "-d", str(build.etc)]
        try:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"{build.executable} cannot be started: {error.strerror}") from error
        self._reader = threading.Thread(target=self._read, name=f"px4-{instance}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def _read(self) -> None:
        """Keep PX4's words: in console.log of its directory, the last lines at hand, each to the owner."""
        assert self._process.stdout is not None
        with (self.directory / "console.log").open("w", encoding="utf-8") as log:
            for raw in self._process.stdout:
                line = raw.decode("utf-8", "replace").rstrip()
                log.write(line + "\n")
                log.flush()
                self._last.append(line)
                self._on_line(line)

    def poll(self) -> int | None:
        """Exit status, None while PX4 runs; negative: the signal that ended it."""
        return self._process.poll()

    def last_words(self) -> str:
        """The last lines PX4 printed."""
        return "\n".join(self._last)

    def ulogs(self) -> list[Path]:
        """ULog files of this run, oldest first."""
        return sorted(self.directory.glob("log/**/*.ulg"))

    def stop(self) -> int:
        """Stop PX4 and everything it started; returns its exit status.

        PX4 shuts down by itself on SIGTERM while its clock runs; one whose simulator is gone may not, and is
        killed after a while.
        """
        if self._process.poll() is None:
            self._signal(signal.SIGCONT)
            self._signal(signal.SIGTERM)
            end = time.monotonic() + STOP_LIMIT
            while self._process.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
        self._signal(signal.SIGKILL)
        status = self._process.wait()
        self._reader.join(timeout=2.0)
        if self._process.stdout is not None:
            self._process.stdout.close()
        for name in (f"px4-sock-{self.instance}", f"px4_lock-{self.instance}"):
            # PX4's own, in /tmp by its choice; its absence is as good.
            with contextlib.suppress(OSError):
                Path("/tmp", name).unlink()  # noqa: S108
        return status

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def __enter__(self) -> Px4Process:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()
