"""Finds the program that uses a port of this machine, for messages about ports that are taken."""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from pathlib import Path
from typing import Literal

import psutil

Kind = Literal["tcp", "udp"]


def is_taken(port: int, kind: Kind = "tcp", host: str = "127.0.0.1") -> bool:
    """Whether a port of this machine is in use.

    Raises:
        OSError: for a host that is not this machine.
    """
    stream = kind == "tcp"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM) as probe:
        if stream:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return True
    return False


def taken_by(port: int, kind: Kind = "tcp", host: str = "127.0.0.1") -> str:
    """The program that uses a port of this machine; empty if the port is free; errors of ``is_taken``."""
    return holder_of(port, kind) if is_taken(port, kind, host) else ""


def process_at(port: int, kind: Kind = "tcp") -> psutil.Process | None:
    """The process that uses a port; None if it is not visible."""
    with contextlib.suppress(psutil.AccessDenied):
        for connection in psutil.net_connections(kind=kind):
            here = connection.laddr
            listens = kind == "udp" or connection.status == psutil.CONN_LISTEN
            if here and here.port == port and listens and connection.pid:
                with contextlib.suppress(psutil.NoSuchProcess):
                    return psutil.Process(connection.pid)
    return None


def holder_of(port: int, kind: Kind = "tcp") -> str:
    """The program that uses a port: a running flight, or its name, its script and its process id."""
    process = process_at(port, kind)
    if process is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            return running_flight(process) or describe(process)
    return "another program"


def running_flight(process: psutil.Process) -> str:
    """``a running flight (pid 123, started 14:03:12)`` that a process is part of; empty if there is none."""
    with contextlib.suppress(psutil.AccessDenied, psutil.NoSuchProcess):
        for one in (process, *process.parents()):
            # [python] sitl-bridge COMMAND ..., or python -m sitl_bridge COMMAND ...
            words = [Path(word).name for word in one.cmdline()[:3]]
            if "sitl-bridge" in words or any(
                word in ("sitl_bridge", "sitl_bridge.cli.main") for word in words
            ):
                return f"a running flight ({_facts(one)})"
    return ""


def describe_running(process: psutil.Process) -> str:
    """A process for messages, with its start: ``px4 (pid 123, started 14:03:12)``."""
    return f"{process.name()} ({_facts(process)})"


def _facts(process: psutil.Process) -> str:
    started = time.strftime("%H:%M:%S", time.localtime(process.create_time()))
    return f"pid {process.pid}, started {started}"


def describe(process: psutil.Process) -> str:
    """A process for messages: ``python3 missions/hover.py (pid 123)``."""
    name = process.name()
    words = [name]
    if name.startswith("python"):
        with contextlib.suppress(psutil.AccessDenied, psutil.ZombieProcess):
            rest = iter(process.cmdline()[1:])
            # Only the script or module: its arguments may contain secrets.
            words += next(
                ([word] if word != "-m" else [next(rest, "")] for word in rest if _is_program(word)), []
            )
    return f"{' '.join(words)} (pid {process.pid})"


def _is_program(word: str) -> bool:
    """Whether an argument of Python's command line is the script, the ``-m`` before a module, or ``-c``."""
    return word in ("-m", "-c") or not word.startswith("-")
