"""What Ctrl-C, SIGTERM and SIGHUP do to the program, at every moment of its life.

Before something has been started that must be stopped, and after it has been stopped, a signal ends the
program at once with a sentence.  In between it raises an exception in the main thread, so that everything is
stopped in order.  Imports nothing that takes time: the handlers are set before anything else is loaded.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN = 0.05
"""s after which a signal is sent once more when the exception of the first was lost, in a callback from C."""


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
        """Exit code, as shells have it: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self.number

    def __str__(self) -> str:
        return (
            f"interrupted by {'Ctrl-C' if self.number == signal.SIGINT else signal.Signals(self.number).name}"
        )


def exit_on_signals() -> None:
    """From now on a signal ends the program at once, with a sentence."""
    for number in SIGNALS:
        signal.signal(number, _exit)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    # Nothing that has a buffer or a lock, which the interrupted code may be using.
    os.write(2, f"sitl-bridge: {Interrupted(number)}\n".encode())
    os._exit(128 + number)


def _raise(number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """In the block, signals raise Interrupted in the main thread; elsewhere it has no effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    hook = sys.unraisablehook

    def send_again(lost: sys.UnraisableHookArgs) -> Any:
        if not isinstance(lost.exc_value, Interrupted):
            return hook(lost)
        timer = threading.Timer(AGAIN, os.kill, (os.getpid(), lost.exc_value.number))
        timer.daemon = True
        timer.start()
        return None

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


def run(work: Callable[[], int]) -> int:
    """Do work that starts what must be stopped; returns its exit code, or that of a signal."""
    try:
        with raised():
            return work()
    except Interrupted as signalled:
        print(f"sitl-bridge: {signalled}", file=sys.stderr, flush=True)
        return signalled.status
