"""A disk that fills up: recording ends with one sentence, the flight goes on, and every file opens."""

from __future__ import annotations

import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pymavlink.dialects.v20 import common as mavlink
from pyulog import ULog
from rich.console import Console
from support.full_disk import room
from support.paths import ROOT
from support.run_directories import make_run

from sitl_bridge.analysis.evaluation.run_record import read_run
from sitl_bridge.analysis.evaluation.summary import Outcome
from sitl_bridge.analysis.evaluation.verdict import read_verdict
from sitl_bridge.autopilot.stack import StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.output_file import LineLog, write_arrays, write_figure, write_whole
from sitl_bridge.cli.export import export
from sitl_bridge.cli.report import write_report_of
from sitl_bridge.core.dynamics.records import STATE
from sitl_bridge.core.sensors.custom import CustomSensor, CustomSensorHost, CustomSpecification, Sample, Truth
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.bounding_tree import build_tree
from sitl_bridge.core.world.world import World
from sitl_bridge.link.px4.startup import write_links_file, write_startup_files
from sitl_bridge.record.records import ROW
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.truth_log import TruthLog, read_truth
from sitl_bridge.record.ulog_writer import UlogWriter
from sitl_bridge.session.outcome import conclude
from sitl_bridge.session.settings import FlightSettings, VehicleSettings
from sitl_bridge.swarm.formation.files import write_csv
from sitl_bridge.swarm.formation.trajectory import Trajectory

FORMATS = {"thing": ["uint64_t timestamp", "float[3] position", "uint8_t state"]}


def rows(first: int, count: int = 100) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    table = np.zeros(count, ROW)
    table["time"] = np.arange(first, first + count)
    return table


@pytest.mark.parametrize("cut", [1, ROW.itemsize, 50 * ROW.itemsize + 7])
def test_a_truth_log_keeps_all_rows_before_the_disk_was_full(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "truth.npy"
    with TruthLog(path) as log:
        log.write(rows(0))
        log.write(rows(100))
        with room(path.stat().st_size + cut):
            with pytest.raises(UserError, match=r"truth\.npy: .*; the log ends after 200 rows"):
                log.write(rows(200))
            log.write(rows(300))
        log.write(rows(400))
        assert len(log) == 200
    for table in (read_truth(path), np.load(path, mmap_mode="r")):
        np.testing.assert_array_equal(table["time"], np.arange(200))


def test_a_log_of_lines_ends_with_a_whole_line_and_says_so_once(tmp_path: Path) -> None:
    log = LineLog(tmp_path / "console.log")
    log.write("first")
    with room(9):
        with pytest.raises(UserError, match=r"console\.log: .*; the log ends here"):
            log.write("second")
        log.write("third")
    log.close()
    log.write("after the end")
    assert (tmp_path / "console.log").read_text() == "first\n"


def test_a_log_of_lines_that_may_have_so_many_bytes_ends_there(tmp_path: Path) -> None:
    log = LineLog(tmp_path / "console.log", 12)
    log.write("first")
    with pytest.raises(UserError, match=r"console\.log: .*; the log ends here"):
        log.write("second")
    log.write("3")
    log.close()
    assert (tmp_path / "console.log").read_text() == "first\n"


def test_a_flight_log_ends_with_a_whole_message_and_says_so_once(tmp_path: Path) -> None:
    path = tmp_path / "log.ulg"
    notes: list[str] = []
    with UlogWriter(path, 5, FORMATS, ["thing"], notify=notes.append) as log:
        for k in range(10):
            log.write("thing", k, 1.0, 2.0, 3.0, k)
        log.flush()
        with room(path.stat().st_size + 10):
            for k in range(10, 20):
                log.write("thing", k, 1.0, 2.0, 3.0, k)
                log.flush()
    assert list(ULog(str(path)).get_dataset("thing").data["timestamp"]) == list(range(10))
    assert len(notes) == 1
    assert notes[0].endswith("the log ends here")


def test_a_file_that_does_not_fit_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    from matplotlib.figure import Figure  # loads slowly

    path = write_whole(tmp_path / "summary.json", "{}")
    with room(100):
        with pytest.raises(UserError, match=r"summary\.json: cannot be written"):
            write_whole(path, "x" * 200)
        with pytest.raises(UserError, match=r"errors\.png: cannot be written"):
            write_figure(tmp_path / "errors.png", Figure())
        with pytest.raises(UserError, match=r"tracks\.npz: cannot be written"):
            write_arrays(tmp_path / "tracks.npz", {"a": np.arange(1000)})
    assert [file.name for file in tmp_path.iterdir()] == ["summary.json"]
    assert path.read_text() == "{}"


def test_a_run_directory_on_a_full_disk_is_refused_in_words(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, "square")
    with room(10), pytest.raises(UserError, match=r"run\.json: cannot be written"):
        directory.describe(seed=3)
    directory.close()


SMALL_DISK = """
import sys
from pathlib import Path
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.output_file import write_json
from sitl_bridge.record.run_directory import RunDirectory
runs = Path(sys.argv[1])
run = RunDirectory(runs, "square")
try:
    while True:
        with (run.path / "truth.npy").open("ab") as log:
            log.write(bytes(5000))
except OSError as error:
    print(error.strerror)
try:
    RunDirectory(runs, "another")
except UserError as error:
    print(error)
run.give_room()
write_json(run.path / "summary.json", {"verdict": 200_000 * "x"})
print(sorted(path.name for path in runs.rglob("*")))
"""


def in_small_disk(size: str, directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a file system of its own at a directory, whose content is in ``kept`` afterwards."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small file system takes root and unshare")
    directory.mkdir()
    script = (
        'ip link set lo up; mount -t tmpfs -o size="$1" tmpfs "$2"; disk="$2"; shift 2;'
        ' "$@"; status=$?; cp -r "$disk" "$disk/../kept"; exit $status'
    )
    return subprocess.run(
        ["unshare", "-mn", "sh", "-c", script, "sh", size, str(directory), *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_on_a_disk_that_the_recording_filled_there_is_room_for_the_verdict(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    done = in_small_disk("600k", disk, sys.executable, "-c", SMALL_DISK, str(disk))
    assert done.returncode == 0, done.stderr
    full, refused, left = done.stdout.splitlines()
    assert full == "No space left on device"
    assert refused == f"{disk}: no room for a run: No space left on device"
    assert "another" not in left
    assert "summary.json" in left


def test_a_flight_whose_recording_ended_early_has_not_succeeded_and_says_why(
    tmp_path: Path, make_simulation: Callable[..., Simulation]
) -> None:
    notes: list[str] = []
    errors = ErrorLog(notes.append)
    vehicle = VehicleSettings(load_airframe("iris"))
    directory = RunDirectory(tmp_path, "square")
    directory.describe()
    flown = (Outcome("square.plan", "iris", succeeded=True), ())
    settings = FlightSettings((vehicle,), "square")
    with room(10):
        for _ in range(3):
            with errors.guard("recording of the ground truth"):
                raise UserError("truth.npy: No space left on device; the log ends after 5 rows")
        outcome = conclude(settings, {"reason": ""}, make_simulation("iris"), directory, {}, [flown], errors)
    directory.close()
    assert outcome.vehicles[0][1] is None
    assert outcome.verdict.word == "failed"
    assert len(notes) == 2, "each is reported once"
    ground_truth, summary = outcome.verdict.reasons
    assert ground_truth.endswith("the log ends after 5 rows (3 times)")
    assert "summary.json: cannot be written" in summary
    assert not (directory.path / "summary.json").exists()


class Height(CustomSensor):
    """Reports the height to the flight stack."""

    def sample(self, truth: Truth, random: np.random.Generator) -> Sample:
        del random
        return {"height": float(-truth.position[2])}

    def messages(self, sample: Sample, time: int) -> list[mavlink.MAVLink_message]:
        del time
        return [mavlink.MAVLink_raw_rpm_message(1, sample["height"])]


def test_a_custom_sensor_goes_on_without_its_table_and_says_so_once(tmp_path: Path) -> None:
    notes: list[str] = []
    errors = ErrorLog(notes.append)
    table = tmp_path / "Height_0.csv"
    host = CustomSensorHost(
        CustomSpecification.of(Height, rate=10.0), name="lead", table=table, errors=errors
    )
    state = np.zeros(1, STATE)[0]
    sent = [len(host.run(state, host.due)) for _ in range(3)]
    with room(table.stat().st_size + 5):
        sent += [len(host.run(state, host.due)) for _ in range(3)]
    host.close()
    assert sent == [1] * 6
    (note,) = notes
    assert note == (
        f"recording of Height_0 of vehicle lead failed: {table}: File too large; the log ends here"
    )
    assert errors.lines == [note]
    assert np.genfromtxt(table, delimiter=",", names=True)["time"].size == 3


@pytest.mark.usefixtures("compiled_in_silence")
def test_a_fleet_flies_on_without_the_table_of_a_sensor_and_keeps_the_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    iris = load_airframe("iris")
    sensor = CustomSpecification.of(Height, rate=50.0)
    airframe = iris.model_copy(update={"sensors": (*iris.sensors, sensor)})
    with StackFleet(World(), [StackVehicle(airframe, "a", tables=tmp_path)]) as fleet:
        fleet.advance_steps(5)  # compiles what is not cached, and begins the table
        with room((tmp_path / "a-Height_0.csv").stat().st_size + 50):
            fleet.advance_steps(50)
        (host,) = fleet.hosts
        assert isinstance(host, CustomSensorHost)
        latest = host.latest
        assert latest is not None
        assert latest["height"] == pytest.approx(0.0, abs=0.1)
        (line,) = fleet.errors.lines
    assert "a-Height_0.csv: File too large; the log ends here" in line
    assert capsys.readouterr().err.strip() == line


def test_files_for_px4_that_do_not_fit_are_named(tmp_path: Path) -> None:
    script = tmp_path / "etc" / "init.d-posix" / "px4-rc.mavlink"
    script.parent.mkdir(parents=True)
    script.write_text("mavlink start -x -u 14540\n")
    with room(10):
        with pytest.raises(UserError, match=r"px4-rc\.simulator: cannot be written"):
            write_startup_files(tmp_path / "bin", {"MPC_XY_VEL_MAX": 5.0})
        with pytest.raises(UserError, match=r"bin/px4-rc\.mavlink: cannot be written"):
            write_links_file(tmp_path / "bin", tmp_path / "etc")
    assert not list((tmp_path / "bin").iterdir())


def test_an_exported_table_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with TruthLog(tmp_path / "truth.npy") as log:
        log.write(rows(0))
    with room(1000), pytest.raises(UserError, match=r"truth\.csv: cannot be written: File too large"):
        export(tmp_path, every=1)
    assert [file.name for file in tmp_path.iterdir()] == ["truth.npy"]
    export(tmp_path, every=1)
    assert np.genfromtxt(tmp_path / "truth.csv", delimiter=",", names=True)["time"].size == 100


def test_a_device_is_written_to_and_not_replaced() -> None:
    ours, theirs = os.openpty()
    try:
        terminal = Path(os.ttyname(theirs))
        assert write_whole(terminal, "some text\n").is_char_device()
        assert os.read(ours, 100).split() == [b"some", b"text"]
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_path_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    still = np.zeros((100, 3))
    path = Trajectory(np.arange(100.0), still, still, still, np.zeros(100))
    with room(500), pytest.raises(UserError, match=r"path\.csv: cannot be written"):
        write_csv(tmp_path / "path.csv", path)
    assert not list(tmp_path.iterdir())


SENSOR = """
base: iris
name: windy
description: an iris with a sensor of its own
sensors:
  - {{kind: custom, file: {file}, class: WindSensor, rate: 100}}
"""


@pytest.mark.slow
def test_a_flight_on_a_disk_that_fills_up_goes_on_to_its_end(tmp_path: Path) -> None:
    """On a real file system of 1.2 MB: some 8 s of the truth fit."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    airframe = tmp_path / "windy.yaml"
    airframe.write_text(SENSOR.format(file=ROOT / "airframes" / "sensors" / "wind_sensor.py"))
    program = [sys.executable, "-m", "sitl_bridge.cli.main", "fly", "missions/hover.py", "--headless"]
    options = ["--autopilot", "builtin", "--speed", "max", "--runs-dir", str(disk)]
    options += ["--airframe", str(airframe), "--", "--seconds", "20"]
    done = in_small_disk("1200k", disk, *program, *options)
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "Traceback" not in said
    assert "mission succeeded" in said
    assert "truth.npy: No space left on device; the log ends after" in said
    assert "flight.ulg: No space left on device; the log ends here" in said
    assert "WindSensor_0.csv: No space left on device; the log ends here" in said
    (run,) = (path for path in kept.iterdir() if not path.is_symlink())
    verdict = read_verdict(read_run(run))
    assert verdict is not None
    assert verdict.word == "failed"
    truth = read_truth(run / "truth.npy")
    assert len(truth) > 100
    assert np.all(np.diff(truth["time"]) == 4000)
    assert (run / "console.log").read_text().endswith("\n")
    ulog = ULog(str(run / "autopilot" / "log" / "flight.ulg"))
    assert math.isfinite(ulog.last_timestamp)
    table = np.genfromtxt(run / "WindSensor_0.csv", delimiter=",", names=True)
    assert np.all(np.diff(table["time"]) == pytest.approx(10_000, abs=4000))
    for file in run.rglob("*.json"):
        json.loads(file.read_text())


def test_a_report_that_cannot_be_written_fails_the_run_in_words(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    said = io.StringIO()
    build_tree(np.zeros((2, 3)), np.ones((2, 3)))  # compiled here, where its code has room
    with room(10):
        assert not write_report_of(directory, Console(file=said, width=500))
    assert re.match(r"report: .*report\.html: cannot be written", said.getvalue())
    assert write_report_of(directory, Console(file=io.StringIO()))
