"""Vehicles flown by the built-in stack within this process: hundreds of times faster than real time.

A flight is a function of its seed and of the calls: the same bytes each time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sitl_bridge.analysis.evaluation.flight_record import TOPICS
from sitl_bridge.analysis.evaluation.run_record import RecordedVehicle, RunRecord, run_in_memory
from sitl_bridge.analysis.evaluation.summary import Outcome
from sitl_bridge.analysis.evaluation.ulog_analysis import results_of
from sitl_bridge.api.fleet_clock import FleetClock
from sitl_bridge.api.fleet_stacks import FleetStacks
from sitl_bridge.api.stacks import Stacks
from sitl_bridge.api.truth_table import Recording, TruthTable
from sitl_bridge.autopilot.control.gains import ControllerChoice
from sitl_bridge.autopilot.flight_log import NAME
from sitl_bridge.autopilot.stack import StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.autopilot.topic_log import formats
from sitl_bridge.base.error_log import ErrorLog, print_error
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.simulation.events import (
    EventSpecification,
    PassingEvent,
    ScheduledEvent,
    Timeline,
    actions,
    apply_event,
    gusts_of,
)
from sitl_bridge.record.records import flat
from sitl_bridge.record.run_description import describe_simulation
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.topic_memory import TopicMemory
from sitl_bridge.record.ulog_reader import FlightLog
from sitl_bridge.session.outcome import FlightOutcome, conclude
from sitl_bridge.session.settings import BUILTIN, AutopilotChoice, FlightSettings
from sitl_bridge.session.stacks import READY_LIMIT, ROUND

KEPT = 4
"""Fleets that are kept to be reset for the next flight of the same vehicles in the same world."""


class FleetPool:
    """Makes fleets, and resets those whose flight is over instead of building new ones."""

    def __init__(self) -> None:
        self._idle: list[tuple[tuple[object, ...], StackFleet]] = []

    def take(
        self, settings: FlightSettings, members: Sequence[StackVehicle]
    ) -> tuple[tuple[object, ...], StackFleet]:
        """A fleet at the start of its flight, and the key under which it is given back.

        Raises:
            UserError: for vehicles that cannot be built.
        """
        proximity = settings.proximity if len(members) > 1 else None
        key = (
            settings.world,
            gusts_of(settings.events),
            proximity,
            [(m.airframe, m.name, m.position, m.yaw, m.controller, m.parameters) for m in members],
        )
        for one in self._idle:
            if one[0] == key:
                self._idle.remove(one)
                one[1].restart(members, settings.seed)
                return one
        return key, StackFleet(settings.make_world(), members, seed=settings.seed, proximity=proximity)

    def give_back(self, key: tuple[object, ...], fleet: StackFleet) -> None:
        """Keep a fleet for the next flight."""
        self._idle.append((key, fleet))
        del self._idle[:-KEPT]


class InProcessStacks(Stacks):
    """A flight of the built-in stack in this process; its vehicles are ready after :meth:`settle`.

    Args:
        settings: of the flight.
        controllers: of the vehicles; None for the settings' and the airframes'.
        pool: that makes the fleet.
        files: whether the run directory of ``sitl-bridge fly`` is written; else truth and log are kept in
            memory.
        record: whether anything is kept at all.
        tables: directory for the tables of custom sensors; None for the run directory, if there is one.

    Raises:
        UserError: for vehicles that cannot be built.

    Attributes:
        fleet: the simulation and the flight stacks, for programs that extend them.
    """

    source: FleetClock
    commands: FleetStacks

    def __init__(
        self,
        settings: FlightSettings,
        controllers: Sequence[ControllerChoice] | None = None,
        pool: FleetPool | None = None,
        *,
        files: bool = True,
        record: bool = True,
        tables: Path | None = None,
    ) -> None:
        super().__init__(settings)
        self._begun = time.monotonic()
        self._pool = pool or FleetPool()
        self._place = RunDirectory(settings.runs, settings.name) if files and record else None
        self._errors = ErrorLog(print_error)
        self._flown: FlightOutcome | None = None
        self._running: dict[int, int] = {}
        """Place among the events of the run, by the identity of an event that began by hand."""
        self.logs = {vehicle.name: self._log(vehicle.name, record) for vehicle in settings.vehicles}
        world, builtin = settings.make_world(), AutopilotChoice("builtin")
        chosen = [v.choose_parameters(builtin, world) for v in settings.vehicles]
        members = [
            StackVehicle(
                v.airframe,
                v.name,
                v.position,
                v.yaw,
                v.controller if controllers is None else controllers[i],
                {**({} if of_file is None else of_file.flown), **v.parameters},
                self.logs[v.name],
                tables if self._place is None else self._place.path,
            )
            for i, (v, of_file) in enumerate(zip(settings.vehicles, chosen, strict=True))
        ]
        self._facts: JsonObject = {
            "events": [event.model_dump(mode="json") for event in settings.events],
            "limits": dict(settings.limits),
        }
        if settings.fence is not None:
            self._facts["fence"] = json.loads(Path(settings.fence.source).read_text(encoding="utf-8"))
        try:
            self._key, self.fleet = self._pool.take(settings, members)
            self.simulation, self.hosts = self.fleet.simulation, self.fleet.hosts
            self.source = FleetClock(self.fleet)
            self.commands = FleetStacks(settings.vehicles, self.source)
            self._recording = self._record() if record else None
            due = actions(settings.events, self.simulation, self._say, names=self.names)
            self.fleet.timeline = Timeline(self.fleet.time, due)
        except BaseException:
            if self._place is not None:
                self._place.close()
            raise

    def _log(self, name: str, record: bool) -> Path | TopicMemory | None:
        """Return the place of a vehicle's flight log: where ``sitl-bridge fly`` has it, or into memory."""
        if not record:
            return None
        if self._place is None:
            return TopicMemory(formats(), list(TOPICS))
        alone = len(self.names) == 1
        log = (self._place.autopilot if alone else self._place.path / f"vehicle-{name}") / "flight.ulg"
        log.parent.mkdir(parents=True, exist_ok=True)
        return log

    def _record(self) -> Recording:
        if self._place is not None:
            facts = describe_simulation("fly", self.simulation, self.airframes, self.settings.proximity)
            for entry, vehicle in zip(facts["vehicles"], self.settings.vehicles, strict=True):
                entry["flight_stack"] = BUILTIN
                if vehicle.mission is not None:
                    entry["mission"] = str(vehicle.mission)
            self._facts = {"speed": "inf", **facts, **self._facts}
            self._place.describe(**self._facts)
        file = None if self._place is None else self._place.truth
        start, rotors = self.simulation.start, self.simulation.most_rotors
        recording = Recording(self.names, start, rotors, 0, file, lambda: self.fleet.record(None))
        self.fleet.record(recording)
        return recording

    def settle(self) -> None:
        """Let the estimators settle, up to the next multiple of ROUND at which all can arm.

        Raises:
            UserError: when a vehicle does not become ready, with the reasons.
        """
        fleet, start = self.fleet, self.simulation.start
        watched = range(len(self.names)) if self.settings.wait else ()
        while (
            any(map(self.commands.problems, watched)) or fleet.time == start or (fleet.time - start) % ROUND
        ):
            if (fleet.time - start) * 1e-6 > READY_LIMIT:
                raise self.commands.not_ready(range(len(self.names)), READY_LIMIT)
            left = -((fleet.time - start) % ROUND - ROUND) // self.simulation.step
            fleet.advance_steps(min(fleet.steps_to_update, left))
        self.commands.ready_at = fleet.time

    def _say(self, line: str) -> None:
        if self._place is not None:
            self._place.say(line)

    # ------------------------------------------------------------------ the simulation

    @property
    def flown_by(self) -> str:
        """The flight stack, in words."""
        return f"{BUILTIN}, not PX4"

    @property
    def directory(self) -> Path:
        """Run directory."""
        if self._place is None:
            raise UserError("this flight writes no run directory; give runs=")
        return self._place.path

    @property
    def track(self) -> TruthTable:
        """The true motion since the vehicles were ready."""
        if self._recording is None:
            raise UserError("this flight keeps no record; give record=True")
        return self._recording.since(self.ready_at)

    # ------------------------------------------------------------------ faults and the end

    def schedule(self, events: Sequence[EventSpecification]) -> None:
        """Let events happen, at their times from now on."""
        for event in events:
            self._note(event, event.at)
        due = actions(events, self.simulation, self._say, names=self.names)
        self.fleet.timeline.add(self.now, due)

    def happen(self, event: ScheduledEvent, *, begins: bool) -> None:
        """Let an event begin or end now."""
        if event.needs == "processes":
            raise UserError("this flight stack is no process; give sb.Sitl mavlink=True")
        apply_event(event, begins, self.simulation, self.affected(event))
        if begins:
            self._note(event, 0.0)
        elif isinstance(event, PassingEvent) and id(event) in self._running:
            noted = self._facts["events"][self._running.pop(id(event))]
            noted["lasts"] = (self.now - self.simulation.start) * 1e-6 - noted["at"]

    def _note(self, event: ScheduledEvent, seconds: float) -> None:
        at = (self.now - self.simulation.start) * 1e-6 + seconds
        self._running[id(event)] = len(self._facts["events"])
        self._facts["events"].append(event.model_dump(mode="json") | {"at": at})

    def finish(self, reason: str) -> FlightOutcome:
        """End and judge the flight, and write its summary where there are files."""
        if self._flown is not None:
            return self._flown
        if self._recording is None:
            raise UserError("this flight keeps no record by which it could be judged; give record=True")
        for message in self.commands.messages:
            alone = len(self.names) == 1
            self._say(str(message) if alone else f"{message.vehicle}: {message}")
        simulation, ended = self.simulation, self.now
        self.close(give_back=False)
        place = self._place
        if place is not None:
            place.describe(**self._facts)
        logs = {} if place is None else {"run directory": place.path, "ground truth": place.truth}
        outcomes = [
            Outcome.at_end(
                simulation,
                i,
                reason=reason,
                mission=self.settings.name if vehicle.mission is None else str(vehicle.mission),
                airframe=vehicle.airframe.name,
                flight_stack=BUILTIN,
                seed=self.settings.seed,
                simulated_seconds=(ended - simulation.start) * 1e-6,
                wall_seconds=time.monotonic() - self._begun,
                battery_used=1.0 - float(self.commands.batteries[i]),
                logs={"flight log": log} if isinstance(log := self.logs[vehicle.name], Path) else {},
            )
            for i, vehicle in enumerate(self.settings.vehicles)
        ]
        self._flown = conclude(
            self.settings,
            {"reason": reason, "interrupted": False},
            simulation,
            self._run_in_memory() if place is None else place,
            logs,
            [(outcome, ()) for outcome in outcomes],
            self._errors,
        )
        self._pool.give_back(self._key, self.fleet)
        return self._flown

    def _run_in_memory(self) -> RunRecord:
        """The run as ``read_run`` reads it, with the topics that measures need."""
        assert self._recording is not None
        rows = self._recording.rows
        table = rows.view(flat(rows.dtype))
        vehicles = []
        for i, (vehicle, memory) in enumerate(zip(self.settings.vehicles, self.logs.values(), strict=True)):
            assert isinstance(memory, TopicMemory)
            log = FlightLog.from_memory(memory, NAME)
            name, airframe = vehicle.name, vehicle.airframe
            record = results_of(Path(), log)
            mission, rotors = str(vehicle.mission or ""), len(airframe.rotors)
            vehicles.append(RecordedVehicle(name, airframe.name, mission, rotors, table[:, i], log, record))
        return run_in_memory(self._facts, vehicles, self.settings.name)

    def close(self, *, give_back: bool = True) -> None:
        """End the flight without judging it."""
        if self.commands.ended:
            return
        self.commands.ended = True
        if self._recording is not None:
            with suppress(UserError):
                self._recording.close()
        self.fleet.close()
        if self._place is not None:
            self._place.close()
        if give_back:
            self._pool.give_back(self._key, self.fleet)
