"""What a run keeps, also when it is killed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from sitl_bridge.base.errors import UserError
from sitl_bridge.record.records import ROW, convert_rows, flat, row_type
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.truth_log import TruthLog, as_rows, read_truth

WRITER = """
import sys
import numpy as np
from pathlib import Path
from sitl_bridge.record.records import ROW
from sitl_bridge.record.truth_log import TruthLog
log = TruthLog(Path(sys.argv[1]))
rows = np.zeros(100, ROW)
for k in range(1000000):
    rows["time"] = np.arange(100) + 100 * k
    log.write(rows)
    if k == 50:
        print("ready", flush=True)
"""


def test_rows_come_back_with_one_scalar_column_a_component(tmp_path: Path) -> None:
    rows = np.zeros(5, ROW)
    rows["time"] = np.arange(5)
    rows["position"] = np.arange(15).reshape(5, 3)
    rows["control"][:, 3] = 0.25
    with TruthLog(tmp_path / "truth.npy") as log:
        log.write(rows[:2])
        log.write(rows[2:])
    table = read_truth(tmp_path / "truth.npy")
    np.testing.assert_array_equal(table["time"], np.arange(5))
    np.testing.assert_array_equal(table["position_down"], [2, 5, 8, 11, 14])
    np.testing.assert_array_equal(table["control_3"], np.full(5, 0.25, np.float32))
    assert all(table.dtype[name].shape == () for name in table.dtype.names or ())
    assert flat(ROW).itemsize == ROW.itemsize
    header = io.BytesIO()
    npy.write_array_header_2_0(header, npy.header_data_from_array_1_0(table))
    assert (tmp_path / "truth.npy").read_bytes() == header.getvalue() + table.tobytes()


def test_a_log_has_places_for_the_rotors_that_there_are(tmp_path: Path) -> None:
    rows = np.zeros(3, ROW)
    rows["position"] = np.arange(9).reshape(3, 3)
    for k, name in enumerate(("rotor_speed", "rotor_thrust", "control", "motor_current", "esc_rise")):
        rows[name][:, :6] = 10 * k + np.arange(6)
    with TruthLog(tmp_path / "truth.npy", row_type(6)) as log:
        log.write(rows)
    table = read_truth(tmp_path / "truth.npy")
    assert table.dtype.itemsize == ROW.itemsize - 4 * (4 * 6 + 10)
    assert "rotor_speed_6" not in (table.dtype.names or ())
    kept = as_rows(table, tmp_path)
    np.testing.assert_array_equal(kept["esc_rise"], np.tile(40 + np.arange(6), (3, 1)))
    assert convert_rows(kept, ROW).tobytes() == rows.tobytes()


def test_a_log_whose_writer_was_killed_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "truth.npy"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    for table in (read_truth(path), np.load(path, mmap_mode="r")):
        assert len(table) >= 5000
        np.testing.assert_array_equal(table["time"], np.arange(len(table)))


def test_a_log_overwrites_nothing_and_tells_what_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "truth.npy"
    path.write_bytes(b"precious")
    with pytest.raises(UserError, match=r"truth\.npy"):
        TruthLog(path)
    assert path.read_bytes() == b"precious"
    with pytest.raises(UserError, match="cannot be read"):
        read_truth(path)
    np.save(tmp_path / "other.npy", np.zeros(3))
    with pytest.raises(UserError, match="not a truth log"):
        read_truth(tmp_path / "other.npy")


def test_run_directories_are_never_shared_and_latest_points_to_the_last_described(tmp_path: Path) -> None:
    first, second = RunDirectory(tmp_path, "square"), RunDirectory(tmp_path, "square")
    assert first.path != second.path
    assert not (tmp_path / "latest").exists(), "no run that could be read, yet"
    first.say("hello")
    first.describe(seed=3)
    assert (tmp_path / "latest").resolve() == first.path
    first.close()
    second.close()
    assert (first.path / "console.log").read_text() == "hello\n"
    facts = json.loads((first.path / "run.json").read_text())
    assert facts["seed"] == 3
    assert {"sitl-bridge", "numpy", "numba", "python"} <= set(facts["versions"])


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UserError, match=r"cannot create run directories there: .* --runs-dir"):
        RunDirectory(file / "runs", "square")
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208
