"""The clock of a run: one thread lets simulated time pass, all others pause, step, pace and ask it here.

The lockstep server is one (server.py), and a fleet in this process has another (api/fleet_clock.py).
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from sitl_bridge.base.quantities import FASTEST_PACE, SLOWEST_PACE
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.link_status import LinkStatus, ServerStatus

RATE_INTERVAL = 1.0
"""s of wall time over which the real-time factor is measured."""


class TimedActions:
    """A queue of actions.  Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Callable[[], None]] = []
        # us, number, action: equal times in the order of adding
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def add(self, action: Callable[[], None], time: int | None = None) -> None:
        """Add an action for a simulated time in us, or for as soon as possible."""
        with self._lock:
            if time is None:
                self._calls.append(action)
            else:
                heapq.heappush(self._events, (time, next(self._order), action))

    def take_due(self, now: int) -> list[Callable[[], None]]:
        """Take the actions that are due at ``now`` (us) out of the queue, in order."""
        with self._lock:
            actions, self._calls = self._calls, []
            while self._events and self._events[0][0] <= now:
                actions.append(heapq.heappop(self._events)[2])
        return actions

    def next_time(self) -> int | None:
        """Time of the next event in us; None without one."""
        with self._lock:
            return self._events[0][0] if self._events else None


class RunClock(ABC):
    """Lets the simulated time of a run pass, on one thread; call the public methods from any.

    Args:
        simulation: whose time passes.

    Attributes:
        speed: simulated over wall time; ``math.inf`` for as fast as possible.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.speed = math.inf
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._actions = TimedActions()
        self._paused = False
        self._step_until = 0
        """us up to which time may pass while it is paused."""
        self._rate = (time.monotonic(), simulation.time, 0.0)

    @property
    @abstractmethod
    def now(self) -> int:
        """us of simulated time."""

    @abstractmethod
    def flush_log(self) -> None:
        """Hand the rows so far to the recorder; on the thread that lets time pass."""

    @abstractmethod
    def _links(self) -> tuple[LinkStatus, ...]:
        """Report the links of the flight stacks."""

    @abstractmethod
    def _restart_pace(self) -> None:
        """Pass time by ``speed``, and count the wall time of that from now."""

    def _require_control(self, what: str) -> None:
        """Raise UserError where time passes by another clock."""
        del what

    def _interrupt(self) -> None:
        """Let the thread that lets time pass look at what has changed."""
        self._wake.set()

    def set_speed(self, speed: float) -> None:
        """Set the ratio of simulated to wall time; ``math.inf`` for as fast as possible.

        Raises:
            UserError: for another speed than 1, where a flight stack runs by a clock of its own.
            ValueError: for a finite speed outside SLOWEST_PACE to FASTEST_PACE.
        """
        if not (SLOWEST_PACE <= speed <= FASTEST_PACE or speed == math.inf):
            raise ValueError(f"the speed must be {SLOWEST_PACE:g} to {FASTEST_PACE:g} or inf, not {speed}")
        if speed != 1.0:
            self._require_control("another speed")
        self.speed = speed
        self._restart_pace()

    def pause(self) -> None:
        """Stop simulated time after the present step.

        Raises:
            UserError: where a flight stack runs by a clock of its own.
        """
        self._require_control("pause")
        with self._lock:
            self._paused, self._step_until = True, 0
        self._interrupt()

    def resume(self) -> None:
        """Let time run on."""
        with self._lock:
            self._paused = False
        self._restart_pace()
        self._interrupt()

    def step(self, count: int = 1) -> None:
        """Pause, and take ``count`` steps in addition to those requested so far.

        Raises:
            UserError: where a flight stack runs by a clock of its own.
            ValueError: for a count below 1.
        """
        self._require_control("step")
        if count < 1:
            raise ValueError(f"a number of steps is at least 1, not {count}")
        with self._lock:
            begin = self._step_until if self._paused else 0
            self._paused = True
            self._step_until = max(begin, self.now) + count * self.simulation.step
        self._interrupt()

    def call(self, action: Callable[[], None]) -> None:
        """Run ``action`` between two steps, on the thread that lets time pass, as soon as possible."""
        self._actions.add(action)
        self._interrupt()

    def status(self) -> ServerStatus:
        """Take a snapshot without stopping time; its values may be a few steps apart."""
        elapsed = self.now - self.simulation.start
        return ServerStatus.of(
            self.simulation,
            elapsed=elapsed,
            steps=elapsed // self.simulation.step,
            real_time_factor=self._rate[2],
            paused=self._paused,
            links=self._links(),
        )

    def _pause_end(self) -> int | None:
        """Return the us up to which time may pass while it is paused; None while it is not."""
        with self._lock:
            return self._step_until if self._paused else None

    def _measure_rate(self) -> None:
        wall, simulated, _ = self._rate
        present, now = time.monotonic(), self.now
        if present - wall >= RATE_INTERVAL:
            self._rate = (present, now, (now - simulated) * 1e-6 / (present - wall))
