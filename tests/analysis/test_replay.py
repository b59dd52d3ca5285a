"""A recorded run is repeated to the bit, or its first difference is found."""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.commands import run_command
from support.peer import Peer

from sitl_bridge.analysis.export.mcap_file import write_mcap
from sitl_bridge.analysis.replay.run_replay import replay_run
from sitl_bridge.autopilot.stack import StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.events import (
    GpsJamming,
    MotorLoss,
    ScheduledEvent,
    SensorFault,
    Timeline,
    actions,
)
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.live.run.command_queue import Order
from sitl_bridge.live.run.execution import Execution
from sitl_bridge.live.run.messages import VEHICLE_COMMANDS, SetWind
from sitl_bridge.live.run.topics import Address
from sitl_bridge.record.records import ROW, convert_rows
from sitl_bridge.record.run_description import describe_simulation
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.run_reader import RecordedRun
from sitl_bridge.record.run_recorder import RunRecorder
from sitl_bridge.record.truth_log import TruthLog

STEPS = 1000


def flown(time_us: int) -> list[float]:
    """Commands that lift off and sway."""
    base = 0.7 + 0.02 * math.sin(3e-6 * time_us)
    return [base + 0.005 * math.sin(5e-6 * time_us + k) for k in range(4)] + [0.0] * 12


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, worker_ports: Iterator[int]) -> Path:
    """A run of two vehicles in turbulence, with events, and with commands of the bus."""
    parent = tmp_path_factory.mktemp("runs")
    airframes = [load_airframe("iris"), load_airframe("hector")]
    wind = WindSpecification(turbulence="moderate")
    proximity = Proximity()
    setups = [
        VehicleSetup.from_airframe(a, (0.0, 3.0 * i, 0.0), 0.1 * i, a.name) for i, a in enumerate(airframes)
    ]
    simulation = Simulation(World(WorldSpecification(wind=wind)), setups, seed=5, proximity=proximity)
    directory, errors = RunDirectory(parent, "replayed"), ErrorLog()
    directory.describe(**describe_simulation("serve", simulation, airframes, proximity))
    with RunRecorder(directory.path, errors, simulation.most_rotors) as recorder:
        server = LockstepServer(
            simulation,
            ports=[next(worker_ports), next(worker_ports)],
            speed=math.inf,
            recorder=recorder,
            errors=errors,
        )
        server.prepare()

        def on_event(event: ScheduledEvent, begins: bool, vehicles: object) -> None:
            assert isinstance(vehicles, list)
            recorder.note_scheduled(simulation.time, event, begins, vehicles)

        events: list[ScheduledEvent] = [
            MotorLoss(at=1.0, kind="motor_loss", motor=2, thrust=0.8, vehicles=("iris",), lasts=0.5),
            SensorFault(at=1.2, kind="sensor_fault", sensor="barometer", lasts=1.0),
            GpsJamming(at=1.3, kind="gps_jamming", level=0.7),
        ]
        for seconds, action in actions(events, simulation, lambda _line: None, on_event=on_event):
            server.at(round(seconds * 1e6), action)
        bus = Execution(server, listener=recorder.command)
        storm = WindSpecification(steady=SteadyWind(speed=7.0, direction=90.0))
        orders = [
            Order(Address("wind", None), SetWind(version=1, request_id="a", wind=storm)),
            Order(
                Address("teleport", "hector"),
                VEHICLE_COMMANDS["teleport"].model_validate(
                    {"version": 1, "request_id": "b", "position": (5.0, 9.0, -8.0)}
                ),
            ),
        ]
        server.at(2_000_000, lambda: bus.take(orders))
        with server:
            peers = [Peer(port, flown, silent=0) for port in server.ports]
            while any(len(peer.times) < STEPS for peer in peers):
                time.sleep(0.005)
        for peer in peers:
            peer.close()
    assert errors.lines == []
    directory.close()
    return directory.path


def test_a_run_with_places_for_twelve_rotors_is_repeated_to_the_bit(recorded: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(recorded, old)
    (old / "truth.npy").unlink()
    rows = RecordedRun(recorded).rows
    with TruthLog(old / "truth.npy", ROW) as log:
        log.write(rows)
    assert RecordedRun(old).rows.dtype == ROW
    assert rows["rotor_thrust"].shape[1] == rows["control"].shape[1] == 4
    np.testing.assert_array_equal(convert_rows(RecordedRun(old).rows, rows.dtype), rows)
    result = replay_run(RecordedRun(old))
    assert result.difference is None
    assert result.steps == len(rows) // 2


def test_a_fleet_in_one_process_is_repeated_to_the_bit(tmp_path: Path) -> None:
    frame = load_airframe("iris")
    wind = WindSpecification(turbulence="light")
    members = [StackVehicle(frame, str(i), (0.0, 2.0 * i, 0.0)) for i in range(2)]
    directory = RunDirectory(tmp_path, "fleet")
    place = World(WorldSpecification(wind=wind))
    with StackFleet(place, members, seed=4, proximity=Proximity()) as fleet:
        facts = describe_simulation("simulate", fleet.simulation, [frame, frame], Proximity())
        directory.describe(**facts)
        with RunRecorder(directory.path, fleet.errors, fleet.simulation.most_rotors) as recorder:
            fleet.record(recorder)
            event = MotorLoss(at=1.0, kind="motor_loss", motor=2, thrust=0.0, vehicles=(1,))
            due = actions(
                [event],
                fleet.simulation,
                lambda _line: None,
                on_event=lambda *what: recorder.note_scheduled(fleet.time, *what),
            )
            fleet.timeline = Timeline(fleet.time, due)
            fleet.advance(40)
    directory.close()
    run = RecordedRun(directory.path)
    result = replay_run(run)
    assert result.difference is None
    assert result.steps == 40 * 12
    assert result.frame_bytes == len(run.frames) > 0
    assert [entry["kind"] for entry in run.events] == ["event"]


def test_a_flight_stack_that_follows_one_lost_in_the_air_begins_at_the_start(
    tmp_path: Path, worker_ports: Iterator[int], wait_for: Callable[..., None]
) -> None:
    frame, errors = load_airframe("iris_full"), ErrorLog()
    simulation = Simulation(World(), [VehicleSetup(frame.vehicle(), frame.sensor_records())], seed=5)
    start = simulation.states.copy()
    directory = RunDirectory(tmp_path, "restarted")
    directory.describe(**describe_simulation("serve", simulation, [frame], None))
    with RunRecorder(directory.path, errors, simulation.most_rotors) as recorder:
        ports = [next(worker_ports)]
        server = LockstepServer(simulation, ports=ports, speed=math.inf, recorder=recorder, errors=errors)
        server.on_restart = lambda vehicle: recorder.restart(simulation.time, vehicle)
        server.prepare()
        with server:
            for steps in (500, 100):
                with Peer(ports[0], flown, silent=0) as peer:
                    wait_for(lambda peer=peer, steps=steps: len(peer.times) > steps, "its steps")
                wait_for(lambda: not server.status().links[0].connected, "the loss to be noticed")
    directory.close()
    run = RecordedRun(directory.path)
    [time] = [entry["time"] for entry in run.events if entry["kind"] == "restart"]
    [first] = np.flatnonzero(run.rows["time"] == time + simulation.step)
    before, after = run.rows[first - 1], run.rows[first]
    assert before["position"][2] < -1.0, "the first was lost in the air"
    assert np.allclose(after["position"], start["position"][0], atol=1e-3)
    assert np.allclose(after["velocity"], 0.0, atol=0.05)
    assert after["time"] > before["time"], "time goes on"
    assert not errors.lines
    assert replay_run(run).difference is None


def tampered(run: Path, target: Path, index: int, column: str, value: float) -> RecordedRun:
    """A copy of a run with one value changed."""
    shutil.copytree(run, target)
    table = np.load(target / "truth.npy", mmap_mode="r+")
    table[column][index] = value
    table.flush()
    return RecordedRun(target)


def test_a_run_with_events_and_commands_of_the_bus_is_repeated_to_the_bit(recorded: Path) -> None:
    run = RecordedRun(recorded)
    kinds = [(entry["kind"], entry.get("begins")) for entry in run.events if entry["kind"] != "link"]
    assert kinds.count(("event", True)) == 3
    assert kinds.count(("event", False)) == 2
    assert kinds.count(("command", None)) == 2
    result = replay_run(run)
    assert result.difference is None
    assert result.steps == len(run.rows) // 2 >= STEPS
    assert result.frame_bytes == len(run.frames) > 100 * STEPS


def test_every_entry_counts(recorded: Path, tmp_path: Path) -> None:
    run = RecordedRun(recorded)
    lines = (recorded / "events.jsonl").read_text().splitlines()
    for k, line in enumerate(lines):
        entry = json.loads(line)
        if entry["kind"] == "link":
            continue
        target = tmp_path / str(k)
        shutil.copytree(recorded, target)
        (target / "events.jsonl").write_text("\n".join(lines[:k] + lines[k + 1 :]) + "\n")
        first = replay_run(RecordedRun(target)).difference
        assert first is not None, line
        assert first.time > (entry["time"] - run.start) * 1e-6


def test_the_first_difference_is_named(recorded: Path, tmp_path: Path) -> None:
    run = RecordedRun(recorded)
    changed = tampered(recorded, tmp_path / "command", 2 * 600 + 1, "control_0", 0.75)
    first = replay_run(changed).difference
    assert first is not None
    assert (first.step, first.vehicle) == (601, "hector")
    assert first.time == pytest.approx(601 * 0.004)
    assert first.field.startswith(("position", "velocity", "attitude", "angular_velocity", "rotor_speed"))
    assert first.recorded != first.replayed
    changed = tampered(recorded, tmp_path / "truth", 2 * 600, "position_down", -1.25)
    first = replay_run(changed).difference
    assert first is not None
    assert (first.step, first.vehicle, first.field) == (601, "iris", "position_down")
    assert (first.recorded, first.replayed) == ("-1.25", repr(float(run.rows["position"][1200, 2])))


@pytest.mark.parametrize(
    ("place", "field"),
    [
        (10 + 8, "acc[0]"),
        (2, "byte 2 of the header"),
        (-1, "checksum"),
    ],
)
def test_a_changed_frame_is_named_by_message_and_field(
    recorded: Path, tmp_path: Path, place: int, field: str
) -> None:
    target = tmp_path / "frames"
    shutil.copytree(recorded, target)
    run = RecordedRun(recorded)
    at = int(run.offsets[2 * 300])
    at += place if place >= 0 else 10 + int(run.frames[at + 1]) + 2 + place
    with (target / "frames.bin").open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
    first = replay_run(RecordedRun(target)).difference
    assert first is not None
    assert (first.step, first.vehicle, first.field) == (301, "iris", f"sensor.{field}")
    assert first.recorded != first.replayed


def test_the_command_reports_and_its_exit_code_follows(recorded: Path, tmp_path: Path) -> None:
    result = run_command("replay", str(recorded))
    assert result.exit_code == 0
    assert "identical to the bit" in result.output
    tampered(recorded, tmp_path / "run", 900, "control_1", 0.1)
    result = run_command("replay", str(tmp_path / "run"))
    assert result.exit_code == 1
    assert "differs after 450 identical steps" in result.output


def test_a_recording_that_cannot_be_repeated_says_why(recorded: Path, tmp_path: Path) -> None:
    target = tmp_path / "run"
    shutil.copytree(recorded, target)
    (target / "run.json").write_text('{"vehicles": []}')
    with pytest.raises(UserError, match="does not hold what repeats a run"):
        replay_run(RecordedRun(target))
    for text in ("[]", "3", "null"):
        (target / "run.json").write_text(text)
        with pytest.raises(UserError, match="is damaged: it is not an object"):
            replay_run(RecordedRun(target))
    (target / "run.json").write_text('{"vehi')
    with pytest.raises(UserError, match="is damaged"):
        replay_run(RecordedRun(target))
    (target / "run.json").unlink()
    with pytest.raises(UserError, match="cannot be read"):
        replay_run(RecordedRun(target))
    (target / "frames.bin").write_bytes(b"short")
    with pytest.raises(UserError, match="is truncated"):
        _ = RecordedRun(target).frames


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", {}), ("proximity", "near"), ("start", math.nan), ("start", 10**30), ("step", 0),
        ("substeps", 1e308), ("vehicles", "two"), ("vehicles", ["one"]),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_in_a_recording_is_damage(
    recorded: Path, tmp_path: Path, name: str, value: object
) -> None:
    target = tmp_path / "run"
    shutil.copytree(recorded, target)
    facts = json.loads((target / "run.json").read_text())
    (target / "run.json").write_text(json.dumps(facts | {name: value}))
    with pytest.raises(UserError, match=r"run\.json: is damaged"):
        replay_run(RecordedRun(target))
    if name == "step":
        with pytest.raises(UserError, match="is damaged: step: 0 us"):
            write_mcap(RecordedRun(target), tmp_path / "flight.mcap", 1.0)


@pytest.mark.parametrize("damage", [{"kind": None}, {"time": "soon"}, {"event": []}, {"vehicles": "both"}])
def test_an_event_of_another_kind_in_a_recording_is_damage(
    recorded: Path, tmp_path: Path, damage: dict[str, object]
) -> None:
    target = tmp_path / "run"
    shutil.copytree(recorded, target)
    lines = [json.loads(line) for line in (target / "events.jsonl").read_text().splitlines()]
    first = next(line for line in lines if line["kind"] == "event")
    first.update(damage)
    if damage == {"kind": None}:
        del first["kind"]
    (target / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UserError, match=r"events\.jsonl: is damaged"):
        replay_run(RecordedRun(target))


def test_of_a_cut_recording_what_is_there_is_repeated_and_exported_and_both_say_so(
    recorded: Path, tmp_path: Path
) -> None:
    target = tmp_path / "run"
    shutil.copytree(recorded, target)
    log = target / "truth.npy"
    table = np.load(log, mmap_mode="r")
    whole, header = len(table), log.stat().st_size - table.nbytes
    size = round(0.37 * log.stat().st_size)
    with log.open("r+b") as file:
        file.truncate(size)
    there = (size - header) // table.itemsize
    note = rf"truth\.npy: is cut off; of {whole} rows the first {there} are there and used"
    for command, said in (
        (["replay", str(target)], rf"{there // 2} steps of 2 vehicles.*identical to the bit"),
        (["export", str(target)], rf"truth\.csv: {there} rows"),
        (["export", str(target), "-o", str(tmp_path / "run.mcap")], r"run\.mcap: \d+ messages"),
        (["export", str(target), "--format", "csv-tables"], rf"truth\.csv: {there // 2 * 2} rows"),
    ):
        result = run_command(*command)
        output = result.output.replace("\n", "")
        assert result.exit_code == 0, output
        assert re.search(note, output), output
        assert re.search(said, output), output
