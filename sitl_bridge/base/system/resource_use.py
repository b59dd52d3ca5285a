"""Runs one program and writes down its CPU time and its greatest memory.  Linux; run as a script.

``resource_use.py RESULT PROGRAM ...`` ends as the program ends, and writes a JSON object into RESULT: ``cpu``
in s of user and system time, ``memory`` in bytes of the largest resident set.  Processes that the program has
started and waited for count.

Imports a few modules of the standard library only: the kernel counts the memory of the process that starts a
program for the program, too.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""linux/prctl.h"""


def command(result: str, program: list[str]) -> list[str]:
    """The command line that measures a program.

    Args:
        result: file to be written.
        program: and its arguments.
    """
    return [sys.executable, "-I", "-S", __file__, result, *program]


def _become(program: list[str]) -> None:
    """Run the program in this process, which the kernel kills when its parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    try:
        os.execvp(program[0], program)  # noqa: S606  (no shell, on purpose)
    except OSError as error:
        print(f"{program[0]} cannot be started: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


def measure(result: str, program: list[str]) -> int:
    """Run the program, write its use of resources, and return its exit status as a shell does."""
    child = os.fork()
    if child == 0:
        _become(program)
    _, status, use = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    with open(result, "w") as file:  # noqa: PTH123  (pathlib takes longer to load)
        file.write(f'{{"cpu": {use.ru_utime + use.ru_stime:.6f}, "memory": {use.ru_maxrss * 1024}}}\n')
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(measure(sys.argv[1], sys.argv[2:]))
