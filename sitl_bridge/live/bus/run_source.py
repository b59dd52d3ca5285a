"""A running simulation for the bus: that of a lockstep server, or of a fleet in this process."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from sitl_bridge.base.quantities import FASTEST_PACE, SLOWEST_PACE
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.link_state import LinkState
from sitl_bridge.link.hil.link_status import LinkStatus, ServerStatus

if TYPE_CHECKING:
    from sitl_bridge.autopilot.stack_fleet import StackFleet
    from sitl_bridge.link.hil.server import LockstepServer

RunSource: TypeAlias = "LockstepServer | FleetRun"
"""A running simulation that another thread reads and controls."""


class FleetRun:
    """An in-process fleet that another thread can read, pace, pause and control while its owner advances it.

    A step is an update of the fleet's commanders, about 50 ms of simulated time.

    Args:
        fleet: advanced only by :meth:`advance` from now on.
    """

    def __init__(self, fleet: StackFleet) -> None:
        self.fleet = fleet
        self.speed = math.inf
        self._condition = threading.Condition()
        self._calls: list[Callable[[], None]] = []
        self._paused = False
        self._steps_left = 0
        self._steps = 0
        self._due = time.monotonic()
        self._rate = (self._due, fleet.time, 0.0)

    @property
    def simulation(self) -> Simulation:
        """The fleet's."""
        return self.fleet.simulation

    def advance(self, ticks: int = 1) -> None:
        """Advance by a number of commander updates, on the owner's thread."""
        for _ in range(ticks):
            self.advance_steps(self.fleet.steps_to_update)

    def advance_steps(self, count: int) -> None:
        """Advance by a number of steps, with pauses and pacing, on the owner's thread."""
        self._wait_for_turn()
        before = self.fleet.time
        self.fleet.advance_steps(count)
        self._steps += 1
        self._keep_pace((self.fleet.time - before) * 1e-6)

    def _wait_for_turn(self) -> None:
        while True:
            with self._condition:
                while self._paused and not self._steps_left and not self._calls:
                    self._condition.wait()
                    self._due = time.monotonic()
                actions, self._calls = self._calls, []
            for action in actions:
                action()
            with self._condition:
                if not self._paused:
                    return
                if self._steps_left:
                    self._steps_left -= 1
                    return

    def _keep_pace(self, seconds: float) -> None:
        now = time.monotonic()
        wall, simulated, _ = self._rate
        if now - wall >= 1.0:
            self._rate = (now, self.fleet.time, (self.fleet.time - simulated) * 1e-6 / (now - wall))
        if math.isinf(self.speed):
            return
        self._due = max(self._due + seconds / self.speed, now - 0.5)
        if self._due > now:
            time.sleep(self._due - now)

    def call(self, action: Callable[[], None]) -> None:
        """Run ``action`` on the owner's thread before the next update."""
        with self._condition:
            self._calls.append(action)
            self._condition.notify()

    def flush_log(self) -> None:
        """Do nothing: the fleet records every update at once."""

    def set_speed(self, speed: float) -> None:
        """Set simulated over wall time.

        Raises:
            ValueError: for a finite speed outside SLOWEST_PACE to FASTEST_PACE.
        """
        if not (SLOWEST_PACE <= speed <= FASTEST_PACE or speed == math.inf):
            raise ValueError(f"the speed must be {SLOWEST_PACE:g} to {FASTEST_PACE:g} or inf, not {speed}")
        self.speed, self._due = speed, time.monotonic()

    def pause(self) -> None:
        """Pause after the present update."""
        with self._condition:
            self._paused, self._steps_left = True, 0

    def resume(self) -> None:
        """Continue."""
        with self._condition:
            self._paused = False
            self._condition.notify()

    def step(self, count: int = 1) -> None:
        """Pause, and execute ``count`` updates.

        Raises:
            ValueError: for a count below 1.
        """
        if count < 1:
            raise ValueError(f"the number of steps must be at least 1, not {count}")
        with self._condition:
            self._steps_left = count + (self._steps_left if self._paused else 0)
            self._paused = True
            self._condition.notify()

    def status(self) -> ServerStatus:
        """Return the status; its values may be an update apart."""
        simulation = self.simulation
        links = tuple(
            LinkStatus(port=0, state=LinkState.LOCKSTEP, answers=self._steps, armed=bool(armed))
            for armed in simulation.armed
        )
        return ServerStatus.of(
            simulation,
            time=(simulation.time - simulation.start) * 1e-6,
            steps=self._steps,
            real_time_factor=self._rate[2],
            paused=self._paused,
            links=links,
        )
