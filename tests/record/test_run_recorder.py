"""The recording of a run: what was sent is what is recorded, and it can be read whenever it ends."""

from __future__ import annotations

import json
import math
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.peer import Peer

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.recorded_samples import payloads_of, samples_of
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.record.records import ROW, STEP
from sitl_bridge.record.run_reader import RecordedRun
from sitl_bridge.record.run_recorder import RunRecorder

Make = Callable[..., Simulation]


def test_what_a_flight_stack_received_is_what_was_recorded(
    tmp_path: Path, make_simulation: Make, free_port: Callable[[], int], wait_for: Callable[..., None]
) -> None:
    simulation = make_simulation("iris", "hector", seed=3)
    ports = [free_port(), free_port()]
    with RunRecorder(tmp_path, ErrorLog(), 4) as recorder:
        server = LockstepServer(simulation, ports=ports, speed=math.inf, recorder=recorder)
        server.prepare()
        with server:
            peers = [Peer(port) for port in ports]
            wait_for(lambda: all(len(peer.times) > 1500 for peer in peers), "1500 steps")
        for peer in peers:
            peer.close()
    run = RecordedRun(tmp_path)
    assert run.count == 2
    assert len(run.rows) == 2 * len(run.steps) > 3000
    np.testing.assert_array_equal(run.steps["time"], run.rows["time"][::2])
    assert np.all(np.diff(run.steps["sent"]) > 0)
    for vehicle, peer in enumerate(peers):
        these = np.flatnonzero(run.rows["vehicle"] == vehicle)
        ends = run.offsets + run.rows["frame_bytes"]
        sent = b"".join(bytes(run.frames[run.offsets[k] : ends[k]]) for k in these)
        received = bytes(peer.received)
        assert len(received) > 100_000
        assert sent[: len(received)] == received


def test_samples_are_those_of_the_sensors(
    tmp_path: Path, make_simulation: Make, free_port: Callable[[], int], wait_for: Callable[..., None]
) -> None:
    simulation = make_simulation("iris", seed=3)
    with RunRecorder(tmp_path, ErrorLog(), 4) as recorder:
        server = LockstepServer(simulation, ports=[free_port()], speed=math.inf, recorder=recorder)
        server.prepare()
        with server, Peer(server.ports[0]) as peer:
            wait_for(lambda: len(peer.times) > 1500, "1500 steps")
    run = RecordedRun(tmp_path)
    samples = samples_of(run)
    imu = samples["imu"]
    np.testing.assert_array_equal(imu["time"][imu["instance"] == 0], run.rows["time"])
    assert np.abs(imu["acceleration"].mean(axis=0) - (0.0, 0.0, -9.8)).max() < 0.3
    assert 2e-5 < np.linalg.norm(samples["magnetometer"]["field"].mean(axis=0)) < 7e-5
    assert abs(samples["barometer"]["pressure"].mean() - 95_600.0) < 500.0
    assert abs(samples["gps"]["latitude"].mean() - 47.397742) < 1e-4
    rows, sent = payloads_of(run, 100, 200)["sensor"]
    assert rows.min() == 100
    assert rows.max() == 199
    np.testing.assert_array_equal(sent["time_usec"], run.rows["time"][rows])
    whole = (tmp_path / "frames.bin").read_bytes()
    at = int(run.offsets[700])
    for inserted in (b"\x00" * 40, b"\xfd" * 3):
        (tmp_path / "frames.bin").write_bytes(whole[:at] + inserted + whole[at:])
        with pytest.raises(UserError, match=r"sent at 2\.8\d\d s is not whole frames"):
            samples_of(RecordedRun(tmp_path))


def block(first: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, steps = np.zeros(count, ROW), np.zeros(count, STEP)
    rows["time"] = steps["time"] = np.arange(first, first + count)
    rows["frame_bytes"] = 5
    return rows, np.repeat(rows["time"].astype(np.uint8), 5), steps


@pytest.mark.parametrize("room", [600, 5000, 40_000])
def test_a_full_disk_ends_the_recording_once_and_what_is_counted_is_whole(tmp_path: Path, room: int) -> None:
    notes: list[str] = []
    errors = ErrorLog(notes.append)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with RunRecorder(tmp_path, errors, 4) as recorder:
        recorder.write(*block(0, 10))
        recorder.note(7, "link", text="connected")
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            for k in range(1, 30):
                with errors.guard("recording of the flight"):
                    recorder.write(*block(10 * k, 10))
                recorder.note(k, "link", text="x" * 100)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not recorder.complete
    assert len(notes) == 1
    run = RecordedRun(tmp_path)
    np.testing.assert_array_equal(run.rows["time"], np.arange(len(run.rows)))
    np.testing.assert_array_equal(run.frames, np.repeat(np.arange(len(run.rows)), 5))
    assert run.events[0] == {"time": 7, "kind": "link", "text": "connected"}


def test_a_recording_without_rows_opens(tmp_path: Path) -> None:
    with RunRecorder(tmp_path, ErrorLog(), 4):
        pass
    run = RecordedRun(tmp_path)
    assert len(run.rows) == len(run.steps) == len(run.frames) == 0
    assert samples_of(run) == {}


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such run directory"):
        RecordedRun(tmp_path / "nothing")
    with pytest.raises(UserError, match="is no run directory"):
        RecordedRun(tmp_path)
    (tmp_path / "truth.npy").write_bytes(b"\x93NUMPY\x01\x00garbage")
    with pytest.raises(UserError, match="cannot be read as a table"):
        RecordedRun(tmp_path)


def test_a_killed_run_whose_last_event_is_cut_keeps_those_before(tmp_path: Path) -> None:
    with RunRecorder(tmp_path, ErrorLog(), 4) as recorder:
        recorder.note(1, "link", text="a")
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write(json.dumps({"time": 2})[:-3])
    assert [event["time"] for event in RecordedRun(tmp_path).events] == [1]
