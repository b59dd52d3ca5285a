"""Flights by commands with flight stacks in processes of their own, PX4 or the built-in one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sitl_bridge.api.stacks import Flown, Stacks
from sitl_bridge.api.truth_table import TruthTable
from sitl_bridge.base.arrays import Floats
from sitl_bridge.core.simulation.events import (
    EventSpecification,
    ScheduledEvent,
    StackEvent,
    apply_event,
)
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.session.linked import LinkedVehicles
from sitl_bridge.session.ready_session import ReadySession


class LinkedStacks(Stacks, LinkedVehicles):
    """A flight of a session that is ready.

    Args:
        session: started and settled.
    """

    def __init__(self, session: ReadySession) -> None:
        super().__init__(session.settings)
        self.use_links([vehicle.monitor for vehicle in session.vehicles])
        self.session, self.simulation = session, session.simulation
        self.source, self.hosts = session.server, session.server.hosts
        assert session.ready_at is not None
        self.ready_at = session.ready_at
        self._flown: Flown | None = None
        self._free = False

    # ------------------------------------------------------------------ the simulation

    @property
    def flown_by(self) -> str:
        """The flight stack, in words."""
        flown_by = self.session.vehicles[0].autopilot
        if flown_by.px4 is None:
            return f"{flown_by.name}, not PX4"
        return f"PX4 {flown_by.px4.version} of {flown_by.px4.root}"

    @property
    def directory(self) -> Path:
        """Run directory."""
        return self.session.directory.path

    @property
    def now(self) -> int:
        """us of simulated time."""
        return self.session.now

    @property
    def track(self) -> TruthTable:
        """The true motion since the vehicles were ready."""
        if not self.ended:
            self.session.call(self.session.server.flush_log)  # the truth so far
        return TruthTable.load(self.session.directory.truth, self.names).since(self.ready_at)

    def pass_time(self, steps: int) -> None:
        """Let time pass step by step."""
        self.session.advance(steps)

    def refuse_ended(self) -> None:
        """Refuse what a flight that is over cannot do; let time that passed by itself stand still."""
        super().refuse_ended()
        if self._free:
            self._free = False
            self.session.hold()

    # ------------------------------------------------------------------ the flight stacks

    def is_armed(self, vehicle: int) -> bool:
        """Whether a vehicle's motors may turn."""
        return self.session.server.status().links[vehicle].armed

    @property
    def batteries(self) -> Floats:
        """(n,) share of the charge."""
        return np.array([monitor.status().battery_remaining for monitor in self._monitors])

    def send(self, vehicle: int, message: MavlinkMessage) -> None:
        """Send a vehicle a MAVLink message."""
        self.refuse_ended()
        self._deliver(vehicle, message)

    def received(self, vehicle: int, number: int) -> MavlinkMessage | None:
        """The last MAVLink message of an id."""
        monitor = self._monitors[vehicle]
        monitor.keep(number)
        monitor.poll()
        return monitor.take(number, forget=False)

    def urls(self) -> tuple[str, ...]:
        """Let simulated time pass by itself, and return where MAVSDK reaches each vehicle."""
        self._free = True
        self.session.run_freely()
        return tuple(vehicle.url for vehicle in self.settings.vehicles)

    # ------------------------------------------------------------------ faults and the end

    def schedule(self, events: Sequence[EventSpecification]) -> None:
        """Let events happen, at their times from now on."""
        self.session.schedule(events)

    def happen(self, event: ScheduledEvent, *, begins: bool) -> None:
        """Let an event begin or end now, or at the next step where time passes by itself."""
        vehicles = self.affected(event)

        def now() -> None:
            self.session.note_event(event, begins, vehicles)
            if not isinstance(event, StackEvent):
                apply_event(event, begins, self.simulation, vehicles)

        if isinstance(event, StackEvent) and begins:
            for vehicle in vehicles:
                self.session.vehicles[vehicle].fail(event)
        self.session.call(now)

    def finish(self, reason: str) -> Flown:
        """End and judge the flight, and write its summary."""
        if self._flown is None:
            self.ended = True
            outcome = self.session.end(reason)
            files = [("run directory", self.directory)]
            files += [("summary", outcome.logs["summary"])] if "summary" in outcome.logs else []
            self._flown = Flown(outcome.run, outcome.verdict, files)
        return self._flown

    def close(self) -> None:
        """End the flight without judging it."""
        self.ended = True
        self.session.stop()
