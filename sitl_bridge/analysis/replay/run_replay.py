"""Repeats a recorded run from its run.json with its recorded commands; finds the first value that differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from sitl_bridge.analysis.replay.replayed_steps import (
    DIVERGED,
    SAME,
    TRUTH_DIFFERS,
    ReplayArrays,
    replay_steps,
)
from sitl_bridge.base.arrays import Bytes, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.events import (
    COMMANDED,
    EventSpecification,
    StackEvent,
    apply_event,
    event_of_command,
)
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import airframe_beside
from sitl_bridge.core.world.wind import WindSpecification
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.core.world.world_file import world_beside
from sitl_bridge.link.hil.link_state import LINK
from sitl_bridge.link.hil.message_layout import CHECKSUM, HEADER, PAYLOAD_NAMES, PAYLOADS
from sitl_bridge.record.records import ROW, convert_rows, flat
from sitl_bridge.record.run_reader import RecordedRun, readable
from sitl_bridge.record.run_recorder import EVENTS


def rebuild(run: RecordedRun) -> Simulation:
    """Build a run's simulation as it was before the first step.

    Raises:
        UserError: if run.json lacks what this takes, or a file that it names is missing.
    """
    file, facts = run.path / "run.json", run.description
    if "step" not in facts or "vehicles" not in facts:
        raise UserError(f"{file}: does not hold what repeats a run; another version of sitl-bridge wrote it")
    with readable(file):
        try:
            return _rebuilt(facts)
        except KeyError as error:
            raise UserError(f"{file}: has no {error}, which repeats a run") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UserError(f"{file}: {where}: {first['msg']}") from error


def _rebuilt(facts: JsonObject) -> Simulation:
    directory = Path(facts["directory"])
    world = world_beside(WorldSpecification.model_validate(facts["world"]), directory)
    setups = []
    for vehicle in facts["vehicles"]:
        airframe = airframe_beside(Airframe.model_validate(vehicle["airframe"]), directory)
        north, east, down = vehicle["position"]
        setups.append(
            VehicleSetup.from_airframe(airframe, (north, east, down), vehicle["yaw_radians"], vehicle["name"])
        )
    proximity = facts["proximity"]
    return Simulation(
        World(world, start=facts["start"]),
        setups,
        seed=facts["seed"],
        step=facts["step"],
        substeps=facts["substeps"],
        start=facts["start"],
        proximity=None if proximity is None else Proximity(**proximity),
    )


def differing_versions(run: RecordedRun) -> list[str]:
    """Software whose version now is another than when the run was recorded, in words."""
    found = []
    for name, recorded in run.description.get("versions", {}).items():
        try:
            now = version(name)
        except PackageNotFoundError:
            continue
        if now != recorded:
            found.append(f"{name} {recorded} then, {now} now")
    return found


PART = 10_000
"""Steps whose rows are in memory at a time."""


@dataclass(frozen=True)
class Difference:
    """The first value that a repetition does not reproduce."""

    step: int  # number of the step, from 1
    time: float  # s of simulated time since the start, at the end of the step
    vehicle: str  # its name
    field: str  # column of the truth, or field of a message
    # recorded, replayed: its values
    recorded: str
    replayed: str


@dataclass(frozen=True)
class RunReplay:
    """Result of a repetition."""

    steps: int  # that are the same to the bit
    frame_bytes: int  # of frames compared in them
    message_bytes: int  # of messages of custom sensors and of those that see, which were not compared
    difference: Difference | None  # the first; None if there is none


def replay_run(run: RecordedRun) -> RunReplay:
    """Repeat a run with the recorded commands, events and commands of the bus.

    Raises:
        UserError: if the recording is damaged, or does not hold what this takes.
    """
    simulation = rebuild(run)
    if len(simulation) != run.count and len(run.rows):
        raise UserError(
            f"{run.path}: run.json describes {len(simulation)} vehicles, truth.npy has {run.count}"
        )
    arrays, n = ReplayArrays.of(simulation), len(simulation)
    frames, done = np.asarray(run.frames), 0
    total = len(run.rows) // n
    changes = _changes(run, simulation, total)
    for last, entry in changes:
        part = slice(done * n, last * n)
        rows = convert_rows(run.rows[part], ROW)
        taken, vehicle, why = replay_steps(
            simulation.handles,
            tuple(arrays),
            rows,
            rows.view(np.uint8).reshape(len(rows), ROW.itemsize),
            run.offsets[part],
            frames,
            simulation.time,
            simulation.step,
            simulation.substeps,
        )
        done += taken
        simulation.time += taken * simulation.step
        if why != SAME:
            return _result(run, n, done, _difference(run, simulation, arrays, done, vehicle, why))
        if entry is not None:
            with readable(run.path / EVENTS):
                _apply(entry, simulation)
                if entry["kind"] == "restart":
                    arrays.links[entry["vehicle"]] = np.zeros((), LINK)  # of another flight stack
    return _result(run, n, done, None)


def _result(run: RecordedRun, n: int, steps: int, difference: Difference | None) -> RunReplay:
    rows = run.rows[: steps * n]
    compared = int(rows["frame_bytes"].sum()) if len(run.frames) else 0
    return RunReplay(steps, compared, int(rows["message_bytes"].sum()), difference)


def _changes(run: RecordedRun, simulation: Simulation, total: int) -> Iterator[tuple[int, JsonObject | None]]:
    """Numbers of steps after which something changed the simulation, with its entry; without one, those
    after each PART and the last.
    """
    done = 0
    for entry in run.events:
        with readable(run.path / EVENTS):
            if entry["kind"] not in ("event", "command", "restart"):
                continue
            after = -((simulation.start - entry["time"]) // simulation.step)
        if after > total:
            break
        yield from ((part, None) for part in range(done + PART, after, PART))
        yield after, entry
        done = after
    yield from ((part, None) for part in range(done + PART, total, PART))
    yield total, None


def _apply(entry: JsonObject, simulation: Simulation) -> None:
    """Let an entry of events.jsonl happen again."""
    if entry["kind"] == "restart":
        simulation.restart_vehicle(entry["vehicle"])
        return
    if entry["kind"] == "event":
        event = TypeAdapter(EventSpecification).validate_python(entry["event"])
        if not isinstance(event, StackEvent):
            apply_event(event, entry["begins"], simulation, entry["vehicles"])
        return
    if entry["refused"] is not None:
        return
    if entry["command"] == "wind":
        simulation.world.set_wind(WindSpecification.model_validate(entry["data"]["wind"]), simulation.time)
    elif entry["command"] in COMMANDED:
        commanded, begins = event_of_command(entry["command"], entry["data"])
        apply_event(commanded, begins, simulation, [entry["vehicle"]])


def _difference(
    run: RecordedRun, simulation: Simulation, arrays: ReplayArrays, done: int, vehicle: int, why: int
) -> Difference:
    n = len(simulation)
    index = done * n + vehicle
    row = convert_rows(run.rows[index : index + 1], ROW)
    if why == DIVERGED:
        field, recorded, replayed = "motion", "finite", "diverged"
    elif why == TRUTH_DIFFERS:
        field, recorded, replayed = _first_column(row, arrays.row)
    else:
        begin = int(run.offsets[index] + row["message_bytes"][0])
        sent = np.asarray(run.frames[begin : begin + int(row["frame_bytes"][0])])
        field, recorded, replayed = _first_field(sent, arrays.out)
    seconds = (simulation.time + simulation.step - simulation.start) * 1e-6
    return Difference(done + 1, seconds, simulation.names[vehicle], field, recorded, replayed)


def _first_column(recorded: Records, replayed: Records) -> tuple[str, str, str]:
    """First column of two rows whose bytes differ, and its values."""
    columns = flat(ROW)
    left, right = np.ascontiguousarray(recorded).view(columns), replayed.view(columns)
    for name in columns.names or ():
        if left[name].tobytes() != right[name].tobytes():
            return name, repr(left[name][0].item()), repr(right[name][0].item())
    raise AssertionError("no column differs")


def _first_field(recorded: Bytes, replayed: Bytes) -> tuple[str, str, str]:
    """First field of two series of frames that differs, and its values."""
    at = 0
    while at + HEADER + CHECKSUM <= len(recorded):
        left, right = recorded[at:], replayed[at:]
        size = HEADER + int(left[1]) + CHECKSUM
        if np.array_equal(left[:size], right[:size]):
            at += size
            continue
        kinds = [int(frame[7]) + 256 * int(frame[8]) for frame in (left, right)]
        if kinds[0] != kinds[1] or kinds[0] not in PAYLOAD_NAMES:
            return "message", f"ID {kinds[0]}", f"ID {kinds[1]}"
        return _first_value(PAYLOAD_NAMES[kinds[0]], left, right)
    return "message", "none", f"ID {int(replayed[at + 7]) + 256 * int(replayed[at + 8])}"


def _first_value(name: str, left: Bytes, right: Bytes) -> tuple[str, str, str]:
    """First field of two frames of the same message that differs, else the first byte around them."""
    fields = PAYLOADS.fields
    assert fields is not None
    dtype = fields[name][0]
    payloads = []
    for frame in (left, right):
        data = np.zeros(dtype.itemsize, np.uint8)
        length = min(int(frame[1]), dtype.itemsize)
        data[:length] = frame[HEADER : HEADER + length]
        payloads.append(data.view(dtype)[0])
    for field in dtype.names or ():
        one, other = (np.atleast_1d(payload[field]) for payload in payloads)
        for k in range(len(one)):
            if one[k].tobytes() != other[k].tobytes():
                part = f"[{k}]" if len(one) > 1 else ""
                return f"{name}.{field}{part}", repr(one[k].item()), repr(other[k].item())
    end = HEADER + int(left[1])
    at = next(k for k in (*range(HEADER), end, end + 1) if left[k] != right[k])
    part = "sequence" if at == 4 else "checksum" if at >= HEADER else f"byte {at} of the header"
    return f"{name}.{part}", str(int(left[at])), str(int(right[at]))
