"""A run as read back from its directory: truth, flight logs, formation tracks, summary and configuration.

Whatever can be read is read.  What is missing or damaged becomes a note; a path that holds nothing of a run
is refused.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from sitl_bridge.analysis.evaluation.flight_record import RATE, TOPICS, FlightFigures, FlightRecord
from sitl_bridge.analysis.evaluation.ulog_analysis import results_of
from sitl_bridge.autopilot.flight_log import NAME
from sitl_bridge.base.arrays import Columns, Floats, Records, interpolate
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.input_file import read_arrays
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.plan.plan import Plan
from sitl_bridge.plan.recorded_plan import recorded_plan
from sitl_bridge.record.run_reader import read_events, vehicle_log
from sitl_bridge.record.run_recorder import EVENTS
from sitl_bridge.record.truth_log import map_truth, read_columns
from sitl_bridge.record.ulog_reader import Fields, FlightLog, columns, seconds

LOGGED: Fields = {
    **TOPICS,
    "actuator_motors": tuple(f"control[{i}]" for i in range(12)),
    "battery_status": ("voltage_v", "current_a"),
    "vehicle_angular_velocity": ("xyz[0]", "xyz[1]", "xyz[2]"),
    "vehicle_attitude_setpoint": ("q_d[0]", "q_d[1]", "q_d[2]", "q_d[3]"),
    "vehicle_command": ("command", "param1", "param2"),
    "vehicle_local_position_setpoint": ("x", "y", "z", "vx", "vy", "vz"),
}
"""Topics that a report reads, and their fields besides the time."""

NEEDED = ("vehicle_land_detected", "vehicle_local_position", "vehicle_status")
"""Topics without which a flight log shows little: when the vehicle flew, where, and in which mode."""

BOUNCE = 0.1
"""m above the take-off point below which a vehicle that touches nothing lifts its feet, or bounces."""
RUN, SUMMARY, TRUTH = "run.json", "summary.json", "truth.npy"
TRACKS = ("tracks.npz", "formation/tracks.npz")
MAX_TRACK_BYTES = 500_000_000
"""Limit of the arrays of a formation's tracks: an hour of nine vehicles at 50 Hz takes 70 MB."""


@dataclass
class RecordedVehicle:
    """One vehicle of a run."""

    name: str  # as in the scenario
    airframe: str = ""  # its name
    mission: str = ""  # as given by the user; empty for a vehicle of a fleet's mission
    rotors: int = 4  # their number
    rows: Records | None = None  # (k,) of the truth log, one scalar column per component; None without
    # log, record: its flight log and the results from it; None without
    log: FlightLog | None = None
    record: FlightRecord | None = None
    # (3,) m, from the estimator's local frame to the world frame
    to_world: Floats = field(default_factory=lambda: np.zeros(3))

    @property
    def time(self) -> Floats:
        """The (k,) s of the truth; empty without."""
        return self.true("time") * 1e-6

    def true(self, name: str, *axes: str) -> Floats:
        """Columns (k,) or (k, c) of the truth; empty without a truth log."""
        if self.rows is None:
            return np.zeros((0, len(axes)) if axes else 0)
        found = read_columns(self.rows, *([f"{name}_{axis}" for axis in axes] or [name]))
        return found if axes else found[:, 0]

    def logged_fields(self, name: str, *fields: str) -> tuple[Floats, Floats] | None:
        """Times (k,) s and fields (k, c) of a topic of its flight log; None if it or a field is not there."""
        topic = None if self.log is None else self.log.topic(name)
        if topic is None or any(field not in topic for field in fields):
            return None
        return seconds(topic), columns(topic, *fields)

    def flight(self) -> tuple[float, float] | None:
        """Take-off and landing in s: from the log, else from the truth; None without a flight."""
        if self.record is not None and math.isfinite(self.record.take_off):
            return self.record.take_off, self.record.landing
        begin, end = self.figures.take_off, self.figures.landing
        return (begin, end) if math.isfinite(begin) else None

    @cached_property
    def figures(self) -> FlightFigures:
        """How far it flew: by the truth, else by its flight log."""
        if self.rows is None or not len(self.rows):
            return FlightFigures() if self.record is None else self.record.figures
        touches, armed, time = read_columns(self.rows, "in_contact", "armed", "time").T
        up = (touches == 0) & np.logical_or.accumulate(armed > 0)  # a vehicle is set up slightly in the air
        if not up.any():
            return FlightFigures()
        time = time * 1e-6
        every = max(1, round(1.0 / RATE / float(np.median(np.diff(time))))) if len(time) > 1 else 1
        position = self.true("position", "north", "east", "down")
        legs = np.linalg.norm(np.diff(position[::every], axis=0), axis=1)
        first, last = np.flatnonzero(up)[[0, -1]]
        return FlightFigures(
            float(time[first]),
            float(time[last]),
            float(np.diff(time, append=time[-1])[up].sum()),
            float(legs[up[::every][1:]].sum()),
            float(np.linalg.norm(self.true("velocity", "north", "east", "down")[up], axis=1).max()),
            float(position[first, 2] - position[up, 2].min()),
        )

    @property
    def height_at_end(self) -> float | None:
        """m above its take-off point at which the recording ends; None on the ground, and where unknown."""
        if self.rows is None or not len(self.rows) or not math.isfinite(self.figures.take_off):
            return None
        touches, down = read_columns(self.rows[[-1]], "in_contact", "position_down")[0]
        first = int(np.searchsorted(self.time, self.figures.take_off))
        start = float(self.true("position", "north", "east", "down")[min(first, len(self.rows) - 1), 2])
        height = float(start - down)
        return None if touches or abs(height) < BOUNCE else height


@dataclass
class RunRecord:
    """A run."""

    path: Path  # its directory, or the flight log that it was read from
    name: str  # of what was flown
    # run, summary: contents of run.json and summary.json; empty where missing
    run: JsonObject = field(default_factory=dict)
    summary: JsonObject = field(default_factory=dict)
    events: tuple[JsonObject, ...] | None = None  # entries of events.jsonl; None where missing
    vehicles: list[RecordedVehicle] = field(default_factory=list)  # in order
    tracks: Columns | None = None  # of a formation or of avoidance, by name; None without
    formation: JsonObject = field(default_factory=dict)  # the summary of a formation; empty without
    plan: Plan | None = None  # of the first vehicle; None without
    notes: list[str] = field(default_factory=list)  # what is missing or damaged, for the user
    damage: list[str] = field(default_factory=list)  # those of ``notes`` on damaged files
    partial: str = ""  # why the run is incomplete; empty for a complete run

    def note_damage(self, text: str) -> None:
        """Note that a file is damaged."""
        self.notes.append(text)
        self.damage.append(text)

    @property
    def stack(self) -> str:
        """The flight stack of the first vehicle with its version, as far as it is known."""
        vehicles = self.run.get("vehicles")
        first = vehicles[0] if isinstance(vehicles, list) and vehicles else {}
        autopilot = first.get("autopilot") if isinstance(first, dict) else None
        if isinstance(autopilot, dict) and autopilot.get("name"):
            return f"{autopilot['name']} {autopilot.get('version') or ''}".strip()
        if not self.vehicles:
            return ""
        named = self.of_vehicle(self.vehicles[0].name).get("flight_stack")
        log = self.vehicles[0].log
        if named or log is None:
            return str(named or "")
        built_in = log.writer == NAME
        return "the built-in flight stack" if built_in else f"{log.writer} {log.version}".strip()

    @property
    def formation_start(self) -> float:
        """Start of the formation on the run's clock, s; 0 of point masses, whose clock is the formation's."""
        started = self.formation.get("started_at_s")
        if not isinstance(started, int | float) or all(one.rows is None for one in self.vehicles):
            return 0.0
        return float(started)

    def of_vehicle(self, name: str) -> JsonObject:
        """The summary of a vehicle; that of the run for a single one."""
        vehicles = self.summary.get("vehicles")
        found = vehicles.get(name) if isinstance(vehicles, dict) else self.summary
        return found if isinstance(found, dict) else {}


def read_run(path: Path) -> RunRecord:
    """Read a run directory, or a single flight log (ULog).

    Raises:
        UserError: for a path that does not exist or holds nothing of a run.
    """
    if path.is_file():
        return _single_log(path)
    if not path.is_dir():
        raise UserError(f"{path}: no such run directory or flight log")
    path = path.resolve()
    record = RunRecord(path, path.name)
    record.run = _json(record, RUN)
    record.summary = _json(record, SUMMARY)
    record.events = read_events(path / EVENTS)
    _read_tracks(record)
    _read_vehicles(record)
    if not (record.run or record.summary or record.tracks or any(_has_data(v) for v in record.vehicles)):
        detail = f" ({'; '.join(record.notes)})" if record.notes else ""
        raise UserError(
            f"{path}: holds nothing of a run that can be read{detail}; give a directory in which fly or"
            " simulate left run.json, truth.npy or tracks.npz, or a flight log (.ulg)"
        )
    _name(record)
    first = next((entry for entry in record.run.get("vehicles") or () if isinstance(entry, dict)), {})
    record.plan = recorded_plan(record.run, first, record.notes)
    if not record.summary:
        why = "serve writes none" if record.run.get("kind") == "serve" else "it was killed or is not over"
        record.partial = f"the run has no {SUMMARY}: {why}; shown is what it recorded"
    return record


def run_in_memory(run: JsonObject, vehicles: list[RecordedVehicle], name: str = "") -> RunRecord:
    """A run that left no directory.

    Args:
        run: what run.json would hold.
        vehicles: with their truth, logs and results.
        name: of what was flown.
    """
    for vehicle in vehicles:
        _place(vehicle)
    return RunRecord(Path(), name, run, vehicles=vehicles)


def _has_data(vehicle: RecordedVehicle) -> bool:
    return vehicle.log is not None or (vehicle.rows is not None and len(vehicle.rows) > 0)


def _single_log(path: Path) -> RunRecord:
    record = RunRecord(path, path.stem)
    vehicle = RecordedVehicle("0")
    _read_log(record, vehicle, path, required=True)
    record.vehicles = [vehicle]
    record.notes.append("only a flight log was given: no recording, no events, no verdict of the mission")
    assert vehicle.log is not None  # it is required
    lacking = [name for name in NEEDED if vehicle.log.topic(name) is None]
    if lacking:
        record.notes.append(f"the log has no {' and no '.join(lacking)}: what needs it is not measured")
    detected = vehicle.log.topic("vehicle_land_detected")
    if detected is not None and not detected["landed"][-1]:
        record.notes.append("the log ends in the air: the flight is measured up to there")
    return record


def _json(record: RunRecord, name: str) -> JsonObject:
    file = record.path / name
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        record.note_damage(f"{name}: is damaged: {error}")
        return {}
    if isinstance(found, dict):
        return found
    record.note_damage(f"{name}: is damaged: it is not an object")
    return {}


def _name(record: RunRecord) -> None:
    named = record.summary.get("name") or record.summary.get("mission")
    vehicles = record.run.get("vehicles")
    if not named and isinstance(vehicles, list) and len(vehicles) == 1 and isinstance(vehicles[0], dict):
        named = vehicles[0].get("mission")
    scenarios = record.run.get("scenarios")
    if not named and isinstance(scenarios, list) and scenarios:
        named = ", ".join(Path(str(scenario)).stem for scenario in scenarios)
    record.name = str(named) if named else record.path.name


# -------------------------------------------------------------------------- vehicles


def _read_vehicles(record: RunRecord) -> None:
    described = [v for v in record.run.get("vehicles") or () if isinstance(v, dict)]
    record.vehicles = [_describe(v, i) for i, v in enumerate(described)]
    table = _truth(record)
    if table is not None:
        count = len(record.vehicles) or int(table["vehicle"].max(initial=0)) + 1
        if not record.vehicles:
            record.vehicles = [RecordedVehicle(str(i)) for i in range(count)]
        whole = table[: len(table) // count * count].reshape(-1, count)
        for i, vehicle in enumerate(record.vehicles):
            vehicle.rows = whole[:, i]
    if not record.vehicles and any(record.path.rglob("*.ulg")):
        record.vehicles = [RecordedVehicle("0")]
    for vehicle in record.vehicles:
        file, note = vehicle_log(record.path, vehicle.name, alone=len(record.vehicles) == 1)
        record.notes += [note] if note else []
        if file is not None:
            _read_log(record, vehicle, file)
        _place(vehicle)


def _describe(entry: JsonObject, number: int) -> RecordedVehicle:
    airframe = entry.get("airframe")
    airframe = airframe if isinstance(airframe, dict) else {}
    return RecordedVehicle(
        str(entry.get("name", number)),
        str(airframe.get("name", "")),
        str(entry.get("mission") or ""),
        len(airframe.get("rotors") or ()) or 4,
    )


def _truth(record: RunRecord) -> Records | None:
    file = record.path / TRUTH
    if not file.is_file():
        return None
    try:
        table, note = map_truth(file)
        columns = read_columns(table, "vehicle", *(f"attitude_{k}" for k in "wxyz"))
    except UserError as error:
        record.notes.append(str(error))
        return None
    if note:
        record.notes.append(note)
    vehicles, attitudes = columns[:, 0], columns[:, 1:]
    if len(table) and not 0 <= vehicles.min() <= vehicles.max() < len(table):
        record.note_damage(f"{TRUTH}: is damaged: it has a row of vehicle {vehicles.max():.0f}")
        return None
    # What a disk lost is zeros.
    wrong = ~(np.abs(np.sum(attitudes**2, axis=1) - 1.0) < 0.01)
    if wrong.any():
        first = int(wrong.argmax())
        record.note_damage(f"{TRUTH}: is damaged from row {first} on, and read up to there")
        table = table[:first]
    return table


def _read_log(record: RunRecord, vehicle: RecordedVehicle, file: Path, *, required: bool = False) -> None:
    try:
        vehicle.log = FlightLog.read(file, LOGGED)
    except UserError as error:
        if required:
            raise
        record.notes.append(str(error))
        return
    try:
        vehicle.record = results_of(file, vehicle.log)
    except UserError as error:
        record.notes.append(f"{error}, which the measures need; the curves are shown")
        return
    if vehicle.record.damaged:
        record.notes.append(f"{file}: is damaged; the figures are of the part that can be read")


def _place(vehicle: RecordedVehicle) -> None:
    """Find the offset of the estimator's frame: from the log's own truth, else from the mean error."""
    record = vehicle.record
    if record is None or vehicle.rows is None or not len(vehicle.rows):
        return
    local_time, local = (
        (record.true_time, record.truth) if len(record.true_time) else (record.time, record.estimate)
    )
    position, time = vehicle.true("position", "north", "east", "down"), vehicle.time
    inside = (local_time >= time[0]) & (local_time <= time[-1])
    if not inside.any():
        return
    world = interpolate(local_time[inside], time, position)
    difference = world - local[inside]
    difference = difference[np.isfinite(difference).all(axis=1)]
    if len(difference):
        vehicle.to_world = np.median(difference, axis=0)


def _read_tracks(record: RunRecord) -> None:
    for name in TRACKS:
        file = record.path / name
        if not file.is_file():
            continue
        try:
            record.tracks = read_arrays(file, MAX_TRACK_BYTES)
        except ValueError as error:
            record.note_damage(f"{name}: is damaged: {error}")
            continue
        summary = file.with_name(SUMMARY)
        if summary.parent == record.path:
            record.formation = record.summary
        elif summary.is_file():
            record.formation = _json(record, str(summary.relative_to(record.path)))
        return
