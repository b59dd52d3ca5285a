"""Faults and changes of a run: those that happened, by events.jsonl, else those that its schedule names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sitl_bridge.report.run_record import RunRecord

COMMANDS = ("wind", "fault", "jam", "spoof", "rotor", "propeller", "teleport")
"""Commands of the bus and of the live page that change the simulation; those of time and flight do not."""


@dataclass
class Change:
    """A fault or change of the simulation.

    Attributes:
        begin, end: s; the same for one without an end.
        text: for the reader.
        vehicles: names; empty for all.
    """

    begin: float
    end: float
    text: str
    vehicles: tuple[str, ...] = ()


def run_changes(run: RunRecord) -> list[Change]:
    """The faults and changes of a run in the order in which they began.

    A run with events.jsonl shows what happened: scheduled events that began before the run ended, and
    commands that were executed.  A run without it, or whose recording ended early because the disk was full,
    shows its schedule in run.json.
    """
    if run.events is None or run.summary.get("partial"):
        return sorted(_schedule(run), key=lambda change: change.begin)
    names = [vehicle.name for vehicle in run.vehicles]
    found: list[Change] = []
    open_events: list[tuple[Any, Change]] = []
    for entry in run.events:
        time = entry.get("time")
        if not isinstance(time, int | float):
            continue
        match entry:
            case {"kind": "event", "begins": True, "event": dict(event)}:
                begin, lasts = time * 1e-6, event.get("lasts")
                end = begin + lasts if isinstance(lasts, int | float) else begin
                change = Change(begin, end, _in_words(event), _named(entry, names))
                found.append(change)
                open_events.append((event, change))
            case {"kind": "event", "event": dict(event)}:
                for pair in open_events:
                    if pair[0] == event:
                        pair[1].end = time * 1e-6
                        open_events.remove(pair)
                        break
            case {"kind": "command", "command": str(name), "refused": None, "data": dict(data)}:
                if name in COMMANDS:
                    text = _in_words({"kind": f"command {name}", **data})
                    found.append(Change(time * 1e-6, time * 1e-6, text, _named(entry, names)))
    return found


def _schedule(run: RunRecord) -> Iterator[Change]:
    for event in run.run.get("events") or ():
        if not isinstance(event, Mapping) or not isinstance(event.get("at"), int | float):
            continue
        begin, lasts = float(event["at"]), event.get("lasts")
        end = begin + float(lasts) if isinstance(lasts, int | float) else begin
        who = event.get("vehicles")
        names = () if who is None else tuple(str(w) for w in (who if isinstance(who, list) else [who]))
        yield Change(begin, end, _in_words(event), names)


def _named(entry: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    """Names of the vehicles of an entry of events.jsonl; empty for all."""
    who = entry.get("vehicles", entry.get("vehicle"))
    numbers = who if isinstance(who, list) else [] if who is None else [who]
    found = tuple(names[n] for n in numbers if isinstance(n, int) and 0 <= n < len(names))
    return () if len(found) == len(names) else found


def _in_words(event: Mapping[str, Any]) -> str:
    """An event or a command in words: its kind, then the settings that it has."""
    left_out = ("at", "lasts", "kind", "vehicles")
    settings = [f"{key} {value}" for key, value in event.items() if key not in left_out and value is not None]
    kind = str(event.get("kind", "event")).replace("_", " ")
    return f"{kind} ({', '.join(settings)})" if settings else kind
