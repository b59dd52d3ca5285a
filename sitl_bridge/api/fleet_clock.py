"""The clock of a fleet in this process, which its owner advances and other threads pause, step and pace."""

from __future__ import annotations

import math
import time

from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.link.hil.link_state import LinkState
from sitl_bridge.link.hil.link_status import LinkStatus
from sitl_bridge.link.hil.run_clock import RunClock

LATEST = 0.5
"""s of wall time that a fleet which is behind its pace may make good."""


class FleetClock(RunClock):
    """Lets the time of a fleet pass in its owner's calls of :meth:`advance`.

    Args:
        fleet: advanced only here from now on.
    """

    def __init__(self, fleet: StackFleet) -> None:
        super().__init__(fleet.simulation)
        self.fleet = fleet
        self._due = time.monotonic()

    @property
    def now(self) -> int:
        """us of simulated time."""
        return self.fleet.time

    def advance(self, count: int) -> None:
        """Advance by a number of steps, with pauses and pacing, on the owner's thread."""
        while count > 0:
            taken = self._wait_for_turn(count)
            self.fleet.advance_steps(taken)
            count -= taken
            self._measure_rate()
            self._keep_pace(taken * self.simulation.step * 1e-6)

    def _wait_for_turn(self, count: int) -> int:
        """Run what others want done, wait while time is paused, and return how many steps may pass."""
        while True:
            self._wake.clear()
            for action in self._actions.take_due(self.now):
                action()
            until = self._pause_end()
            if until is None:
                return count
            if until > self.now:
                return min(count, (until - self.now) // self.simulation.step)
            self._wake.wait()
            self._restart_pace()

    def _keep_pace(self, seconds: float) -> None:
        if math.isinf(self.speed):
            return
        now = time.monotonic()
        self._due = max(self._due + seconds / self.speed, now - LATEST)
        if self._due > now:
            time.sleep(self._due - now)

    def _restart_pace(self) -> None:
        self._due = time.monotonic()

    def flush_log(self) -> None:
        """Do nothing: the fleet records every update at once."""

    def _links(self) -> tuple[LinkStatus, ...]:
        steps = (self.now - self.simulation.start) // self.simulation.step
        return tuple(
            LinkStatus(port=0, state=LinkState.LOCKSTEP, answers=steps, armed=bool(armed))
            for armed in self.simulation.armed
        )
