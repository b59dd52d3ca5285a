"""Reads the flight of an identification: a ULog, or a run directory with its recorder's full-rate samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from sitl_bridge.errors import UserError
from sitl_bridge.hil.recorded_samples import samples_of
from sitl_bridge.record.run_reader import RecordedRun
from sitl_bridge.record.run_recorder import FRAMES, TRUTH
from sitl_bridge.replay.vehicle_log import Series, VehicleLog, read_vehicle_log


def refuse_mcap(flight: Path) -> None:
    """Refuse an exported MCAP file, which lacks what an identification needs.

    Raises:
        UserError: for one, with what to give in its place.
    """
    if flight.suffix.lower() == ".mcap" and not flight.is_dir():
        raise UserError(
            f"{flight}: an MCAP file has no motor commands and no estimates of the flight stack, which the"
            " fit needs; give the run directory from which it was exported, or the flight's ULog (.ulg)"
        )


def flight_log(flight: Path) -> Path:
    """The ULog of a run directory, or the file itself.

    Raises:
        UserError: if there is none, or more than one.
    """
    if not flight.is_dir():
        if not flight.is_file():
            raise UserError(f"{flight}: no such run directory or ULog")
        return flight
    logs = sorted(flight.glob("autopilot/**/*.ulg"))
    if len(logs) == 1:
        return logs[0]
    if not logs:
        raise UserError(f"{flight}: contains no ULog")
    raise UserError(f"{flight}: contains {len(logs)} ULogs; give one of them, e.g. {logs[0]}")


def read_identification_flight(flight: Path, motors: int) -> VehicleLog:
    """Read a flight's motor commands and measurements.

    Of a run, position, velocity and attitude are the flight stack's estimates from its ULog.  Motor commands
    and inertial samples are those that the recorder wrote at every step; ground truth is not read.

    Args:
        flight: ULog or run directory.
        motors: of the airframe.

    Raises:
        UserError: if it cannot be read, is damaged, or lacks something.
    """
    log = read_vehicle_log(flight_log(flight), motors, whole=True)
    if not flight.is_dir() or not all((flight / name).is_file() for name in (TRUTH, FRAMES)):
        return log
    run = RecordedRun(flight)
    samples = samples_of(run).get("imu")
    if run.count > 1 or samples is None or not len(samples):
        return log
    samples = samples[samples["instance"] == 0]
    rows = run.rows
    begins = np.append(run.start, rows["time"][:-1]) * 1e-6
    time = samples["time"] * 1e-6
    return replace(
        log,
        source="the recorder, every step",
        commands=Series(begins, np.asarray(rows["control"][:, :motors], np.float64)),
        rates=Series(time, np.asarray(samples["angular_velocity"], np.float64)),
        acceleration=Series(time, np.asarray(samples["acceleration"], np.float64)),
    )
