"""Evaluations of RotorS (rotors_evaluation): hovering, waypoints, reaction to disturbances; no files.

F. Furrer, M. Burri, M. Achtelik, R. Siegwart, "RotorS - A modular Gazebo MAV simulator framework", 2016,
section 3.6, and its scripts ``hovering_eval.py``, ``waypoints_eval.py`` and ``disturbance_eval.py``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.arrays import Floats, true_spans

START_DELAY = 5.0
"""Time after a waypoint before a hover is evaluated, s (helpers.py, ``--delay``)."""
RMS_TIME = 10.0
"""Length of the evaluation of position and angular velocity, s (helpers.py)."""
BALL = 0.1
"""Radius around the setpoint in which a vehicle has settled, m (helpers.py)."""
HELD = 3.0
"""Time that a settled vehicle stays in the ball, s (helpers.py)."""


@dataclass(frozen=True)
class ConstantSetpoint:
    """A constant position setpoint."""

    # begin, end: s
    begin: float
    end: float
    position: Floats  # (3,) m


@dataclass(frozen=True)
class HoverResult:
    """RMS errors over ``RMS_TIME``."""

    # begin, end: s, evaluated time
    begin: float
    end: float
    position: float  # m, of the distance from the setpoint
    rates: float  # rad/s, of the angular velocity's norm
    mean: Floats  # (3,) m, mean deviation from the setpoint along each axis


@dataclass(frozen=True)
class WaypointResult:
    """A flight to a waypoint."""

    waypoint: ConstantSetpoint  # that was flown to
    # s from the waypoint until the vehicle entered the ball to stay for ``HELD``; None if never
    settling: float | None
    hover: HoverResult | None  # RMS errors from then on; None if it did not settle


@dataclass(frozen=True)
class DisturbanceResult:
    """Reaction to a disturbance."""

    begin: float  # s
    deviation: float  # m, largest distance from the setpoint until it settled, or until the setpoint changed
    settling: float | None  # s from the disturbance until the vehicle is in the ball to stay; None if never
    hover: HoverResult | None  # RMS errors from then on; None if it did not settle


def hovering(
    time: Floats, position: Floats, rates: Floats, setpoint: Floats, begin: float, end: float
) -> HoverResult | None:
    """RMS errors against a setpoint, the evaluation of ``hovering_eval.py``.

    Args:
        time: (k,) s.
        position: (k, 3) m.
        rates: (k, 3) rad/s.
        setpoint: (3,) m.
        begin, end: s, evaluated time.

    Returns:
        the result; None for fewer than two samples.
    """
    chosen = (time > begin) & (time <= end)
    if np.count_nonzero(chosen) < 2:
        return None
    error = position[chosen] - setpoint
    return HoverResult(
        float(time[chosen][0]),
        float(time[chosen][-1]),
        _rms(error),
        _rms(rates[chosen]),
        error.mean(axis=0),
    )


def settling_time(time: Floats, distance: Floats) -> float | None:
    """Time from the first sample until the distance falls below BALL to stay there for HELD.

    Args:
        time: (k,) s.
        distance: (k,) m from the setpoint.

    Returns:
        s; None if it never does.
    """
    if not len(time):
        return None
    for first, after in true_spans(distance < BALL):
        if time[after - 1] - time[first] >= HELD:
            return float(time[first] - time[0])
    return None


def waypoint_results(
    time: Floats, position: Floats, rates: Floats, waypoints: Sequence[ConstantSetpoint]
) -> list[WaypointResult]:
    """Evaluate flights to waypoints as ``waypoints_eval.py`` does; the first only as a hover."""
    found = []
    for number, waypoint in enumerate(waypoints):
        chosen = (time > waypoint.begin) & (time <= waypoint.end)
        distance = np.linalg.norm(position[chosen] - waypoint.position, axis=1)
        settling: float | None = START_DELAY if number == 0 else settling_time(time[chosen], distance)
        hover = None
        if settling is not None:
            begin = waypoint.begin + settling
            end = min(begin + RMS_TIME, waypoint.end)
            hover = hovering(time, position, rates, waypoint.position, begin, end)
        found.append(WaypointResult(waypoint, None if number == 0 else settling, hover))
    return found


def disturbance_results(
    time: Floats,
    position: Floats,
    rates: Floats,
    waypoints: Sequence[ConstantSetpoint],
    moments: Sequence[float],
) -> list[DisturbanceResult]:
    """Evaluate reactions to disturbances at given moments (s), each under a constant setpoint.

    A disturbance during a change of the setpoint is left out.  A vehicle that stays in the ball has settled
    at once.
    """
    found = []
    for moment in moments:
        under = [w for w in waypoints if w.begin + START_DELAY <= moment < w.end]
        later = [other for other in moments if other > moment]
        if not under:
            continue
        waypoint, end = under[0], min([under[0].end, *later])
        chosen = (time > moment) & (time <= end)
        if np.count_nonzero(chosen) < 2:
            continue
        distance = np.linalg.norm(position[chosen] - waypoint.position, axis=1)
        worst = int(np.argmax(distance))
        after = settling_time(time[chosen][worst:], distance[worst:])
        settling = None if after is None else float(time[chosen][worst] - moment) + after
        if distance[worst] < BALL:
            settling = 0.0
        hover = None
        if settling is not None:
            begin = moment + settling
            hover = hovering(
                time, position, rates, waypoint.position, begin, min(begin + RMS_TIME, waypoint.end)
            )
        found.append(DisturbanceResult(moment, float(distance[worst]), settling, hover))
    return found


def constant_setpoints(time: Floats, setpoint: Floats) -> list[ConstantSetpoint]:
    """Constant parts of a position setpoint, of START_DELAY and HELD at least.

    Args:
        time: (k,) s.
        setpoint: (k, 3) m; nan where there is none.
    """
    if not len(time):
        return []
    valid = np.asarray(np.isfinite(setpoint).all(axis=1))
    moved = np.ones(len(time), bool)
    moved[1:] = ~(np.linalg.norm(np.diff(np.nan_to_num(setpoint), axis=0), axis=1) < 1e-3)
    moved |= np.concatenate([[True], valid[1:] != valid[:-1]])
    starts = [*np.flatnonzero(moved), len(time)]
    found = []
    for first, after in itertools.pairwise(starts):
        end = float(time[min(after, len(time) - 1)])
        if valid[first] and end - time[first] >= START_DELAY + HELD:
            found.append(ConstantSetpoint(float(time[first]), end, np.array(setpoint[first])))
    return found


def _rms(values: Floats) -> float:
    return math.sqrt(float((values**2).sum(axis=1).mean()))
