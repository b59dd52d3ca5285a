"""Messages for scenario files of earlier versions: the corresponding present fields."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sitl_bridge.base.field_paths import FieldPath
from sitl_bridge.base.yaml_file import Document, Fault

_AVOIDANCE = ("duration", "circle", "obstacles", "priority", "controller", "tolerance", "noise")
OLD_FIELDS = {*_AVOIDANCE, "wind", "link", "flight"} - {"controller"}
"""Fields at the top level of old files, except controller, which an airframe has too."""
_FORMATION_EVENTS = {
    "lose": ("vehicle_lost", "", ""),
    "stall": ("vehicle_stalled", "seconds", "lasts"),
    "abort": ("leave_formation", "action", "action"),
}
"""Present kind, and a field's old and present name."""
_ROUTE = ("route", "table", "speed", "acceleration", "depart")


def old_faults(document: Document) -> list[Fault]:
    """Fields of earlier versions, each with its present replacement."""
    faults = [Fault(document.line(path), path, message) for path, message in _found(document.data)]
    return sorted(faults, key=lambda fault: fault.line)


def _found(data: dict[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    for name in _AVOIDANCE:
        if name in data:
            yield (
                (name,),
                f"is now in the section avoidance; write avoidance: {{{name}: ...}}{_unit(name, data)}",
            )
    if "wind" in data:
        yield ("wind",), f"is now part of the world; write {_wind(data['wind'])}"
    if "link" in data:
        yield ("link",), f"is now called radio; write radio: {_flow(data['link'])}"
    if "flight" in data:
        yield ("flight",), _flight(data["flight"])
    vehicles = data.get("vehicles")
    for i, group in enumerate(vehicles if isinstance(vehicles, list) else []):
        if isinstance(group, dict) and any(name in group for name in _ROUTE):
            yield ("vehicles", i), _route(group)
    formation = data.get("formation")
    if isinstance(formation, dict) and "graph" in formation:
        graph = formation["graph"]
        if isinstance(graph, dict) and "kind" in graph:
            graph = {"graph": graph["kind"], **{k: v for k, v in graph.items() if k != "kind"}}
        yield ("formation", "graph"), f"is now called radio; write at the top level radio: {_flow(graph)}"
    events = formation.get("events") if isinstance(formation, dict) else None
    if events is not None:
        yield (
            ("formation", "events"),
            f"is now at the top level; write events: [{_events(events)}]",
        )


def _events(events: Any) -> str:
    """Events of a formation in the present language."""
    written = []
    for event in events if isinstance(events, list) else []:
        given = event if isinstance(event, dict) else {}
        old = next((name for name in _FORMATION_EVENTS if name in given), "abort")
        kind, own, now = _FORMATION_EVENTS[old]
        fields = {"at": given.get("at", 0), "kind": kind, "vehicles": [given.get(old, 0)]}
        written.append(_flow(fields | ({now: given[own]} if own in given else {})))
    return ", ".join(written) or "{at: 30, kind: leave_formation, vehicles: [2], action: land}"


def _unit(name: str, data: dict[str, Any]) -> str:
    """Changed units in a section that has moved."""
    part = data[name]
    if name == "noise" and isinstance(part, dict) and isinstance(part.get("attitude"), int | float):
        return f", with the attitude in deg: attitude: {math.degrees(part['attitude']):.4g}"
    limits = part.get("limits") if name == "controller" and isinstance(part, dict) else None
    if isinstance(limits, dict) and isinstance(limits.get("yaw_rate"), int | float):
        return f", with limits.yaw_rate in deg/s: yaw_rate: {math.degrees(limits['yaw_rate']):.4g}"
    return ""


def _wind(wind: Any) -> str:
    if (
        not isinstance(wind, list)
        or len(wind) != 3
        or not all(isinstance(part, int | float) for part in wind)
    ):
        return "world: {wind: {steady: {speed: 3, direction: 270}}}"
    north, east, down = wind
    fields = {
        "speed": round(math.hypot(north, east), 3),
        "direction": round(math.degrees(math.atan2(-east, -north)) % 360.0, 1),
    }
    if down:
        fields["upward"] = -down
    return f"world: {{wind: {{steady: {_flow(fields)}}}}}"


def _flight(flight: Any) -> str:
    given = flight if isinstance(flight, dict) else {}
    parts = []
    if "airframe" in given or not given:
        parts.append(f"vehicles: [{{airframe: {given.get('airframe', 'iris_rtk')}}}]")
    if "position_deviation" in given:
        parts.append(f"avoidance: {{position_deviation: {given['position_deviation']}}}")
    return f"is no longer a section; write {' and '.join(parts)}"


def _route(group: dict[str, Any]) -> str:
    fields: dict[str, Any] = {
        "name": group.get("name", "a"),
        **({"points": "..."} if "table" not in group else {"table": "..."}),
        **{name: group[name] for name in ("speed", "acceleration", "depart") if name in group},
    }
    if isinstance(group.get("yaw"), int | float):
        fields["yaw"] = f"{math.degrees(group['yaw']):.4g}"
    unit = ", yaw in deg" if "yaw" in fields else ""
    return f"routes are now in the section avoidance; write avoidance: {{routes: [{_flow(fields)}]}}{unit}"


def _flow(fields: Any) -> str:
    if not isinstance(fields, dict):
        return "{...}"
    return "{" + ", ".join(f"{name}: {value}" for name, value in fields.items()) + "}"
