"""Reads flights of published data sets, tables of columns, as the record that a ULog gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.signal import savgol_filter

from sitl_bridge.analysis.replay.vehicle_log import Series, VehicleLog
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import quaternion_product

GRID = 0.01
"""s between the rows to which motion capture is brought before it is differentiated."""
SMOOTHED = 15
"""Rows of the cubic that is fitted for a derivative (Savitzky and Golay 1964): 70 ms to either side."""
TO_FRD = np.array([1.0, -1.0, -1.0])
"""Signs from forward, left, up to forward, right, down, and from a world with z up to NED axes."""

Table = Mapping[str, Floats]


@dataclass(frozen=True)
class DataSet:
    """A format of tables.

    Attributes:
        name: of the data set.
        columns: by which a table of it is recognised.
        read: a table of columns as a flight.
    """

    name: str
    columns: frozenset[str]
    read: Callable[[Table], VehicleLog]


def read_table(path: Path) -> VehicleLog:
    """Read a flight from a table with a line of names (.csv).

    Raises:
        UserError: if it is of no known data set, or its figures cannot be a flight's.
    """
    try:
        with path.open(encoding="utf-8") as file:
            names = [name.strip().strip('"').lstrip("#").strip() for name in file.readline().split(",")]
            rows = np.genfromtxt(file, delimiter=",", dtype=np.float64, ndmin=2)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a table: {error}") from error
    found = next((data for data in DATA_SETS if data.columns <= set(names)), None)
    if found is None:
        known = "; ".join(f"{d.name}: {', '.join(sorted(d.columns)[:4])} ..." for d in DATA_SETS)
        raise UserError(f"{path}: has the columns of no known data set ({known})")
    if rows.shape[1] != len(names) or len(rows) < 2 * SMOOTHED:
        raise UserError(f"{path}: {len(rows)} rows of {len(names)} columns are no flight")
    try:
        return found.read({name: rows[:, i] for i, name in enumerate(names)})
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def columns(table: Table, names: Sequence[str]) -> Floats:
    """(k, c) columns of a table."""
    return np.stack([table[name] for name in names], axis=-1)


def rates_of(time: Floats, attitude: Floats) -> Series:
    """Body rates in rad/s by the derivative of attitudes (k, 4), on an even grid."""
    sides = np.cumprod(np.append(1.0, np.where((attitude[1:] * attitude[:-1]).sum(axis=1) < 0.0, -1.0, 1.0)))
    grid = np.arange(time[0], time[-1], GRID)
    even = Series(time, attitude * sides[:, None]).at(grid)
    even /= np.linalg.norm(even, axis=1, keepdims=True)
    slope = savgol_filter(even, SMOOTHED, 3, deriv=1, delta=GRID, axis=0)
    turned = quaternion_product(even * (1.0, -1.0, -1.0, -1.0), slope)
    return Series(grid, 2.0 * turned[:, 1:])


def _ascending(table: Table, time: str) -> Table:
    """A table without rows that are not finite or not later than those before."""
    seconds = table[time]
    later = seconds > np.maximum.accumulate(np.append(-np.inf, seconds[:-1]))
    return {name: values[later] for name, values in table.items()}


def _in_air(time: Floats, height: Floats, least: float) -> tuple[tuple[float, float], ...]:
    """Begin and end in s of the times in which a height in m exceeds the lowest tenth's by ``least``."""
    high = height > np.quantile(height, 0.02) + least
    edges = np.flatnonzero(np.diff(np.concatenate([[False], high, [False]]).astype(np.int8)))
    return tuple(
        (float(time[a]), float(time[b - 1]))
        for a, b in zip(edges[::2], edges[1::2], strict=True)
        if b - a > 50
    )


PWM_SCALE = 65535.0
"""PWM of a Crazyflie at full duty."""
CRAZYFLIE_MOTORS = (0, 2, 3, 1)
"""Of PX4's order (front right, rear left, front left, rear right), a Crazyflie's M1 to M4 from 0."""
ABOVE_GROUND = 0.3
"""m above its resting height from which a Crazyflie has left the ground effect: six of its diameters."""


def _nanobench(table: Table) -> VehicleLog:
    """NanoBench (Ullah and Baca, arXiv 2603.09908): Crazyflie 2.1, Vicon, PWM, 100 Hz; angles in rad."""
    table = _ascending(table, "t")
    time = table["t"] - table["t"][0]
    pwm = columns(table, [f"motor_motor_m{i + 1}" for i in CRAZYFLIE_MOTORS])
    if not (pwm.min() >= 0.0 and pwm.max() <= PWM_SCALE):
        raise UserError(f"a PWM of {pwm.max():.0f} is beyond {PWM_SCALE:.0f}: the file is corrupt")
    attitude = columns(table, ["qw", "qx", "qy", "qz"]) * np.append(1.0, TO_FRD)
    height = table["pz"]
    gravities = columns(table, [f"imu_acc_{axis}" for axis in "xyz"])
    return VehicleLog(
        source="NanoBench, PWM over 65535",
        commands=Series(time, pwm / PWM_SCALE),
        attitude=Series(time, attitude),
        rates=rates_of(time, attitude),
        acceleration=Series(time, STANDARD_GRAVITY * TO_FRD * gravities),
        position=Series(time, TO_FRD * columns(table, ["px", "py", "pz"])),
        velocity=Series(time, TO_FRD * columns(table, ["vx", "vy", "vz"])),
        wind=None,
        voltage=Series(time, table["pwr_pm_vbat"][:, None]),
        current=None,
        speeds=None,
        airborne=_in_air(time, height, ABOVE_GROUND),
        origin=(27.71, -97.33, 0.0),  # Corpus Christi, at the coast
        damaged=False,
    )


DATA_SETS = (DataSet("NanoBench", frozenset({"t", "px", "qw", "motor_motor_m1", "pwr_pm_vbat"}), _nanobench),)
