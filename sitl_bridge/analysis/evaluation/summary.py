"""The summary after a flight, ``summary.json``: what was flown, how closely, what went wrong.

Combines the values of ``ulog_analysis.py`` with those of the simulation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sitl_bridge.analysis.evaluation.flight_record import FlightFigures, FlightRecord
from sitl_bridge.base.json_data import JsonObject, plain_values
from sitl_bridge.core.dynamics.proximity import VehicleContact
from sitl_bridge.link.px4.event_catalogue import LEVELS, WARNING
from sitl_bridge.link.px4.vehicle_status import VehicleMessage

if TYPE_CHECKING:
    from sitl_bridge.core.simulation.simulation import Simulation

EXPECTED_MESSAGES = ("arming warning", "request past EOF")
"""Texts that PX4 logs at each arming (name of a tune) and at the end of each file that a partner reads."""


LINK_WAIT = "poll timeout"
"""Text of PX4's simulator link that waited for a frame (SimulatorMavlink.cpp); PX4's time stands still."""
LINK_WAIT_NOTE = (
    " (PX4 waited over a second for the simulation: a busy machine, or a pause; its time stood still)"
)

WAITING = "Preflight Fail"
"""Text that PX4 repeats while its sensors start; the mission reports if that lasts."""
OF_OUTCOME = (
    *("mission", "airframe", "flight_stack", "reason", "partial", "seed", "simulated_seconds"),
    *("wall_seconds", "impact_speed", "vortex_ring_seconds", "battery_used", "link_faults"),
)
"""Fields of ``Outcome`` that the summary has as they are."""


@dataclass(frozen=True)
class Outcome:
    """Result of a vehicle's flight as known to the simulation."""

    mission: str  # name of the mission as given by the user
    airframe: str  # its name
    # whether the mission succeeded; of a single vehicle that was judged, whether the flight did
    succeeded: bool
    reason: str = ""  # of a failure; empty on success
    flight_stack: str = "PX4"  # the flight stack
    seed: int = 0  # of the run
    # simulated_seconds, wall_seconds: duration
    simulated_seconds: float = math.nan
    wall_seconds: float = math.nan
    impact_speed: float = math.nan  # largest closing speed of a new ground contact, m/s; nan if unknown
    vortex_ring_seconds: float = 0.0  # time with a rotor in its vortex ring state, s
    battery_used: float = math.nan  # share of the charge, nan if unknown
    logs: dict[str, Path] = field(default_factory=dict)  # paths by name of the log
    # faulty messages of the flight stack on the simulator link, counts by kind (hil/link_errors)
    link_faults: dict[str, int] = field(default_factory=dict)
    contacts: Sequence[VehicleContact] = ()  # contacts with objects of the scene
    partial: bool = False  # whether the recording ended before the flight did
    # how far it flew: by the truth, else by its flight log; None where neither is known
    figures: FlightFigures | None = None

    @classmethod
    def at_end(cls, simulation: Simulation, number: int, *, reason: str, **known: Any) -> Self:
        """The outcome of a vehicle whose simulation has ended.

        Args:
            number: of the vehicle.
            reason: why it failed; empty where it did not.
            known: the other fields.
        """
        name, state = simulation.names[number], simulation.states[number]
        return cls(
            succeeded=not reason,
            reason=reason,
            impact_speed=float(state["impact_speed"]),
            vortex_ring_seconds=float(state["vortex_ring_time"]),
            contacts=[one for one in simulation.named_contacts() if one.vehicle == name],
            **known,
        )


def warnings_of(
    record: FlightRecord | None, messages: Iterable[VehicleMessage]
) -> list[tuple[float, str, str]]:
    """Return (s, level, text) of PX4's warnings and errors from its log and its link, each once, in order."""
    found = [(m.time, m.level, m.text) for m in messages]
    if record is not None:
        found += [(t, level, text.split("] ", 1)[-1]) for t, level, text in record.messages]
    seen: set[tuple[str, int]] = set()
    kept = []
    for time, level, text in sorted(found, key=lambda entry: (math.isnan(entry[0]), entry[0])):
        if level > WARNING or text in EXPECTED_MESSAGES or text.startswith(WAITING):
            continue
        # The same text within some seconds came from both sources.
        mark = (text, 0 if math.isnan(time) else int(time // 5.0))
        if mark in seen or (mark[0], mark[1] - 1) in seen:
            continue
        seen.add(mark)
        kept.append((time, LEVELS[level], text + LINK_WAIT_NOTE * text.startswith(LINK_WAIT)))
    return kept


def summarise(
    outcome: Outcome, record: FlightRecord | None, messages: Iterable[VehicleMessage]
) -> JsonObject:
    """A vehicle's values for ``summary.json``, without the verdict."""
    summary: JsonObject = {
        **{name: getattr(outcome, name) for name in OF_OUTCOME},
        "contacts": [
            {
                "time": one.time,
                "object": one.object,
                "part": one.part,
                "closing_speed": one.speed,
                "position": one.position,
            }
            for one in outcome.contacts
        ],
        "warnings": [
            {"time": time, "level": level, "text": text}
            for time, level, text in warnings_of(record, messages)
        ],
        "logs": {name: str(path) for name, path in outcome.logs.items()},
    }
    if outcome.figures is not None:
        summary["flight"] = asdict(outcome.figures)
    if record is not None:
        summary["flight"] = {
            **asdict(outcome.figures or record.figures),
            "estimated": asdict(record.figures),
            "modes": [{"mode": mode, "seconds": seconds} for mode, seconds in record.modes],
            "deviations": {name: asdict(d) for name, d in record.deviations.items()},
            "true_deviations": {name: asdict(d) for name, d in record.true_deviations.items()},
            "estimate_error": asdict(record.estimate_error) if record.estimate_error else None,
            "estimators": [asdict(estimator) for estimator in record.estimators],
            "failsafes": record.failsafe_causes,
            "vibration": record.vibration,
        }
    return summary


def whole_summary(name: str, vehicles: Mapping[str, JsonObject], **facts: object) -> JsonObject:
    """The content of ``summary.json`` but for the verdict, as plain values.

    Args:
        name: of the flight.
        vehicles: what ``summarise`` gives, by name; of several vehicles it stands under their names.
        facts: of the whole flight, such as the reason of a failure.
    """
    if len(vehicles) == 1:
        return plain_values(next(iter(vehicles.values())) | facts)
    return plain_values({"name": name, **facts, "vehicles": dict(vehicles)})
