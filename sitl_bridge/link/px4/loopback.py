"""Restricts a program's network ports to this machine if the program has no option for it.

PX4 binds its MAVLink links to every address and has no option against it (Mavlink::init_udp; the interface
of PX4_NET_INTERFACE, from v1.18 on, is that of broadcasts), and every client can write files by MAVLink
FTP. The kernel passes each ``bind`` of PX4 to this process (seccomp's user notification, from Linux 5.6),
which binds the socket to 127.0.0.1 instead.

The module has two parts.  Imported, it provides :class:`LoopbackGuard`.  Run as a program, it installs the
filter, passes its descriptor on and executes PX4; it uses the standard library only, to start quickly.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import select
import socket
import struct
import sys
import threading
from typing import NoReturn

ANY, LOOPBACK = b"\0\0\0\0", "127.0.0.1"

# linux/seccomp.h, linux/prctl.h, linux/audit.h and the system call tables of the two architectures.
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_NEW_LISTENER = 1, 1 << 3
_SECCOMP_RET_ALLOW, _SECCOMP_RET_USER_NOTIF = 0x7FFF0000, 0x7FC00000
_NOTIFICATION = struct.Struct("<QIIiIQ6Q")
"""struct seccomp_notif: id, pid, flags, call, architecture, instruction, arguments."""
_RESPONSE = struct.Struct("<QqiI")
"""struct seccomp_notif_resp: id, value, error, flags."""
_RECEIVE = 3 << 30 | _NOTIFICATION.size << 16 | ord("!") << 8
_SEND = 3 << 30 | _RESPONSE.size << 16 | ord("!") << 8 | 1
_CONTINUE = 1
_PIDFD_GETFD = 438
_ARCHITECTURES = {
    # machine: audit number, seccomp, bind
    "x86_64": (0xC000003E, 317, 49),
    "aarch64": (0xC00000B7, 277, 200),
}


def _filter(architecture: int, bind: int) -> bytes:
    """Return classic BPF that passes ``bind`` of this architecture on and allows everything else."""
    load, equal, give = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
    program = [
        (load, 0, 0, 4),  # seccomp_data.arch
        (equal, 0, 3, architecture),
        (load, 0, 0, 0),  # seccomp_data.nr
        (equal, 0, 1, bind),
        (give, 0, 0, _SECCOMP_RET_USER_NOTIF),
        (give, 0, 0, _SECCOMP_RET_ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def install_filter() -> int:
    """Install a filter by which the kernel reports every ``bind`` of this process and its children.

    Returns:
        the descriptor for reading them.

    Raises:
        OSError: if the kernel does not support or allow it.
    """
    numbers = _ARCHITECTURES.get(platform.machine()) if sys.platform.startswith("linux") else None
    if numbers is None:
        raise OSError(errno.ENOSYS, f"not supported on {platform.system()} {platform.machine()}")
    architecture, seccomp, bind = numbers
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(_filter(architecture, bind))
    length = (len(code) - 1) // 8
    program = ctypes.create_string_buffer(struct.pack("@HxxxxxxP", length, ctypes.addressof(code)))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    listener: int = libc.syscall(
        seccomp, _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_NEW_LISTENER, ctypes.byref(program)
    )
    if listener < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return listener


class LoopbackGuard:
    """Answers the ``bind`` calls of a program that is started through :attr:`command`.

    Use: start ``[*guard.command, program, ...]`` with :attr:`inherited` among its descriptors, then call
    :meth:`begin`; :meth:`close` once the program has ended.

    Attributes:
        command: prefix of the program's command.
        inherited: descriptor that the program must inherit.
    """

    def __init__(self) -> None:
        self._own, self._other = socket.socketpair()
        self.inherited = self._other.fileno()
        self.command = [sys.executable, "-I", "-S", __file__, str(self.inherited)]
        self._stop = os.eventfd(0)
        self._listener: int | None = None
        self._thread = threading.Thread(target=self._serve, name="loopback", daemon=True)

    def begin(self) -> str:
        """Start answering, after the program was started.

        Returns:
            the reason why its ports are open to the network; empty if they are not.
        """
        self._other.close()
        self._own.settimeout(20.0)
        descriptors = array.array("i")
        try:
            reason, ancillary, _, _ = self._own.recvmsg(1024, socket.CMSG_SPACE(descriptors.itemsize))
        except OSError:
            return "it was not started in time"
        finally:
            self._own.close()
        for _level, _kind, data in ancillary:
            descriptors.frombytes(data[: descriptors.itemsize])
        if not descriptors:
            return reason.decode("utf-8", "replace") or "its starter ended"
        self._listener = descriptors[0]
        self._thread.start()
        return ""

    def close(self) -> None:
        """Stop answering; safe without :meth:`begin` and twice."""
        if self._stop < 0:
            return
        os.eventfd_write(self._stop, 1)
        if self._listener is not None:
            self._thread.join(timeout=5.0)
            os.close(self._listener)
            self._listener = None
        for end in (self._own, self._other):
            end.close()
        os.close(self._stop)
        self._stop = -1

    def _serve(self) -> None:
        assert self._listener is not None
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._stop, select.POLLIN)
        while True:
            events = dict(poll.poll())
            if self._stop in events or events.get(self._listener, 0) & (select.POLLHUP | select.POLLERR):
                return
            with contextlib.suppress(FileNotFoundError):  # it has ended
                self._answer(self._listener)

    @staticmethod
    def _answer(listener: int) -> None:
        """Answer one call: redirect sockets bound to every address to 127.0.0.1, leave others."""
        notification = bytearray(_NOTIFICATION.size)
        fcntl.ioctl(listener, _RECEIVE, notification)
        identity, pid, _, _, _, _, descriptor, address, length, *_ = _NOTIFICATION.unpack(notification)
        error, flags = 0, _CONTINUE
        try:
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123 (needs a seek)
                memory.seek(address)
                wanted = memory.read(min(length, 128))
            if wanted[:2] == struct.pack("=H", socket.AF_INET) and wanted[4:8] == ANY:
                flags = 0
                _bind(pid, descriptor, int.from_bytes(wanted[2:4], "big"))
        except OSError as problem:
            error, flags = -(problem.errno or errno.EACCES), 0
        fcntl.ioctl(listener, _SEND, _RESPONSE.pack(identity, 0, error, flags))


def _bind(task: int, descriptor: int, port: int) -> None:
    """Bind another process's socket to a port of this machine.

    Args:
        task: id of the calling thread.
        descriptor: of the socket in that process.
        port: 0 for any.
    """
    with open(f"/proc/{task}/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
        process = next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))
    handle = os.pidfd_open(process)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        copy: int = libc.syscall(_PIDFD_GETFD, handle, descriptor, 0)
        if copy < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
    finally:
        os.close(handle)
    with socket.socket(fileno=copy) as shared:
        shared.bind((LOOPBACK, port))


def _start(channel: int, command: list[str]) -> NoReturn:
    """Install the filter, pass its descriptor on, and execute the program."""
    with socket.socket(fileno=channel) as there:
        try:
            listener = install_filter()
        except OSError as error:
            there.sendall((error.strerror or str(error)).encode())
        else:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))
            there.sendmsg([b"\0"], [rights])
            os.close(listener)
    try:
        os.execv(command[0], command)  # noqa: S606
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error.strerror}")


if __name__ == "__main__":
    _start(int(sys.argv[1]), sys.argv[2:])
