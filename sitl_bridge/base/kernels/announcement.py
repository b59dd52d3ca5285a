"""Reports that kernels are compiled, which takes up to a minute after an update and more on a busy machine.

It uses numba's events, which are public.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from sitl_bridge.base.kernels.numba_extensions import event

REPORT_INTERVAL = 20.0
"""s of wall time between reports while kernels are compiled."""


_announcing = 0
"""Blocks within which compilation is reported."""


class _Compiling(event.Listener):  # type: ignore[misc]
    """Reports kernels that are compiled: soon after the first begins, then regularly while that goes on."""

    def __init__(self, notify: Callable[[str], None], what: str, after: float) -> None:
        self._notify, self._what, self._after = notify, what, after
        self._lock = threading.Lock()
        self._depth = self._done = 0  # kernels that one another's compilation waits for; kernels compiled
        self._seconds = self._begun = 0.0
        self._announced = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def on_start(self, event: object) -> None:
        """A kernel that no cache holds is compiled, perhaps within another one."""
        del event
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._begun = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._report, name="compiling", daemon=True)
                self._thread.start()

    def on_end(self, event: object) -> None:
        """It is compiled."""
        del event
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._done += 1
                self._seconds += time.monotonic() - self._begun

    def _report(self) -> None:
        wait = self._after
        while not self._stop.wait(wait):
            if not self._announced:
                self._notify(
                    f"compiling {self._what}, once for this version; `sitl-bridge warm` does it ahead"
                )
            elif self._depth:
                running = self._seconds + time.monotonic() - self._begun
                self._notify(f"still compiling {self._what}: {self._count()} done in {running:.0f} s")
            self._announced, wait = True, REPORT_INTERVAL

    def stop(self) -> None:
        """Report no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def conclude(self) -> None:
        """After a report, say how much there was to compile."""
        if self._announced:
            self._notify(f"compiled {self._what}: {self._count()} in {self._seconds:.0f} s")

    def _count(self) -> str:
        return f"{self._done} kernel" + "s" * (self._done != 1)


@contextlib.contextmanager
def announce_compilation(
    notify: Callable[[str], None], what: str = "the simulation", after: float = 1.5
) -> Iterator[None]:
    """Report that ``what`` is compiled when that goes on for ``after`` s within the block.

    Loading kernels from the cache reports nothing, however long it takes.
    """
    global _announcing
    listener = _Compiling(notify, what, after)
    event.register("numba:compile", listener)
    _announcing += 1
    try:
        yield
    finally:
        _announcing -= 1
        event.unregister("numba:compile", listener)
        listener.stop()
    listener.conclude()


def announce_at_least(notify: Callable[[str], None], what: str) -> contextlib.AbstractContextManager[None]:
    """``announce_compilation``, unless an outer block announces already."""
    return contextlib.nullcontext() if _announcing else announce_compilation(notify, what)
