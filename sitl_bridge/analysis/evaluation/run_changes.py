"""Faults and changes of a run, and stalls of its flight stacks.

Faults and changes are those that happened, by events.jsonl, else those that the schedule names, and the
failures that were injected by MAVLink commands, by the flight logs.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import ValidationError

from sitl_bridge.analysis.evaluation.run_record import RecordedVehicle, RunRecord
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.core.simulation.events import COMMANDED, EVENTS, STALL, WindEvent
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.record.ulog_reader import seconds

UNITS = {
    mavlink.FAILURE_UNIT_SENSOR_GYRO: "gyroscope",
    mavlink.FAILURE_UNIT_SENSOR_ACCEL: "accelerometer",
    mavlink.FAILURE_UNIT_SENSOR_MAG: "magnetometer",
    mavlink.FAILURE_UNIT_SENSOR_BARO: "barometer",
    mavlink.FAILURE_UNIT_SENSOR_GPS: "GPS",
    mavlink.FAILURE_UNIT_SYSTEM_MOTOR: "motor",
}
INERTIAL = (mavlink.FAILURE_UNIT_SENSOR_GYRO, mavlink.FAILURE_UNIT_SENSOR_ACCEL)
"""Those of UNITS without which PX4 sends no motor commands."""
BUILT_IN_FAILURE = "Failure injection: "
"""Beginning of what the built-in stack says of an injected failure; it logs no commands."""


@dataclass
class Change:
    """A fault or change of the simulation."""

    # begin, end: s; the same for one without an end
    begin: float
    end: float
    text: str  # for the reader
    vehicles: tuple[str, ...] = ()  # names; empty for all
    fault: bool = False  # whether something was broken on purpose
    # for how many s a flight stack may then stop to answer if there is no end; 0 for never
    silences: float = 0.0

    def concerns(self, vehicle: str) -> bool:
        """Whether it concerns a vehicle."""
        return not self.vehicles or vehicle in self.vehicles


@dataclass(frozen=True)
class Stall:
    """A flight stack that did not answer, although it was in lockstep before."""

    vehicle: str  # its name
    # begin, end: s of simulated time; the same if simulated time waited
    begin: float
    end: float
    cause: str = ""  # the injected fault that explains it; empty if none does

    @property
    def harmless(self) -> bool:
        """Whether it is explained, or simulated time waited."""
        return bool(self.cause) or self.end <= self.begin

    def describe(self) -> str:
        """Describe what happened, without the vehicle."""
        if self.end <= self.begin:
            return f"the flight stack did not answer at {self.begin:.1f} s; simulated time waited"
        what = (
            f"the flight stack did not answer for {self.end - self.begin:.2f} s from {self.begin:.1f} s on;"
            " the vehicle flew on with its last commands"
        )
        return f"{what}, after {self.cause}" if self.cause else what


def run_changes(run: RunRecord) -> list[Change]:
    """The faults and changes of a run in the order in which they began.

    A run with events.jsonl shows what happened: scheduled events that began before the run ended, and
    commands that were executed.  A run without it shows its schedule in run.json up to its end, one whose
    recording ended early because the disk was full the whole schedule.
    """
    if run.summary.get("partial"):
        found = list(_schedule(run))
    elif run.events is not None:
        found = _parse_happened(run)
    else:
        found = [change for change in _schedule(run) if change.begin <= _end(run)]
    for vehicle in run.vehicles:
        found += _injected_by_command(vehicle)
    return sorted(found, key=lambda change: change.begin)


def missed_events(run: RunRecord) -> list[Change]:
    """Scheduled events that did not happen, because the run had ended."""
    return [] if run.summary.get("partial") else [one for one in _schedule(run) if one.begin > _end(run)]


def _end(run: RunRecord) -> float:
    """The last recorded moment, s; infinite without truth."""
    return max((float(one.time[-1]) for one in run.vehicles if len(one.time)), default=math.inf)


def stalls(run: RunRecord) -> list[Stall]:
    """Stalls of the flight stacks in order; a run without events.jsonl has none."""
    names = [vehicle.name for vehicle in run.vehicles]
    changes = run_changes(run)
    last = max((float(vehicle.time[-1]) for vehicle in run.vehicles if len(vehicle.time)), default=0.0)
    begun: dict[str, float] = {}
    found = []
    for entry in run.events or ():
        match entry:
            case {"kind": "stall", "time": int(time), "vehicle": int(number), "begins": bool(begins)}:
                if not 0 <= number < len(names):
                    continue
                if begins:
                    begun[names[number]] = time * 1e-6
                elif names[number] in begun:
                    found.append((names[number], begun.pop(names[number]), time * 1e-6))
    found += [(name, begin, max(begin, last)) for name, begin in begun.items()]
    return [
        Stall(name, begin, end, _cause(changes, name, begin))
        for name, begin, end in sorted(found, key=lambda one: one[1])
    ]


def _cause(changes: Sequence[Change], vehicle: str, moment: float) -> str:
    """The fault after which a flight stack may stop to answer; empty without one."""
    for one in changes:
        until = one.end if one.end > one.begin else one.begin + one.silences
        if one.silences and one.concerns(vehicle) and one.begin - STALL <= moment <= until + STALL:
            return f"{one.text} at {one.begin:.1f} s"
    return ""


def _parse_happened(run: RunRecord) -> list[Change]:
    names = [vehicle.name for vehicle in run.vehicles]
    found: list[Change] = []
    open_events: list[tuple[object, Change]] = []
    for entry in run.events or ():
        time = entry.get("time")
        if not isinstance(time, int | float):
            continue
        match entry:
            case {"kind": "event", "begins": True, "event": dict(event)}:
                begin, lasts = time * 1e-6, event.get("lasts")
                end = begin + lasts if isinstance(lasts, int | float) else begin
                change = _change(begin, end, event, _names_of_vehicles(entry, names))
                found.append(change)
                open_events.append((event, change))
            case {"kind": "event", "event": dict(event)}:
                for pair in open_events:
                    if pair[0] == event:
                        pair[1].end = time * 1e-6
                        open_events.remove(pair)
                        break
            case {"kind": "command", "command": str(name), "refused": None, "data": dict(data)}:
                if name == "wind" or name in COMMANDED:
                    found.append(
                        _change_by_command(time * 1e-6, name, data, _names_of_vehicles(entry, names))
                    )
    return found


def _schedule(run: RunRecord) -> Iterator[Change]:
    for event in run.run.get("events") or ():
        if not isinstance(event, Mapping) or not isinstance(event.get("at"), int | float):
            continue
        begin, lasts = float(event["at"]), event.get("lasts")
        end = begin + float(lasts) if isinstance(lasts, int | float) else begin
        who = event.get("vehicles")
        names = () if who is None else tuple(str(w) for w in (who if isinstance(who, list) else [who]))
        yield _change(begin, end, event, names)


def _change_by_command(time: float, name: str, data: ReadJson, vehicles: tuple[str, ...]) -> Change:
    """A command of the bus or of the live page that changed the simulation."""
    fields = {key: value for key, value in data.items() if key not in ("version", "request_id", "ends")}
    ends = bool(data.get("ends"))
    one = _change(time, time, {"kind": name, **fields}, vehicles)
    text = f"{'end by command' if ends else 'command'} {one.text}"
    return replace(one, text=text, fault=one.fault and not ends, silences=0.0 if ends else one.silences)


def _change(begin: float, end: float, event: ReadJson, vehicles: tuple[str, ...]) -> Change:
    """A change from an entry of events.jsonl or of the schedule; a kind that is not known is a fault."""
    kind = str(event.get("kind", "event"))
    known = EVENTS.get(kind) or COMMANDED.get(kind) or (WindEvent if kind == "wind" else None)
    silences = 0.0
    with contextlib.suppress(ValidationError):  # of another version
        silences = 0.0 if known is None else known.model_validate({"at": 0.0, **event}).silences
    return Change(begin, end, _in_words(event), vehicles, known is None or known.is_fault, silences)


def _injected_by_command(vehicle: RecordedVehicle) -> Iterator[Change]:
    """Failures that a mission or a ground station injected over MAVLink, and terminations it asked for."""
    who = (vehicle.name,)
    topic = None if vehicle.log is None else vehicle.log.topic("vehicle_command")
    if topic is not None:
        first, second = np.asarray(topic["param1"]), np.asarray(topic["param2"])
        for time, number, unit, kind in zip(seconds(topic), topic["command"], first, second, strict=True):
            if number == mavlink.MAV_CMD_INJECT_FAILURE and kind > 0:
                name = UNITS.get(int(unit), f"unit {int(unit)}")
                silences = math.inf if unit in INERTIAL else 0.0
                yield Change(time, time, f"an injected failure ({name})", who, True, silences)
            elif number == mavlink.MAV_CMD_DO_FLIGHTTERMINATION and unit > 0.5:
                yield Change(time, time, "flight termination by command", who, True, math.inf)
    for time, _, text in () if vehicle.record is None else vehicle.record.messages:
        if BUILT_IN_FAILURE in text and text.endswith((" off", " stuck")):
            failure = f"an injected failure ({text.partition(BUILT_IN_FAILURE)[2]})"
            yield Change(time, time, failure, who, True)


def _names_of_vehicles(entry: ReadJson, names: Sequence[str]) -> tuple[str, ...]:
    """Names of the vehicles of an entry of events.jsonl; empty for all."""
    who = entry.get("vehicles", entry.get("vehicle"))
    numbers = who if isinstance(who, list) else [] if who is None else [who]
    found = tuple(names[n] for n in numbers if isinstance(n, int) and 0 <= n < len(names))
    return () if len(found) == len(names) else found


def _in_words(event: ReadJson) -> str:
    """An event or a command in words: its kind, then the settings that it has."""
    left_out = ("at", "lasts", "kind", "vehicles")
    settings = [f"{key} {value}" for key, value in event.items() if key not in left_out and value is not None]
    kind = str(event.get("kind", "event")).replace("_", " ")
    return f"{kind} ({', '.join(settings)})" if settings else kind
