"""A mission in its own process: a plan or a script that uses MAVSDK, for one vehicle or for all.

It is stopped together with every process that it has started.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sitl_bridge.base.system import launch
from sitl_bridge.base.system.signals import delay_signals
from sitl_bridge.session.missions.environment import INTERRUPTED
from sitl_bridge.session.missions.time_gate import TURN_VARIABLE, VARIABLE, MissionGate

MISSION_STOP = 4.0
"""s of wall time for a mission to end after SIGTERM: it may command the vehicle to hold first."""


class MissionProcess:
    """A running mission.

    Args:
        command: arguments of the Python interpreter: a script and its arguments, or ``-m`` and a module.
        environment: variables added to this process's environment.
        say: receives each line that the mission prints, from a thread.
        gate: through which the mission limits simulated time; None for none.
        python: interpreter; None for this program's.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        say: Callable[[str], None],
        gate: MissionGate | None = None,
        python: Path | None = None,
    ) -> None:
        self._say = say
        self._last = ""
        self._error = UncaughtError(command[0])
        self.gate = gate
        inherited = () if gate is None else (gate.mission_end,)
        gate_variables = {} if gate is None else {VARIABLE: str(gate.mission_end)}
        if gate is not None and gate.turn:
            gate_variables[TURN_VARIABLE] = str(gate.turn)
        with delay_signals():
            # MAVSDK leaves files there whenever its process is killed.
            self._temporary = tempfile.mkdtemp(prefix="sitl-bridge-")
            self._process = subprocess.Popen(
                # A mission may start any process; its keeper ends with this program, and ends all of them.
                launch.command("keep", [self._temporary, str(python or sys.executable), "-u", *command]),
                env=os.environ | environment | gate_variables | {"TMPDIR": self._temporary},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=inherited,
            )
        if gate is not None:
            gate.start()
        self._reader = threading.Thread(target=self._read, name="mission", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for raw in stream:
                line = raw.decode("utf-8", "replace").rstrip()
                if line:
                    self._last = line
                    self._error.read(line)
                    self._say(line)

    def poll(self) -> int | None:
        """Exit status; None while the mission runs."""
        return self._process.poll()

    def reason(self) -> str:
        """Why a mission that has ended failed: its own message, or its exit status, error and last line."""
        self._reader.join(timeout=2.0)
        status = self.poll()
        if status == INTERRUPTED:
            return "the mission was interrupted"
        if self._last.startswith("mission failed: "):
            return self._last.removeprefix("mission failed: ")
        how = (
            f"was ended by {signal.Signals(-status).name}"
            if status and status < 0
            else f"exited with {status}"
        )
        error = self._error.text
        if error and (self._error.last == self._last or self._last.startswith(" ")):
            return f"the mission {how}: {error}"
        return f"the mission {how}{f': {error}' if error else ''}; its last line: {self._last or 'none'}"

    def release_time(self) -> None:
        """Let time pass for others, after the end; safe to call twice."""
        if self.gate is not None:
            self.gate.release_time()

    def stop(self) -> None:
        """End the mission and all processes that it has started; safe to call twice."""
        for send, limit in ((self._terminate, MISSION_STOP), (self._kill, 2.0)):
            if self.poll() is None:
                send()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(limit)
        self._signal(signal.SIGKILL)
        shutil.rmtree(self._temporary, ignore_errors=True)
        if self.gate is not None:
            self.gate.close()
        self._reader.join(timeout=2.0)

    def _terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def _kill(self) -> None:
        """Let the keeper kill the mission and its processes, including those that have left the session."""
        self._process.send_signal(launch.KILL_ALL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


_BEGIN = "Traceback (most recent call last):"
_FRAME = re.compile(r' +File "(.*)", line (\d+)')


class UncaughtError:
    """The last traceback that a program has printed.

    An error's text may have many lines, of which the first says what happened.

    Args:
        script: of the program, whose lines are named.

    Attributes:
        last: the line that names the error; empty before one.
    """

    def __init__(self, script: str) -> None:
        self._script = script
        self._within = False
        self._place = ""
        self.last = ""

    def read(self, line: str) -> None:
        """Take a line that the program has printed."""
        if line == _BEGIN:
            self._within, self._place, self.last = True, "", ""
        elif self._within and not line.startswith(" "):
            self._within, self.last = False, line
        elif self._within:
            frame = _FRAME.match(line)
            if frame is not None and Path(frame[1]) == Path(self._script).absolute():
                self._place = f" ({Path(self._script).name}, line {frame[2]})"

    @property
    def text(self) -> str:
        """The error, with the line of the script in which it came up; empty if there was none."""
        return self.last + self._place if self.last else ""
