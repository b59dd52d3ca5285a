"""Reads flights of published data sets, tables of columns, as the record that a ULog gives."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy
from scipy.spatial.transform import Rotation

from sitl_bridge.api.logs import Series, VehicleLog, columns
from sitl_bridge.base.arrays import Floats, true_spans
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import matrix_from_quaternion, quaternion_product

GRID = 0.01
"""s between the rows to which motion capture is brought before it is differentiated."""
SMOOTHED = 15
"""Rows of the cubic that is fitted for a derivative (Savitzky and Golay 1964): 70 ms to either side."""
TO_FRD = np.array([1.0, -1.0, -1.0])
"""Signs from forward, left, up to forward, right, down, and from a world with z up to NED axes."""

Table = Mapping[str, Floats]


@dataclass(frozen=True)
class DataSet:
    """A format of tables."""

    name: str  # of the data set
    columns: frozenset[str]  # by which a table of it is recognised
    read: Callable[[Table, str], VehicleLog]  # a table of columns, and its file's name, as a flight


def read_table(path: Path) -> VehicleLog:
    """Read a flight from a table with a line of names (.csv).

    A column whose cells are lists, ``"[1, 2]"``, becomes one for each number: ``p[0]``, ``p[1]``.  Words are
    left out.

    Raises:
        UserError: if it is of no known data set, or its figures cannot be a flight's.
    """
    if path.name == BLACKBIRD_SPEEDS:
        return _blackbird(path)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = csv.reader(file)
        cells = [[cell.replace("[", "").replace("]", "").split(",") for cell in line] for line in lines]
        names, kept = [], []
        for i, (title, first) in enumerate(zip(header, cells[0], strict=True)):
            name = title.strip().lstrip("#").strip()
            if _is_number(first[0]):
                kept.append(i)
                names += [name] if len(first) == 1 else [f"{name}[{k}]" for k in range(len(first))]
        rows = np.array([[float(v or "nan") for i in kept for v in line[i]] for line in cells])
    except (OSError, UnicodeDecodeError, ValueError, IndexError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as a table: {error}") from error
    found = next((data for data in DATA_SETS if data.columns <= set(names)), None)
    if found is None:
        known = "; ".join(f"{d.name}: {', '.join(sorted(d.columns)[:4])} ..." for d in DATA_SETS)
        raise UserError(f"{path}: has the columns of no known data set ({known})")
    if len(rows) < 2 * SMOOTHED:
        raise UserError(f"{path}: {len(rows)} rows of {len(names)} columns are no flight")
    try:
        return found.read({name: rows[:, i] for i, name in enumerate(names)}, path.stem)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def rates_of(time: Floats, attitude: Floats) -> Series:
    """Body rates in rad/s by the derivative of attitudes (k, 4), on an even grid."""
    sides = np.cumprod(np.append(1.0, np.where((attitude[1:] * attitude[:-1]).sum(axis=1) < 0.0, -1.0, 1.0)))
    grid = np.arange(time[0], time[-1], GRID)
    even = Series(time, attitude * sides[:, None]).at(grid)
    even /= np.linalg.norm(even, axis=1, keepdims=True)
    turned = quaternion_product(even * (1.0, -1.0, -1.0, -1.0), _slope(even))
    return Series(grid, 2.0 * turned[:, 1:])


def _slope(even: Floats) -> Floats:
    """Derivative by time of values (k, c) on an even grid."""
    return np.asarray(scipy.signal.savgol_filter(even, SMOOTHED, 3, deriv=1, delta=GRID, axis=0))


def _derivative(time: Floats, values: Floats) -> Floats:
    """(k, c) derivative by time of values (k, c)."""
    grid = np.arange(time[0], time[-1], GRID)
    return Series(grid, _slope(Series(time, values).at(grid))).at(time)


def _drop_unordered_rows(table: Table, time: str) -> Table:
    """A table without rows that are not finite or not later than those before."""
    seconds = table[time]
    later = seconds > np.maximum.accumulate(np.append(-np.inf, seconds[:-1]))
    return {name: values[later] for name, values in table.items()}


def _in_air(time: Floats, height: Floats, least: float) -> tuple[tuple[float, float], ...]:
    """Begin and end in s of the times in which a height in m exceeds the lowest tenth's by ``least``."""
    high = height > np.quantile(height, 0.02) + least
    return tuple((float(time[a]), float(time[b - 1])) for a, b in true_spans(high) if b - a > 50)


def _flight(
    source: str,
    time: Floats,
    commands: Floats,
    *,
    position: Floats,
    velocity: Floats,
    attitude: Floats,
    rates: Floats | None = None,
    felt: Floats | None = None,
    voltage: Floats | None = None,
    origin: tuple[float, float, float],
    above_ground: float | None = None,
) -> VehicleLog:
    """A flight from body axes forward, left, up in a world with z up.

    Rates and specific force (``felt``) that are not given are derivatives of attitude and velocity; without
    ``above_ground`` (m) all of it is in the air.
    """
    if felt is None:
        against = _derivative(time, velocity) + np.array([0.0, 0.0, STANDARD_GRAVITY])
        felt = np.einsum("kji,kj->ki", matrix_from_quaternion(attitude), against)
    attitude = attitude * np.append(1.0, TO_FRD)
    whole = ((float(time[0]), float(time[-1])),)
    return VehicleLog(
        source=source,
        commands=Series(time, commands),
        attitude=Series(time, attitude),
        rates=rates_of(time, attitude) if rates is None else Series(time, TO_FRD * rates),
        acceleration=Series(time, TO_FRD * felt),
        position=Series(time, TO_FRD * position),
        velocity=Series(time, TO_FRD * velocity),
        wind=None,
        voltage=None if voltage is None else Series(time, voltage[:, None]),
        current=None,
        speeds=None,
        airborne=whole if above_ground is None else _in_air(time, position[:, 2], above_ground),
        origin=origin,
        damaged=False,
    )


PWM_SCALE = 65535.0
"""PWM of a Crazyflie at full duty."""
CRAZYFLIE_MOTORS = (0, 2, 3, 1)
"""Of PX4's order (front right, rear left, front left, rear right), a Crazyflie's M1 to M4 from 0."""
ABOVE_GROUND = 0.3
"""m above its resting height from which a Crazyflie has left the ground effect: six of its diameters."""


def _nanobench(table: Table, _name: str) -> VehicleLog:
    """NanoBench (Ullah and Baca, arXiv 2603.09908): Crazyflie 2.1, Vicon, PWM, 100 Hz; angles in rad."""
    table = _drop_unordered_rows(table, "t")
    time = table["t"] - table["t"][0]
    pwm = columns(table, *(f"motor_motor_m{i + 1}" for i in CRAZYFLIE_MOTORS))
    if not (pwm.min() >= 0.0 and pwm.max() <= PWM_SCALE):
        raise UserError(f"a PWM of {pwm.max():.0f} is beyond {PWM_SCALE:.0f}: the file is corrupt")
    return _flight(
        "NanoBench, PWM over 65535",
        time,
        pwm / PWM_SCALE,
        position=columns(table, "px", "py", "pz"),
        velocity=columns(table, "vx", "vy", "vz"),
        attitude=columns(table, "qw", "qx", "qy", "qz"),
        felt=STANDARD_GRAVITY * columns(table, *(f"imu_acc_{axis}" for axis in "xyz")),
        voltage=table["pwr_pm_vbat"],
        origin=(27.71, -97.33, 0.0),  # Corpus Christi, at the coast
        above_ground=ABOVE_GROUND,
    )


FANS = {
    "nowind": 0.0, "10wind": 1.3, "20wind": 2.5, "30wind": 3.7, "35wind": 4.2, "40wind": 4.9, "50wind": 6.1,
    "70wind": 8.5, "100wind": 12.1,
}  # fmt: skip
"""m/s of Neural-Fly's steady winds, from +x, by the end of a file's name (its README.md)."""
HOVER_COMMAND = 0.5
"""Of Neural-Fly's motors as they are given here: signals are in proportion to the rotors' speeds."""
CURVE = 0.355
"""f in Neural-Fly's thrust f c^2 + (1 - f) c at the throttle c, both 1 at hover (PX4's THR_MDL_FAC): least
squares of the specific force along the thrust, 80 ms late, in three calm flights (baseline, indi, L1)."""
LEANING = Rotation.from_euler("yx", (2.45, 1.04), degrees=True)
"""From Neural-Fly's thrust to its body axes (forward, left, up): mean specific force of the same flights."""


def _neural_fly(table: Table, name: str) -> VehicleLog:
    """Neural-Fly (O'Connell et al., Science Robotics 7, 2022): a quadrotor before a wall of fans, 50 Hz.

    Its throttle over that of the hover is T_sp over hover_throttle, which follows the battery; the motors
    share the thrust by their PWM.  The axes are those of the thrust.  Motion is seen from the air, in which
    a steady wind is calm: the ground moves along.
    """
    table = _drop_unordered_rows(table, "t")
    time, wind = table["t"] - table["t"][0], FANS.get(name.rpartition("_")[2])
    if wind is None:
        raise UserError(f"its wind is none of {', '.join(FANS)}, the steady ones")
    drift = np.array([wind, 0.0, 0.0])
    velocity = columns(table, *(f"v[{i}]" for i in range(3))) + drift
    position = columns(table, *(f"p[{i}]" for i in range(3))) + drift * time[:, None]
    attitude = columns(table, *(f"q[{i}]" for i in (3, 0, 1, 2)))
    attitude = quaternion_product(attitude, LEANING.as_quat()[[3, 0, 1, 2]])
    pwm, throttle = columns(table, *(f"pwm[{i}]" for i in range(4))), table["T_sp"] / table["hover_throttle"]
    thrust = CURVE * throttle**2 + (1.0 - CURVE) * throttle
    lift = thrust[:, None] * pwm / pwm.mean(axis=1, keepdims=True)
    return _flight(
        "Neural-Fly, thrust set-points over hover throttle",
        time,
        HOVER_COMMAND * np.sqrt(np.maximum(lift, 0.0)),
        position=position,
        velocity=velocity,
        attitude=attitude,
        origin=(34.14, -118.13, 250.0),  # Pasadena
    )


FULL_SPEED = 3000.0
"""rad/s of a rotor at full command, where measured speeds stand for commands: an airframe that predicts such
flights has this ``speed_range`` and no lag, which the measured speeds have."""


def _idsia(table: Table, _name: str) -> VehicleLog:
    """IDSIA (Busetto et al., arXiv 2512.14450): Crazyflie 2.1 Brushless, motion capture, 100 Hz.

    The motors' speeds are measured, in rad/s, numbered as a Crazyflie's (its models.py, motor_to_phys).
    """
    table = _drop_unordered_rows(table, "t")
    speeds = columns(table, *(f"m{i + 1}_rads" for i in CRAZYFLIE_MOTORS))
    return _flight(
        "IDSIA, measured rotor speeds",
        table["t"] - table["t"][0],
        speeds / FULL_SPEED,
        position=columns(table, "x", "y", "z"),
        velocity=columns(table, "vx", "vy", "vz"),
        attitude=columns(table, "qw", "qx", "qy", "qz"),
        rates=columns(table, "wx", "wy", "wz"),
        felt=columns(table, "ax_body", "ay_body", "az_body"),
        origin=(46.01, 8.96, 270.0),  # Lugano
    )


BETAFLIGHT_MOTORS = (1, 2, 3, 0)
"""Of PX4's order, Betaflight's motors 1 to 4 (rear right, front right, rear left, front left) from 0."""


def _neurobem(table: Table, _name: str) -> VehicleLog:
    """NeuroBEM (Bauersfeld et al., RSS 2021): a racing quadrotor, motion capture, 400 Hz.

    Velocity and specific force are in body axes; the motors' speeds, in rad/s, are Betaflight's measurements.
    """
    table = _drop_unordered_rows(table, "t")
    attitude = columns(table, *(f"quat {axis}" for axis in "wxyz"))
    attitude = attitude / np.linalg.norm(attitude, axis=1, keepdims=True)
    through = columns(table, *(f"vel {axis}" for axis in "xyz"))
    return _flight(
        "NeuroBEM, measured rotor speeds",
        table["t"] - table["t"][0],
        columns(table, *(f"mot {i + 1}" for i in BETAFLIGHT_MOTORS)) / FULL_SPEED,
        position=columns(table, *(f"pos {axis}" for axis in "xyz")),
        velocity=np.einsum("kij,kj->ki", matrix_from_quaternion(attitude), through),
        attitude=attitude,
        rates=columns(table, *(f"ang vel {axis}" for axis in "xyz")),
        felt=columns(table, *(f"acc {axis}" for axis in "xyz")),
        voltage=table["vbat"],
        origin=(47.41, 8.55, 440.0),  # Zurich
    )


def _tii(table: Table, _name: str) -> VehicleLog:
    """TII's races (Bosello et al., arXiv 2311.02667): a racing quadrotor, motion capture, 500 Hz.

    Commands are those of Betaflight's motors; the matrix of rotation is given column by column.
    """
    table = _drop_unordered_rows(table, "elapsed_time")
    time = table["elapsed_time"] - table["elapsed_time"][0]
    matrix = columns(table, *(f"drone_rot[{i}]" for i in range(9))).reshape(-1, 3, 3).transpose(0, 2, 1)
    position = columns(table, *(f"drone_{axis}" for axis in "xyz"))
    return _flight(
        "TII racing, thrust",
        time,
        columns(table, *(f"thrust[{i}]" for i in BETAFLIGHT_MOTORS)),
        position=position,
        velocity=_derivative(time, position),
        attitude=Rotation.from_matrix(matrix).as_quat()[:, [3, 0, 1, 2]],
        voltage=table["vbat"],
        origin=(24.45, 54.40, 10.0),  # Abu Dhabi
        above_ground=ABOVE_GROUND,
    )


BLACKBIRD_SPEEDS, BLACKBIRD_STATE = "blackbird_slash_rotor_rpm.csv", "blackbird_slash_state.csv"
"""A flight of Blackbird: measured rotor speeds, and beside it the poses by motion capture."""
CORNERS = ((1, -1), (-1, 1), (1, 1), (-1, -1))
"""Signs of pitch up and roll right by thrust: front right, rear left, front left, rear right, PX4's order."""


def _blackbird(path: Path) -> VehicleLog:
    """Blackbird (Antonini et al., ISER 2018): motion capture of 360 Hz; NED, body axes forward, right, down.

    A row of its tables has the values of a ROS message's lines (bagToCsv.py): s and ns after the fourth, pose
    or speeds in RPM at the end.  Which motor is where is not documented; the flight shows it.  It is in
    the air where the rotors turn.

    Raises:
        UserError: if a table cannot be read, or the flight does not show where a rotor is.
    """
    state, speeds = _blackbird_rows(path.with_name(BLACKBIRD_STATE), 8), _blackbird_rows(path, 4)
    begin, end = max(state[0, 0], speeds[0, 0]), min(state[-1, 0], speeds[-1, 0])
    state = state[(state[:, 0] >= begin) & (state[:, 0] <= end)]
    if len(state) < 2 * SMOOTHED:
        raise UserError(f"{path}: has no rows of the times of {BLACKBIRD_STATE}")
    time = state[:, 0] - begin
    position, attitude = state[:, 1:4], state[:, [8, 5, 6, 7]]
    turned = Series(speeds[:, 0] - begin, speeds[:, 1:] * (2.0 * math.pi / 60.0)).at(time)
    order = _corners(rates_of(time, attitude), Series(time, turned**2))
    if order is None:
        raise UserError(f"{path}: the flight turns too little to show which rotor is where")
    log = _flight(
        "Blackbird, measured rotor speeds",
        time,
        turned[:, order] / FULL_SPEED,
        position=TO_FRD * position,
        velocity=_derivative(time, TO_FRD * position),
        attitude=attitude * np.append(1.0, TO_FRD),
        origin=(42.36, -71.09, 10.0),  # Cambridge, Massachusetts
    )
    lift = (turned**2).mean(axis=1)
    turning = ((float(time[a]), float(time[b - 1])) for a, b in true_spans(lift > 0.5 * np.median(lift)))
    return replace(log, airborne=tuple(span for span in turning if span[1] - span[0] > 1.0))


def _blackbird_rows(path: Path, count: int) -> Floats:
    """(k, 1 + count) time in s, ascending, and the numbers at the end of each row."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            _, *lines = csv.reader(file)
        cells = [(*line[4:6], *",".join(line).replace("[", "").replace("]", "").split(",")) for line in lines]
        found = np.array([[float(s) + 1e-9 * float(ns), *(float(v or "nan") for v in rest[-count:])]
                          for s, ns, *rest in cells])  # fmt: skip
    except (OSError, UnicodeDecodeError, ValueError, IndexError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as a table of Blackbird: {error}") from error
    if len(found) < 2 * SMOOTHED:
        raise UserError(f"{path}: {len(found)} rows are no flight")
    later = found[:, 0] > np.maximum.accumulate(np.append(-np.inf, found[:-1, 0]))
    return np.asarray(found[later])


def _corners(rates: Series, squares: Series) -> list[int] | None:
    """The motors in PX4's order, by the signs of what their squared speeds add to pitch and roll."""
    known = squares.at(rates.time)
    matrix = np.concatenate([known, np.ones((len(known), 1))], axis=1)
    found = np.sign(np.linalg.lstsq(matrix, _slope(rates.values)[:, [1, 0]], rcond=None)[0][:4])
    where = [tuple(int(sign) for sign in motor) for motor in found]
    return [where.index(corner) for corner in CORNERS] if set(where) == set(CORNERS) else None


DATA_SETS = (
    DataSet("NanoBench", frozenset({"t", "px", "qw", "motor_motor_m1", "pwr_pm_vbat"}), _nanobench),
    DataSet("Neural-Fly", frozenset({"t", "q[3]", "T_sp", "hover_throttle", "pwm[3]"}), _neural_fly),
    DataSet("IDSIA", frozenset({"t", "x", "qw", "wx", "ax_body", "m1_rads"}), _idsia),
    DataSet("NeuroBEM", frozenset({"t", "pos x", "quat w", "ang vel x", "mot 1", "vbat"}), _neurobem),
    DataSet("TII racing", frozenset({"elapsed_time", "drone_x", "drone_rot[8]", "thrust[3]", "vbat"}), _tii),
)
