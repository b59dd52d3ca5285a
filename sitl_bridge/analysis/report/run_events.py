"""Time line of a run: modes, scheduled faults and changes, failsafes, messages."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sitl_bridge.analysis.evaluation.flight_record import MODES
from sitl_bridge.analysis.evaluation.run_changes import run_changes, stalls
from sitl_bridge.analysis.evaluation.run_record import RecordedVehicle, RunRecord
from sitl_bridge.base.arrays import AnyArray, Floats
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.link.px4.event_catalogue import LEVELS, WARNING
from sitl_bridge.record.ulog_reader import seconds

LANES = (
    "flight mode",
    "armed",
    "in the air",
    "injected",
    "stall",
    "failsafe",
    "formation",
    "contact",
    "message",
)
"""Rows of the time line, from above."""
MOST_MESSAGES = 400


@dataclass(frozen=True)
class TimelineEntry:
    """Something that happened."""

    lane: str  # of ``LANES``
    begin: float  # s
    end: float  # s; the same as ``begin`` for a moment
    text: str  # for the reader
    level: str = "info"  # info, warning or error
    vehicle: str = ""  # its name; empty for all


def timeline(run: RunRecord) -> list[TimelineEntry]:
    """All entries in order of time."""
    found = _format_injected(run) + _stalls(run) + _formation(run) + _collisions(run)
    for vehicle in run.vehicles:
        label = vehicle.name if len(run.vehicles) > 1 else ""
        found += _modes(vehicle, label) + _states(vehicle, label) + _messages(vehicle, label)
        found += _contacts(run.of_vehicle(vehicle.name), label)
    order = {lane: i for i, lane in enumerate(LANES)}
    return sorted(found, key=lambda entry: (entry.begin, order[entry.lane]))


def _spans(time: Floats, values: AnyArray) -> list[tuple[float, float, int]]:
    """Parts of a (k,) signal with one value: begin, end, value."""
    values = np.asarray(values)
    changes = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1, [len(values)]])
    return [
        (float(time[a]), float(time[min(b, len(time) - 1)]), int(values[a]))
        for a, b in itertools.pairwise(changes)
    ]


def _modes(vehicle: RecordedVehicle, label: str) -> list[TimelineEntry]:
    status = None if vehicle.log is None else vehicle.log.topic("vehicle_status")
    if status is None:
        return []
    time = seconds(status)
    armed = np.flatnonzero(np.asarray(status["arming_state"]) == 2)
    # PX4 keeps a mode selected after it has disarmed, which nothing flies any more.
    last = int(armed[-1]) + 1 if len(armed) else len(time)
    found = [
        TimelineEntry("flight mode", begin, end, MODES.get(value, f"mode {value}"), vehicle=label)
        for begin, end, value in _spans(time, status["nav_state"][:last])
    ]
    if last < len(time):
        found.append(TimelineEntry("flight mode", time[last], time[-1], "disarmed", vehicle=label))
    return found


def _states(vehicle: RecordedVehicle, label: str) -> list[TimelineEntry]:
    log, found = vehicle.log, []
    status = None if log is None else log.topic("vehicle_status")
    if status is not None:
        time = seconds(status)
        armed = [s for s in _spans(time, np.asarray(status["arming_state"]) == 2) if s[2]]
        found += [TimelineEntry("armed", b, e, "armed", vehicle=label) for b, e, _ in armed]
        if "failsafe" in status:
            causes = vehicle.record.failsafes if vehicle.record is not None else []
            for begin, end, value in _spans(time, np.asarray(status["failsafe"]) != 0):
                if value:
                    own = ", ".join(dict.fromkeys(cause for at, cause in causes if begin <= at <= end))
                    text = f"failsafe: {own}" if own else "failsafe"
                    found.append(TimelineEntry("failsafe", begin, end, text, "error", label))
    flight = vehicle.flight()
    if flight is not None:
        found.append(TimelineEntry("in the air", *flight, "in the air", vehicle=label))
    return found


def _messages(vehicle: RecordedVehicle, label: str) -> list[TimelineEntry]:
    record = vehicle.record
    found = []
    for time, level, text in () if record is None else record.messages[:MOST_MESSAGES]:
        kind = "error" if level < WARNING else "warning" if level == WARNING else "info"
        found.append(TimelineEntry("message", time, time, f"{LEVELS[level]}: {text}", kind, label))
    return found


def _format_injected(run: RunRecord) -> list[TimelineEntry]:
    return [
        TimelineEntry("injected", one.begin, one.end, one.text, "warning", ", ".join(one.vehicles))
        for one in run_changes(run)
    ]


def _stalls(run: RunRecord) -> list[TimelineEntry]:
    several = len(run.vehicles) > 1
    return [
        TimelineEntry(
            "stall",
            s.begin,
            s.end,
            s.describe(),
            "warning" if s.harmless else "error",
            s.vehicle if several else "",
        )
        for s in stalls(run)
    ]


def _formation(run: RunRecord) -> list[TimelineEntry]:
    found = []
    for line in run.formation.get("events") or ():
        match = re.fullmatch(r"(-?\d+(?:\.\d+)?) s: (.*)", str(line))
        if match:
            time = float(match[1]) + run.formation_start
            found.append(TimelineEntry("formation", time, time, match[2]))
    return found


def _impacts(listed: object) -> list[ReadJson]:
    """The entries of a list of collisions or contacts in a summary that have a time and a speed."""
    return [
        one
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, Mapping)
        and all(
            isinstance(value, int | float) and abs(value) <= sys.float_info.max
            for value in (one.get("time"), one.get("closing_speed") or 0.0)
        )
    ]


def _collisions(run: RunRecord) -> list[TimelineEntry]:
    found = []
    for one in _impacts(run.summary.get("collisions")):
        names = one.get("vehicles")
        who = " and ".join(str(name) for name in (names if isinstance(names, list) else ()))
        text = f"{who} collided at {float(one.get('closing_speed') or 0.0):.1f} m/s"
        found.append(TimelineEntry("contact", one["time"], one["time"], text, "error"))
    return found


def _contacts(summary: ReadJson, label: str) -> list[TimelineEntry]:
    found = []
    for one in _impacts(summary.get("contacts")):
        speed = float(one.get("closing_speed") or 0.0)
        text = f"the {one.get('part')} hit {one.get('object')} at {speed:.1f} m/s"
        found.append(TimelineEntry("contact", one["time"], one["time"], text, "error", label))
    return found
