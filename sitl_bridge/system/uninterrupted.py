"""Blocks that no signal interrupts: between the start of a process and the note that it must be stopped."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from sitl_bridge.system.signals import SIGNALS


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C, SIGTERM and SIGHUP back until the end of the block.

    Between the start of a process and the note that it must be stopped, and while things are being stopped,
    an exception from a signal would leave something behind.  Outside the main thread it has no effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    before = {number: signal.signal(number, lambda *what: came.append(what)) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for caught, frame in came[:1]:
        handler = before[signal.Signals(caught)]
        if callable(handler):
            handler(caught, frame)
        elif handler == signal.SIG_DFL:
            raise KeyboardInterrupt
