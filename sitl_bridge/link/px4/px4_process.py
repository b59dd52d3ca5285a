"""A PX4 process: started in a fresh directory, monitored, and always stopped.

Its parameters and start-up files are in airframe_parameters.py and startup.py.  This module also finds
processes that occupy an instance.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import psutil

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.base.system.port_holder import (
    describe_running,
    holder_of,
    is_taken,
    process_at,
    running_flight,
)
from sitl_bridge.core.vehicle.control_effectiveness import Parameters
from sitl_bridge.core.vehicle.stack_choice import LAST_INSTANCE
from sitl_bridge.link.hil.ports import LAST_WITH_OWN_PORT, STACK_PORTS
from sitl_bridge.link.px4.airframe_parameters import DDS_CLOCK, check_against_build
from sitl_bridge.link.px4.find import Px4Build
from sitl_bridge.link.px4.given_parameters import build_parameters
from sitl_bridge.link.px4.loopback import LoopbackGuard
from sitl_bridge.link.px4.read_back import ReadBack
from sitl_bridge.link.px4.startup import (
    MODULES,
    SELECTION,
    SHARED_PORT,
    TOPICS_ALONE,
    unchanged_defaults,
    write_links_file,
    write_log_topics,
    write_startup_files,
)
from sitl_bridge.link.px4.versions import not_everywhere

UDP_PORTS = {port: f"PX4's {link} link" for link, port in STACK_PORTS.items()} | {13030: "PX4's gimbal link"}
"""Local ports of PX4's links for instance 0 (px4-rc.mavlink); instance i adds i."""
_SPLIT = re.compile(r"[\s*?\[\\]")
"""Characters at which a shell splits or expands a path without quotes."""
PASSED = ("PX4_UXRCE_DDS_NS", "PX4_UXRCE_DDS_PORT", "ROS_DOMAIN_ID")
"""Variables of the environment that PX4 gets: namespace, port and domain of its ROS 2 topics (rcS)."""
SUBREAPERS = ("init", "systemd")
"""Programs that become the parent of a process whose own parent has ended."""
_FLOCK = "hhqqi4x"
"""struct flock of Linux: l_type, l_whence, l_start, l_len, l_pid."""


def lock_file(instance: int) -> Path:
    """Return the path of PX4's lock of an instance (platforms/posix/src/px4/common/main.cpp)."""
    return Path("/tmp", f"px4_lock-{instance}")  # noqa: S108  (PX4's own choice)


def _lock_holder(instance: int) -> int | None:
    """Return the id of the process with PX4's lock of an instance; None if there is none or it is unknown."""
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
    """Return PX4 processes that occupy an instance, by its lock or its links' ports, and serve nobody."""
    return [p for p in _holders(instance) if p.name() == "px4" and not _user_of(p)]


def user_of_instance(instance: int) -> str:
    """Return the running flight, or the program that a person has started, with an instance; else empty."""
    users = (_user_of(process) for process in _holders(instance) if process.name() == "px4")
    return next((user for user in users if user), "")


def _user_of(px4: psutil.Process) -> str:
    """Return for whom a PX4 runs; empty if it is left over: no parent, and no simulator at its link."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        flight = running_flight(px4)
        if flight:
            return flight
        parent = px4.parent()
        orphan = parent is None or parent.pid == 1 or parent.name() in SUBREAPERS
        connections = psutil.net_connections(kind="tcp")
        simulated = any(c.pid == px4.pid and c.status == psutil.CONN_ESTABLISHED for c in connections)
        if simulated or not orphan:
            return describe_running(px4)
    return ""


def _holders(instance: int) -> list[psutil.Process]:
    """Return the visible processes that occupy an instance."""
    users = [process_at(port, "udp") for port in _occupied_ports(instance)]
    found = []
    pids = {_lock_holder(instance)} | {user.pid for user in users if user is not None}
    for pid in sorted(pid for pid in pids if pid is not None):
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _occupied_ports(instance: int) -> list[int]:
    return [first + instance for first in UDP_PORTS if is_taken(first + instance, "udp", "")]


def require_free_instance(instance: int) -> None:
    """Check that no other process occupies an instance.

    Raises:
        UserError: with the process and the remedy.
    """
    if not 0 <= instance <= LAST_INSTANCE:
        raise UserError(f"--instance: {instance} is not within 0..{LAST_INSTANCE}")
    user = user_of_instance(instance)
    if user:
        raise UserError(f"instance {instance} is in use by {user}; choose another --instance")
    stale = stale_processes(instance)
    if stale:
        pids = " ".join(str(process.pid) for process in stale)
        raise UserError(
            f"a PX4 of an earlier run occupies instance {instance}; run: kill -9 {pids}, or choose another"
            " --instance"
        )
    held = _occupied_ports(instance)
    if held:
        named = "; ".join(
            f"UDP port {port}, {UDP_PORTS[port - instance]}, is in use by {holder_of(port, 'udp')}"
            for port in held
        )
        raise UserError(f"{named}; stop it, or choose another --instance")


class Px4Process(ChildProcess):
    """One running PX4.

    PX4 without a simulator uses a whole processor for ever, so it is ended with this program if the system
    supports that.

    Args:
        instance: PX4's ``-i``; selects its ports.
        directory: working directory, created here, for parameters, dataman and logs; it must not contain
            those of another run.
        parameters: set at start; those that this PX4 does not have are omitted and reported.
        on_line: called with each line of PX4's output, from a thread.
        given: parameters set by the user; these must exist and be allowed.
        lean: whether it is one of several vehicles, with fewer unrequested MAVLink streams and logged
            topics.  An SDLOG_PROFILE in ``given`` still selects the logged topics; with 0, PX4's selection of
            none, it is these few.
        expose: whether other machines may reach its MAVLink ports, and with them its files.

    Attributes:
        exposed: reason why its ports are reachable from other machines against the setting; empty otherwise.
        unchanged: expected lines of PX4's scripts that were not found and so not changed.
        dds_by_simulated_time: whether its uXRCE-DDS client was told to stamp with simulated time.
        without: modules that the airframe needs and this PX4 does not have.

    Raises:
        UserError: if the instance is occupied, the directory is not fresh, a given parameter does not fit, or
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
        thin = (given or {}).get("SDLOG_PROFILE", 0 if lean else None) == 0
        if thin:
            parameters = parameters | TOPICS_ALONE
        self._handed_over, absent = check_against_build(parameters, build.etc, given or {})
        self.dds_by_simulated_time = self._handed_over.get(DDS_CLOCK) == 0
        self.without = tuple(MODULES[name].split()[0] for name in MODULES if name in absent)
        needless = unchanged_defaults(self._handed_over, build_parameters(build.etc), build.etc)
        startup = _make_directory(directory, self._handed_over, needless)
        if thin:
            write_log_topics(directory, build.etc)
        missing = write_links_file(startup, build.etc, lean=lean)
        if SHARED_PORT in missing and instance > LAST_WITH_OWN_PORT:
            raise UserError(
                f"instance {instance}: px4-rc.mavlink of this PX4 does not set {SHARED_PORT.line}, so"
                " they cannot have one each; use instances up to 9"
            )
        self.unchanged = tuple(change.line for change in missing if change is not SHARED_PORT)
        environment = {
            "PATH": f"{startup}:{os.environ.get('PATH', os.defpath)}",
            "HOME": os.environ.get("HOME", "/"),
            "LANG": "C.UTF-8",
            **{name: os.environ[name] for name in PASSED if name in os.environ},
            **SELECTION,
        }
        if _SPLIT.search(str(directory.absolute())):
            environment |= {"PWD": "/proc/self/cwd"}  # PX4's scripts use it without quotes
        command = [str(build.executable), "-i", str(instance), "-d", str(build.etc)]
        self._guard = None if expose else LoopbackGuard()
        self.exposed = ""
        if self._guard is None:
            super().__init__("PX4", command, directory, environment, on_line, batch=True)
        else:
            command = [*self._guard.command, *command]
            try:
                inherited = [self._guard.inherited]
                super().__init__("PX4", command, directory, environment, on_line, inherited, batch=True)
                self.exposed = self._guard.begin()
            except BaseException:
                self._guard.close()
                raise
        if absent:
            self.log(f"bridge: PX4 {build.version} has no {', '.join(absent)}; omitted")

    def read_back(self) -> ReadBack:
        """Return the read-back that verifies the parameters of this PX4."""
        listed = build_parameters(self.build.etc) is not None
        return ReadBack(self._handed_over, () if listed else not_everywhere())

    def stop(self) -> int:
        """Stop PX4 and its children; return its exit status.  Safe to call twice.

        Its files in /tmp are removed unless another PX4 uses them by now.
        """
        status = super().stop()
        if self._guard is not None:
            self._guard.close()
        if _lock_holder(self.instance) is None:
            for name in (lock_file(self.instance), Path("/tmp", f"px4-sock-{self.instance}")):  # noqa: S108
                with contextlib.suppress(FileNotFoundError, PermissionError):
                    name.unlink()
        return status


def _make_directory(directory: Path, parameters: Parameters, needless: Collection[str]) -> Path:
    """Create the working directory and its start-up files; return the directory of the latter."""
    for name in ("parameters.bson", "dataman", "log"):
        if (directory / name).exists():
            raise UserError(f"{directory} contains the {name} of another run; give a fresh directory")
    startup = (directory / "startup").absolute()
    write_startup_files(startup, parameters, needless=needless)
    return startup
