"""The outcome of a flight that has ended: its verdict, its summary as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sitl_bridge.analysis.evaluation.flight_record import FlightRecord
from sitl_bridge.analysis.evaluation.formation import add_truth
from sitl_bridge.analysis.evaluation.run_record import RunRecord, read_run
from sitl_bridge.analysis.evaluation.summary import Outcome, summarise, whole_summary
from sitl_bridge.analysis.evaluation.vehicle_distances import ClosestPair
from sitl_bridge.analysis.evaluation.verdict import FAILED, Verdict
from sitl_bridge.analysis.evaluation.verdict import conclude as judge_at_end
from sitl_bridge.base.arrays import Records
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject, ReadJson, plain_values
from sitl_bridge.base.output_file import write_json
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.px4.vehicle_status import VehicleMessage
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.session.settings import FlightSettings


@dataclass(frozen=True)
class FlightOutcome:
    """Outcome of a flight."""

    name: str  # of the scenario
    names: tuple[str, ...]  # of the vehicles
    run: RunRecord  # as read back
    verdict: Verdict  # on the flight
    # outcome of each vehicle, with the figures of its log if there is one
    vehicles: tuple[tuple[Outcome, FlightRecord | None], ...]
    collisions: Records  # (k,) COLLISION between vehicles
    collision_count: int  # their total number
    # the closest pair in the air; None if two vehicles were never in the air together
    closest: ClosestPair | None
    logs: Mapping[str, Path]  # files by their content
    # true errors of a formation in m; see ``add_truth``
    formation: Mapping[str, float] = field(default_factory=dict)

    @property
    def succeeded(self) -> bool:
        """Whether the flight succeeded."""
        return self.verdict.succeeded

    @property
    def reason(self) -> str:
        """Why it did not; empty for a success."""
        return "; ".join(self.verdict.reasons)


def conclude(
    settings: FlightSettings,
    facts: ReadJson,
    simulation: Simulation,
    place: RunDirectory | RunRecord,
    logs: Mapping[str, Path],
    vehicles: Sequence[tuple[Outcome, Sequence[VehicleMessage]]],
    errors: ErrorLog,
) -> FlightOutcome:
    """Read a flight that has ended, judge it, and write its summary into its run directory.

    Args:
        facts: of the whole flight for its summary, such as the reason of a failure so far.
        place: its run directory, or its record where it left none.
        logs: files of the run by their content.
        vehicles: what the simulation knows of each, with its flight log, and texts of its flight stack.
        errors: receives errors of the evaluation; with any of them the flight has failed.
    """
    names, files = tuple(vehicle.name for vehicle in settings.vehicles), dict(logs)
    formation: dict[str, float] = {}
    if isinstance(place, RunRecord):
        run = place
    else:
        run = RunRecord(place.path, settings.name)
        with errors.guard("reading of the recording"):
            run = read_run(place.path)
        with errors.guard("comparison of the formation with the truth"):
            formation = add_truth(place.path / "formation", place.truth, len(names))
            run.formation |= formation
    read = {vehicle.name: vehicle for vehicle in run.vehicles}
    records = [read[name].record if name in read else None for name in names]
    flown: list[Outcome] = []
    for (outcome, _), name, record in zip(vehicles, names, records, strict=True):
        log = outcome.logs.get("flight log")
        if log is not None and record is None:
            errors.add("reading of the flight log", UserError(f"{log}: cannot be read"))
        known = name in read and (record is not None or read[name].rows is not None)
        with errors.guard("reading of the truth"):
            outcome = replace(outcome, figures=read[name].figures if known else None)
        flown.append(replace(outcome, logs={**files, **outcome.logs}))
    collisions, count = simulation.collisions, int(simulation.proximity[0]["count"])
    summary = whole_summary(
        settings.name,
        {
            name: summarise(outcome, record, messages)
            for name, outcome, record, (_, messages) in zip(names, flown, records, vehicles, strict=True)
        },
        **facts,
        errors=errors.lines,
        losses=errors.losses,
        collision_count=count,
        collisions=[collision_values(row, simulation.names) for row in collisions],
        logs={name: str(path) for name, path in files.items()},
    )
    verdict, closest = Verdict(FAILED), None
    with errors.guard("evaluation of the flight"):
        verdict, evaluation = judge_at_end(run, summary)
        closest = evaluation.closest
        summary["closest"] = None if closest is None else closest_values(closest, names)
    if not isinstance(place, RunRecord):
        with errors.guard("writing of the summary"):
            file = place.path / "summary.json"
            place.give_room()
            write_json(file, plain_values(summary))
            files["summary"] = file
    late = [line for line in errors.lines if line not in summary["errors"]]
    if late:
        verdict = replace(verdict, word=FAILED, reasons=(*verdict.reasons, *late))
    if len(flown) == 1:
        flown = [replace(flown[0], succeeded=verdict.succeeded, reason="; ".join(verdict.reasons))]
    judged = tuple(zip(flown, records, strict=True))
    return FlightOutcome(
        settings.name, names, run, verdict, judged, collisions, count, closest, files, formation
    )


def closest_values(near: ClosestPair, names: tuple[str, ...]) -> JsonObject:
    """The closest pair as plain values."""
    vehicles = [names[i] for i in near.vehicles]
    return {"distance_m": near.distance, "time_s": near.time, "vehicles": vehicles}


def collision_values(row: np.void, names: tuple[str, ...]) -> JsonObject:
    """A COLLISION as plain values."""
    parts = ["body" if part == 0 else f"rotor {part}" for part in row["part"].tolist()]
    return {
        "time": float(row["time"]) * 1e-6,
        "vehicles": [names[i] for i in row["vehicle"].tolist()],
        "parts": parts,
        "closing_speed": float(row["speed"]),
        "position": row["position"].tolist(),
    }
