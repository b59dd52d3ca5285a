"""Identification of the attitude model of eq. 4 of collision avoidance from a recorded flight.

The paper identifies gains and time constants of an unknown attitude controller without giving a method.  Here
the output-error method is used: the model is simulated from the commands alone, and its parameters are fitted
to the truth.  The flight is read from a ULog of PX4 or of the built-in flight stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares

from sitl_bridge.api.logs import FlightLog, columns, seconds
from sitl_bridge.api.swarms import AttitudeModel, Identified
from sitl_bridge.base.arrays import Columns, Floats
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import euler_arrays

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
        return _select_recorded(path, log)
    except KeyError as error:
        raise UserError(f"{path}: has no field {error}, which identification needs") from error


def _select_recorded(path: Path, log: FlightLog) -> Recorded:
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
    force = np.gradient(truth[:, 3:6], time, axis=0) - (0.0, 0.0, STANDARD_GRAVITY)
    thrust = -(force * body_down(truth)).sum(axis=1)  # specific, along body up
    commands = np.column_stack([wanted[held, 0], wanted[held, 1], thrust])
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


MIN_EXCITATION = np.radians(1.0)
"""Standard deviation of a command below which noise hides gain and time constant, rad."""
MIN_FIT = 0.5
"""Smallest share of the angle's deviation that an accepted model explains."""


@dataclass(frozen=True)
class AxisFit:
    """First-order response of one axis."""

    gain: float  # dimensionless
    time_constant: float  # s
    offset: float  # steady angle for a level command, rad
    fit: float  # 1 - rms(error) / rms(angle about its mean); 1 is perfect


def simulate_response(
    time: Floats, command: Floats, gain: float, time_constant: float, initial: float
) -> Floats:
    """Return the (t,) angle of eq. 4 in rad for commands (t,) held from each time to the next; exact."""
    keep = np.exp(-np.diff(time) / time_constant)
    angle = np.empty(len(time))
    angle[0] = initial
    for k, share in enumerate(keep):
        angle[k + 1] = share * angle[k] + (1.0 - share) * gain * command[k]
    return angle


def fit_axis(time: ArrayLike, command: ArrayLike, angle: ArrayLike) -> AxisFit:
    """Fit gain, time constant and offset of the model to a recorded angle by least squares.

    Args:
        time: (t,) s, increasing.
        command: (t,) rad, valid from each time on.
        angle: (t,) rad.

    Raises:
        UserError: for arrays of different lengths, commands with too little variation, and a response that is
            not first-order.
    """
    t, u, y = (np.asarray(values, dtype=np.float64) for values in (time, command, angle))
    if not (t.ndim == 1 and t.shape == u.shape == y.shape and len(t) >= 20):
        raise UserError("identification needs time, command and angle of equal length, at least 20 rows")
    if not (np.isfinite([t, u, y]).all() and (np.diff(t) > 0.0).all()):
        raise UserError("identification needs increasing times and finite values")
    if u.std() < MIN_EXCITATION:
        raise UserError(
            f"the commanded angle varies only by {np.degrees(u.std()):.2f} deg; fly doublets of a few "
            "degrees in roll and pitch to identify the attitude model"
        )

    def error(p: Floats) -> Floats:
        gain, log_time_constant, offset, initial = p
        answer = simulate_response(t, u, gain, float(np.exp(log_time_constant)), initial - offset)
        difference: Floats = answer + offset - y
        return difference

    span = float(t[-1] - t[0])
    lower, upper = np.log(1e-3 * span), np.log(span)
    guess = np.array([1.0, np.clip(np.log(0.2), lower, upper), 0.0, y[0]])
    found = least_squares(
        error, guess, bounds=([0.0, lower, -1.0, -np.pi], [5.0, upper, 1.0, np.pi]), x_scale=[1, 1, 0.1, 0.1]
    )
    rms = float(np.sqrt(np.mean(np.square(found.fun))))
    fit = 1.0 - rms / float(y.std()) if y.std() > 0.0 else -np.inf
    if fit < MIN_FIT:
        raise UserError(
            f"a first-order response explains only {max(fit, 0.0):.0%} of the angle; "
            "check that commands and angles are of the same axis and clock"
        )
    gain, log_time_constant, offset, _ = (float(value) for value in found.x)
    return AxisFit(gain, float(np.exp(log_time_constant)), offset, fit)


def fit_drag(truth: ArrayLike, acceleration: ArrayLike, thrust: ArrayLike) -> float:
    """Fit the lumped drag coefficient of eq. 2 in s/m by linear least squares, at least zero.

    Args:
        truth: (t, 9) position, velocity NED, roll, pitch, yaw.
        acceleration: (t, 3) m/s^2 NED, in still air.
        thrust: (t,) m/s^2.
    """
    x, a, f = (np.asarray(values, dtype=np.float64) for values in (truth, acceleration, thrust))
    z = body_down(x)
    rest = a - (0.0, 0.0, STANDARD_GRAVITY)
    rest -= z * (z * rest).sum(axis=1, keepdims=True)  # component in the rotor plane
    v = x[:, 3:6]
    shape = -f[:, None] * (v - z * (z * v).sum(axis=1, keepdims=True))
    weight = float((shape * shape).sum())
    return max(float((shape * rest).sum()) / weight, 0.0) if weight > 0.0 else 0.0


def identify(
    time: ArrayLike, truth: ArrayLike, commands: ArrayLike, *, airframe: str, stack: str, flight: str = ""
) -> Identified:
    """Identify the attitude model from a recorded flight in still air.

    Args:
        time: (t,) s, evenly spaced.
        truth: (t, 9) position, velocity NED, roll, pitch, yaw.
        commands: (t, 3) roll, pitch in rad and specific thrust in m/s^2, valid from each time on.
        airframe, stack, flight: stored in the file.

    Raises:
        UserError: as ``fit_axis``, with the axis.
    """
    t, x, u = (np.asarray(values, dtype=np.float64) for values in (time, truth, commands))
    fits = []
    for i, axis in enumerate(("roll", "pitch")):
        try:
            fits.append(fit_axis(t, u[:, i], x[:, 6 + i]))
        except UserError as error:
            raise UserError(f"{axis}: {error}") from error
    roll, pitch = fits
    drag = fit_drag(x, np.gradient(x[:, 3:6], t, axis=0), u[:, 2])
    model = AttitudeModel(
        roll_gain=round(roll.gain, 5),
        roll_time_constant=round(roll.time_constant, 5),
        pitch_gain=round(pitch.gain, 5),
        pitch_time_constant=round(pitch.time_constant, 5),
        drag=round(drag, 5),
    )
    return Identified(
        airframe=airframe,
        stack=stack,
        flight=flight,
        model=model,
        fit_roll=round(roll.fit, 3),
        fit_pitch=round(pitch.fit, 3),
    )
