"""The TCP sockets of the simulator links: one listening port and at most one connection per vehicle."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Sequence
from pathlib import Path

import psutil

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.port_holder import holder_of

_ACTIVE = ("R", "D")
"""States of a thread that runs, waits for a processor, or waits for a disk (proc_pid_stat(5))."""
_STOPPED = ("T", "t")
"""States of a thread that was stopped by a signal, or by a debugger."""


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


def _thread_states(process: int | None) -> set[str]:
    """States of another process's threads (proc_pid_stat(5)); none of this one's.  Linux."""
    found = set()
    if process not in (None, os.getpid()):
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{process}/task").iterdir():
                with contextlib.suppress(OSError):
                    text = (thread / "stat").read_text(encoding="utf-8", errors="replace")
                    found.add(text.rpartition(")")[2].split()[0])
    return found


def is_busy(process: int | None) -> bool:
    """Whether a thread of another process runs, or waits for a processor or a disk.

    A flight stack without anything to do sleeps.  False for this process itself, and for one that is not
    known.
    """
    return not _thread_states(process).isdisjoint(_ACTIVE)


def is_stopped(process: int | None) -> bool:
    """Whether another process has been stopped by a signal or a debugger; False for one that is not known."""
    return not _thread_states(process).isdisjoint(_STOPPED)


def _open(host: str, port: int, *, listen: bool) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        if listen:
            listener.listen(4)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise UserError(
                f"port {port} on {host} is taken by {holder_of(port)}; stop it, or choose another with"
                " --instance"
            ) from error
        raise UserError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
    return listener


def require_free_link(host: str, port: int) -> None:
    """Check that a link could listen on a port, before anything slow is done.

    It does not listen: PX4 tries to connect every 0.5 ms, and never again once it was accepted.

    Raises:
        UserError: if the port is taken, with its holder.
    """
    _open(host, port, listen=False).close()


class LinkSockets:
    """Listens on one port per vehicle.

    Args:
        ports: TCP ports; vehicle i connects to ``ports[i]``.
        read_limit: us after which a read that waits returns without data.

    Raises:
        UserError: if a port is taken.
    """

    def __init__(self, host: str, ports: Sequence[int], read_limit: int) -> None:
        self.connections: list[socket.socket | None] = [None] * len(ports)
        self._processes: dict[int, int | None] = {}  # of the flight stacks, once they have been looked for
        self._read_limit = struct.pack("@ll", 0, read_limit)
        self._listeners: list[socket.socket] = []
        try:
            for port in ports:
                self._listeners.append(_open(host, port, listen=True))
        except BaseException:
            self.close()
            raise

    def accept_waiting(self, vehicle: int) -> tuple[socket.socket, str] | None:
        """A new connection on a vehicle's port and the address of its client; None if there is none."""
        try:
            connection, address = self._listeners[vehicle].accept()
        except BlockingIOError:
            return None
        return connection, f"{address[0]}:{address[1]}"

    def keep(self, vehicle: int, connection: socket.socket) -> None:
        """Use a connection as that of a vehicle."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Reads wait only when the loop asks for it, and no longer than this.
        connection.setblocking(True)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, self._read_limit)
        self.connections[vehicle] = connection
        self._processes.pop(vehicle, None)

    def has_ended(self, vehicle: int) -> bool:
        """Whether the peer has closed the vehicle's connection; does not read from it."""
        connection = self.connections[vehicle]
        if connection is None:
            return False
        try:
            return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def readable(self, vehicle: int) -> bool:
        """Whether bytes of the flight stack have arrived that have not been read here."""
        connection = self.connections[vehicle]
        if connection is None:
            return False
        queued = fcntl.ioctl(connection, termios.FIONREAD, struct.pack("i", 0))
        return int(struct.unpack("i", queued)[0]) > 0

    def process(self, vehicle: int) -> int | None:
        """Id of the flight stack's process; None as of ``process_of_peer``, and without a connection."""
        connection = self.connections[vehicle]
        if connection is None:
            return None
        if vehicle not in self._processes:
            self._processes[vehicle] = process_of_peer(connection)
        return self._processes[vehicle]

    def unread(self, vehicle: int) -> int:
        """Bytes sent that the flight stack has not read, as far as this host can see.

        On another host, only bytes for which its socket has no room are counted, so a freeze is detected
        later.
        """
        connection = self.connections[vehicle]
        if connection is None:
            return 0
        queued = fcntl.ioctl(connection, termios.TIOCOUTQ, struct.pack("i", 0))
        return int(struct.unpack("i", queued)[0]) + (unread_by_peer(connection) or 0)

    def drop(self, vehicle: int) -> None:
        """Close the vehicle's connection."""
        connection = self.connections[vehicle]
        if connection is not None:
            connection.close()
            self.connections[vehicle] = None

    def close(self) -> None:
        """Close every socket; safe to call twice."""
        for vehicle in range(len(self.connections)):
            self.drop(vehicle)
        for listener in self._listeners:
            listener.close()
        self._listeners = []
