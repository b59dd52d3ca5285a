"""Files that are no logs, end early or are damaged: one message each, and what can be read is read."""

from __future__ import annotations

import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.recorded_climb import Climb
from support.vehicle_logs import read_flight

from sitl_bridge.analysis.evaluation.run_evaluation import evaluate
from sitl_bridge.analysis.evaluation.run_record import RecordedVehicle, RunRecord, read_run
from sitl_bridge.analysis.evaluation.verdict import conclude
from sitl_bridge.analysis.export.mcap_file import write_mcap
from sitl_bridge.analysis.replay.vehicle_log import read_vehicle_log
from sitl_bridge.analysis.report.report_page import write_report
from sitl_bridge.analysis.report.reported_run import report
from sitl_bridge.api.truth_table import TruthTable
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.input_file import read_arrays
from sitl_bridge.cli.export import export
from sitl_bridge.cli.identify import identify
from sitl_bridge.lab.identification.attitude import read_flight as read_for_identification
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.record.records import ROW
from sitl_bridge.record.run_reader import RecordedRun
from sitl_bridge.record.truth_log import TruthLog, read_columns, read_truth
from sitl_bridge.record.ulog_reader import ESSENTIAL
from sitl_bridge.record.ulog_writer import UlogWriter

FORMATS = {
    "vehicle_attitude": ["uint64_t timestamp", "float[4] q"],
    "vehicle_local_position": [
        "uint64_t timestamp",
        *(f"float {name}" for name in ("x", "y", "z", "vx", "vy", "vz")),
    ],
    "vehicle_land_detected": ["uint64_t timestamp", "bool landed"],
    "vehicle_attitude_setpoint": ["uint64_t timestamp", "float roll"],
}
"""With fewer fields than either flight stack logs."""


@pytest.fixture
def ulog(tmp_path: Path) -> Path:
    path = tmp_path / "flight.ulg"
    with UlogWriter(path, 0, FORMATS, list(FORMATS)) as log:
        for k in range(0, 20_000_000, 100_000):
            log.write("vehicle_attitude", k, 1.0, 0.0, 0.0, 0.0)
            log.write("vehicle_local_position", k, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0)
            log.write("vehicle_land_detected", k, 0)
            log.write("vehicle_attitude_setpoint", k, 0.0)
    return path


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    with TruthLog(tmp_path / "truth.npy") as log:
        log.write(np.zeros(100, ROW))
    return tmp_path / "truth.npy"


def archive(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), a=np.zeros(3))
    path.with_suffix(".npz").rename(path)


def table(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros((3, 3)))


FOREIGN: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("t,north,east,down\n" * 20),
    "picture": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100)),
    "archive": archive,
    "table": table,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:10]),
}


def test_arrays_that_unpack_to_more_than_the_memory_are_refused(tmp_path: Path) -> None:
    file, header = tmp_path / "tracks.npz", io.BytesIO()
    np.savez_compressed(file, time=np.zeros(100_000))
    assert file.stat().st_size < 2_000
    with pytest.raises(ValueError, match=r"its arrays take 800,128 bytes, the limit is 800,000"):
        read_arrays(file, 800_000)
    assert read_arrays(file, 800_128)["time"].shape == (100_000,)
    np.lib.format.write_array_header_2_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)}
    )
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("time.npy", header.getvalue())
    with pytest.raises(UserError, match=r"tracks\.npz: is damaged: "):
        read_run(tmp_path)
    with pytest.raises(UserError, match="is no map that was saved here"):
        OccupancyMap.load(file)


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_ulog_is_refused_in_one_message(
    kind: str, ulog: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FOREIGN[kind](ulog)
    for read in (read_flight, read_for_identification, lambda path: identify([path], airframe="iris")):
        with pytest.raises(UserError, match=r"flight\.ulg: cannot be read as a ULog: [A-Z]"):
            read(ulog)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_truth_log_is_refused_in_one_message(kind: str, truth: Path) -> None:
    FOREIGN[kind](truth)
    for read in (read_truth, lambda path: export(path, every=1)):
        with pytest.raises(UserError, match=r"truth\.npy: (cannot be read as|not) a truth log"):
            read(truth)


def test_a_truth_log_of_other_columns_is_refused_where_all_are_needed(truth: Path) -> None:
    rows = read_truth(truth)
    np.save(truth, rows[["time", "position_north"]])
    told = r"truth\.npy: has other columns than this version records; `sitl-bridge export`"
    with pytest.raises(UserError, match=told):
        TruthTable.load(truth)
    np.save(truth, rows[:0])
    assert len(TruthTable.load(truth).time) == 0


def test_a_ulog_that_ends_early_is_read_up_to_there(ulog: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ulog.write_bytes(ulog.read_bytes()[:-1000])
    record = read_flight(ulog)
    assert 15.0 < record.time[-1] < 20.0
    assert not record.damaged
    assert capsys.readouterr().out == ""


def test_a_log_that_ends_in_the_air_and_what_it_lacks_are_named(ulog: Path) -> None:
    notes = read_run(ulog).notes
    assert "the log ends in the air: the flight is measured up to there" in notes
    assert "the log has no vehicle_status: what needs it is not measured" in notes


def test_a_damaged_ulog_is_reported_and_nothing_is_identified_from_it(
    ulog: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = bytearray(ulog.read_bytes())
    raw[-5000:-4900] = bytes(100)
    ulog.write_bytes(raw)
    record = read_flight(ulog)
    assert record.damaged
    told = f"{ulog}: is damaged; the figures are of the part that can be read"
    run = RunRecord(ulog, "damaged", vehicles=[RecordedVehicle("0", record=record)])
    assert told in conclude(run, {})[0].notes
    with pytest.raises(UserError, match=r"flight\.ulg: is damaged"):
        identify([ulog], airframe="iris")
    assert capsys.readouterr().out == ""


def test_a_missing_field_is_named(ulog: Path) -> None:
    with pytest.raises(UserError, match=r"flight\.ulg: has no field .*, which identification needs"):
        read_for_identification(ulog)


def test_no_damage_raises_anything_but_a_message(ulog: Path, truth: Path) -> None:
    chance = random.Random(1)
    for path, read in ((ulog, read_flight), (ulog, read_for_identification), (truth, read_truth)):
        whole = path.read_bytes()
        for k in range(60):
            raw = bytearray(whole)
            if k % 3 == 0:
                del raw[chance.randrange(len(raw)) :]
            elif k % 3 == 1:
                for _ in range(chance.randrange(1, 100)):
                    raw[chance.randrange(min(len(raw), 3000))] = chance.randrange(256)
            else:
                at = chance.randrange(len(raw))
                del raw[at : at + chance.randrange(1, 300)]
            path.write_bytes(raw)
            try:
                read(path)
            except UserError as error:
                assert str(path) in str(error)  # noqa: PT017 (either is right)
        path.write_bytes(whole)


def test_a_log_of_an_older_px4_is_reported_with_what_it_has(tmp_path: Path) -> None:
    """PX4 v1.11 logs no device in estimator_status and no coning of gyroscopes, v1.9 no tracking errors."""
    path = tmp_path / "old.ulg"
    imu = ["uint32_t accel_device_id", "float accel_vibration_metric"]
    status = ["float hgt_test_ratio", "uint16_t filter_fault_flags"]
    formats = FORMATS | {
        "estimator_status": ["uint64_t timestamp", *status],
        "vehicle_imu_status": ["uint64_t timestamp", *imu],
    }
    with UlogWriter(path, 0, formats, list(formats)) as log:
        for k in range(0, 40_000_000, 100_000):
            landed = not 5_000_000 <= k < 35_000_000
            log.write("vehicle_local_position", k, 0.0, 0.0, -5.0, 0.0, 0.0, 0.0)
            log.write("vehicle_land_detected", k, landed)
            log.write("estimator_status", k, 0.25, 0)
            log.write("vehicle_imu_status", k, 1, 1.5)
    run = read_run(path)
    assert not any("no field" in note for note in run.notes)
    values = {measure.kind.name: measure.value for measure in evaluate(run).measures}
    assert values["vibration"] == pytest.approx(1.5)
    assert values["test_ratio_height"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("arming", "told"),
    [((), "its motors never turned"), ((1,), "was never armed"), ((1, 2), "its motors never turned")],
)
def test_a_log_whose_motors_never_turned_says_so(tmp_path: Path, arming: tuple[int, ...], told: str) -> None:
    path = tmp_path / "bench.ulg"
    formats = {
        "actuator_outputs": ["uint64_t timestamp", "float[4] output"],
        "vehicle_status": ["uint64_t timestamp", "uint8_t nav_state", "uint8_t arming_state"],
    }
    with UlogWriter(path, 0, formats, list(formats)) as log:
        for k in range(100):
            log.write("actuator_outputs", k * 10_000, 900.0, 900.0, 900.0, 900.0)
        for k, state in enumerate(arming):
            log.write("vehicle_status", k * 10_000, 4, state)
    with pytest.raises(UserError, match=told):
        read_vehicle_log(path, 4, whole=True)


def test_a_recording_whose_description_or_counts_are_damaged_is_refused(tmp_path: Path) -> None:
    with Climb(tmp_path / "runs") as climb:
        climb.advance(5)
    run = tmp_path / "run"
    shutil.copytree(climb.path, run)
    (run / "run.json").write_text('{"vehicles": [3]}', encoding="utf-8")
    for name in ("names", "rotors", "start", "step"):
        with pytest.raises(UserError, match=r"run\.json: is damaged: "):
            getattr(RecordedRun(run), name)
    description = json.loads((climb.path / "run.json").read_text(encoding="utf-8"))
    description["world"]["scene"]["objects"][0]["position"] = [1.0]
    (run / "run.json").write_text(json.dumps(description), encoding="utf-8")
    with pytest.raises(UserError, match=r"run\.json: is damaged: "):
        write_mcap(RecordedRun(run), tmp_path / "run.mcap")
    rows = np.load(run / "truth.npy")
    rows["frame_bytes"][1] = -1_000_000
    np.save(run / "truth.npy", rows)
    with pytest.raises(UserError, match=r"truth\.npy: is damaged: a row counts less than no bytes"):
        _ = RecordedRun(run).frames
    for time in (-1, 1 << 60):
        rows["time"][1] = time
        np.save(run / "truth.npy", rows)
        with pytest.raises(UserError, match=r"truth\.npy: is damaged: a row has a time that cannot be"):
            RecordedRun(run)
    with pytest.raises(UserError, match="the truth has no column position_nirth"):
        read_columns(rows, "time", "position_nirth")


@pytest.mark.parametrize(
    ("topic", "field"),
    [
        *((topic, field) for topic, fields in ESSENTIAL.items() for field in fields),
        ("vehicle_status", "timestamp"),
    ],
)
def test_a_topic_whose_definition_lost_a_field_is_left_out(tmp_path: Path, topic: str, field: str) -> None:
    path, names = tmp_path / "flight.ulg", [name.split("[")[0] for name in ESSENTIAL[topic]]
    kept = ["uint64_t timestamp", *(f"uint8_t {name}" for name in dict.fromkeys(names))]
    if topic == "estimator_states":
        kept = ["uint64_t timestamp", "float[24] states"]
    formats = {**FORMATS, topic: kept}
    with UlogWriter(path, 0, formats, list(formats)) as log:
        for k in range(0, 20_000_000, 100_000):
            log.write("vehicle_local_position", k, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0)
            values = [0.0] * 24 if topic == "estimator_states" else [1] * (len(kept) - 1)
            log.write(topic, k, *values)
    lost = field.split("[")[0].encode()
    raw = path.read_bytes()
    before, _, after = raw.partition(f"{topic}:".encode())
    path.write_bytes(before + f"{topic}:".encode() + after.replace(lost, lost[:-1] + b"_", 1))
    run = read_run(path)
    assert run.vehicles[0].log is not None
    assert run.vehicles[0].log.topic(topic) is None
    assert run.vehicles[0].log.damaged
    write_report(report([run]), tmp_path / "report.html")
