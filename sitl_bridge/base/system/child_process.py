"""A child process: started, its output logged, and always stopped with every process that it has started.

PX4, the built-in flight stack, the bus and the embedded broker derive from it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.output_file import LineLog
from sitl_bridge.base.system import launch

COLOUR = re.compile("\x1b\\[[0-9;]*m")
"""A terminal's colours, which PX4 prints and logs with some of its messages."""
STOP_LIMIT = 3.0
"""s of wall time from SIGTERM to SIGKILL.  A flight stack without simulated time may never end by itself."""
LAST_LINES = 15
MOST_LOGGED = 64 << 20
"""Bytes of a program's output that are logged: what others send it may make it print for ever."""


class ChildProcess:
    """One running program, in its own session.

    Its output is logged to ``console.log`` in its directory.  The kernel kills it if this program is killed.

    Args:
        name: of the program, for messages.
        command: program and arguments.
        directory: working directory, which exists; also of the log.
        environment: all its variables.
        on_line: called with each line that it prints, from a thread.
        inherited: file descriptors that it inherits.
        batch: whether it runs under SCHED_BATCH, without real-time priorities (launch.py).

    Raises:
        UserError: if it cannot be started.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        on_line: Callable[[str], None] = lambda _line: None,
        inherited: Sequence[int] = (),
        *,
        batch: bool = False,
    ) -> None:
        self.name = name
        self.directory = directory
        self._on_line = on_line
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._lock = threading.Lock()
        # The kernel kills the process when the thread that started it ends, so only from the main thread.
        watched = threading.current_thread() is threading.main_thread()
        if batch:
            command = launch.command("batch", [*command], watched=watched)
        elif watched:
            command = launch.command("exec", [*command])
        self._log = LineLog(directory / "console.log", MOST_LOGGED)
        try:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=inherited,
            )
        except OSError as error:
            self._log.close()
            raise UserError(f"{name} cannot be started: {error.strerror}") from error
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def _read(self) -> None:
        """Log its output until it closes it."""
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            self.log(raw.decode("utf-8", "replace").rstrip())

    def log(self, line: str) -> None:
        """Log a line to console.log, keep it among the last lines, and pass it to ``on_line``."""
        ended = ""
        with self._lock:
            self._last.append(line)
            try:
                self._log.write(line)
            except UserError as error:
                ended = str(error)
        self._on_line(line)
        if ended:
            self._on_line(ended)

    def poll(self) -> int | None:
        """Exit status; None while it runs; the negative number of a signal that ended it."""
        return self._process.poll()

    def describe_end(self) -> str:
        """Message about how it ended, with its last lines; empty while it runs."""
        status = self.poll()
        if status is None:
            return ""
        self._reader.join(timeout=2.0)
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
        return f"{self.name} {how}; its last lines:\n{self.last_lines() or '(none)'}"

    def last_lines(self) -> str:
        """The last lines that it printed."""
        return COLOUR.sub("", "\n".join(self._last))

    def ulogs(self) -> list[Path]:
        """ULog files of this run, by their names; ``flight.ulg`` is the last."""
        return sorted(self.directory.glob("log/**/*.ulg"))

    def stop(self) -> int:
        """Stop it and every process that it has started; returns its exit status.  Safe to call twice.

        A flight stack shuts down on SIGTERM while simulated time runs; without it, it may not, and is killed
        after STOP_LIMIT.
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
        with self._lock:
            self._log.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return status

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to its whole session, which may have ended."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()
