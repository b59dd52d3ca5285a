"""Actions that run between two steps: as soon as possible, or at a simulated time."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(order=True)
class _Event:
    time: int
    order: int
    action: Callable[[], None] = field(compare=False)


class TimedActions:
    """A queue of actions.  Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Callable[[], None]] = []
        self._events: list[_Event] = []
        self._order = itertools.count()

    def add(self, action: Callable[[], None], time: int | None = None) -> None:
        """Add an action for a simulated time in us, or for as soon as possible."""
        with self._lock:
            if time is None:
                self._calls.append(action)
            else:
                heapq.heappush(self._events, _Event(time, next(self._order), action))

    def take_due(self, now: int) -> list[Callable[[], None]]:
        """Take the actions that are due at ``now`` (us) out of the queue, in order."""
        with self._lock:
            actions, self._calls = self._calls, []
            while self._events and self._events[0].time <= now:
                actions.append(heapq.heappop(self._events).action)
        return actions

    def next_time(self) -> int | None:
        """Time of the next event in us; None without one."""
        with self._lock:
            return self._events[0].time if self._events else None
