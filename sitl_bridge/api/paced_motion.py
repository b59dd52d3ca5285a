"""A motion along a trajectory whose pace changes: slower, faster, or down to a stand on the same path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitl_bridge.swarm.formation.trajectory import Moment, Trajectory

LOOK_AHEAD = 1.5
"""s along a trajectory whose greatest speed sets how long a change of pace takes."""
SHORTEST = 0.2
"""s that a change of pace takes at least."""


@dataclass(frozen=True)
class PacedMotion:
    """A trajectory that is flown at a share of its speed, which changes linearly to a new share."""

    trajectory: Trajectory  # of the full speed
    begun: float  # s, time at which the change begins
    along: float = 0.0  # s along the trajectory at that time
    rate: float = 1.0  # share of the full speed at that time
    target: float = 1.0  # share after the change
    change_time: float = SHORTEST  # s that the change takes

    def clock(self, time: float) -> tuple[float, float, float]:
        """Return s along the trajectory at a time in s, the pace, and the pace's change in 1/s."""
        gone = max(time - self.begun, 0.0)
        slope = (self.target - self.rate) / self.change_time
        if gone < self.change_time:
            return self.along + self.rate * gone + 0.5 * slope * gone**2, self.rate + slope * gone, slope
        changed = self.along + 0.5 * (self.rate + self.target) * self.change_time
        return changed + self.target * (gone - self.change_time), self.target, 0.0

    def at(self, time: float) -> Moment:
        """Return where the vehicle is to be at a time in s."""
        along, rate, change = self.clock(time)
        moment = self.trajectory.at(np.float64(along))
        velocity = moment.velocity * rate
        acceleration = moment.acceleration * rate**2 + moment.velocity * change
        return Moment(moment.position, velocity, acceleration, moment.yaw, moment.yaw_rate * rate)

    def paced(self, time: float, target: float, acceleration: float) -> PacedMotion:
        """Return the same motion with a pace that changes from a time in s on.

        Args:
            time: s.
            target: share of the full speed.
            acceleration: m/s^2 along the path.
        """
        along, rate, _ = self.clock(time)
        ahead = self.trajectory.at(np.linspace(along, along + LOOK_AHEAD, 8)).velocity
        speed = float(np.linalg.norm(ahead, axis=1).max())
        change_time = max(abs(target - rate) * speed / acceleration, SHORTEST)
        return PacedMotion(self.trajectory, time, along, rate, target, change_time)

    def stands(self, time: float) -> bool:
        """Whether it has come to a stand by a time in s, before the end."""
        return self.target == 0.0 and time >= self.begun + self.change_time

    def ended(self, time: float) -> bool:
        """Whether the end of the trajectory is reached by a time in s."""
        return self.clock(time)[0] >= self.trajectory.duration
