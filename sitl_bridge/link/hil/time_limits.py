"""Limits that missions set on simulated time: how far it may run, and how fast."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

LOST_REPORT_WAIT = 0.1
"""s of wall time without a new limit from a mission whose limit is in the past, after which the last
telemetry counts as lost."""
NEXT_REPORT_TIME = 100_000
"""us by which simulated time continues then, so that the vehicles send telemetry again."""


class TimeLimit:
    """The limit of one mission.

    Each mission has one; the least of them is in effect.  Safe from any thread.
    """

    def __init__(self, limits: TimeLimits) -> None:
        self._limits = limits
        self.until: int | None = None
        self.reached_at = math.inf
        """s of the monotonic clock when simulated time reached ``until``; inf before."""
        self.timeout = math.inf
        """s of wall time."""
        self.behind = False
        """Whether it was in the past when it was set."""
        self.set_at = 0.0
        """s of the monotonic clock."""
        self.fastest = math.inf
        self.awaits_others = False
        """Whether it waits for programs that are no part of the run, however long they take."""
        self.overdue = False
        """Whether ``until`` was reached and not moved for ``timeout``: time runs at real time."""

    @property
    def speed(self) -> float:
        """Greatest speed factor that it allows now."""
        return min(self.fastest, 1.0) if self.overdue else self.fastest

    def run_until(self, time_us: int | None, timeout: float = math.inf) -> None:
        """Let simulated time run to ``time_us`` and wait there for a later limit.

        Args:
            time_us: us of simulated time, on the flight stacks' clock; None for no limit.
            timeout: s of wall time; without a later limit after that, it continues at real time until one is
                set.
        """
        self._limits.set_until(self, time_us, timeout)

    def at_most(self, speed: float) -> None:
        """Run at most ``speed`` times real time from the next step on; ``math.inf`` for no limit."""
        self.fastest = speed
        self._limits.pace_changed()

    def release(self) -> None:
        """End the limit; safe to call twice."""
        self._limits.remove(self)


class TimeLimits:
    """The limits of all missions.

    Args:
        now: the present simulated time in us.
        pace_changed: called after the speed that the limits allow has changed.
        time_changed: called after the time up to which they let time run has changed; True if it is sooner.
        notify: takes messages for the user.
        bind: whether limits have an effect.
    """

    def __init__(
        self,
        now: Callable[[], int],
        pace_changed: Callable[[], None],
        time_changed: Callable[[bool], None],
        notify: Callable[[str], None],
        *,
        bind: bool = True,
    ) -> None:
        self._notify, self._bind = notify, bind
        self._now, self.pace_changed, self._time_changed = now, pace_changed, time_changed
        self._limits: list[TimeLimit] = []
        self._lock = threading.Lock()

    def add(self) -> TimeLimit:
        """A new limit, without effect until it is set."""
        limit = TimeLimit(self)
        with self._lock:
            self._limits.append(limit)
        return limit

    def remove(self, limit: TimeLimit) -> None:
        """Drop a limit."""
        with self._lock:
            if limit in self._limits:
                self._limits.remove(limit)
        self.pace_changed()
        self._time_changed(False)

    def set_until(self, limit: TimeLimit, until: int | None, timeout: float) -> None:
        """Set how far a limit lets time run (``TimeLimit.run_until``)."""
        if not self._bind:
            return
        with self._lock:
            before, limit.until, limit.reached_at = limit.until, until, math.inf
            limit.timeout = timeout
            limit.behind = until is not None and until < self._now()
            limit.set_at = time.monotonic()
            was_overdue, limit.overdue = limit.overdue, False
        if was_overdue:
            self.pace_changed()
        self._time_changed(until is not None and (before is None or until < before))

    def fastest(self) -> float:
        """Greatest speed factor that all limits allow."""
        if not self._bind:
            return math.inf
        with self._lock:
            return min((limit.speed for limit in self._limits), default=math.inf)

    def await_others(self, now: int) -> bool:
        """Whether time stands at ``now`` (us) for a limit that awaits others."""
        with self._lock:
            return any(x.awaits_others and x.until is not None and now >= x.until for x in self._limits)

    def until(self, now: int) -> int | None:
        """How far time may run at time ``now`` (us); None for no limit.  Notices limits that are overdue."""
        wall = time.monotonic()
        late: list[float] = []
        with self._lock:
            overdue_before = any(limit.overdue for limit in self._limits)
            for limit in self._limits:
                if limit.until is None or now < limit.until:
                    continue
                if limit.behind and wall - limit.set_at > LOST_REPORT_WAIT:
                    limit.until, limit.set_at = now + NEXT_REPORT_TIME, wall
                    continue
                limit.reached_at = min(limit.reached_at, wall)
                was_overdue, limit.overdue = limit.overdue, wall - limit.reached_at > limit.timeout
                if limit.overdue and not was_overdue:
                    late.append(limit.timeout)
            overdue = any(limit.overdue for limit in self._limits)
            allowed = [x.until for x in self._limits if x.until is not None and not x.overdue]
        for timeout in late:
            self._notify(
                f"the mission has not let simulated time go on for {timeout:g} s; it goes on at real time"
                " until the mission does, and this flight will not repeat to the bit"
            )
        if overdue or overdue_before:
            self.pace_changed()
        return min(allowed, default=None)
