"""Starts a program that ends when its parent process ends, however the parent ends.  Linux; run as a script.

``launch.py exec PARENT PROGRAM ...`` becomes the program, which the kernel kills when PARENT ends.
``launch.py batch PARENT PROGRAM ...`` does so, too, under the scheduling policy SCHED_BATCH and without the
right to real-time priorities; with PARENT 0 it does not end with this process.
``launch.py keep PARENT DIRECTORY PROGRAM ...`` runs the program as its child.  When the program or PARENT
ends, or on SIGUSR1, it kills every process that the program has started, in any session, removes DIRECTORY,
which is for the program's temporary files, and ends with the program's exit status.
``launch.py measure 0 RESULT PROGRAM ...`` runs the program as its child, ends with its exit status as a shell
does, and writes a JSON object into RESULT: ``cpu`` in s of user and system time, ``memory`` in bytes of the
largest resident set.  Processes that the program has started and waited for count.

It imports only a few modules of the standard library, so that it starts in milliseconds.  The kernel counts
the memory of the process that starts a program for the program, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterator

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 1, 24, 36
"""linux/prctl.h"""
CAP_SYS_NICE = 23
"""linux/capability.h"""

NICENESS = 10
"""Of processes for which the simulation never waits."""

KILL_ALL = signal.SIGUSR1
"""Lets a keeper kill the program and every process that it has started."""


def command(mode: str, program: list[str], *, watched: bool = True) -> list[str]:
    """The command line for starting a program from this process.

    Args:
        mode: ``exec``, ``batch``, ``keep`` or ``measure``.
        program: and its arguments; of ``keep`` the directory first, of ``measure`` the result.
        watched: whether the program ends with this process; only ``batch`` and ``measure`` can do without.
    """
    return [sys.executable, "-I", "-S", __file__, mode, str(os.getpid() if watched else 0), *program]


def signal_at_end_of(parent: int, number: signal.Signals) -> None:
    """Receive a signal when ``parent`` ends; exit at once if it has ended already."""
    _control_process(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def _control_process(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, int(value), 0, 0, 0)


def lower_priority() -> None:
    """Lower the priority of this process."""
    os.setpriority(os.PRIO_PROCESS, 0, max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))


def schedule_as_batch() -> None:
    """Schedule the calling thread, and the threads that it creates, as SCHED_BATCH.

    Such a thread does not preempt another by waking up.  In lockstep a sample passes through a chain of
    threads that wake one another, and each finishes sooner without it.  A thread with a policy other than
    the default keeps it, and so does one on a kernel that refuses: slower, with the same results.
    """
    with contextlib.suppress(OSError):
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def schedule_in_real_time(priority: int = 50) -> bool:
    """Run the calling thread before all others, as SCHED_FIFO; whether that is allowed."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except PermissionError:
        return False
    return True


@contextlib.contextmanager
def process_in_real_time() -> Iterator[None]:
    """Run all threads of this process before other programs, and the calling one before them, if allowed.

    Its locks are the process's: a thread that held one while another program runs would hold up the calling
    thread, too (29 ms measured at load 13, and 0.5 s when flights fell).  What ``launch.py`` starts meanwhile
    runs as other programs do.
    """
    try:
        _schedule(threads_of(os.getpid()), os.SCHED_FIFO, 1)
        schedule_in_real_time()
        yield
    finally:
        _schedule(threads_of(os.getpid()), os.SCHED_OTHER, 0)


def threads_of(process: int) -> list[int]:
    """Ids of the threads of a process; none of one that has ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]  # noqa: PTH208  (pathlib takes longer to load)
    except OSError:
        return []


def _schedule(threads: list[int], policy: int, priority: int) -> None:
    for thread in threads:
        with contextlib.suppress(PermissionError, ProcessLookupError):  # it ended meanwhile
            os.sched_setscheduler(thread, policy, os.sched_param(priority))


def give_up_real_time() -> None:
    """Give up the right to real-time priorities, for this process and what it executes.

    PX4 asks for SCHED_FIFO, and gets it as root.  Its threads then take a processor from the simulator and
    from missions at every wake-up.  Users without the right fly with the default policy, so everybody does.
    """
    _control_process(PR_CAPBSET_DROP, CAP_SYS_NICE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))


def _execute(program: list[str]) -> None:
    try:
        os.execvp(program[0], program)  # noqa: S606  (no shell, on purpose)
    except OSError as error:
        print(f"{program[0]} cannot be started: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


def _descendants() -> list[int]:
    """Ids of all running descendants of this process."""
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
    """Kill all descendants; orphans become children of this process, so repeat until there are none."""
    while processes := _descendants():
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _remove_tree(directory: str) -> None:
    import shutil

    shutil.rmtree(directory, ignore_errors=True)


def _keep(parent: int, directory: str, program: list[str]) -> None:
    """Run a program, kill its descendants when it ends, and end with its exit status."""
    watched = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, KILL_ALL}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    signal_at_end_of(parent, signal.SIGTERM)
    _control_process(PR_SET_CHILD_SUBREAPER, 1)
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)
        signal_at_end_of(keeper, signal.SIGKILL)
        _execute(program)
    os.closerange(3, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") < 65536 else 65536)
    status: int | None = None
    while status is None:
        number = signal.sigwait(watched)
        if number == KILL_ALL or os.getppid() != parent:
            _kill_descendants()
            _remove_tree(directory)
            os._exit(128 + signal.SIGKILL)
        # SIGTERM goes to the whole session, so the program has received it too.
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                status = ended[1] if ended[0] == child else status
    _kill_descendants()
    _remove_tree(directory)
    _end_as(os.waitstatus_to_exitcode(status))


def _measure(result: str, program: list[str]) -> None:
    """Run a program, write its use of resources, and end with its exit status as a shell does."""
    measuring = os.getpid()
    child = os.fork()
    if child == 0:
        signal_at_end_of(measuring, signal.SIGKILL)
        _execute(program)
    _, status, use = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    with open(result, "w") as file:  # noqa: PTH123  (pathlib takes longer to load)
        file.write(f'{{"cpu": {use.ru_utime + use.ru_stime:.6f}, "memory": {use.ru_maxrss * 1024}}}\n')
    os._exit(code if code >= 0 else 128 - code)


def _end_as(code: int) -> None:
    """End with an exit code, or, if it is negative, by that signal."""
    if code >= 0:
        os._exit(code)
    with contextlib.suppress(OSError, ValueError):
        signal.signal(-code, signal.SIG_DFL)  # SIGKILL has no handler to reset
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.Signals(-code)})
    os.kill(os.getpid(), -code)
    os._exit(128 - code)


def main(arguments: list[str]) -> None:
    """Start the program given by the arguments."""
    mode, parent, program = arguments[0], int(arguments[1]), arguments[2:]
    if os.sched_getscheduler(0) == os.SCHED_FIFO:  # of the threads of a process_in_real_time
        _schedule([0], os.SCHED_OTHER, 0)
    if mode == "keep":
        _keep(parent, program[0], program[1:])
    if mode == "measure":
        _measure(program[0], program[1:])
    if parent:
        signal_at_end_of(parent, signal.SIGKILL)
    if mode == "batch":
        give_up_real_time()
        schedule_as_batch()
    _execute(program)


if __name__ == "__main__":
    main(sys.argv[1:])
