"""A PX4 process of our own: started in a fresh directory, watched, and always stopped.

What it is told is in startup.py and parameters.py; who holds an instance already is told here as well.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

from sitl_bridge.errors import UserError
from sitl_bridge.hil.ports import LAST_OF_PX4S_OWN
from sitl_bridge.px4.airframe_parameters import build_parameters, check_against_build
from sitl_bridge.px4.find import Px4Build
from sitl_bridge.px4.loopback import LoopbackGuard
from sitl_bridge.px4.read_back import ReadBack
from sitl_bridge.px4.startup import (
    SELECTION,
    SHARED_PORT,
    write_links_file,
    write_log_topics,
    write_startup_files,
)
from sitl_bridge.px4.versions import renamed
from sitl_bridge.system.child_process import ChildProcess
from sitl_bridge.vehicle.control_effectiveness import Parameters

LAST_INSTANCE = 254
"""PX4's instance i has the MAVLink system id i + 1, and ids end at 255."""
UDP_PORTS = {
    18570: "PX4's ground station link",
    14580: "PX4's offboard link",
    14280: "PX4's payload link",
    13030: "PX4's gimbal link",
}
"""Local ports of PX4's links for instance 0 (px4-rc.mavlink); instance i adds i."""
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


class Px4Process(ChildProcess):
    """One running PX4.

    A PX4 without a simulator spins for ever, so it never outlives this program where the system can see to
    that.

    Args:
        build: which PX4.
        instance: PX4's ``-i``; decides its ports.
        directory: working directory, made here; parameters, dataman and logs live there, so it must not
            hold those of another run.
        parameters: handed over at start; those that this PX4 does not have are left out and told.
        on_line: called with each line PX4 prints, from a thread.
        given: parameters that the user gave; these must exist and be allowed.
        lean: whether it is one of several, and sends and logs less: MAVLink streams that nobody asks for, and
            topics that no report reads.  A SDLOG_PROFILE among ``given`` decides what is logged all the same.
        expose: whether other machines may reach its MAVLink ports, and with them its files.

    Attributes:
        exposed: why other machines can reach its ports though they should not; empty where they cannot, or
            where they may.
        unchanged: lines of PX4's own scripts that were to be changed and were not found.

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
        lean: bool = False,
        expose: bool = False,
    ) -> None:
        self.build = build
        self.instance = instance
        require_free_instance(instance)
        self._handed_over, absent = check_against_build(parameters, build.etc, given or {})
        startup = _make_directory(directory, self._handed_over)
        if lean and "SDLOG_PROFILE" not in (given or {}):
            write_log_topics(directory, build.etc)
        missing = write_links_file(startup, build.etc, lean=lean)
        if SHARED_PORT in missing and instance > LAST_OF_PX4S_OWN:
            raise UserError(
                f"instance {instance}: px4-rc.mavlink of this PX4 does not set {SHARED_PORT.line}, so"
                " they cannot have one each; use instances up to 9"
            )
        self.unchanged = tuple(change.line for change in missing if change is not SHARED_PORT)
        environment = {
            "PATH": f"{startup}:{os.environ.get('PATH', os.defpath)}",
            "HOME": os.environ.get("HOME", "/"),
            "LANG": "C.UTF-8",
            **SELECTION,
        }
        command = [str(build.executable), "-i", str(instance), "-d", str(build.etc)]
        self._guard = None if expose else LoopbackGuard()
        self.exposed = ""
        if self._guard is None:
            super().__init__("PX4", command, directory, environment, on_line)
        else:
            command = [*self._guard.command, *command]
            try:
                super().__init__("PX4", command, directory, environment, on_line, [self._guard.inherited])
                self.exposed = self._guard.begin()
            except BaseException:
                self._guard.close()
                raise
        if absent:
            self.keep(f"bridge: PX4 {build.version} has no {', '.join(absent)}; left out")

    def read_back(self) -> ReadBack:
        """What to ask this PX4 for, to see that the parameters it was given have arrived."""
        listed = build_parameters(self.build.etc) is not None
        return ReadBack(self._handed_over, () if listed else renamed())

    def stop(self) -> int:
        """Stop PX4 and everything it started; returns its exit status.  Safe to call twice.

        The files it leaves in /tmp are removed unless another PX4 has them by now.
        """
        status = super().stop()
        if self._guard is not None:
            self._guard.close()
        if _lock_holder(self.instance) is None:
            for name in (lock_file(self.instance), Path("/tmp", f"px4-sock-{self.instance}")):  # noqa: S108
                with contextlib.suppress(FileNotFoundError, PermissionError):
                    name.unlink()
        return status


def _make_directory(directory: Path, parameters: Parameters) -> Path:
    """The working directory and in it the start-up files, whose directory is returned."""
    for name in ("parameters.bson", "dataman", "log"):
        if (directory / name).exists():
            raise UserError(f"{directory} holds the {name} of another run; give a fresh directory")
    startup = (directory / "startup").absolute()
    write_startup_files(startup, parameters)
    return startup
