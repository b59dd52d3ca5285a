"""Finds the program that uses a port of this machine, for messages about ports that are taken."""

from __future__ import annotations

import contextlib
from typing import Literal

import psutil


def holder_of(port: int, kind: Literal["tcp", "udp"] = "tcp") -> str:
    """The program that uses a port: its name, its script if it is an interpreter, and its process id."""
    with contextlib.suppress(psutil.AccessDenied):
        for connection in psutil.net_connections(kind=kind):
            here = connection.laddr
            listens = kind == "udp" or connection.status == psutil.CONN_LISTEN
            if here and here.port == port and listens and connection.pid:
                with contextlib.suppress(psutil.NoSuchProcess):
                    return describe(psutil.Process(connection.pid))
    return "another program"


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
