"""Input of the identification from a ULog: attitude, commanded attitude and motion.

Reads logs of PX4 and of the built-in flight stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Columns, Floats
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import euler_arrays
from sitl_bridge.record.ulog_reader import FlightLog, columns, seconds

STEP = 0.01
"""Interval between rows, s: one step of the controller."""
MARGIN = 3.0
"""Time after take-off and before landing that is not evaluated, s: ground effect and thrust ramps."""
MIN_LENGTH = 5.0
"""Shortest flight for an identification, s."""
MAX_GAP = 0.5
"""Largest gap between attitude setpoints, s; a longer one ends the commanded part."""
_TOPICS = ("vehicle_attitude", "vehicle_attitude_setpoint", "vehicle_local_position", "vehicle_land_detected")


@dataclass(frozen=True)
class Recorded:
    """A flight on an even time grid."""

    stack: str  # flight stack and its version
    time: Floats  # (t,) s on the stack's clock
    truth: Floats  # (t, 9) position, velocity NED, roll, pitch, yaw, as estimated by the stack
    # (t, 3) roll, pitch in rad, and specific thrust in m/s^2 along body up, derived from the motion
    commands: Floats


def read_flight(path: Path) -> Recorded:
    """Read the longest part of a ULog in the air and under attitude commands.

    A setpoint counts from the middle between the first sample with it and the previous sample: PX4 logs one
    every 50 ms by default, so the time of a change is uncertain by that interval.

    Raises:
        UserError: if the file is no ULog, is damaged, has no attitude commands, or the flight is too short.
    """
    log = FlightLog.read(path, dict.fromkeys(_TOPICS, ()), whole=True)
    try:
        return _recorded(path, log)
    except KeyError as error:
        raise UserError(f"{path}: has no field {error}, which identification needs") from error


def _recorded(path: Path, log: FlightLog) -> Recorded:
    tables = {name: table for name in _TOPICS if (table := log.topic(name)) and len(table["timestamp"]) > 1}
    for topic in _TOPICS:
        if topic not in tables:
            raise UserError(f"{path}: topic {topic} missing, which identification needs")
    times = {name: seconds(table) for name, table in tables.items()}
    begin, end = max(log.air_times(), key=lambda flight: flight[1] - flight[0], default=(0.0, 0.0))
    begin, end = _longest_command(times["vehicle_attitude_setpoint"], begin + MARGIN, end - MARGIN)
    if end - begin < MIN_LENGTH:
        raise UserError(
            f"{path}: no {MIN_LENGTH:.0f} s of flight under attitude commands, {MARGIN:.0f} s from "
            "take-off and landing"
        )
    time = np.arange(begin, end, STEP)

    def column(topic: str, name: str) -> Floats:
        values: Floats = np.interp(time, times[topic], np.asarray(tables[topic][name], np.float64))
        return values

    attitude = _angles(tables["vehicle_attitude"], "q")
    wanted = _angles(tables["vehicle_attitude_setpoint"], "q_d")
    truth = np.column_stack(
        [column("vehicle_local_position", name) for name in ("x", "y", "z", "vx", "vy", "vz")]
        + [np.interp(time, times["vehicle_attitude"], np.unwrap(angle)) for angle in attitude.T]
    )
    since = times["vehicle_attitude_setpoint"]
    since = np.concatenate([since[:1], 0.5 * (since[1:] + since[:-1])])
    held = np.clip(np.searchsorted(since, time, side="right") - 1, 0, None)
    commands = np.column_stack([wanted[held, 0], wanted[held, 1], _thrust(time, truth)])
    commit = str(log.info.get("ver_sw", ""))[:10]
    return Recorded(f"{log.writer} {commit}".strip(), time, truth, commands)


def _longest_command(times: Floats, begin: float, end: float) -> tuple[float, float]:
    """Return begin and end in s of the longest series of setpoints without a gap, within limits."""
    inside = times[(times >= begin) & (times <= end)]
    parts = np.split(inside, np.flatnonzero(np.diff(inside) > MAX_GAP) + 1)
    longest = max(parts, key=lambda part: float(np.ptp(part)) if len(part) else 0.0)
    return (float(longest[0]), float(longest[-1])) if len(longest) else (0.0, 0.0)


def _angles(table: Columns, name: str) -> Floats:
    """Return (k, 3) roll, pitch, yaw of a topic's quaternions; an invalid row repeats the one before."""
    q = columns(table, *(f"{name}[{i}]" for i in range(4)))
    sound = np.isfinite(q).all(axis=1) & (np.abs(np.linalg.norm(q, axis=1) - 1.0) < 0.1)
    last = np.maximum.accumulate(np.where(sound, np.arange(len(q)), np.argmax(sound)))
    return euler_arrays(q[last])


def body_down(truth: Floats) -> Floats:
    """Return (t, 3) NED of the body's axis down, for states (t, 9)."""
    roll, pitch, yaw = truth[:, 6:9].T
    return np.stack(
        [
            np.cos(yaw) * np.sin(pitch) * np.cos(roll) + np.sin(yaw) * np.sin(roll),
            np.sin(yaw) * np.sin(pitch) * np.cos(roll) - np.cos(yaw) * np.sin(roll),
            np.cos(pitch) * np.cos(roll),
        ],
        axis=-1,
    )


def _thrust(time: Floats, truth: Floats) -> Floats:
    """Return the (t,) m/s^2 of the specific force along body up."""
    force = np.gradient(truth[:, 3:6], time, axis=0) - (0.0, 0.0, STANDARD_GRAVITY)
    return -np.asarray((force * body_down(truth)).sum(axis=1), np.float64)
