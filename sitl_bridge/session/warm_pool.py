"""Sessions started and settled ahead, so that the next flight is ready at once.

A session of the pool stands still on the ground: its flight stack is connected, its estimator is aligned and
its parameters are read back.  A flight takes it, and it is never used for a second one.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sitl_bridge.base.error_log import cause
from sitl_bridge.session.ready_session import ReadySession

LOOK = 0.05
"""s of wall time between looks at the sessions that settle or wait."""


@dataclass
class _Waiting:
    """A session of the pool.

    Attributes:
        key: by which it is taken.
        session: begun.
        settled: set when it is ready, or has failed.
        fault: why it is not to be used; empty while it is.
    """

    key: str
    session: ReadySession
    settled: threading.Event = field(default_factory=threading.Event)
    fault: str = ""


class WarmPool:
    """Keeps sessions ready.  Use one from a single thread, which must outlive it.

    Args:
        most: sessions that wait at once; 0 keeps none.
        notify: takes one line for each session that ends while it waits.
    """

    def __init__(self, most: int, notify: Callable[[str], None]) -> None:
        self.most = most
        self._notify = notify
        self._waiting: list[_Waiting] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        """Sessions that wait or settle."""
        return len(self._waiting)

    def holds(self, key: str) -> bool:
        """Whether a session waits or settles under a key."""
        return any(one.key == key for one in self._waiting)

    def prepare(self, key: str, make: Callable[[], ReadySession]) -> bool:
        """Begin a session that settles from now on; the caller does not wait for it.

        Args:
            key: under which it is taken.
            make: begins it, on this thread.

        Returns:
            whether there was room.
        """
        if len(self._waiting) >= self.most or self.holds(key):
            return False
        one = _Waiting(key, make())
        with self._lock:
            self._waiting.append(one)
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="warm pool", daemon=True)
            self._thread.start()
        return True

    def take(self, key: str) -> ReadySession | None:
        """Take a session, once it has settled; None where none was prepared, or it has failed."""
        one = next((one for one in self._waiting if one.key == key), None)
        if one is None:
            return None
        one.settled.wait()
        with self._lock:
            self._waiting.remove(one)
        if one.fault:
            self._discard(one)
            return None
        return one.session

    def keep(self, key: str) -> None:
        """End those that wait or settle under another key."""
        for one in [one for one in self._waiting if one.key != key]:
            with self._lock:
                self._waiting.remove(one)
            self._discard(one)

    def close(self) -> None:
        """End all; safe to call twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        while self._waiting:
            self._discard(self._waiting.pop())

    def _watch(self) -> None:
        """Settle the sessions, and look after those that wait."""
        while not self._stop.wait(LOOK):
            with self._lock:
                for one in self._waiting:
                    if not one.fault:
                        self._look_at(one)

    def _look_at(self, one: _Waiting) -> None:
        try:
            if one.settled.is_set():
                one.session.refuse_trouble()
            elif one.session.look():
                one.session.hold()
                one.settled.set()
        except Exception as error:  # noqa: BLE001  (told; the next flight begins its own session)
            state = "waited for its flight" if one.settled.is_set() else "was made ready"
            one.fault = cause(error)
            self._notify(
                f"{one.session.vehicles[0].autopilot.name} ended while it {state}, and another is started:"
                f" {one.fault}"
            )
            one.settled.set()

    def _discard(self, one: _Waiting) -> None:
        """Stop a session that was not flown, and remove its run directory."""
        directory: Path = one.session.directory.path
        one.session.stop()
        shutil.rmtree(directory, ignore_errors=True)
