"""A mission in its own process: a plan or a script that uses MAVSDK, for one vehicle or for all.

It is checked before anything starts, and stopped together with every process that it has started.
"""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.input_file import MAX_PROGRAM_BYTES, exists, read_bytes
from sitl_bridge.base.system import launch
from sitl_bridge.base.system.interpreter import check_interpreter
from sitl_bridge.base.system.signals import uninterrupted
from sitl_bridge.core.world.world import Origin
from sitl_bridge.plan.plan import Plan, distance
from sitl_bridge.plan.plan_file import MAX_LEG, load_plan
from sitl_bridge.session.mavsdk_version import require_mavsdk
from sitl_bridge.session.missions.mission_script import INTERRUPTED
from sitl_bridge.session.missions.time_gate import TURN_VARIABLE, VARIABLE, MissionGate
from sitl_bridge.session.uncaught_error import UncaughtError

MISSION_STOP = 4.0
"""s of wall time for a mission to end after SIGTERM: it may command the vehicle to hold first."""


def check_mission(
    path: Path, arguments: Sequence[str], origin: Origin, python: Path | None = None
) -> Plan | None:
    """Check everything about a mission that can be checked before the start.

    Args:
        path: a ``.plan`` of QGroundControl or a ``.py``.
        arguments: for a script.
        origin: of the world.
        python: interpreter of a script; None for this program's.

    Returns:
        the plan; None for a script.

    Raises:
        UserError: for a mission that cannot be flown; ConfigurationError for the faults of a plan.
    """
    plan = check_mission_file(path, arguments, python)
    if plan is not None:
        away = distance((origin.latitude, origin.longitude), plan.legs[0].point)
        if away > MAX_LEG:
            raise UserError(
                f"{path}: begins {away / 1000:.1f} km from the world's origin ({origin.latitude:.5f}, "
                f"{origin.longitude:.5f}); give a --world whose origin is near the plan's home "
                f"({plan.home[0]:.5f}, {plan.home[1]:.5f})"
            )
    return plan


def check_mission_file(path: Path, arguments: Sequence[str], python: Path | None = None) -> Plan | None:
    """Check a mission as far as that needs no world; see ``check_mission``."""
    if not exists(path):
        raise UserError(f"{path}: no such mission file")
    if path.suffix == ".plan":
        plan = load_plan(path)
        if arguments:
            raise UserError(f"{path}: a plan takes no arguments ({' '.join(arguments)})")
        if python is not None:
            raise UserError(f"{path}: sitl-bridge itself flies plans; leave out --python")
        return plan
    if path.suffix == ".py":
        if python is not None:
            check_interpreter(python, path)
        try:
            program = ast.parse(read_bytes(path, MAX_PROGRAM_BYTES), str(path))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if python is not None:
                return None  # a later Python than this one may have written it
            raise UserError(f"{path}: is not a Python program: {error}") from error
        require_mavsdk(program, path, python)
        return None
    raise UserError(f"{path}: a mission is a .plan of QGroundControl or a .py that uses MAVSDK")


def takes_turns(mission: Path, python: Path | None = None) -> bool:
    """Whether a checked mission uses the time gate, and so can take turns: a plan, or a script that imports
    this program's mission scripts."""
    if mission.suffix == ".plan":
        return True
    if python is not None:
        return False
    program = ast.parse(read_bytes(mission, MAX_PROGRAM_BYTES), str(mission))
    return any(
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sitl_bridge.session.missions")
        for node in ast.walk(program)
    )


class MissionProcess:
    """A running mission.

    Args:
        command: arguments of the Python interpreter: a script and its arguments, or ``-m`` and a module.
        environment: variables added to this process's environment.
        say: receives each line that the mission prints, from a thread.
        inherited: file descriptors that the mission inherits.
        gate: through which the mission limits simulated time; None for none.
        python: interpreter; None for this program's.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        say: Callable[[str], None],
        inherited: Sequence[int] = (),
        gate: MissionGate | None = None,
        python: Path | None = None,
    ) -> None:
        self._say = say
        self._last = ""
        self._error = UncaughtError(command[0])
        self.gate = gate
        inherited = (*inherited, *(() if gate is None else (gate.mission_end,)))
        gate_variables = {} if gate is None else {VARIABLE: str(gate.mission_end)}
        if gate is not None and gate.turn:
            gate_variables[TURN_VARIABLE] = str(gate.turn)
        with uninterrupted():
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
