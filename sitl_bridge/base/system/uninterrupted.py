"""Blocks that no signal interrupts, such as the start of a process that must be stopped later."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from sitl_bridge.base.system.signals import SIGNALS


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C, SIGTERM and SIGHUP until the end of the block.

    An exception between the start of a process and its registration for stopping, or while processes are
    being stopped, would leave processes running.  It has an effect only in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    before = {number: signal.signal(number, lambda *what: received.append(what)) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for caught, frame in received[:1]:
        handler = before[signal.Signals(caught)]
        if callable(handler):
            handler(caught, frame)
        elif handler == signal.SIG_DFL:
            raise KeyboardInterrupt
