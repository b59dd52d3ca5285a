"""Reads the flight of an identification: a ULog, a data set's table, or a run with its full-rate samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from sitl_bridge.api.logs import (
    FRAMES,
    TRUTH,
    RecordedRun,
    Series,
    VehicleLog,
    read_vehicle_log,
    samples_of,
    vehicle_logs,
)
from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.flights.data_sets import read_table


def flight_log(flight: Path, vehicle: str | None = None) -> Path:
    """The ULog of a run directory, or the file itself.

    Args:
        flight: ULog or run directory.
        vehicle: its name; None for the only one.

    Raises:
        UserError: if there is none, or more than one.
    """
    if not flight.is_dir():
        if not flight.is_file():
            raise UserError(f"{flight}: no such run directory or ULog")
        return flight
    logs = [] if vehicle is None else vehicle_logs(flight, vehicle, alone=False)
    logs = logs or sorted(flight.glob("autopilot/**/*.ulg")) or sorted(flight.glob("vehicle-*/**/*.ulg"))
    if len(logs) == 1:
        return logs[0]
    if not logs:
        raise UserError(f"{flight}: contains no ULog")
    raise UserError(f"{flight}: contains {len(logs)} ULogs; give one of them, e.g. {logs[0]}")


def vehicle_number(run: RecordedRun, vehicle: str | None) -> int:
    """Number of a run's vehicle.

    Raises:
        UserError: if there is none of this name, or several and no name is given.
    """
    if vehicle is None and run.count > 1:
        names = ", ".join(run.names)
        raise UserError(f"{run.path}: has {run.count} vehicles; choose one by --vehicle: {names}")
    if vehicle is not None and vehicle not in run.names:
        raise UserError(f"{run.path}: has no vehicle {vehicle}; there are {', '.join(run.names)}")
    return 0 if vehicle is None else run.names.index(vehicle)


def read_identification_flight(flight: Path, motors: int, vehicle: str | None = None) -> VehicleLog:
    """Read a flight's motor commands and measurements.

    Of a run, position, velocity and attitude are the flight stack's estimates from its ULog.  Motor commands
    and inertial samples are those that the recorder wrote at every step; ground truth is not read.

    Args:
        flight: ULog, table of a data set (.csv) or run directory.
        motors: of the airframe.
        vehicle: name; None for the only one.

    Raises:
        UserError: if it cannot be read, is damaged, or lacks something.
    """
    if flight.suffix == ".csv":
        log = read_table(flight)
        if log.commands.values.shape[1] != motors:
            raise UserError(f"{flight}: has {log.commands.values.shape[1]} motors, the airframe {motors}")
        return log
    recorded = flight.is_dir() and all((flight / name).is_file() for name in (TRUTH, FRAMES))
    run = RecordedRun(flight) if recorded else None
    index = vehicle_number(run, vehicle) if run is not None else 0
    log = read_vehicle_log(flight_log(flight, vehicle), motors, whole=True)
    samples = None if run is None else samples_of(run).get("imu")
    if run is None or samples is None:
        return log
    samples = samples[(samples["instance"] == 0) & (samples["vehicle"] == index)]
    if not len(samples):
        return log
    rows = run.rows[index :: run.count]
    begins = np.append(run.start, rows["time"][:-1]) * 1e-6
    time = samples["time"] * 1e-6
    return replace(
        log,
        source="the recorder, every step",
        commands=Series(begins, np.asarray(rows["control"][:, :motors], np.float64)),
        rates=Series(time, np.asarray(samples["angular_velocity"], np.float64)),
        acceleration=Series(time, np.asarray(samples["acceleration"], np.float64)),
    )
