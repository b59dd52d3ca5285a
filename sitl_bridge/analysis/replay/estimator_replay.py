"""PX4's own replay of its estimator (EKF2) from a ULog: its files, and its run by a PX4 build.

PX4's module ``replay`` publishes the logged sensor topics again at the times of ``ekf2_timestamps`` and lets
EKF2 run on them with other parameters (src/modules/replay, ROMFS/px4fmu_common/init.d-posix/rc.replay).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.output_file import make_directory, write_whole
from sitl_bridge.link.px4.find import Px4Build
from sitl_bridge.record.ulog_reader import FlightLog, columns

PARAMETERS, SCRIPT, OUTPUT = "replay_params.txt", "replay.sh", "replay.log"
NEEDED = ("ekf2_timestamps", "sensor_combined", "vehicle_air_data", "vehicle_magnetometer")
"""Topics that must have been logged at their full rates (SDLOG_PROFILE bit 1, estimator replay)."""
FEWEST = 0.9
"""Share of the inertial samples that a log must have."""
TIME_LIMIT, EXIT_LIMIT = 1800.0, 10.0
"""s of wall time, for a replay, and for PX4's exit after it."""


@dataclass(frozen=True)
class EstimatorReplay:
    """Result of a run."""

    log: Path  # the replayed ULog
    samples: int  # of the position that were compared
    # largest, rms: m, difference of the replayed position from the logged one
    largest: float
    rms: float


def write_replay_files(file: Path, directory: Path, build: Px4Build | None = None) -> list[str]:
    """Write what PX4 needs to replay a log: EKF2's parameters, which may be edited, and a script.

    Args:
        file: the ULog.
        directory: for the files; made where it is missing.
        build: that the script runs; None: the one in $PX4_BUILD (.../build/px4_sitl_default).

    Returns:
        notes on what the replay will not reproduce.

    Raises:
        UserError: if the log cannot be replayed, or a file cannot be written.
    """
    log = FlightLog.read(file, dict.fromkeys((*NEEDED, "estimator_states", "estimator_status"), ()))
    notes = _check(file, log)
    make_directory(directory)
    parameters = {k: v for k, v in sorted(log.parameters.items()) if k.startswith("EKF2_")}
    lines = [f"{name} {value!r}\n" for name, value in parameters.items()]
    write_whole(directory / PARAMETERS, "".join(lines))
    program, etc = ("$PX4_BUILD/bin/px4", "$PX4_BUILD/etc")
    if build is not None:
        program, etc = str(build.executable), str(build.etc)
    script = _SCRIPT.format(log=file.resolve(), program=program, etc=etc, parameters=PARAMETERS)
    (write_whole(directory / SCRIPT, script)).chmod(0o755)
    return notes


_SCRIPT = """#!/bin/sh
# Replays {log} through PX4's EKF2.
# Edit {parameters} (name and value) to try other parameters; the new ULog is in log/.
cd "$(dirname "$0")" || exit 1
export replay="{log}" replay_mode=ekf2 PX4_SIM_MODEL=none
exec env PWD=/proc/self/cwd "{program}" -d "{etc}" -s etc/init.d-posix/rcS -w "$PWD" "$@" < /dev/null
"""


def _check(file: Path, log: FlightLog) -> list[str]:
    missing = [name for name in NEEDED if (name, 0) not in log.columns]
    if missing:
        raise UserError(
            f"{file}: lacks {', '.join(missing)}, which PX4's replay of EKF2 needs; record with SDLOG_PROFILE"
            " bits 0 and 1 (3), and SDLOG_MODE 1"
        )
    notes = []
    stamps, samples = (
        len(log.columns[name, 0]["timestamp"]) for name in ("ekf2_timestamps", "sensor_combined")
    )
    if samples < FEWEST * stamps:
        notes.append(f"{stamps - samples} of {stamps} inertial samples are missing in the log")
    instances = {number for name, number in log.columns if name in ("estimator_status", "estimator_states")}
    if len(instances) > 1:
        notes.append(
            f"the log has {len(instances)} instances of EKF2, and PX4 replays one; record with"
            " EKF2_MULTI_IMU 0, EKF2_MULTI_MAG 0 and SENS_IMU_MODE 1"
        )
    if log.damaged:
        notes.append("the log is damaged")
    return notes


def run_estimator_replay(file: Path, directory: Path) -> EstimatorReplay:
    """Run the script, and compare the replayed position with the logged one.

    Raises:
        UserError: if PX4 does not finish the replay.
    """
    before = set(directory.rglob("*.ulg"))
    output = directory / OUTPUT
    try:
        with output.open("wb") as sink:
            process = subprocess.Popen(
                [str((directory / SCRIPT).resolve())],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={k: v for k, v in os.environ.items() if not k.startswith("PX4_")},
            )
    except OSError as error:
        raise UserError(f"{directory / SCRIPT}: cannot be run: {error.strerror}") from error
    with process:
        try:
            _await_replay(process, output)
        finally:
            process.kill()
    made = sorted(set(directory.rglob("*_replayed.ulg")) - before)
    if not made or b"Replay done" not in output.read_bytes():
        raise UserError(f"PX4 has not replayed the log; see {output}")
    return _compare(file, made[-1])


def _await_replay(process: subprocess.Popen[bytes], output: Path) -> None:
    """Wait until PX4 has replayed its log, and a while for its exit, in which it may hang."""
    begun = time.monotonic()
    while b"closed logfile" not in output.read_bytes():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
            return
        if time.monotonic() - begun > TIME_LIMIT:
            raise UserError(f"PX4 has not finished the replay within {TIME_LIMIT:g} s; see {output}")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(EXIT_LIMIT)


def _compare(logged: Path, replayed: Path) -> EstimatorReplay:
    """Compare the positions of two logs where their times agree."""
    tracks = []
    for path in (logged, replayed):
        topics = ("estimator_local_position", "vehicle_local_position")
        log = FlightLog.read(path, dict.fromkeys(topics, ("timestamp_sample", *"xyz")))
        table = next((found for name in topics if (found := log.topic(name))), None)
        if table is None:
            raise UserError(f"{path}: has no position of the estimator")
        tracks.append((table["timestamp_sample"], columns(table, *"xyz")))
    (times, one), (other_times, other) = tracks
    common, first, second = np.intersect1d(times, other_times, return_indices=True)
    if not len(common):
        raise UserError(f"{replayed}: has no time in common with {logged}")
    apart = np.linalg.norm(one[first] - other[second], axis=1)
    return EstimatorReplay(replayed, len(common), float(apart.max()), float(np.sqrt(np.mean(apart**2))))
