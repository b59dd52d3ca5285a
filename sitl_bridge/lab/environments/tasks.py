"""Tasks: goals, what a policy sees of them, reward and end of an episode."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError


@dataclass(frozen=True)
class VehicleMotion:
    """The vehicle at the end of a step; true, not estimated."""

    position: Floats  # (3,) m NED
    velocity: Floats  # (3,) m/s NED
    attitude: Floats  # (4,) quaternion w, x, y, z, body FRD to NED, w of 0 or more
    angular_velocity: Floats  # (3,) rad/s FRD
    time: float  # s since the start of the episode
    action: Floats  # (k,) that led here, within its limits
    on_ground: bool  # whether it touches the ground
    collided: bool  # whether it hit something


class Task:
    """Base class of tasks.  An own task defines ``reward``, and what else differs from this one.

    This one ends an episode, as failed, where the vehicle touches the ground or anything else, or leaves a
    sphere about its goal.

    Attributes:
        duration: s until an episode is truncated.
        height: m above ground of the start, in a hover.
        reach: m from the goal beyond which an episode ends.
        home: (3,) m NED of the start.
        goal: (3,) m NED of the present goal.
    """

    draws: ClassVar[int] = 0
    """Random numbers of an episode that ``begin`` takes."""
    figures: ClassVar[tuple[str, ...]] = ("goal north, m", "goal east, m", "goal down, m")
    """Describe the result of ``observe``, with units."""

    def __init__(self, *, duration: float = 10.0, height: float = 5.0, reach: float = 10.0) -> None:
        for name, value in (("duration", duration), ("height", height), ("reach", reach)):
            if not value > 0.0:
                raise UserError(f"{type(self).__name__}: {name}: {value:g} is not above 0")
        self.duration, self.height, self.reach = duration, height, reach
        self.goal = np.zeros(3)
        self.home = np.zeros(3)

    def prepare(self, home: Floats) -> None:
        """Set up for a flight, before its first episode.

        Args:
            home: (3,) m NED of the start.
        """
        self.home, self.goal = home.copy(), home.copy()

    def begin(self, draws: Floats, motion: VehicleMotion) -> None:
        """Set the goal of a new episode.

        Args:
            draws: (k,) uniform random numbers, 0 to 1.
            motion: at the start.
        """

    def observe(self, motion: VehicleMotion) -> ArrayLike:
        """(k,) what a policy sees of the task: the goal from the vehicle, in m NED."""
        return self.goal - motion.position

    def reward(self, motion: VehicleMotion) -> float:
        """Reward of the last step."""
        raise NotImplementedError

    def terminated(self, motion: VehicleMotion) -> bool:
        """Whether the episode has ended."""
        return self._has_failed(self.distance(motion), motion)

    def _has_failed(self, distance: float, motion: VehicleMotion) -> bool:
        """Whether the episode has ended by a crash or too far away, ``distance`` m from the goal."""
        return distance > self.reach or motion.collided or motion.on_ground

    def distance(self, motion: VehicleMotion) -> float:
        """m to the goal."""
        return float(np.linalg.norm(self.goal - motion.position))


def validate_figures(what: str, given: ArrayLike, shape: tuple[int, ...], motion: VehicleMotion) -> Floats:
    """What a task gave, as an array of a shape.

    Raises:
        UserError: for another shape, and for what is not finite.
    """
    found = np.asarray(given, np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        needed = f"{shape[0]} finite numbers, one for each of its figures" if shape else "a finite number"
        raise UserError(f"{what} gives {found}, {motion.time:.3f} s into an episode; it must give {needed}")
    return found


class HoldPosition(Task):
    """Hold the place of the start: ``exp(-distance) - 0.01 |angular velocity|``, -10 for a crash."""

    def reward(self, motion: VehicleMotion) -> float:
        """Reward of the last step."""
        turning = float(np.linalg.norm(motion.angular_velocity))
        return math.exp(-self.distance(motion)) - 0.01 * turning - 10.0 * self.terminated(motion)


class ReachWaypoint(Task):
    """Reach a place that is drawn from a box: metres gained in a step, 10 on arrival, -10 for a crash.

    Args:
        box: m NED, lowest and highest corner of the goals from the start.
        radius: m from the goal that count as reached; the episode then ends.
        limits: of ``Task``.
    """

    draws = 3

    def __init__(
        self,
        *,
        box: tuple[tuple[float, float, float], tuple[float, float, float]] = ((-5, -5, -2), (5, 5, 2)),
        radius: float = 0.3,
        **limits: float,
    ) -> None:
        super().__init__(**({"reach": 20.0} | limits))
        self.low, self.high = (np.array(corner, dtype=np.float64) for corner in box)
        if (self.low > self.high).any():
            raise UserError("ReachWaypoint: box: its lowest corner is above the highest")
        self.radius = radius
        self._last = 0.0

    def begin(self, draws: Floats, motion: VehicleMotion) -> None:
        """Draw a new goal."""
        self.goal = self.home + self.low + (self.high - self.low) * draws
        self._last = self.distance(motion)

    def reward(self, motion: VehicleMotion) -> float:
        """Reward of the last step."""
        distance = self.distance(motion)
        gained, self._last = self._last - distance, distance
        if distance < self.radius:
            return gained + 10.0
        return gained - 10.0 * self._has_failed(distance, motion)

    def terminated(self, motion: VehicleMotion) -> bool:
        """Whether the episode has ended, also on arrival."""
        return super().terminated(motion) or self.distance(motion) < self.radius


class TrackFigure(Task):
    """Follow a point on a level figure of eight: ``exp(-distance)``, -10 for a crash.

    The goal's velocity is seen beside its place.

    Args:
        size: m, half length of the figure, along north.
        lap: s.
        limits: of ``Task``.
    """

    figures = (
        *Task.figures,
        "goal velocity north, m/s",
        "goal velocity east, m/s",
        "goal velocity down, m/s",
    )

    def __init__(self, *, size: float = 3.0, lap: float = 10.0, **limits: float) -> None:
        super().__init__(**limits)
        if not (size > 0.0 and lap > 0.0):
            raise UserError("TrackFigure: size and lap must be above 0")
        self.size, self.lap = size, lap

    def _move(self, motion: VehicleMotion) -> Floats:
        """Put the goal in its place of now, the lemniscate (sin s, sin s cos s); (3,) m/s of its velocity."""
        rate = 2.0 * math.pi / self.lap
        s, c = math.sin(rate * motion.time), math.cos(rate * motion.time)
        self.goal = self.home + self.size * np.array([s, s * c, 0.0])
        return self.size * rate * np.array([c, c * c - s * s, 0.0])

    def begin(self, draws: Floats, motion: VehicleMotion) -> None:
        """Put the goal at the start of the figure."""
        del draws
        self._move(motion)

    def distance(self, motion: VehicleMotion) -> float:
        """m to the goal of now."""
        self._move(motion)
        return super().distance(motion)

    def observe(self, motion: VehicleMotion) -> ArrayLike:
        """(6,) the goal from the vehicle, and its velocity."""
        velocity = self._move(motion)
        return np.concatenate([self.goal - motion.position, velocity])

    def reward(self, motion: VehicleMotion) -> float:
        """Reward of the last step."""
        return math.exp(-self.distance(motion)) - 10.0 * self.terminated(motion)
