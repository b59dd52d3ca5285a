"""Scheduled failures of flight stacks: signals to their processes."""

from __future__ import annotations

import os
import signal
import threading

from sitl_bridge.core.simulation.events import StackEvent


def fail_stack(event: StackEvent, process: int | None) -> None:
    """Kill a flight stack's process, or stop it for the event's wall time; None if it has ended already."""
    if process is None:
        return
    if event.kind == "stack_killed":
        os.kill(process, signal.SIGKILL)
        return
    os.kill(process, signal.SIGSTOP)
    timer = threading.Timer(event.seconds, _resume, (process,))
    timer.daemon = True
    timer.start()


def _resume(process: int) -> None:
    try:
        os.kill(process, signal.SIGCONT)
    except ProcessLookupError:
        return
