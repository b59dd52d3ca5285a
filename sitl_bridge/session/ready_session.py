"""A flight without missions that stands ready: started, settled, and its simulated time passes on demand.

``api/linked.py`` flies it by commands; programs of the user's reach it over MAVLink.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.events import EventSpecification, actions
from sitl_bridge.session.linked import SimulatedVehicles
from sitl_bridge.session.missions.time_gate import UNANNOUNCED_SPEED
from sitl_bridge.session.outcome import FlightOutcome
from sitl_bridge.session.run import TICK
from sitl_bridge.session.settings import FlightSettings
from sitl_bridge.session.stacks import READY_LIMIT, ROUND, end_of_flight, not_ready
from sitl_bridge.session.started_run import Progress, StartedRun

LOOK = 0.5
"""s of wall time between looks at the processes while simulated time passes."""


class ReadySession(StartedRun):
    """A run whose vehicles are ready to arm once :meth:`settle` has returned; time stands still then.

    Args:
        settings: without missions.

    Attributes:
        ready_at: us of simulated time at which it was ready; None before.

    Raises:
        UserError: for everything the user can mend: settings, ports that are taken, PX4.
    """

    def __init__(self, settings: FlightSettings, notify: Callable[[str], None] = lambda _line: None) -> None:
        super().__init__(settings, notify)
        self.ready_at: int | None = None
        self._free: threading.Thread | None = None
        self._held = threading.Event()

    # ---------------------------------------------------------------- getting ready

    def look_whether_ready(self) -> bool:
        """Look at everything once while it settles; returns whether it is ready to arm.

        Raises:
            UserError: when it will not become ready, with the reason.
        """
        progress = self.raise_failure()
        confirmed = self.confirm(progress)
        waiting = [v for v in progress.vehicles if not (v.can_arm and math.isfinite(v.position[0]))]
        waiting = waiting if self.settings.wait else []
        if waiting and progress.server.seconds > READY_LIMIT:
            raise not_ready(
                {v.settings.name: v.monitor.status().waits_for for v in self.vehicles}, READY_LIMIT
            )
        return confirmed and not waiting

    def settle(self) -> None:
        """Wait until all vehicles are ready to arm, and let time stand still there.

        Raises:
            UserError: when they do not become ready.
        """
        while not self.look_whether_ready():
            time.sleep(TICK / 5)
        self.hold()

    def hold(self) -> None:
        """Let time stand still, the first time at the next multiple of ROUND."""
        self._held.set()
        if self._free is not None:
            self._free.join()
            self._free = None
        self.server.pause()
        if self.ready_at is None:
            now = self.now
            step = self.simulation.step
            self.pass_time(-((now - self.simulation.start) % ROUND - ROUND) // step)
            self.ready_at = self.now

    @property
    def now(self) -> int:
        """us of simulated time."""
        return self.server.now

    def schedule(self, events: Sequence[EventSpecification]) -> None:
        """Let events happen, at their times from now on."""
        begun = self.server.status().elapsed
        for seconds, action in actions(
            events, self.simulation, self.say, self.fail_stack, on_event=self.note_event
        ):
            self.server.at(begun + round(seconds * 1e6), action)

    # ---------------------------------------------------------------- time

    def pass_time(self, steps: int) -> None:
        """Let simulated time pass by a number of steps, and stand still again.

        Raises:
            UserError: when a flight stack ends, the simulation fails, or time stands still.
        """
        done = threading.Event()
        progress = self.server.status()
        if not all(link.connected for link in progress.links):
            self.raise_failure()
        self.expect_steps(progress.steps)
        self.server.step(steps)
        self.server.at(progress.elapsed + steps * self.simulation.step, done.set)
        while not done.wait(LOOK):
            self.raise_failure()

    def run_freely(self) -> None:
        """Let simulated time pass by itself until :meth:`hold`, slowly while a vehicle is disarmed.

        So programs of the user's fly that know nothing of simulated time; see ``time_gate``.
        """
        if self._free is None:
            self._held.clear()
            self._free = threading.Thread(target=self._pace, name="pace", daemon=True)
            self._free.start()
            self.server.resume()

    def _pace(self) -> None:
        limit = self.server.limit_time()
        while not self._held.wait(TICK):
            armed = all(link.armed for link in self.server.status().links if link.connected)
            limit.at_most(math.inf if armed else UNANNOUNCED_SPEED)
        limit.release()

    def take_control(self) -> None:
        """Let time that passes by itself stand still, before a command.

        Raises:
            UserError: after the end.
        """
        if self.stopped:
            raise end_of_flight()
        if self._free is not None:
            self.hold()

    def call(self, action: Callable[[], object]) -> None:
        """Run an action between two steps, and wait until it has run.

        Raises:
            UserError: that the action raises, and when the simulation has failed.
        """
        done, faults = threading.Event(), list[UserError]()

        def run() -> None:
            try:
                action()
            except UserError as error:
                faults.append(error)
            done.set()

        self.server.call(run)
        while not done.wait(LOOK):
            self.raise_failure()
        if faults:
            raise faults[0]

    def raise_failure(self) -> Progress:
        """Raise what makes going on pointless; returns the state of the flight.

        Raises:
            UserError: with the reason.
        """
        progress = self.look()
        reason = self._find_trouble(progress)
        if reason:
            raise UserError(reason)
        return progress

    def _find_trouble(self, progress: Progress) -> str:
        return self.find_trouble(progress) or self.losses()

    # ---------------------------------------------------------------- afterwards

    def end(self, reason: str) -> FlightOutcome:
        """Stop everything, judge the flight and write its summary.

        Args:
            reason: why the test of the flight failed; empty where it passed.
        """
        self._held.set()
        progress = self.look()
        self.wall = time.monotonic() - self.begun
        self.reason = reason or self._find_trouble(progress)
        return self.conclude()


class ReadyVehicles(SimulatedVehicles):
    """The vehicles of a session that is ready, whose time passes in ``advance`` alone."""

    def __init__(self, session: ReadySession) -> None:
        super().__init__(session.vehicles, session.server)
        assert session.ready_at is not None
        self._session, self.ready_at = session, session.ready_at

    @property
    def now(self) -> int:
        """us of simulated time."""
        return self._session.now

    def pass_time(self, steps: int) -> None:
        """Let time pass."""
        self._session.pass_time(steps)

    def take_control(self) -> None:
        """Let time that passes by itself stand still."""
        self._session.take_control()
