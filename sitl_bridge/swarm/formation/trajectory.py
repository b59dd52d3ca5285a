"""Time-parametrised paths: computed from waypoints, and safety checks of a show of several paths.

Frames: m NED from the common origin, s from the start of the path.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError

ROW_PERIOD = 0.1
"""Interval between rows of a computed path, s: the rate of MAVSDK's example files."""

PEAK_SPEED = 1.875
PEAK_ACCELERATION = 10.0 / math.sqrt(3.0)
"""Peak derivatives of a minimum-jerk move over unit distance in unit time (at 1/2; at 1/2 -+ sqrt(3)/6)."""

TURN_TIME = 4.0
"""Shortest time over which a turn of a heading along the path is spread, s."""


def minimum_jerk(part: Floats | float) -> tuple[Floats, Floats, Floats]:
    """Return distance, speed and acceleration of the minimum-jerk move over unit distance and time.

    Flash and Hogan, "The coordination of arm movements", J. Neuroscience 5(7), 1985: s = 10 t^3 - 15 t^4 + 6
    t^5.

    Args:
        part: of the time, any shape; below 0 it has not begun, above 1 it is over.
    """
    raw = np.asarray(part, dtype=np.float64)
    t = np.clip(raw, 0.0, 1.0)
    way = t**3 * (10.0 + t * (-15.0 + 6.0 * t))
    return way, 30.0 * (t * (1.0 - t)) ** 2, 60.0 * t * (1.0 - t) * (1.0 - 2.0 * t)


def move_time(distance: float, speed: float, acceleration: float) -> float:
    """Return the s of the shortest minimum-jerk move over ``distance`` m within m/s and m/s^2."""
    return max(PEAK_SPEED * distance / speed, math.sqrt(PEAK_ACCELERATION * distance / acceleration))


@dataclass(frozen=True)
class Moment:
    """Motion along a path at one or several times; the leading axes are those of the times."""

    # position, velocity, acceleration: (..., 3) NED
    position: Floats
    velocity: Floats
    acceleration: Floats
    # yaw, yaw_rate: (...,) rad, rad/s
    yaw: Floats
    yaw_rate: Floats


@dataclass(frozen=True)
class Trajectory:
    """A path through rows, quintic in between, continuous in position, velocity and acceleration."""

    time: Floats  # (k,) s, increasing
    # position, velocity, acceleration: (k, 3) NED
    position: Floats
    velocity: Floats
    acceleration: Floats
    yaw: Floats  # (k,) rad, unwrapped

    @property
    def duration(self) -> float:
        """Time of the last row, s."""
        return float(self.time[-1])

    def at(self, time: Floats | float) -> Moment:
        """Return the path at times of any shape; it is at rest before its first row and after its last."""
        asked = np.asarray(time, dtype=np.float64)
        t = np.clip(asked, self.time[0], self.time[-1])
        moving = (asked >= self.time[0]) & (asked <= self.time[-1])
        row = np.clip(np.searchsorted(self.time, t, side="right") - 1, 0, max(len(self.time) - 2, 0))
        following = np.minimum(row + 1, len(self.time) - 1)
        span = np.maximum(self.time[following] - self.time[row], 1e-9)
        part = ((t - self.time[row]) / span)[..., None]
        position, velocity, acceleration = _quintic(self._coefficients[:, row], part)
        rest = moving[..., None]
        rates = self._yaw_rates
        turn, turn_rate = _cubic(
            self.yaw[row], rates[row] * span, self.yaw[following], rates[following] * span, part[..., 0]
        )
        return Moment(
            position,
            np.where(rest, velocity / span[..., None], 0.0),
            np.where(rest, acceleration / span[..., None] ** 2, 0.0),
            turn,
            np.where(moving, turn_rate / span, 0.0),
        )

    @cached_property
    def _coefficients(self) -> Floats:
        """(6, rows, 3) of the quintics that begin at the rows."""
        following = np.minimum(np.arange(1, len(self.time) + 1), len(self.time) - 1)
        scale = np.maximum(self.time[following] - self.time, 1e-9)[:, None]
        p, v, a = self.position, self.velocity * scale, 0.5 * (self.acceleration * scale**2)
        d = self.position[following] - p - v - a
        e = self.velocity[following] * scale - v - 2.0 * a
        f = self.acceleration[following] * scale**2 - 2.0 * a
        c3, c4, c5 = 10.0 * d - 4.0 * e + 0.5 * f, -15.0 * d + 7.0 * e - f, 6.0 * d - 3.0 * e + 0.5 * f
        return np.stack([p, v, a, c3, c4, c5])

    @cached_property
    def _yaw_rates(self) -> Floats:
        if len(self.time) < 2:
            return np.zeros_like(self.yaw)
        rates = np.asarray(np.gradient(self.yaw, self.time))
        rates[[0, -1]] = 0.0
        return rates


def _quintic(coefficients: Floats, s: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the Hermite quintic on the unit interval: value and two derivatives."""
    p, v, a, c3, c4, c5 = coefficients
    way = p + s * (v + s * (a + s * (c3 + s * (c4 + s * c5))))
    rate = v + s * (2.0 * a + s * (3.0 * c3 + s * (4.0 * c4 + s * 5.0 * c5)))
    return way, rate, 2.0 * a + s * (6.0 * c3 + s * (12.0 * c4 + s * 20.0 * c5))


def _cubic(p: Floats, v: Floats, q: Floats, w: Floats, s: Floats) -> tuple[Floats, Floats]:
    """Return the Hermite cubic on the unit interval: value and rate."""
    c2, c3 = 3.0 * (q - p) - 2.0 * v - w, 2.0 * (p - q) + v + w
    return p + s * (v + s * (c2 + s * c3)), v + s * (2.0 * c2 + s * 3.0 * c3)


def stationary(position: Sequence[float]) -> Trajectory:
    """Return a stationary path at (3,) m NED, facing north."""
    zero = np.zeros((1, 3))
    return Trajectory(np.zeros(1), np.array([position], dtype=np.float64), zero, zero, np.zeros(1))


# ---------------------------------------------------------------- from waypoints


def path_through(
    points: Floats,
    *,
    speed: float,
    acceleration: float,
    holds: Sequence[float] | None = None,
    yaw: float | None = None,
    turn_rate: float = math.radians(45.0),
) -> Trajectory:
    """Return the minimum-jerk path through waypoints between stops, within the limits.

    Args:
        points: (k, 3) m NED; successive coincident points count as one.
        speed, acceleration: largest values, m/s, m/s^2.
        holds: s of rest at each point; 0 for no stop.
        yaw: rad; None faces along the path.
        turn_rate: largest rate of a turn on the spot, rad/s; in a formation that turns with its leader, the
            outer slots move with the turn.

    Raises:
        UserError: for limits that are not above 0.
    """
    if not (speed > 0.0 and acceleration > 0.0):
        raise UserError(f"a path at {speed:g} m/s and {acceleration:g} m/s^2: both must be above 0")
    points = np.asarray(points, dtype=np.float64)
    holds = [0.0] * len(points) if holds is None else list(holds)
    stops = [0, *(i for i in range(1, len(points) - 1) if holds[i] > 0.0), len(points) - 1]
    rows = [stationary(points[0].tolist())]
    clock = holds[0]
    for first, last in pairwise(stops):
        leg = _between_stops(points[first : last + 1], speed, acceleration)
        if leg is not None:
            rows.append(_shift(leg, clock))
            clock += leg.duration
        clock += holds[last]
    rows.append(_shift(stationary(points[-1].tolist()), clock))
    time = np.concatenate([r.time for r in rows])
    keep = np.concatenate([[True], np.diff(time) > 1e-9])
    path = Trajectory(
        time[keep],
        np.concatenate([r.position for r in rows])[keep],
        np.concatenate([r.velocity for r in rows])[keep],
        np.concatenate([r.acceleration for r in rows])[keep],
        np.full(int(keep.sum()), 0.0 if yaw is None else yaw),
    )
    return _face_along(path, turn_rate) if yaw is None and path.duration > 0.0 else path


def _shift(path: Trajectory, by: float) -> Trajectory:
    return Trajectory(path.time + by, path.position, path.velocity, path.acceleration, path.yaw)


def _face_along(path: Trajectory, turn_rate: float) -> Trajectory:
    """Return the same path in rows of ROW_PERIOD, with its heading along the path.

    A Hann window over T smooths a sudden turn by a: its rate peaks at 2 a/T.
    """
    count = max(2, round(path.duration / ROW_PERIOD) + 1)
    time = np.linspace(0.0, path.duration, count)
    moment = path.at(time)
    yaw = _along(time, moment.velocity)
    span = round(TURN_TIME / ROW_PERIOD)
    sharpest = float(np.abs(yaw[span:] - yaw[:-span]).max()) if len(yaw) > span else 0.0
    # The rounding of a right angle adds no row.
    width = 2 * math.ceil(0.5 * max(TURN_TIME, 2.0 * sharpest / turn_rate) / ROW_PERIOD - 1e-9) + 1
    window = np.hanning(width + 2)[1:-1]
    padded = np.pad(yaw, width // 2, mode="edge")
    smooth = np.convolve(padded, window / window.sum(), mode="valid")
    return Trajectory(time, moment.position, moment.velocity, moment.acceleration, smooth)


def _along(time: Floats, velocity: Floats) -> Floats:
    """Return the heading of a horizontal velocity, kept at very low speed; 0 for a path at rest."""
    speed = np.hypot(velocity[:, 0], velocity[:, 1])
    moving = np.flatnonzero(speed > 0.05)
    if not len(moving):
        return np.zeros(len(time))
    held = np.clip(np.searchsorted(moving, np.arange(len(time)), side="right") - 1, 0, None)
    heading = np.arctan2(velocity[:, 1], velocity[:, 0])[moving[held]]
    return np.asarray(np.unwrap(heading))


def _between_stops(points: Floats, speed: float, acceleration: float) -> Trajectory | None:
    """Return the minimum-jerk path at rest at both ends, within both limits; None for zero length."""
    legs = np.linalg.norm(np.diff(points, axis=0), axis=1)
    points = points[np.concatenate([[True], legs > 1e-6])]
    legs = legs[legs > 1e-6]
    if not len(legs):
        return None
    path = _spline(points, np.concatenate([[0.0], np.cumsum(legs / speed)]))
    fine = path.at(np.linspace(0.0, path.duration, 400 * len(points)))
    stretch = max(
        float(np.linalg.norm(fine.velocity, axis=1).max()) / speed,
        math.sqrt(float(np.linalg.norm(fine.acceleration, axis=1).max()) / acceleration),
    )
    return Trajectory(
        path.time * stretch, path.position, path.velocity / stretch, path.acceleration / stretch**2, path.yaw
    )


def _spline(points: Floats, time: Floats) -> Trajectory:
    """Return the path of least integrated squared jerk through points at given times, at rest at both ends.

    It is the quintic spline whose third and fourth derivatives are continuous at the inner points.
    """
    rest: Any = [(1, np.zeros(3)), (2, np.zeros(3))]
    spline = scipy.interpolate.make_interp_spline(time, points, 5, bc_type=(rest, rest))
    return Trajectory(time, points, spline(time, 1), spline(time, 2), np.zeros(len(points)))


# ---------------------------------------------------------------- safety


@dataclass(frozen=True)
class Limits:
    """Limits of a show."""

    separation: float = 1.0  # m between any two vehicles
    speed: float = 5.0  # m/s
    acceleration: float = 3.0  # m/s^2
    height: tuple[float, float] = (1.0, 120.0)  # m above the origin, smallest and largest, in flight


@dataclass(frozen=True)
class Violation:
    """Violation of a limit: the worst of its kind for a vehicle."""

    kind: str  # ``speed``, ``acceleration`` or ``height``
    vehicle: int
    time: float  # s
    # value, limit: in the kind's unit
    value: float
    limit: float

    def __str__(self) -> str:
        unit = {"speed": "m/s", "acceleration": "m/s^2", "height": "m"}[self.kind]
        bound = "least" if self.kind == "height" and self.value < self.limit else "most"
        return (
            f"vehicle {self.vehicle}: {self.kind} {self.value:.2f} {unit} at {self.time:.1f} s; "
            f"{self.limit:g} {unit} is the {bound} allowed"
        )


class UnsafeShowError(UserError):
    """A show that violates its limits; ``violations`` has all violations, the message the first ten."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations)
        lines = [str(v) for v in self.violations[:10]]
        if len(self.violations) > 10:
            lines.append(f"and {len(self.violations) - 10} more")
        super().__init__("the show is not safe to fly:\n  " + "\n  ".join(lines))


def single_violations(
    time: Floats, position: Floats, velocity: Floats, acceleration: Floats, limits: Limits
) -> list[Violation]:
    """Return violations of single vehicles: speed, acceleration, height; arrays are (k,) and (k, n, 3)."""
    low, high = limits.height
    height = -position[:, :, 2]
    figures: list[tuple[str, Floats, float, float]] = [
        ("speed", np.linalg.norm(velocity, axis=2), limits.speed, 1.0),
        ("acceleration", np.linalg.norm(acceleration, axis=2), limits.acceleration, 1.0),
        ("height", height, low, -1.0),
        ("height", height, high, 1.0),
    ]
    found = []
    for kind, figure, limit, sign in figures:
        worst = np.argmax(sign * figure, axis=0)
        peak = figure[worst, np.arange(figure.shape[1])]
        # A path timed to just reach a limit may exceed it by rounding.
        for i in np.flatnonzero(sign * peak > sign * limit + 1e-6 * max(1.0, abs(limit))):
            found.append(Violation(kind, int(i), float(time[worst[i]]), float(peak[i]), limit))
    return found
