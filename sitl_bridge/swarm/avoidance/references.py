"""The reference to follow: where a vehicle should be, at any time.  It does not know of the others.

It is sampled into rows of REFERENCE_WIDTH columns: position, velocity, acceleration (NED), yaw and
yaw rate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled

REFERENCE_WIDTH = 11


@compiled
def sample_legs(
    points: Floats,
    directions: Floats,
    lengths: Floats,
    peaks: Floats,
    starts: Floats,
    acceleration: float,
    seconds: Floats,
    out: Floats,
) -> None:
    """Position, velocity and acceleration on legs with trapezoidal speed; out (k, 11) at seconds (k,)."""
    legs = lengths.shape[0]
    leg = 0
    for k in range(seconds.shape[0]):
        while leg > 0 and seconds[k] < starts[leg]:
            leg -= 1
        while leg < legs - 1 and seconds[k] >= starts[leg + 1]:
            leg += 1
        total = starts[leg + 1] - starts[leg]
        t = min(max(seconds[k] - starts[leg], 0.0), total)
        left = total - t
        peak = peaks[leg]
        rise = peak / acceleration
        travelled, speed, push = peak * (t - 0.5 * rise), peak, 0.0
        if t < rise:
            travelled, speed, push = 0.5 * acceleration * t * t, acceleration * t, acceleration
        elif left < rise:
            travelled = lengths[leg] - 0.5 * acceleration * left * left
            speed, push = acceleration * left, -acceleration
        if t <= 0.0 or left <= 0.0:
            push = 0.0
        for i in range(3):
            out[k, i] = points[leg, i] + travelled * directions[leg, i]
            out[k, 3 + i] = speed * directions[leg, i]
            out[k, 6 + i] = push * directions[leg, i]


class Route:
    """Straight legs between points, each from rest to rest with bounded acceleration and speed.

    A single point is hover.

    Args:
        points: (p, 3) m NED.
        speed: m/s.
        acceleration: m/s^2.
        yaw: rad.
        depart: s to wait at the first point.

    Attributes:
        duration: s until the last point is reached.
    """

    def __init__(
        self,
        points: ArrayLike,
        *,
        speed: float = 2.0,
        acceleration: float = 1.5,
        yaw: float = 0.0,
        depart: float = 0.0,
    ) -> None:
        self._points = np.array(points, dtype=np.float64, ndmin=2)
        legs = np.diff(self._points, axis=0)
        self._lengths = np.linalg.norm(legs, axis=1)
        self._directions = legs / np.maximum(self._lengths, 1e-12)[:, None]
        self._acceleration = acceleration
        self._peaks = np.minimum(speed, np.sqrt(acceleration * self._lengths))
        safe = np.maximum(self._peaks, 1e-12)
        times = np.where(self._lengths > 0.0, self._lengths / safe + self._peaks / acceleration, 0.0)
        self._starts = depart + np.concatenate([[0.0], np.cumsum(times)])
        self._yaw = yaw
        self.duration = float(self._starts[-1])

    def sample(self, seconds: Floats) -> Floats:
        """(k, 11) at (k,) s since the start."""
        out = np.zeros((len(seconds), REFERENCE_WIDTH))
        out[:, 9] = self._yaw
        if len(self._lengths) == 0:
            out[:, :3] = self._points[0]
            return out
        sample_legs(
            self._points, self._directions, self._lengths, self._peaks, self._starts, self._acceleration,
            seconds, out,
        )  # fmt: skip
        return out
