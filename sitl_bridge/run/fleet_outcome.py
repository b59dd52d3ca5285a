"""State and outcome of a flight of several vehicles, and its summary as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sitl_bridge.error_log import ErrorLog
from sitl_bridge.hil.link_status import ServerStatus
from sitl_bridge.px4.vehicle_status import VehicleStatus
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.report.flight_record import FlightRecord
from sitl_bridge.report.formation_truth import add_truth
from sitl_bridge.report.summary import Outcome, write_json
from sitl_bridge.report.vehicle_distances import ClosestPair, closest_pair
from sitl_bridge.run.fleet_settings import FleetSettings
from sitl_bridge.simulation import Simulation

CLOSEST_RATE = 50.0
"""Hz at which the truth is searched for the closest pair: at a closing speed of 4 m/s, the closest approach
is within 4 cm of travel from a sample, which changes a distance of 1 m by a millimetre."""


@dataclass(frozen=True)
class FleetProgress:
    """State of a flight."""

    server: ServerStatus
    vehicles: tuple[VehicleStatus, ...]
    lost: tuple[bool, ...]
    """Vehicles whose flight stack has ended."""


@dataclass(frozen=True)
class FleetOutcome:
    """Outcome of a flight of several vehicles.

    Attributes:
        name: of the scenario.
        names: of the vehicles.
        succeeded: all missions succeeded, and no flight stack ended except by a scheduled event.
        reason: of a failure; empty otherwise.
        vehicles: outcome of each vehicle, with the figures of its log if there is one.
        collisions: (k,) COLLISION between vehicles.
        collision_count: their total number.
        closest: the closest pair in the air; None if two vehicles were never in the air together.
        logs: files by their content.
        formation: true errors of a formation in m; see ``add_truth``.
        errors: of the bridge itself, after which the flight continued; with any of them it has failed.
    """

    name: str
    names: tuple[str, ...]
    succeeded: bool
    reason: str
    vehicles: tuple[tuple[Outcome, FlightRecord | None], ...]
    collisions: Any
    collision_count: int
    closest: ClosestPair | None
    logs: Mapping[str, Path]
    formation: Mapping[str, float] = field(default_factory=dict)
    errors: tuple[str, ...] = ()


def conclude(
    settings: FleetSettings,
    reason: str,
    simulation: Simulation,
    directory: RunDirectory,
    logs: Mapping[str, Path],
    vehicles: tuple[tuple[Outcome, FlightRecord | None], ...],
    summaries: Mapping[str, Any],
    errors: ErrorLog,
) -> FleetOutcome:
    """Evaluate a flight that has ended; write its summary and picture into the run directory.

    Args:
        settings: of the flight.
        reason: of a failure so far; empty if there is none.
        simulation: of the flight.
        directory: of the run.
        logs: files of the run by their content.
        vehicles: outcome of each vehicle, with the figures of its log if there is one.
        summaries: of the vehicles, by name, for the summary file.
        errors: receives errors of the evaluation; with any of them the flight has failed.
    """
    # Importing matplotlib takes half a second, which must not delay the start of a flight.
    from sitl_bridge.report.plot_fleet import draw_fleet, thinned

    names = tuple(vehicle.name for vehicle in settings.vehicles)
    found = dict(logs)
    picture = directory.path / "fleet.png"
    with errors.guard("drawing of the picture"):
        if draw_fleet(directory.truth, list(names), picture, settings.name):
            found["picture"] = picture
    near: ClosestPair | None = None
    with errors.guard("search for the closest pair"):
        near = closest_pair(*thinned(directory.truth, len(names), CLOSEST_RATE))
    if not reason:
        reason = _too_close(near, names, settings.separation)
    formation: dict[str, float] = {}
    with errors.guard("comparison of the formation with the truth"):
        formation = add_truth(directory.path / "formation", directory.truth, len(names))
    outcome = FleetOutcome(
        settings.name,
        names,
        not (reason or errors.lines),
        reason,
        vehicles,
        simulation.collisions,
        int(simulation.proximity[0]["count"]),
        near,
        found,
        formation,
        tuple(errors.lines),
    )
    with errors.guard("writing of the summary"):
        file = directory.path / "summary.json"
        write_json(_summary(outcome, summaries, simulation.names), file)
        found["summary"] = file
    return replace(outcome, succeeded=not (reason or errors.lines), errors=tuple(errors.lines))


def _too_close(near: ClosestPair | None, names: tuple[str, ...], separation: float) -> str:
    """Message about two vehicles that came closer than the separation in m; empty if none did."""
    if near is None or near.distance >= separation:
        return ""
    first, second = (names[i] for i in near.vehicles)
    return (
        f"{first} and {second} were {near.distance:.2f} m apart in truth at {near.time:.1f} s;"
        f" the least distance allowed is {separation:g} m"
    )


def _summary(outcome: FleetOutcome, vehicles: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "succeeded": outcome.succeeded,
        "reason": outcome.reason,
        "errors": list(outcome.errors),
        "collision_count": outcome.collision_count,
        "closest": None if outcome.closest is None else closest_values(outcome.closest, outcome.names),
        "collisions": [collision_values(row, names) for row in outcome.collisions],
        "logs": {name: str(path) for name, path in outcome.logs.items()},
        "vehicles": dict(vehicles),
    }


def closest_values(near: ClosestPair, names: tuple[str, ...]) -> dict[str, Any]:
    """The closest pair as plain values."""
    vehicles = [names[i] for i in near.vehicles]
    return {"distance_m": near.distance, "time_s": near.time, "vehicles": vehicles}


def collision_values(row: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """A COLLISION as plain values."""
    parts = ["body" if part == 0 else f"rotor {part}" for part in row["part"].tolist()]
    return {
        "time": float(row["time"]) * 1e-6,
        "vehicles": [names[i] for i in row["vehicle"].tolist()],
        "parts": parts,
        "closing_speed": float(row["speed"]),
        "position": row["position"].tolist(),
    }
