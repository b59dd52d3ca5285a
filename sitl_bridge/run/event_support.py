"""Events that a flight and each kind of simulation carry out, and what to do about the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from sitl_bridge.errors import ConfigurationError
from sitl_bridge.files.scenario import LoadedScenario, fault_line
from sitl_bridge.swarm.formation.formation_events import FORMATION_KINDS
from sitl_bridge.vehicle.airframe import Airframe
from sitl_bridge.vehicle.event_specification import event_faults

Player = Literal["fly", "full formation", "full avoidance", "quick formation", "quick avoidance"]
"""``sitl-bridge fly``; ``simulate --on full`` and ``--on quick``, with a formation and with avoidance."""

PLAYERS: dict[str, tuple[Player, ...]] = {
    "motor_loss": ("fly", "full formation", "full avoidance"),
    "sensor_fault": ("fly", "full formation"),
    "gps_jamming": ("fly", "full formation"),
    "gps_spoofing": ("fly", "full formation"),
    "payload_drop": ("fly", "full formation", "full avoidance"),
    "stack_killed": ("fly",),
    "stack_stopped": ("fly",),
    "gust": ("fly", "full formation", "full avoidance"),
    "wind_change": ("fly", "full formation", "full avoidance"),
    "leave_formation": ("fly", "full formation", "quick formation"),
    "vehicle_lost": ("full formation", "quick formation"),
    "vehicle_stalled": ("full formation", "quick formation"),
}
"""Who carries out each kind of event."""

_STAND_INS = {
    "vehicle_lost": "give kind stack_killed",
    "vehicle_stalled": "give kind stack_stopped",
    "stack_killed": "give kind vehicle_lost, or use sitl-bridge fly",
    "stack_stopped": "give kind vehicle_stalled, or use sitl-bridge fly",
}
"""Events of vehicles whose stack is a process, and events of those whose stack is none, for one another."""
_LACKS: dict[Player, str] = {
    "fly": "the formation cannot silence a vehicle in flight",
    "full formation": "flight stacks have no processes of their own in simulate",
    "full avoidance": "simulate has neither sensors nor flight stacks in avoidance",
    "quick formation": "point masses have no motors, sensors, payload or wind",
    "quick avoidance": "the prediction model has no motors, sensors, payload or changing wind",
}


def player(scenario: LoadedScenario, on: Literal["quick", "full"]) -> Player:
    """The kind of simulation of a scenario with a formation or avoidance."""
    if scenario.formation is not None:
        return "full formation" if on == "full" else "quick formation"
    return "full avoidance" if on == "full" else "quick avoidance"


def event_notes(scenario: LoadedScenario, who: Player) -> list[str]:
    """The scenario's events that ``who`` does not carry out, each with its line, its path and a remedy."""
    return list(_faults(scenario, who))


def refuse_events(scenario: LoadedScenario, who: Player) -> None:
    """Refuse a scenario with events that ``who`` does not carry out.

    Raises:
        ConfigurationError: with every such event.
    """
    faults = event_notes(scenario, who)
    if faults:
        raise ConfigurationError(scenario.document.source, faults)


def refuse_events_of(scenario: LoadedScenario, airframe: Airframe) -> None:
    """Refuse events that cannot happen to vehicles of an airframe that replaces the scenario's.

    Raises:
        ConfigurationError: with every such event.
    """
    names = [vehicle.name for vehicle in scenario.vehicles]
    faults = event_faults(scenario.events, names, [airframe] * len(names))
    if faults:
        place = [i for i, e in enumerate(scenario.specification.events) if e.kind not in FORMATION_KINDS]
        lines = [fault_line(scenario.document, ("events", place[i]), reason) for i, reason in faults]
        raise ConfigurationError(scenario.document.source, lines)


def _faults(scenario: LoadedScenario, who: Player) -> Iterator[str]:
    for i, event in enumerate(scenario.specification.events):
        if who not in PLAYERS[event.kind]:
            yield fault_line(
                scenario.document,
                ("events", i),
                f"{event.kind} has no effect here: {_LACKS[who]}; {_remedy(event.kind, who)}",
            )


def _remedy(kind: str, who: Player) -> str:
    on_full = who.replace("quick", "full")
    if who != on_full and on_full in PLAYERS[kind]:
        return "add --on full"
    if kind in _STAND_INS and who != "full avoidance" and who != "quick avoidance":
        return _STAND_INS[kind]
    return "use sitl-bridge fly, or leave it out"
