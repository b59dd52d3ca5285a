"""Trajectories as CSV files: the leader's, and those of a plan's vehicles."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.input_file import read_rows
from sitl_bridge.base.output_file import write_whole
from sitl_bridge.swarm.formation.trajectory import Trajectory

COLUMNS = ("t", "px", "py", "pz", "vx", "vy", "vz", "ax", "ay", "az", "yaw")
"""Columns of a CSV file: s; m, m/s, m/s^2 NED; yaw in deg from north, clockwise, as in MAVSDK's setpoints.
They are those of MAVSDK-Python's example offboard_from_csv, which has a further column ``mode``."""


def read_csv(path: Path) -> Trajectory:
    """Read a trajectory; see COLUMNS.  Further columns are ignored.

    Raises:
        ConfigurationError: with the line of every fault.
    """
    table = read_rows(path)
    header = [cell.strip() for cell in table[0][0]] if table else []
    begin = 1 if header[:1] == ["idx"] else 0
    if tuple(header[begin : begin + len(COLUMNS)]) != COLUMNS:
        raise ConfigurationError(str(path), [f"line 1: the header must be {','.join(COLUMNS)}"])
    faults: list[str] = []
    rows: list[list[float]] = []
    for cells, line in table[1:]:
        values = _numbers(cells[begin : begin + len(COLUMNS)], line, faults)
        if values and rows and values[0] <= rows[-1][0]:
            faults.append(f"line {line}: t: {values[0]:g} s is not later than {rows[-1][0]:g} s")
        if values:
            rows.append(values)
    if not rows and not faults:
        faults.append("line 1: there are no rows below the header")
    if faults:
        raise ConfigurationError(str(path), faults)
    data = np.array(rows)
    yaw = np.unwrap(np.radians(data[:, 10]))
    return Trajectory(data[:, 0], data[:, 1:4], data[:, 4:7], data[:, 7:10], np.asarray(yaw))


def _numbers(cells: list[str], line: int, faults: list[str]) -> list[float]:
    """The numbers of a row; empty, with a fault, if one is missing or not a number."""
    if len(cells) < len(COLUMNS):
        faults.append(f"line {line}: {len(cells)} columns; {len(COLUMNS)} are needed")
        return []
    values = []
    for name, cell in zip(COLUMNS, cells, strict=True):
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            faults.append(f"line {line}: {name}: {cell.strip()[:40]!r} is not a finite number")
            return []
        values.append(value)
    return values


def write_csv(path: Path, trajectory: Trajectory) -> None:
    """Write a trajectory, to the last bit except for the change of units of yaw.

    Raises:
        UserError: if it cannot be written.
    """
    table = np.column_stack(
        [
            trajectory.time,
            trajectory.position,
            trajectory.velocity,
            trajectory.acceleration,
            np.degrees(trajectory.yaw),
        ]
    )
    lines = [",".join(COLUMNS), *(",".join(map(repr, row)) for row in table.tolist())]
    write_whole(path, "\n".join(lines) + "\n")
