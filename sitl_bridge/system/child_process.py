"""A child process: started, its output kept, and always stopped with everything it started.

PX4, the built-in flight stack, the bus and the embedded broker are such processes; what is special about them
is theirs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from sitl_bridge.errors import UserError
from sitl_bridge.output_file import LineLog
from sitl_bridge.system import launch

STOP_LIMIT = 3.0
"""s of wall time between asking a process to stop and killing it.  A flight stack that gets no more time from
a simulator may never finish by itself."""
LAST_LINES = 15


class ChildProcess:
    """One running program, in a session of its own.

    Its output goes to ``console.log`` in its directory.  The kernel kills it when this program is killed.

    Args:
        name: of the program, for messages.
        command: program and arguments.
        directory: working directory, which exists; its log is kept there.
        environment: the whole of it.
        on_line: called with each line it prints, from a thread.
        inherited: file descriptors it has, too.

    Raises:
        UserError: when it cannot be started.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        on_line: Callable[[str], None] = lambda _line: None,
        inherited: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.directory = directory
        self._on_line = on_line
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._lock = threading.Lock()
        if threading.current_thread() is threading.main_thread():
            # The kernel ties a process to the thread that starts it, so only where that thread lives on.
            command = launch.command("exec", [*command])
        self._log = LineLog(directory / "console.log")
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
        """Keep what it prints until it closes its output."""
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            self.keep(raw.decode("utf-8", "replace").rstrip())

    def keep(self, line: str) -> None:
        """One line: in console.log, among the last ones, and to the owner."""
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
        """Exit status, None while it runs; negative: the signal that ended it."""
        return self._process.poll()

    def ended(self) -> str:
        """How it ended, in words with its last lines; empty while it runs."""
        status = self.poll()
        if status is None:
            return ""
        self._reader.join(timeout=2.0)
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
        return f"{self.name} {how}; its last words:\n{self.last_words() or '(none)'}"

    def last_words(self) -> str:
        """The last lines it printed."""
        return "\n".join(self._last)

    def ulogs(self) -> list[Path]:
        """ULog files of this run, oldest first."""
        return sorted(self.directory.glob("log/**/*.ulg"))

    def stop(self) -> int:
        """Stop it and everything it started; returns its exit status.  Safe to call twice.

        A flight stack shuts down by itself on SIGTERM while its clock runs; one whose simulator is gone may
        not, and is killed after a while.
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
        """To its whole session; what is left of it may be nothing."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()
