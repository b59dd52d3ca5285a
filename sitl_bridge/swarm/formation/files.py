"""Files of formations: trajectories as CSV, the leader's path as a plan."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.base.input_file import read_rows
from sitl_bridge.base.output_file import write_whole
from sitl_bridge.core.world.world import Origin
from sitl_bridge.plan import commands
from sitl_bridge.plan.plan_file import load_plan
from sitl_bridge.plan.recorded_plan import PlanPlaces
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


def plan_positions(file: Path) -> list[tuple[float, float, float]]:
    """Positions of a plan's items in m NED from its planned home.

    Raises:
        UserError: for a plan without a planned home or without positions.
    """
    plan = load_plan(file)
    latitude, longitude, altitude = plan.home
    if not math.isfinite(latitude):
        raise UserError(f"{file}: has no planned home, which is the origin of the formation")
    if math.isnan(altitude):
        if any(item.frame not in commands.RELATIVE_FRAMES for item in plan.legs):
            raise UserError(f"{file}: items are above sea level, but the planned home has no altitude")
        altitude = 0.0
    places = PlanPlaces(Origin(latitude=latitude, longitude=longitude, altitude=altitude))
    points = [(north, east, down) for north, east, down in (places.of_item(item) for item in plan.legs)]
    if not points:
        raise UserError(f"{file}: has no item with a position for the leader")
    return points
