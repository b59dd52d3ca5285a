"""The verdict on a run: the one place where flights are judged.

A flight is judged once, at its end, and the verdict is kept in summary.json; everything that shows a run
shows that verdict.  A run without one, and one that is judged by other limits, is judged here as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from sitl_bridge.analysis.evaluation.estimator_health import (
    VIBRATION_ORANGE,
    VIBRATION_RED,
    rejection_in_words,
)
from sitl_bridge.analysis.evaluation.measures import Limits, Measure, is_known, validate_limits
from sitl_bridge.analysis.evaluation.run_changes import missed_events, run_changes, stalls
from sitl_bridge.analysis.evaluation.run_evaluation import Evaluation, evaluate
from sitl_bridge.analysis.evaluation.run_record import RecordedVehicle, RunRecord
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject, ReadJson
from sitl_bridge.link.hil.link_errors import fault_texts

WORDS = SUCCEEDED, FAILED, INTERRUPTED, UNKNOWN = "succeeded", "failed", "interrupted", "no verdict"
"""The words of a verdict."""
REPORTED = 5
"""Contacts of a vehicle that are listed one by one."""
DRIFTING, DOWNWIND = 1.0, 0.9
"""m/s of mean wind, and part of the way that lies downwind, from which a vehicle counts as blown away."""
RELAYED = ("note: ", "warning: ")
"""Beginnings of what the relay to a board warns of, among the lines of the simulator link."""
STORED = "verdict"
"""Key of the verdict in summary.json."""


@dataclass(frozen=True)
class Verdict:
    """How a run went.

    Attributes:
        word: SUCCEEDED, FAILED, INTERRUPTED or UNKNOWN.
        reasons: why it has not succeeded; empty for a success.
        notes: what the reader should know, with its weight.
        measures: by which it was judged.
        origin: who judged, if it was not the flight itself at its end.
    """

    word: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    measures: tuple[Measure, ...] = ()
    origin: str = ""

    def __str__(self) -> str:
        """The word, then reasons and notes."""
        return "\n".join([self.word, *self.reasons, *self.notes])

    @property
    def succeeded(self) -> bool:
        """Whether the run has succeeded."""
        return self.word == SUCCEEDED

    def check(self) -> None:
        """Raise what went wrong.

        Raises:
            UserError: where the run has not succeeded.
        """
        if not self.succeeded:
            raise UserError("; ".join(self.reasons) or f"the verdict on the flight is: {self.word}")

    def as_data(self) -> JsonObject:
        """For summary.json."""
        return {
            "word": self.word,
            "reasons": list(self.reasons),
            "notes": list(self.notes),
            "measures": [one.as_data() for one in self.measures],
        }

    @classmethod
    def from_data(cls, data: ReadJson) -> Self:
        """Undo ``as_data``; measures that this version does not know are left out.

        Raises:
            KeyError, TypeError, ValueError: for other data.
        """
        if data["word"] not in WORDS:
            raise ValueError(f"{data['word']!r} is no verdict")
        measures = tuple(Measure.from_data(one) for one in data["measures"] if is_known(one["name"]))
        reasons, notes = (tuple(str(line) for line in data[key]) for key in ("reasons", "notes"))
        return cls(str(data["word"]), reasons, notes, measures)


def flown_limits(run: RunRecord) -> dict[str, float | None]:
    """Limits with which the run was flown."""
    limits = run.run.get("limits")
    try:
        return validate_limits(limits, "limits of run.json") if isinstance(limits, dict) else {}
    except UserError as error:
        run.notes.append(str(error))
        return {}


def read_verdict(run: RunRecord) -> Verdict | None:
    """The verdict that the flight left; None without one."""
    try:
        return Verdict.from_data(run.summary[STORED])
    except (KeyError, TypeError, ValueError):
        return None


def conclude(run: RunRecord, summary: JsonObject) -> tuple[Verdict, Evaluation]:
    """Judge a flight at its end, and put the verdict into its summary.

    Args:
        run: as read back; it takes the summary.
        summary: of plain values, with ``reason`` and ``errors`` if the mission or the bridge failed.
    """
    run.summary, run.partial = summary, ""
    evaluation = evaluate(run, flown_limits(run))
    verdict = judge(run, evaluation)
    verdict = replace(verdict, notes=tuple(dict.fromkeys([*verdict.notes, *run.notes])))
    summary[STORED], summary["succeeded"] = verdict.as_data(), verdict.succeeded
    return verdict, evaluation


def judge(run: RunRecord, evaluation: Evaluation, origin: str = "") -> Verdict:
    """Judge a run: by what its summary says of the mission, and by its measures.

    A measure beyond its limit fails the run, with one exception: a default limit of a vehicle in which
    something was broken on purpose before, as far as the moment is known.  Then the user asked for what
    follows; limits that the user set count.

    Args:
        run: with its summary.
        evaluation: of the run, with the limits.
        origin: of the verdict.
    """
    faults = _summary_faults(run)
    reasons = list(faults)
    in_air = in_air_at_end(run)
    notes: list[str] = []
    for one in evaluation.exceeded:
        # Stalls are explained one by one.
        strict = one.set_by_user or one.kind.name == "unanswered_time"
        vehicle = None if strict else _vehicle_of(run, one)
        broken = "" if vehicle is None else _broken_on_purpose(run, vehicle, _moment(run, one, vehicle))
        lines = _in_words(run, one, evaluation)
        if broken:
            notes += [f"{line}, after {broken}" for line in lines]
        else:
            reasons += lines
    reasons += [f"{name} has a limit, but the run has no value for it" for name in evaluation.unmeasured]
    reasons += evaluation.failures.values()
    notes += _notes(run) + [in_air] * (bool(in_air) and in_air not in reasons)
    if faults and run.summary.get("interrupted"):
        word = INTERRUPTED
    elif reasons:
        word = FAILED
    else:
        word = SUCCEEDED if run.summary and not run.partial else UNKNOWN
    measures = tuple(evaluation.measures)
    return Verdict(word, tuple(dict.fromkeys(reasons)), tuple(dict.fromkeys(notes)), measures, origin)


def verdict_of(run: RunRecord, evaluation: Evaluation, given: Limits) -> Verdict:
    """The stored verdict, or a new one: with limits that are given now, or where none is stored.

    Args:
        run: with its summary.
        evaluation: of the run, with the limits.
        given: limits on top of those of the flight.
    """
    stored = read_verdict(run)
    if given:
        limits = ", ".join(f"{name}={'none' if x is None else f'{x:g}'}" for name, x in given.items())
        return judge(run, evaluation, f"judged anew with {limits}")
    if stored is None:
        return judge(run, evaluation, "judged by this report: the run has no verdict of its own")
    return stored


# -------------------------------------------------------------------------- reasons and notes


def _summary_faults(run: RunRecord) -> list[str]:
    """Return the summary's lines of a failed mission and of errors of the bridge."""
    summary = run.summary
    errors = summary.get("errors")
    found = [str(summary["reason"])] if summary.get("reason") else []
    found += [str(error) for error in errors] if isinstance(errors, list) else []
    if not found and STORED not in summary and summary.get("succeeded") is False:
        found = ["the mission failed"]
    return found


def _vehicle_of(run: RunRecord, one: Measure) -> RecordedVehicle | None:
    """The vehicle of a measure; None for one of a fleet."""
    return next((v for v in run.vehicles if v.name == one.vehicle or len(run.vehicles) == 1), None)


def _moment(run: RunRecord, one: Measure, vehicle: RecordedVehicle) -> float:
    """When a measure went beyond its limit, s; infinite where that is not known."""
    record = vehicle.record
    match one.kind.name:
        case "object_contacts":
            return min(float(contact["time"]) for contact in run.of_vehicle(vehicle.name)["contacts"])
        case "touchdown" if one.limit is not None:
            return float(vehicle.time[np.argmax(vehicle.true("impact_speed") > one.limit)])
        case "failsafes" if record is not None:
            return record.failsafes[0][0]
        case "estimator_failures" if record is not None:
            return min(estimator.begin for estimator in record.estimators)
        case _:
            return math.inf


def _broken_on_purpose(run: RunRecord, vehicle: RecordedVehicle, until: float) -> str:
    """The first fault that was injected into a vehicle, at ``until`` s at the latest; empty without one."""
    changes = [one for one in run_changes(run) if one.fault and one.concerns(vehicle.name)]
    faults = [one for one in changes if one.begin <= until]
    return f"{faults[0].text} at {faults[0].begin:.1f} s" if faults else ""


def _in_words(run: RunRecord, one: Measure, evaluation: Evaluation) -> list[str]:
    """A measure beyond its limit, in words: what happened where that is known."""
    vehicle, found = _vehicle_of(run, one), [f"beyond its limit: {one.words()}"]
    near = evaluation.closest
    if one.kind.name == "separation" and near is not None:
        first, second = (run.vehicles[i].name for i in near.vehicles)
        return [
            f"{first} and {second} were {near.distance:.2f} m apart in truth at {near.time:.1f} s;"
            f" the least distance allowed is {one.limit:g} m"
        ]
    if one.kind.name == "landed":
        return [in_air_at_end(run)]
    if one.set_by_user or vehicle is None:
        return found
    record = vehicle.record
    match one.kind.name:
        case "failsafes" if record is not None:
            found = [f"failsafe: {cause}" for cause in record.failsafe_causes]
        case "estimator_failures" if record is not None:
            found = [f"estimator {e.instance}: {text}" for e in record.estimators for text in e.failures]
        case "object_contacts":
            found = _contact_words(run.of_vehicle(vehicle.name)["contacts"])
        case "unanswered_time":
            found = [s.describe() for s in stalls(run) if s.vehicle == vehicle.name and not s.harmless]
        case "touchdown":
            found = [f"hit the ground at {one.value:.1f} m/s, more than {one.limit:g} m/s"]
        case _:
            return found
    return [f"{one.vehicle}: {line}" if one.vehicle else line for line in found]


def in_air_at_end(run: RunRecord) -> str:
    """Name the vehicles that were in the air when the recording ended; empty where none was."""
    flying = [(one.name, one.height_at_end) for one in run.vehicles]
    up = [(name, f"{height:.1f} m up") for name, height in flying if height is not None]
    words = [f"{name} ({height})" if len(flying) > 1 else height for name, height in up]
    more = f" and {len(up) - REPORTED} more" if len(up) > REPORTED else ""
    return f"the flight ended in the air: {', '.join(words[:REPORTED])}{more}" if up else ""


def _contact_words(contacts: Sequence[ReadJson]) -> list[str]:
    """Contacts of a summary in words: the first few one by one."""
    words = [
        f"the {one['part']} hit {one['object']} at {one['closing_speed']:.1f} m/s, {one['time']:.1f} s"
        for one in contacts[:REPORTED]
    ]
    if len(contacts) > REPORTED:
        words.append(f"{len(contacts) - REPORTED} more contacts with objects, in the summary")
    return words


def _drift_words(vehicle: RecordedVehicle) -> list[str]:
    """How far downwind a vehicle was when a fence ended its flight; nothing unless that is where it went."""
    record = vehicle.record
    if record is None or vehicle.rows is None or not any("eofence" in c for c in record.failsafe_causes):
        return []
    at = int(np.searchsorted(vehicle.time, record.failsafes[0][0]))
    begin = int(np.searchsorted(vehicle.time, record.take_off))
    if not 0 <= begin < at < len(vehicle.time):
        return []
    place = vehicle.true("position", "north", "east")
    wind = vehicle.true("wind", "north", "east")[begin:at].mean(axis=0)
    moved, speed = place[at] - place[begin], float(np.hypot(*wind))
    along = float(moved @ wind) / max(speed, 1e-9)
    if speed < DRIFTING or along < DOWNWIND * float(np.hypot(*moved)):
        return []
    return [f"drifted {along:.0f} m downwind of its take-off to the fence, in {speed:.1f} m/s of wind"]


LEAST_LIMITED = 0.5
"""s at the controllers' limit that are worth a note; a motor that speeds up is there for some 0.1 s."""


def _limited_seconds(run: RunRecord, vehicle: RecordedVehicle) -> float:
    """Time in s in which a speed controller of first-order motors gave all the current that it may."""
    described = [one for one in run.run.get("vehicles", ()) if one.get("name") == vehicle.name]
    airframe = described[0].get("airframe") if described else None
    airframe = airframe if isinstance(airframe, dict) else {}
    limit = (airframe.get("esc") or {}).get("current_limit")
    if limit is None or vehicle.rows is None or len(vehicle.time) < 2:
        return 0.0
    if airframe.get("motor", {}).get("kind") != "first_order":
        return 0.0  # the limit of others is that of the windings, which no row has
    currents = vehicle.true("motor_current", *(str(k) for k in range(vehicle.rotors)))
    step = float(np.median(np.diff(vehicle.time)))
    return step * int(np.count_nonzero((currents >= limit * (1.0 - 1e-5)).any(axis=1)))


def _link_words(run: RunRecord) -> list[str]:
    """Return the warnings of the relay to a board: each kind once, as it was said first."""
    grouped: dict[str, list[str]] = {}
    for entry in run.events or ():
        match entry:
            case {"kind": "link", "time": int(time), "text": str(text)} if text.startswith(RELAYED):
                line = f"{text.partition(': ')[2]}, at {time * 1e-6:.0f} s"
                grouped.setdefault(re.sub(r"\d+", "", text), []).append(line)
    return [f"{first}, and {len(rest)} more" if rest else first for first, *rest in grouped.values()]


def _notes(run: RunRecord) -> list[str]:
    """Findings that are no failure, with their weight."""
    losses = run.summary.get("losses")
    found = [str(loss) for loss in losses] if isinstance(losses, list) else []
    found += [
        f"{one.text} at {one.begin:g} s did not happen: the flight had ended" for one in missed_events(run)
    ]
    found += _link_words(run)
    explained = [s for s in stalls(run) if s.harmless]
    for vehicle in run.vehicles:
        lines = [s.describe() for s in explained if s.vehicle == vehicle.name]
        limited = _limited_seconds(run, vehicle)
        if limited >= LEAST_LIMITED:
            lines.append(f"speed controllers at their current limit for {limited:.1f} s")
        summary = run.of_vehicle(vehicle.name)
        faults = summary.get("link_faults")
        if isinstance(faults, dict):
            lines += [f"simulator link: {words}" for words in fault_texts(faults)]
        record = vehicle.record
        if record is None and "flight_stack" in summary:
            lines.append("the flight stack wrote no log (PX4 logs from arming on)")
        elif record is not None:
            if record.damaged:
                lines.append(f"{record.path}: is damaged; the figures are of the part that can be read")
            for one in record.estimators:
                texts = [rejection_in_words(name, share) for name, share in one.rejected.items()]
                lines += [f"estimator {one.instance}: {t}" for t in texts if t not in one.failures]
            lines += _drift_words(vehicle)
            if record.vibration > VIBRATION_ORANGE:
                red = record.vibration > VIBRATION_RED
                level, colour = (VIBRATION_RED, "red") if red else (VIBRATION_ORANGE, "orange")
                shaken = f"vibration up to {record.vibration:.1f} m/s^2"
                lines.append(f"{shaken}; Flight Review shows more than {level:g} in {colour}")
        found += [f"{vehicle.name}: {line}" if len(run.vehicles) > 1 else line for line in lines]
    return found
