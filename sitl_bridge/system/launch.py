"""Starts a program that ends with the process that starts it, however that ends.  Linux; run as a script.

``launch.py exec PARENT PROGRAM ...`` becomes the program, which the kernel kills when PARENT ends.
``launch.py keep PARENT PROGRAM ...`` stays beside the program.  When the program or PARENT ends, or on
SIGUSR1, it kills everything that the program has started, whatever session that is in, and ends as the
program ended.

Imports a few modules of the standard library only, so that it starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""linux/prctl.h"""

KILL_ALL = signal.SIGUSR1
"""Asks a keeper to kill the program and everything it has started."""


def command(mode: str, program: list[str]) -> list[str]:
    """The command line with which this process starts a program.

    Args:
        mode: ``exec`` or ``keep``.
        program: and its arguments.
    """
    return [sys.executable, "-I", "-S", __file__, mode, str(os.getpid()), *program]


def _tie(number: signal.Signals, parent: int) -> None:
    """Get a signal when ``parent`` ends; end at once when it has ended already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def _become(program: list[str]) -> None:
    try:
        os.execvp(program[0], program)  # noqa: S606  (no shell, on purpose)
    except OSError as error:
        print(f"{program[0]} cannot be started: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


def _descendants() -> list[int]:
    """Process ids of everything that was started from here and still runs."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  (pathlib takes longer to load)
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", errors="replace") as file:  # noqa: PTH123
            # The program's name, in brackets, may hold anything; state and parent follow it.
            state, parent = file.read().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(name))
    found, new = [], children.get(os.getpid(), [])
    while new:
        found += new
        new = [child for process in new for child in children.get(process, [])]
    return found


def _kill_descendants() -> None:
    """Until there are none: what is left behind becomes a child of this process."""
    while processes := _descendants():
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _keep(parent: int, program: list[str]) -> None:
    """Run a program, and end as it ended once nothing of it is left."""
    watched = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, KILL_ALL}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    _tie(signal.SIGTERM, parent)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)
        _tie(signal.SIGKILL, keeper)
        _become(program)
    os.closerange(3, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") < 65536 else 65536)
    status: int | None = None
    while status is None:
        number = signal.sigwait(watched)
        if number == KILL_ALL or os.getppid() != parent:
            _kill_descendants()
            os._exit(128 + signal.SIGKILL)
        # A request to end goes to the program's whole session, so the program has it too.
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                status = ended[1] if ended[0] == child else status
    _kill_descendants()
    _end_as(os.waitstatus_to_exitcode(status))


def _end_as(code: int) -> None:
    """End with an exit code, or by the signal of which it is the negative."""
    if code >= 0:
        os._exit(code)
    with contextlib.suppress(OSError, ValueError):
        signal.signal(-code, signal.SIG_DFL)  # SIGKILL has no handler to reset
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.Signals(-code)})
    os.kill(os.getpid(), -code)
    os._exit(128 - code)


def main(arguments: list[str]) -> None:
    """Start the program that the arguments name."""
    mode, parent, program = arguments[0], int(arguments[1]), arguments[2:]
    if mode == "keep":
        _keep(parent, program)
    _tie(signal.SIGKILL, parent)
    _become(program)


if __name__ == "__main__":
    main(sys.argv[1:])
