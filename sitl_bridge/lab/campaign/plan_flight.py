"""Flights of plans by the built-in stack within this process: hundreds of times faster than real time.

A vehicle gets its plan as over MAVLink, arms and flies it.  A flight fails under the same conditions as in
``session/missions/plan_runner.py``.  Vehicles in the same world with the same airframes are reset in place.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.analysis.evaluation.flight_record import TOPICS, FlightLog
from sitl_bridge.analysis.evaluation.object_contacts import object_contacts
from sitl_bridge.analysis.evaluation.run_record import (
    SUMMARY,
    RecordedVehicle,
    RunRecord,
    read_run,
    run_in_memory,
)
from sitl_bridge.analysis.evaluation.summary import Outcome, summarise, whole_summary, write_json
from sitl_bridge.analysis.evaluation.ulog_analysis import results_of
from sitl_bridge.analysis.evaluation.verdict import Verdict, conclude
from sitl_bridge.api.truth_table import Recording
from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.modes.flight_modes import FLAG_CUSTOM, Mode
from sitl_bridge.autopilot.modes.mission_items import FENCE, MISSION, RALLY, MissionFault, MissionItem
from sitl_bridge.autopilot.stack_fleet import StackFleet, StackVehicle
from sitl_bridge.autopilot.topic_log import formats
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.events import StackEvent, Timeline, actions, with_gusts
from sitl_bridge.core.world.world import World
from sitl_bridge.plan.plan import Plan
from sitl_bridge.plan.plan_upload import (
    END_GRACE,
    UploadRow,
    fence_rows,
    mission_rows,
    rally_rows,
    time_limit,
)
from sitl_bridge.record.records import ROW, flat
from sitl_bridge.record.run_description import describe_simulation
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.topic_memory import TopicMemory
from sitl_bridge.record.truth_log import TruthLog
from sitl_bridge.session.settings import BUILTIN, FlightSettings

READY_LIMIT = 120.0
"""s of simulated time to become ready to arm in, as of missions over MAVLink."""
ARMING_INTERVAL = 5.0
"""s: flights arm at a multiple of this, as missions over MAVLink do."""
ARM, SET_MODE, RETURN = 400, 176, 20
"""MAV_CMD."""
ACCEPTED = 0
"""MAV_RESULT."""
LONGEST = 1e7
"""s, longer than any mission: each has a limit of its own."""
FLOWN = frozenset({flight_modes.AUTO_MISSION, flight_modes.AUTO_LOITER, flight_modes.AUTO_TAKEOFF})
LANDING = frozenset({flight_modes.AUTO_RTL, flight_modes.AUTO_LAND})
"""Modes of a mission, and at its end."""


class _FailedError(Exception):
    """The flight has failed, with the reason."""


def flies_here(settings: FlightSettings) -> bool:
    """Whether each vehicle has a plan and no event concerns the process of a flight stack."""
    return (
        settings.mission is None
        and all(
            vehicle.mission is not None and vehicle.mission.suffix == ".plan" for vehicle in settings.vehicles
        )
        and not any(isinstance(event, StackEvent) for event in settings.events)
    )


def items_of(kind: int, rows: Sequence[UploadRow]) -> list[MissionItem]:
    """Rows of a plan as the stack takes them."""
    return [_item(i, kind, row) for i, row in enumerate(rows)]


def _item(sequence: int, kind: int, row: UploadRow) -> MissionItem:
    p1, p2, p3, p4, x, y, z = row.params
    return MissionItem(
        seq=sequence,
        frame=row.frame,
        command=row.command,
        current=sequence == 0,
        autocontinue=row.auto_continue,
        param1=p1,
        param2=p2,
        param3=p3,
        param4=p4,
        x=x,
        y=y,
        z=0.0 if math.isnan(z) else z,
        mission_type=kind,
    )


@dataclass
class _Flown:
    """Progress of one vehicle's plan.

    Attributes:
        commander: of its stack.
        plan: that it flies.
        name: of the vehicle.
        began: s at which the mission was started.
        held: s since which it holds before its last item; nan while it does not.
        returning: whether it has been sent home after a mission that ends in the air.
        landed: whether it has landed and disarmed.
    """

    commander: Commander
    plan: Plan
    name: str
    began: float = math.nan
    held: float = math.nan
    returning: bool = False
    landed: bool = False

    @cached_property
    def limit(self) -> float:
        """s that the mission may take."""
        return time_limit(self.plan)

    def fail(self, reason: str) -> _FailedError:
        return _FailedError(f"{self.name}: {reason}" if self.name else reason)

    def start(self, now: int) -> None:
        """Upload the plan, and start the mission.

        Raises:
            _FailedError: if the stack refuses a part.
        """
        commander, plan = self.commander, self.plan
        parts: list[tuple[str, Callable[[Sequence[MissionItem]], MissionFault | None], list[MissionItem]]] = [
            ("geofence", commander.set_fence, items_of(FENCE, fence_rows(plan))),
            ("rally points", commander.set_rally, items_of(RALLY, rally_rows(plan))),
            ("mission", commander.set_mission, items_of(MISSION, mission_rows(plan))),
        ]
        for name, give, items in parts:
            fault = give(items)
            if fault is not None:
                raise self.fail(f"the autopilot refused the plan's {name}: {fault.reason}")
        self.command(ARM, (1.0, *[0.0] * 6), now, "to arm")
        mode = flight_modes.AUTO_MISSION
        self.command(
            SET_MODE, (float(FLAG_CUSTOM), float(mode.main), float(mode.sub), *[0.0] * 4), now, "the mission"
        )
        self.began = now * 1e-6

    def command(self, command: int, params: tuple[float, ...], now: int, what: str) -> None:
        """Give a command.

        Raises:
            _FailedError: if it is refused.
        """
        if self.commander.command(command, params, now) != ACCEPTED:
            reasons = ", ".join(self.commander.arming_problems) or "it gave no reason"
            raise self.fail(f"the autopilot refuses {what}: {reasons}")

    def follow(self, now: int) -> None:
        """Look at the flight after an update of the commander.

        Raises:
            _FailedError: when the stack has ended the mission by itself, or the time is over.
        """
        commander, seconds = self.commander, now * 1e-6
        if not commander.armed:
            if not commander.land.landed:
                raise self.fail("the autopilot disarmed in the air")
            if not self.returning and not self.plan.lands:
                raise self.fail("the autopilot disarmed before the mission had ended")
            self.landed = True
            return
        mode = commander.mode
        expected = FLOWN | LANDING if self.plan.lands or self.returning else FLOWN
        if mode not in expected and seconds > self.began + 1.0:
            raise self.fail(f"the autopilot changed to {mode.name} by itself while it flew the mission")
        if commander.mission_finished and not self.plan.lands and not self.returning:
            self.command(RETURN, (0.0,) * 7, now, "to return")
            self.returning = True
        self._watch_hold(mode, seconds)
        limit = self.limit * (2.0 if self.returning else 1.0)
        if seconds - self.began > limit:
            item = commander.mission_current + 1
            raise self.fail(f"the mission has not ended within {limit:.0f} s; it is at item {item}")

    def _watch_hold(self, mode: Mode, seconds: float) -> None:
        if mode is not flight_modes.AUTO_LOITER or self.commander.mission_finished:
            self.held = math.nan
        elif math.isnan(self.held):
            self.held = seconds
        elif seconds - self.held > END_GRACE:
            item, count = self.commander.mission_current + 1, len(self.plan.items)
            raise self.fail(f"the autopilot stopped the mission at item {item} of {count} and holds")


class PlanFlights:
    """Flies plans, and keeps the last fleet to reset it for the next flight of the same vehicles."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._fleet: StackFleet | None = None

    def fly(self, settings: FlightSettings, plans: Sequence[Plan]) -> tuple[RunRecord, Verdict]:
        """Fly from the ground to the ground.

        Args:
            settings: of the flight, checked.
            plans: of the vehicles.

        Returns:
            the run as read back from its directory, which has the files of ``sitl-bridge fly``, and the
            verdict.

        Raises:
            UserError: for vehicles that cannot be built, and when a file cannot be written.
        """
        begun = time.monotonic()
        place = RunDirectory(settings.runs, settings.name)
        try:
            logs = {vehicle.name: _log(settings, place, vehicle.name) for vehicle in settings.vehicles}
            for log in logs.values():
                log.parent.mkdir(parents=True, exist_ok=True)
            fleet = self._take(settings, logs, place.path)
            _describe(settings, fleet, place)
            rows, reason = _flown(settings, plans, fleet, place.say)
            with TruthLog(place.truth) as truth:  # at once: a header is written with every block
                truth.write(rows)
            for pilot, name in zip(fleet.pilots, logs, strict=True):
                for _, text in pilot.commander.texts:
                    place.say(text if len(logs) == 1 else f"{name}: {text}")
            run = read_run(place.path)
            files = [{"flight log": log, "ground truth": place.truth} for log in logs.values()]
            summary = _summary(settings, fleet, run, reason, time.monotonic() - begun, files)
            verdict, _ = conclude(run, summary)
            write_json(summary, place.path / SUMMARY)
            return run, verdict
        finally:
            place.close()

    def measure(self, settings: FlightSettings, plans: Sequence[Plan]) -> tuple[RunRecord, Verdict]:
        """Fly the same flight without any file.

        Args:
            settings: of the flight, checked.
            plans: of the vehicles.

        Returns:
            the run as read back from the directory that ``fly`` writes, with the topics that measures need,
            and the verdict.

        Raises:
            UserError: for vehicles that cannot be built.
        """
        begun = time.monotonic()
        logs = {vehicle.name: TopicMemory(formats(), list(TOPICS)) for vehicle in settings.vehicles}
        fleet = self._take(settings, logs, None)
        rows, reason = _flown(settings, plans, fleet, lambda _line: None)
        table = rows.view(flat(ROW)).reshape(-1, len(logs))
        vehicles: list[RecordedVehicle] = []
        for i, (vehicle, memory) in enumerate(zip(settings.vehicles, logs.values(), strict=True)):
            airframe, log = vehicle.airframe, FlightLog.of_memory(memory)
            mission, rotors = str(vehicle.mission), len(airframe.rotors)
            record = results_of(Path(), log)
            vehicles.append(
                RecordedVehicle(vehicle.name, airframe.name, mission, rotors, table[:, i], log, record)
            )
        facts = {
            "events": [event.model_dump(mode="json") for event in settings.events],
            "limits": dict(settings.limits),
        }
        run = run_in_memory(facts, vehicles, settings.name)
        verdict, _ = conclude(run, _summary(settings, fleet, run, reason, time.monotonic() - begun))
        return run, verdict

    def _take(
        self, settings: FlightSettings, logs: Mapping[str, Path | TopicMemory], tables: Path | None
    ) -> StackFleet:
        """A fleet at the start of its flight."""
        world = with_gusts(settings.world, settings.events)
        key = (
            world,
            settings.proximity,
            [
                (v.airframe, v.name, v.position, v.yaw, v.controller, dict(v.parameters))
                for v in settings.vehicles
            ],
        )
        members = [
            StackVehicle(
                v.airframe,
                v.name,
                v.position,
                v.yaw,
                v.controller,
                dict(v.parameters),
                logs[v.name],
                tables,
            )
            for v in settings.vehicles
        ]
        if self._fleet is not None and key == self._key:
            self._fleet.restart(members, settings.seed)
            return self._fleet
        self._fleet, self._key = None, ()
        proximity = settings.proximity if len(members) > 1 else None
        fleet = StackFleet(World(world), members, seed=settings.seed, proximity=proximity)
        self._fleet, self._key = fleet, key
        return fleet


def _flown(
    settings: FlightSettings, plans: Sequence[Plan], fleet: StackFleet, say: Callable[[str], None]
) -> tuple[NDArray[np.void], str]:
    """Fly to the end; returns the true motion, (steps * n,) ROW, and the reason of a failure."""
    names = [vehicle.name for vehicle in settings.vehicles]
    simulation = fleet.simulation
    recording = Recording(names, simulation.start, 0, None, lambda: fleet.record(None))
    fleet.record(recording)
    due = actions(settings.events, simulation, say)
    fleet.timeline = Timeline(simulation.start, due)
    flown = [
        _Flown(pilot.commander, plan, "" if len(names) == 1 else name)
        for pilot, plan, name in zip(fleet.pilots, plans, names, strict=True)
    ]
    reason = ""
    try:
        _fly_all(fleet, flown, settings.time_limit)
    except _FailedError as failure:
        reason = str(failure)
    except UserError as error:  # the motion diverges, or the user's own code fails
        reason = str(error)
    finally:
        recording.close()
        fleet.close()
    return recording.rows.reshape(-1), reason


def _log(settings: FlightSettings, place: RunDirectory, name: str) -> Path:
    """File of a vehicle's flight log, where ``sitl-bridge fly`` has it."""
    alone = len(settings.vehicles) == 1
    return (place.autopilot if alone else place.path / f"vehicle-{name}") / "flight.ulg"


def _fly_all(fleet: StackFleet, flown: Sequence[_Flown], limit: float) -> None:
    """Fly until every vehicle has landed.

    Raises:
        _FailedError: as soon as one has failed.
    """
    start = fleet.simulation.start

    def wait_until(condition: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
        end = fleet.time + round(1e6 * seconds)
        while not condition():
            if fleet.time >= end:
                raise _FailedError(what())
            if (fleet.time - start) * 1e-6 > limit:
                raise _FailedError(f"the time limit of {limit:g} s of simulated time has passed")
            fleet.advance()

    def missing() -> str:
        problems = [problem for one in flown for problem in one.commander.arming_problems]
        return f"not ready to arm within {READY_LIMIT:.0f} s of simulated time: {', '.join(problems)}"

    def ready() -> bool:
        return all(not one.commander.arming_problems for one in flown)

    wait_until(ready, READY_LIMIT, missing)
    since = (fleet.time - start) * 1e-6
    arming = math.ceil(since / ARMING_INTERVAL) * ARMING_INTERVAL
    wait_until(lambda: (fleet.time - start) * 1e-6 >= arming and ready(), READY_LIMIT, missing)
    for one in flown:
        one.start(fleet.time)

    def landed() -> bool:
        for one in flown:
            if not one.landed:
                one.follow(fleet.time)
        return all(one.landed for one in flown)

    fleet.advance()
    wait_until(landed, LONGEST, lambda: "the flight has no end")


def _describe(settings: FlightSettings, fleet: StackFleet, place: RunDirectory) -> None:
    airframes = [vehicle.airframe for vehicle in settings.vehicles]
    facts = describe_simulation("fly", fleet.simulation, airframes, settings.proximity)
    for entry, vehicle in zip(facts["vehicles"], settings.vehicles, strict=True):
        entry |= {"flight_stack": BUILTIN, "mission": str(vehicle.mission)}
    facts["events"] = [event.model_dump(mode="json") for event in settings.events]
    facts["limits"] = dict(settings.limits)
    place.describe(speed="inf", **facts)


def _summary(
    settings: FlightSettings,
    fleet: StackFleet,
    run: RunRecord,
    reason: str,
    wall: float,
    files: Sequence[dict[str, Path]] = (),
) -> dict[str, Any]:
    """The content of summary.json, without the verdict."""
    simulation = fleet.simulation
    seconds = (fleet.time - simulation.start) * 1e-6
    summaries: dict[str, Any] = {}
    for i, (vehicle, flown) in enumerate(zip(settings.vehicles, run.vehicles, strict=True)):
        battery = fleet.pilots[i].commander.battery_state
        outcome = Outcome(
            settings.name if vehicle.mission is None else str(vehicle.mission),
            vehicle.airframe.name,
            not reason,
            reason,
            flight_stack=BUILTIN,
            seed=settings.seed,
            simulated_seconds=seconds,
            wall_seconds=wall,
            impact_speed=float(simulation.states[i]["impact_speed"]),
            vortex_ring_seconds=float(simulation.states[i]["vortex_ring_time"]),
            battery_used=1.0 - battery.remaining,
            logs=files[i] if files else {},
            contacts=object_contacts(simulation.contacts, i, simulation.world.scene.names),
        )
        summaries[vehicle.name] = summarise(outcome, flown.record, [])
    count = int(simulation.proximity[0]["count"])
    return whole_summary(settings.name, summaries, reason=reason, collision_count=count)
