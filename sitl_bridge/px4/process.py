"""A PX4 process of our own: started in a fresh directory, watched, and always stopped.

What it is told is in startup.py and parameters.py; who holds an instance already is told here as well.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import psutil

from sitl_bridge.errors import UserError
from sitl_bridge.px4.allocation import Parameters
from sitl_bridge.px4.find import Px4Build
from sitl_bridge.px4.parameters import check_against_build
from sitl_bridge.px4.startup import SELECTION, write_startup_files

LAST_INSTANCE = 254
"""PX4's instance i has the MAVLink system id i + 1, and ids end at 255."""
UDP_PORTS = {
    18570: "PX4's ground station link",
    14580: "PX4's offboard link",
    14280: "PX4's payload link",
    13030: "PX4's gimbal link",
}
"""Local ports of PX4's links for instance 0 (px4-rc.mavlink); instance i adds i."""
STOP_LIMIT = 3.0
"""s of wall time between asking PX4 to stop and killing it.  One that gets no more time from a simulator
never finishes by itself."""
LAST_LINES = 15
_FLOCK = "hhqqi4x"
"""struct flock of Linux: l_type, l_whence, l_start, l_len, l_pid."""


def lock_file(instance: int) -> Path:
    """Where PX4 keeps the lock of an instance (platforms/posix/src/px4/common/main.cpp)."""
    return Path("/tmp", f"px4_lock-{instance}")  # noqa: S108  (PX4's own choice)


def _lock_holder(instance: int) -> int | None:
    """Process id that holds PX4's lock of an instance; None where nobody does or it cannot be asked."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        with lock_file(instance).open("rb+") as file:
            question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, question))
    except OSError:
        return None
    return int(pid) if kind != fcntl.F_UNLCK and pid > 0 else None


def stale_processes(instance: int) -> list[psutil.Process]:
    """PX4 processes of an earlier run that still hold an instance, by its lock or its links' ports."""
    return [process for process in _holders(instance) if process.name() == "px4"]


def _holders(instance: int) -> list[psutil.Process]:
    """Processes that hold what an instance needs, as far as they can be seen."""
    pids = {_lock_holder(instance)} | {pid for _, pid in _held_ports(instance)}
    found = []
    for pid in sorted(pid for pid in pids if pid is not None):
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _held_ports(instance: int) -> list[tuple[int, int | None]]:
    """UDP ports of an instance that are taken, each with the process id where it can be seen."""
    taken = []
    for port in (first + instance for first in UDP_PORTS):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("", port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    taken.append(port)
    if not taken:
        return []
    holders: dict[int, int | None] = dict.fromkeys(taken)
    with contextlib.suppress(psutil.AccessDenied):
        for connection in psutil.net_connections(kind="udp"):
            if connection.laddr and connection.laddr.port in holders:
                holders[connection.laddr.port] = connection.pid
    return list(holders.items())


def require_free_instance(instance: int) -> None:
    """See that no PX4 of an earlier run, nor anybody else, holds what an instance needs.

    Raises:
        UserError: naming the holder and what to type.
    """
    if not 0 <= instance <= LAST_INSTANCE:
        raise UserError(f"--instance: {instance} is not within 0..{LAST_INSTANCE}")
    stale = stale_processes(instance)
    if stale:
        pids = " ".join(str(process.pid) for process in stale)
        raise UserError(
            f"a PX4 of an earlier run holds instance {instance}; type: kill -9 {pids}, or choose another"
            " --instance"
        )
    held = _held_ports(instance)
    if held:
        named = "; ".join(
            f"UDP port {port}, {UDP_PORTS[port - instance]}, is taken by {_name(pid)}" for port, pid in held
        )
        raise UserError(f"{named}; stop it, or choose another --instance")


def _name(pid: int | None) -> str:
    """A process in words for a message."""
    if pid is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            return f"{psutil.Process(pid).name()} (pid {pid})"
    return "another program"


class Px4Process:
    """One running PX4.

    Its output goes to ``console.log`` in its directory.  Where the system can (setpriv), PX4 is killed by
    the kernel when this program is killed, because a PX4 without a simulator spins for ever.

    Args:
        build: which PX4.
        instance: PX4's ``-i``; decides its ports.
        directory: working directory, made here; parameters, dataman and logs live there, so it must not
            hold those of another run.
        parameters: handed over at start; those that this PX4 does not have are left out and told.
        on_line: called with each line PX4 prints, from a thread.
        given: parameters that the user gave; these must exist and be allowed.

    Raises:
        UserError: when the instance is held, the directory is not fresh, a given parameter does not fit, or
            PX4 cannot be started.
    """

    def __init__(
        self,
        build: Px4Build,
        instance: int,
        directory: Path,
        parameters: Parameters,
        on_line: Callable[[str], None] = lambda _line: None,
        given: Parameters | None = None,
    ) -> None:
        self.build = build
        self.instance = instance
        self.directory = directory
        self._on_line = on_line
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        require_free_instance(instance)
        known, absent = check_against_build(parameters, build.etc, given or {})
        startup = self._make_directory(known)
        self._log = (directory / "console.log").open("w", encoding="utf-8")
        if absent:
            self._keep(f"bridge: PX4 {build.version} has no {', '.join(absent)}; left out")
        self._process = self._start(startup)
        self._reader = threading.Thread(target=self._read, name=f"px4-{instance}", daemon=True)
        self._reader.start()

    def _make_directory(self, parameters: Parameters) -> Path:
        """The working directory and in it the start-up files, whose directory is returned."""
        for name in ("parameters.bson", "dataman", "log"):
            if (self.directory / name).exists():
                raise UserError(f"{self.directory} holds the {name} of another run; give a fresh directory")
        startup = (self.directory / "startup").absolute()
        write_startup_files(startup, parameters)
        return startup

    def _start(self, startup: Path) -> subprocess.Popen[bytes]:
        command = [str(self.build.executable), "-i", str(self.instance), "-d", str(self.build.etc)]
        guard = shutil.which("setpriv")
        if guard is not None and threading.current_thread() is threading.main_thread():
            # The kernel ties it to the thread that starts it, so only where that thread lives on.
            command = [guard, "--pdeathsig", "KILL", *command]
        environment = {
            "PATH": f"{startup}:{os.environ.get('PATH', os.defpath)}",
            "HOME": os.environ.get("HOME", "/"),
            "LANG": "C.UTF-8",
            **SELECTION,
        }
        try:
            return subprocess.Popen(
                command,
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            raise UserError(f"{self.build.executable} cannot be started: {error.strerror}") from error

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def _read(self) -> None:
        """Keep PX4's words until it closes its output."""
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            self._keep(raw.decode("utf-8", "replace").rstrip())

    def _keep(self, line: str) -> None:
        """One line: in console.log, among the last ones, and to the owner."""
        self._log.write(line + "\n")
        self._log.flush()
        self._last.append(line)
        self._on_line(line)

    def poll(self) -> int | None:
        """Exit status, None while PX4 runs; negative: the signal that ended it."""
        return self._process.poll()

    def ended(self) -> str:
        """How PX4 ended, in words with its last lines; empty while it runs."""
        status = self.poll()
        if status is None:
            return ""
        self._reader.join(timeout=2.0)
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
        return f"PX4 {how}; its last words:\n{self.last_words() or '(none)'}"

    def last_words(self) -> str:
        """The last lines PX4 printed."""
        return "\n".join(self._last)

    def ulogs(self) -> list[Path]:
        """ULog files of this run, oldest first."""
        return sorted(self.directory.glob("log/**/*.ulg"))

    def stop(self) -> int:
        """Stop PX4 and everything it started; returns its exit status.  Safe to call twice.

        PX4 shuts down by itself on SIGTERM while its clock runs; one whose simulator is gone may not, and is
        killed after a while.  The files it leaves in /tmp are removed unless another PX4 has them by now.
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
        if not self._log.closed:
            self._log.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if _lock_holder(self.instance) is None:
            for name in (lock_file(self.instance), Path("/tmp", f"px4-sock-{self.instance}")):  # noqa: S108
                with contextlib.suppress(FileNotFoundError, PermissionError):
                    name.unlink()
        return status

    def _signal(self, number: signal.Signals) -> None:
        """To PX4's whole session; what is left of it may be nothing."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def __enter__(self) -> Px4Process:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()
