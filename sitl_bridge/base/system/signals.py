"""Handling of Ctrl-C, SIGTERM and SIGHUP.

While nothing runs that must be stopped, a signal ends the program at once with one message.  Otherwise it
raises an exception in the main thread, so that everything is stopped in order.  This module has no slow
imports: the handlers are set before anything else is imported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN = 0.05
"""s until a signal is sent again if its exception was lost in a callback from C."""


class Interrupted(KeyboardInterrupt):
    """A signal that ends the program.

    Args:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def status(self) -> int:
        """Exit code by the convention of shells: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self.number

    def __str__(self) -> str:
        return (
            f"interrupted by {'Ctrl-C' if self.number == signal.SIGINT else signal.Signals(self.number).name}"
        )


def exit_on_signals() -> None:
    """Let signals end the program at once, with one message."""
    for number in SIGNALS:
        signal.signal(number, _exit)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    # No function with a buffer or a lock: the interrupted code may be using it.
    os.write(2, f"sitl-bridge: {Interrupted(number)}\n".encode())
    os._exit(128 + number)


def _raise(number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)


@contextlib.contextmanager
def raise_interrupted() -> Iterator[None]:
    """Let signals raise Interrupted within the block; has an effect only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    hook = sys.unraisablehook

    def send_again(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, Interrupted):
            hook(lost)
            return
        timer = threading.Timer(AGAIN, os.kill, (os.getpid(), lost.exc_value.number))
        timer.daemon = True
        timer.start()

    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        sys.unraisablehook = send_again
        for number in SIGNALS:
            signal.signal(number, _raise)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook


@contextlib.contextmanager
def delay_signals() -> Iterator[None]:
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


def run(work: Callable[[], int]) -> int:
    """Run a function that starts things that must be stopped; returns its exit code, or that of a signal."""
    try:
        with raise_interrupted():
            return work()
    except Interrupted as signalled:
        print(f"sitl-bridge: {signalled}", file=sys.stderr, flush=True)
        return signalled.status
