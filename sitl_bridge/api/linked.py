"""Flights by commands with flight stacks in processes of their own, PX4 or the built-in one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sitl_bridge.api.stacks import Stacks
from sitl_bridge.api.truth_table import TruthTable
from sitl_bridge.core.simulation.events import (
    EventSpecification,
    ScheduledEvent,
    StackEvent,
    apply_event,
)
from sitl_bridge.session.outcome import FlightOutcome
from sitl_bridge.session.ready_session import ReadySession, ReadyVehicles


class LinkedStacks(Stacks):
    """A flight of a session that is ready.

    Args:
        session: started and settled.
    """

    def __init__(self, session: ReadySession) -> None:
        super().__init__(session.settings)
        self.session, self.simulation, self.source = session, session.simulation, session.server
        self.commands, self.hosts = ReadyVehicles(session), session.server.hosts
        self._flown: FlightOutcome | None = None

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
    def track(self) -> TruthTable:
        """The true motion since the vehicles were ready."""
        if not self.session.stopped:
            self.session.call(self.session.server.flush_log)  # the truth so far
        return TruthTable.load(self.session.directory.truth, self.names).since(self.ready_at)

    def urls(self) -> tuple[str, ...]:
        """Let simulated time pass by itself, and return where MAVSDK reaches each vehicle."""
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

    def finish(self, reason: str) -> FlightOutcome:
        """End and judge the flight, and write its summary."""
        if self._flown is None:
            self._flown = self.session.end(reason)
        return self._flown

    def close(self) -> None:
        """End the flight without judging it."""
        self.session.stop()
