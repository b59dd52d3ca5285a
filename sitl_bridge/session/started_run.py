"""A run that starts its flight stacks: starts them, watches them, and judges their flight at the end."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sitl_bridge.base.error_log import cause
from sitl_bridge.base.system.processor_placement import ProcessorPlacement
from sitl_bridge.link.hil.link_status import ServerStatus
from sitl_bridge.link.px4.vehicle_status import VehicleStatus
from sitl_bridge.session.fleet_missions import mission_failed
from sitl_bridge.session.run import TICK, Run
from sitl_bridge.session.settings import FlightSettings
from sitl_bridge.session.stacks import STEP
from sitl_bridge.session.vehicle_run import VehicleRun

if TYPE_CHECKING:
    from sitl_bridge.analysis.evaluation.summary import Outcome
    from sitl_bridge.session.outcome import FlightOutcome

STANDSTILL = 60.0
"""s of wall time without a step after which the run ends: far above the link's limits and machine pauses."""

SILENCE = 60.0
"""s of simulated time without an answer of any flight stack after which a mission ends."""

INTERRUPTION = "the flight was interrupted"

COMPILE_LIMIT = 1200.0
"""s of wall time until the built-in stack must have connected; it may have to be compiled first, which took
523 s on a machine of two processors at load 20."""

READY_LIMIT = 30.0
"""s of wall time until PX4 must have connected, which normally takes well under one second."""


@dataclass(frozen=True)
class Progress:
    """State of a flight."""

    server: ServerStatus
    vehicles: tuple[VehicleStatus, ...]
    lost: tuple[bool, ...]
    """Vehicles whose flight stack has ended."""


class StartedRun(Run):
    """A run with the flight stacks that it starts; arguments and errors are those of ``Run``.

    A flight of several vehicles continues without a vehicle whose flight stack ends: that is reported, and
    its motors stop.  It continues without one that stalls, according to ``on_stall``, and without one that
    has not connected within READY_LIMIT, which may join later.  A flight of a single vehicle ends instead.

    Attributes:
        reason: why the flight has failed; empty where it has not.
        wall: s of wall time that it took; nan before its end.
        begun: s of wall time when they were started.
        confirmed: whether every PX4 has confirmed its parameters.
        final: the state at the last look; None before the first.
    """

    def __init__(self, settings: FlightSettings, notify: Callable[[str], None] = lambda _line: None) -> None:
        super().__init__(settings, notify)
        self.reason, self.wall = "", math.nan
        self.confirmed = False
        self.final: Progress | None = None
        self.begun = time.monotonic()
        self._answered = 0.0  # s of simulated time when a flight stack answered last
        self._moved = (-1, time.monotonic())
        """Steps taken, and s of wall time when that number changed last."""

    # ---------------------------------------------------------------- start

    def prepare(self) -> None:
        """Start the built-in stacks, which compile while the simulation compiles."""
        for vehicle in self.vehicles:
            if vehicle.autopilot.kind == "builtin":
                self.on_end(vehicle.stop)
                vehicle.start_builtin(self.settings.world, STEP, self.settings.speed)

    def open(self) -> None:
        """Open the links to them, and let simulated time wait for them.

        PX4's start script runs in wall time; simulated time must not run far ahead of the script.
        """
        self.open_monitors()
        self.start_limit = self.server.limit_time()
        self.start_limit.at_most(1.0)

    def launch(self) -> None:
        """Start PX4, and wait for the built-in stacks, which have been started."""
        settings = self.settings
        for vehicle in self.vehicles:
            if vehicle.autopilot.kind == "px4":
                self.on_end(vehicle.stop)
                vehicle.start_px4(
                    self.world, settings.speed, lean=len(self.vehicles) > 1, expose=settings.expose
                )
        if settings.board is not None:
            self.on_end(self.vehicles[0].stop)
            self.vehicles[0].start_board(settings.board, self.report_link)
            self.begun = time.monotonic()
            return
        self.begun = time.monotonic()
        stacks = [v.flight_stack for v in self.vehicles if v.flight_stack is not None]
        self.closing.enter_context(ProcessorPlacement(stacks, self.server.thread_id))
        self._wait_for_builtin()

    def _wait_for_builtin(self) -> None:
        """Wait until the built-in stacks have connected, which may have to be compiled first, or ended."""
        waiting = [vehicle for vehicle in self.vehicles if vehicle.autopilot.kind == "builtin"]
        while waiting:
            links = self.server.status().links
            waiting = [v for v in waiting if not (links[v.number].connected or self._has_ended(v))]
            if time.monotonic() - self.begun > COMPILE_LIMIT:
                return
            if waiting:
                time.sleep(TICK)

    @staticmethod
    def _has_ended(vehicle: VehicleRun) -> bool:
        return vehicle.flight_stack is not None and bool(vehicle.flight_stack.describe_end())

    def add_facts(self, facts: dict[str, Any]) -> None:
        """Add them, and what the flight is judged by, to the run's description."""
        settings = self.settings
        for entry, vehicle in zip(facts["vehicles"], self.vehicles, strict=True):
            entry |= vehicle.description(self.world, settings.speed)
        facts["events"] = [event.model_dump(mode="json") for event in settings.events]
        facts["limits"] = dict(settings.limits)
        if settings.fence is not None:
            facts["fence"] = json.loads(Path(settings.fence.source).read_text(encoding="utf-8"))

    # ---------------------------------------------------------------- while they fly

    def progress(self) -> Progress:
        """State of the flight; from any thread."""
        return Progress(
            self.server.status(),
            tuple(vehicle.monitor.status() for vehicle in self.vehicles),
            tuple(bool(vehicle.lost) for vehicle in self.vehicles),
        )

    def look(self) -> Progress:
        """Look at everything once: what has moved, who has ended, who is late."""
        progress = self.final = self.progress()
        if progress.server.steps != self._moved[0] or self.server.stands:
            self.expect_steps(progress.server.steps)
        self._look_for_lost()
        self._begin_without_late(progress)
        return progress

    def expect_steps(self, taken: int) -> None:
        """Count the wall time without a step from now, after so many steps."""
        self._moved = (taken, time.monotonic())

    def find_trouble(self, progress: Progress) -> str:
        """Find what makes going on pointless; empty if nothing does."""
        standstill = time.monotonic() - self._moved[1]
        return self.failure(progress, standstill) or self._parameter_faults()

    def confirm(self, progress: Progress, begin: Callable[[], None] = lambda: None) -> bool:
        """Let simulated time pass freely once every PX4 has confirmed its parameters; whether they have.

        Args:
            begin: called once before that.
        """
        if not self.confirmed and self._parameters_read(progress):
            self._report_parameters()
            begin()
            self.start_limit.release()
            self.confirmed = True
        return self.confirmed

    def _parameters_read(self, progress: Progress) -> bool:
        """Whether every PX4 has confirmed its parameters, except those that are late or lost."""
        late = time.monotonic() - self.begun > READY_LIMIT
        links = progress.server.links
        return not any(
            vehicle.parameters_pending and not vehicle.lost and (link.connected or not late)
            for vehicle, link in zip(self.vehicles, links, strict=True)
        )

    def _report_parameters(self) -> None:
        for vehicle in self.vehicles:
            read_back = vehicle.monitor.read_back
            if read_back is not None and read_back.done:
                self.log(f"{vehicle.settings.name}: PX4 has all {read_back.count} parameters that were set")

    def _parameter_faults(self) -> str:
        alone = len(self.vehicles) == 1
        faults = [(a.settings.name, a.parameter_fault) for a in self.vehicles if a.parameter_fault]
        return "; ".join(fault if alone else f"{name}: {fault}" for name, fault in faults)

    def _look_for_lost(self) -> None:
        """Detect flight stacks that have ended, and stop the missions of their vehicles."""
        if len(self.vehicles) == 1:
            return
        for vehicle in self.vehicles:
            if vehicle.lost or vehicle.flight_stack is None:
                continue
            vehicle.lost = vehicle.flight_stack.describe_end()
            if vehicle.lost:
                self.say(f"{vehicle.settings.name}: {vehicle.lost_reason}; the others fly on")
                vehicle.stop_mission()

    def _begin_without_late(self, progress: Progress) -> None:
        """Start simulated time without flight stacks that have not connected in time."""
        links = progress.server.links
        waited = time.monotonic() - self.begun
        if progress.server.steps == 0 and waited > READY_LIMIT and any(link.connected for link in links):
            names = ", ".join(v.settings.name for v in self.vehicles if not links[v.number].connected)
            if names:
                self.say(f"{names}: not connected within {READY_LIMIT:.0f} s; simulated time starts without")
                self.server.begin()

    def losses(self) -> str:
        """Name the vehicles whose flight stacks ended without being told to."""
        lost = [a.settings.name for a in self.vehicles if a.lost and not a.killed]
        return f"the flight stacks of {', '.join(lost)} ended" if lost else ""

    def failure(self, progress: Progress, standstill: float) -> str:
        """Reason for ending the flight; empty if there is none.

        Args:
            standstill: s of wall time since the last step.
        """
        first = self.vehicles[0]
        ended = [vehicle.flight_stack.describe_end() for vehicle in self.vehicles if vehicle.flight_stack]
        if all(ended):
            return ended[0] if len(ended) == 1 else "every flight stack has ended"
        if self.server.failure is not None:
            return f"the simulation stopped: {cause(self.server.failure)}"
        if not self.server.running:
            return "the simulation stopped"
        name = first.autopilot.name
        if standstill > STANDSTILL:
            return f"simulated time has not advanced for {STANDSTILL:.0f} s: {name} does not answer"
        waited = time.monotonic() - self.begun
        nobody = not any(link.connected for link in progress.server.links)
        if nobody and progress.server.steps == 0 and waited > READY_LIMIT:
            port = self.server.ports[0]
            return f"{name} has not connected to port {port} within {waited:.0f} s"
        connected = [link for link in progress.server.links if link.connected]
        if not connected or not all(link.stalled for link in connected):
            self._answered = progress.server.seconds
        elif self.settings.has_mission and progress.server.seconds - self._answered > SILENCE:
            # PX4 of 2026 goes silent for ever where its failsafe terminates the flight.
            return f"{name} has not answered for {SILENCE:.0f} s of simulated time"
        if progress.server.seconds > self.settings.time_limit:
            return f"the time limit of {self.settings.time_limit:g} s of simulated time has passed"
        return ""

    # ---------------------------------------------------------------- afterwards

    def outcome_of(self, vehicle: VehicleRun) -> Outcome:
        """Outcome of one vehicle's flight."""
        from sitl_bridge.analysis.evaluation.summary import Outcome

        own, reason = vehicle.settings.mission, self.reason
        mission = self.settings.name if own is None else str(own)
        if len(self.vehicles) > 1:
            reason = vehicle.lost_reason if vehicle.lost else ""
            if vehicle.mission is not None and mission_failed(vehicle):
                reason = vehicle.mission.reason()
        number, known = vehicle.number, dict[str, Any]()
        if self.final is not None:
            known = {
                "simulated_seconds": self.final.server.seconds,
                "wall_seconds": self.wall,
                "battery_used": 1.0 - float(self.final.server.battery[number, 2]),
                "link_faults": dict(self.server.status().links[number].faults),
            }
        stack = vehicle.flight_stack
        ulogs = [] if stack is None else stack.ulogs()
        return Outcome.at_end(
            self.simulation,
            number,
            reason=reason,
            mission=mission,
            airframe=vehicle.settings.airframe.name,
            flight_stack=vehicle.autopilot.name,
            seed=self.settings.seed,
            partial=not self.recorder.complete,
            logs={"flight log": ulogs[-1]} if ulogs else {},
            **known,
        )

    def conclude(self) -> FlightOutcome:
        """Stop everything, judge the flight, and write its summary into the run directory."""
        from sitl_bridge.session.outcome import conclude  # imports the evaluation, which flying does not need

        self.stop()
        return conclude(
            self.settings,
            {"reason": self.reason, "interrupted": self.reason == INTERRUPTION},
            self.simulation,
            self.directory,
            self.logs,
            [(self.outcome_of(vehicle), vehicle.messages) for vehicle in self.vehicles],
            self.errors,
        )
