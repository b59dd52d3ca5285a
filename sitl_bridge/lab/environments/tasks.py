"""Tasks: goals, what a policy sees of them, reward and end of an episode.  Plain arrays over n vehicles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sitl_bridge.base.arrays import Floats, Mask
from sitl_bridge.base.errors import UserError


@dataclass(frozen=True)
class VehicleMotion:
    """The vehicles at the end of a step; true, not estimated.

    Attributes:
        truth: (n, 13), of which the properties are parts.
        time: (n,) s since the start of the episode.
        actions: (n, k) that led here, within their limits.
        on_ground: (n,) whether a vehicle touches the ground.
        collided: (n,) whether a vehicle hit something.
    """

    truth: Floats
    time: Floats
    actions: Floats
    on_ground: Mask
    collided: Mask

    @property
    def position(self) -> Floats:
        """(n, 3) m NED."""
        return self.truth[:, 0:3]

    @property
    def velocity(self) -> Floats:
        """(n, 3) m/s NED."""
        return self.truth[:, 3:6]

    @property
    def attitude(self) -> Floats:
        """(n, 4) quaternion w, x, y, z, body FRD to NED, w of 0 or more."""
        return self.truth[:, 6:10]

    @property
    def angular_velocity(self) -> Floats:
        """(n, 3) rad/s FRD."""
        return self.truth[:, 10:13]


class Task:
    """Base class of tasks.  An own task defines ``reward``, and what else differs from this one.

    This one ends an episode, as failed, where a vehicle touches the ground or anything else, or leaves a
    sphere about its goal.

    Attributes:
        duration: s until an episode is truncated.
        height: m above ground of the start, in a hover; 0 begins on the ground.
        reach: m from the goal beyond which an episode ends.
        goals: (n, 3) m NED of the present goals.
    """

    _owner: object = None  # set by the environment that has it
    draws: ClassVar[int] = 0
    """Random numbers of an episode that ``begin`` takes."""
    figures: ClassVar[tuple[str, ...]] = ("goal north, m", "goal east, m", "goal down, m")
    """Describe the result of ``observe``, with units."""

    def __init__(self, *, duration: float = 10.0, height: float = 5.0, reach: float = 10.0) -> None:
        for name, value in (("duration", duration), ("reach", reach)):
            if not value > 0.0:
                raise UserError(f"{type(self).__name__}: {name}: {value:g} is not above 0")
        if not height >= 0.0:
            raise UserError(f"{type(self).__name__}: height: {height:g} m is below the ground")
        self.duration, self.height, self.reach = duration, height, reach
        self.goals = np.zeros((0, 3))
        self.homes = np.zeros((0, 3))

    def prepare(self, homes: Floats) -> None:
        """Set up for n vehicles, before the first reset.

        Args:
            homes: (n, 3) m NED of their starts, without randomisation.
        """
        self.homes = np.array(homes, dtype=np.float64)
        self.goals = self.homes.copy()

    def begin(self, chosen: Mask, draws: Floats, motion: VehicleMotion) -> None:
        """Set the goals of new episodes.

        Args:
            chosen: (n,) vehicles that begin one.
            draws: (n, k) uniform random numbers, 0 to 1.
            motion: at the start.
        """

    def observe(self, motion: VehicleMotion) -> Floats:
        """(n, k) what a policy sees of the task: the goal from the vehicle, in m NED."""
        seen: Floats = self.goals - motion.position
        return seen

    def reward(self, motion: VehicleMotion) -> Floats:
        """(n,) reward of the last step."""
        raise NotImplementedError

    def terminated(self, motion: VehicleMotion) -> Mask:
        """(n,) whether an episode has ended."""
        return self._has_failed(self.distance(motion), motion)

    def _has_failed(self, distance: Floats, motion: VehicleMotion) -> Mask:
        """(n,) whether an episode has ended by a crash or too far away, ``distance`` (n,) m from the goal."""
        far: Mask = distance > self.reach
        return far | motion.collided | motion.on_ground

    def distance(self, motion: VehicleMotion) -> Floats:
        """(n,) m to the goal."""
        distance: Floats = np.linalg.norm(self.goals - motion.position, axis=1)
        return distance


def prepare(task: Task, homes: Floats) -> object:
    """Prepare a task for an environment; returns the mark by which ``judge`` knows it as its own."""
    task.prepare(homes)
    task._owner = object()
    return task._owner


def require_ownership(task: Task, owner: object) -> None:
    """Refuse to go on with a task that another environment prepared since ``prepare`` returned its mark.

    Raises:
        UserError: then.
    """
    if task._owner is not owner:
        raise UserError(
            f"{type(task).__name__}: another environment has taken this task since; give each its own"
        )


def judge(task: Task, owner: object, motion: VehicleMotion, counted: Mask) -> tuple[Floats, Mask]:
    """Rewards (n,) and ends (n,) by a task, in arrays of their own.

    Args:
        task: of the environment.
        owner: from ``prepare``.
        motion: at the end of a step.
        counted: (n,) vehicles whose rewards are used.

    Raises:
        UserError: for other shapes or types, for a reward that is not finite, and for a task that another
            environment has taken since.
    """
    name, needed = type(task).__name__, counted.shape
    require_ownership(task, owner)
    ends, reward = np.array(task.terminated(motion)), np.array(task.reward(motion))
    for what, given, kinds, content in (
        ("terminated", ends, "b", "True or False"),
        ("reward", reward, "iuf", "a number"),
    ):
        if given.shape != needed or given.dtype.kind not in kinds:
            raise UserError(
                f"{name}: {what} gives an array {given.shape} of {given.dtype}; it needs {needed}, {content}"
                " for each vehicle"
            )
    _validate_finite(f"{name}: reward", reward, motion, counted)
    return reward.astype(np.float64, copy=False), ends


def observe(task: Task, motion: VehicleMotion, counted: Mask) -> Floats:
    """Observation of a task by a policy (n, k), with the arguments of ``judge``.

    Raises:
        UserError: for another shape, and for what is not finite.
    """
    name, needed = type(task).__name__, (len(counted), len(task.figures))
    own = np.ascontiguousarray(task.observe(motion), dtype=np.float64)
    if own.shape != needed:
        raise UserError(f"{name}: observe gives an array {own.shape}, its figures need {needed}")
    _validate_finite(f"{name}: observe", own, motion, counted)
    return own


def _validate_finite(what: str, given: Floats, motion: VehicleMotion, counted: Mask) -> None:
    good = np.isfinite(given.reshape(len(counted), -1)).all(axis=1) | ~counted
    if not good.all():
        i = int(np.argmin(good))
        raise UserError(
            f"{what} gives {given[i]} for vehicle {i}, {motion.time[i]:.3f} s into its episode; all that it"
            " gives must be finite"
        )


class HoldPosition(Task):
    """Hold the place of the start: ``exp(-distance) - 0.01 |angular velocity|``, -10 for a crash."""

    def reward(self, motion: VehicleMotion) -> Floats:
        """(n,)."""
        rates = motion.angular_velocity
        turning = np.sqrt(np.einsum("ij,ij->i", rates, rates))
        reward: Floats = np.exp(-self.distance(motion)) - 0.01 * turning
        reward[self.terminated(motion)] -= 10.0
        return reward


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
        self._last = np.zeros(0)

    def prepare(self, homes: Floats) -> None:
        """Set up for n vehicles."""
        super().prepare(homes)
        self._last = np.zeros(len(homes))

    def begin(self, chosen: Mask, draws: Floats, motion: VehicleMotion) -> None:
        """Draw new goals."""
        drawn = self.homes + self.low + (self.high - self.low) * draws
        self.goals[chosen] = drawn[chosen]
        self._last[chosen] = self.distance(motion)[chosen]

    def reward(self, motion: VehicleMotion) -> Floats:
        """(n,)."""
        distance = self.distance(motion)
        reward: Floats = self._last - distance
        arrived = distance < self.radius
        reward[arrived] += 10.0
        reward[self._has_failed(distance, motion) & ~arrived] -= 10.0
        self._last = distance
        return reward

    def terminated(self, motion: VehicleMotion) -> Mask:
        """(n,) also on arrival."""
        distance = self.distance(motion)
        done: Mask = self._has_failed(distance, motion) | (distance < self.radius)
        return done


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
        self._velocities = np.zeros((0, 3))

    def prepare(self, homes: Floats) -> None:
        """Set up for n vehicles."""
        super().prepare(homes)
        self._velocities = np.zeros((len(homes), 3))

    def _move(self, motion: VehicleMotion) -> None:
        """Put the goals in their places of now: the lemniscate (sin s, sin s cos s)."""
        rate = 2.0 * math.pi / self.lap
        s, c = np.sin(rate * motion.time), np.cos(rate * motion.time)
        self.goals[:, 0] = self.homes[:, 0] + self.size * s
        self.goals[:, 1] = self.homes[:, 1] + self.size * s * c
        self._velocities[:, 0] = self.size * rate * c
        self._velocities[:, 1] = self.size * rate * (c * c - s * s)

    def begin(self, chosen: Mask, draws: Floats, motion: VehicleMotion) -> None:
        """Put the goals at the start of the figure."""
        del chosen, draws
        self._move(motion)

    def distance(self, motion: VehicleMotion) -> Floats:
        """(n,) m to the goals of now."""
        self._move(motion)
        return super().distance(motion)

    def observe(self, motion: VehicleMotion) -> Floats:
        """(n, 6)."""
        return np.concatenate([self.goals - motion.position, self._velocities], axis=1)

    def reward(self, motion: VehicleMotion) -> Floats:
        """(n,)."""
        reward: Floats = np.exp(-self.distance(motion))
        reward[self.terminated(motion)] -= 10.0
        return reward
