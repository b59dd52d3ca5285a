"""The process at the other end of a TCP connection on this machine: what it has not read, its activity."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import psutil

_ACTIVE = ("R", "D")
"""States of a thread that runs, waits for a processor, or waits for a disk (proc_pid_stat(5))."""


def unread_by_peer(connection: socket.socket) -> int | None:
    """Bytes that the peer's socket has received and its program has not read; None if that is unknown.

    Tells a frozen flight stack from one that reads but does not answer; Linux, and the same host only.
    """
    try:
        here, there = connection.getsockname()[1], connection.getpeername()[1]
        lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        columns = line.split()
        if columns[1].endswith(f":{there:04X}") and columns[2].endswith(f":{here:04X}"):
            return int(columns[4].split(":")[1], 16)
    return None


def process_of_peer(connection: socket.socket) -> int | None:
    """Id of the peer's process; None if it is on another host, another user's or in another container."""
    with contextlib.suppress(psutil.Error, OSError):
        here, there = connection.getsockname(), connection.getpeername()
        for found in psutil.net_connections(kind="tcp4"):
            if found.laddr == there and found.raddr == here:
                return found.pid
    return None


def is_busy(process: int) -> bool:
    """Whether a thread of another process runs, or waits for a processor or a disk.  Linux.

    A flight stack without anything to do sleeps.  False for this process itself.
    """
    if process == os.getpid():
        return False
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):
                text = (thread / "stat").read_text(encoding="utf-8", errors="replace")
                if text.rpartition(")")[2].split()[0] in _ACTIVE:
                    return True
    return False
