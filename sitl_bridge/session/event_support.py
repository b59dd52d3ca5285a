"""Events that have an effect in a flight and in each kind of simulation, and remedies for the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.core.simulation.events import EVENTS, Need, event_faults
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.session.scenario import LoadedScenario
from sitl_bridge.swarm.formation.events import FORMATION_KINDS

FlightKind = Literal["fly", "full formation", "full avoidance", "quick formation", "quick avoidance"]
"""``sitl-bridge fly``; ``simulate --on full`` and ``--on quick``, with a formation and with avoidance."""

_SUPPLIES: dict[Need, tuple[FlightKind, ...]] = {
    "dynamics": ("fly", "full formation", "full avoidance"),
    "sensors": ("fly", "full formation"),
    "processes": ("fly",),
}
"""Kinds of flight that have what an event of vehicles needs."""

SUPPORT: dict[str, tuple[FlightKind, ...]] = {
    **{kind: _SUPPLIES[event.needs] for kind, event in EVENTS.items()},
    **dict.fromkeys(FORMATION_KINDS, ("fly", "full formation", "quick formation")),
}
"""Kinds of flight in which each kind of event has an effect."""

_ALTERNATIVES = {
    "stack_killed": "give kind vehicle_lost, or use sitl-bridge fly",
    "stack_stopped": "give kind vehicle_stalled, or use sitl-bridge fly",
}
"""The corresponding events without a process for each flight stack."""
_REASONS: dict[FlightKind, str] = {
    "full formation": "flight stacks have no processes of their own in simulate",
    "full avoidance": "simulate has neither sensors nor flight stacks in avoidance",
    "quick formation": "point masses have no motors, sensors, payload or wind",
    "quick avoidance": "the prediction model has no motors, sensors, payload or changing wind",
}


def flight_kind(scenario: LoadedScenario, on: Literal["quick", "full"]) -> FlightKind:
    """The kind of simulation of a scenario with a formation or avoidance."""
    if scenario.formation is not None:
        return "full formation" if on == "full" else "quick formation"
    return "full avoidance" if on == "full" else "quick avoidance"


def validate_events(scenario: LoadedScenario, kind: FlightKind) -> None:
    """Refuse a scenario with events that have no effect in this kind of flight.

    Raises:
        ConfigurationError: with every such event.
    """
    faults = list(_faults(scenario, kind))
    if faults:
        raise ConfigurationError(scenario.document.source, faults)


def validate_events_of(scenario: LoadedScenario, airframe: Airframe) -> None:
    """Refuse events that cannot happen to vehicles of an airframe that replaces the scenario's.

    Raises:
        ConfigurationError: with every such event.
    """
    names = [vehicle.name for vehicle in scenario.vehicles]
    faults = event_faults(scenario.events, names, [airframe] * len(names))
    if faults:
        place = [i for i, e in enumerate(scenario.specification.events) if e.kind not in FORMATION_KINDS]
        lines = [scenario.document.fault(("events", place[i]), reason) for i, reason in faults]
        raise ConfigurationError(scenario.document.source, lines)


def _faults(scenario: LoadedScenario, kind: FlightKind) -> Iterator[str]:
    for i, event in enumerate(scenario.specification.events):
        if kind not in SUPPORT[event.kind]:
            yield scenario.document.fault(
                ("events", i),
                f"{event.kind} has no effect here: {_REASONS[kind]}; {_remedy(event.kind, kind)}",
            )


def _remedy(event: str, kind: FlightKind) -> str:
    on_full = kind.replace("quick", "full")
    if kind != on_full and on_full in SUPPORT[event]:
        return "add --on full"
    if event in _ALTERNATIVES and kind != "full avoidance" and kind != "quick avoidance":
        return _ALTERNATIVES[event]
    return "use sitl-bridge fly, or leave it out"
