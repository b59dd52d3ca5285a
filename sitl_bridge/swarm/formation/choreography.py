"""The plan of a formation: the path of its centre, and moves between patterns, checked in advance.

In a move every vehicle flies a straight path to its new slot, all synchronously, so that their distances have
a closed form.  Moves are announced before their start; all vehicles that know a move's number fly it on one
clock.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints, Mask
from sitl_bridge.base.errors import UserError
from sitl_bridge.swarm.formation.assignment import assign_wide, closest_approach
from sitl_bridge.swarm.formation.patterns import check_separation, closest_pair
from sitl_bridge.swarm.formation.trajectory import (
    ROW_PERIOD,
    Limits,
    Moment,
    Trajectory,
    UnsafeShowError,
    minimum_jerk,
    move_time,
    single_violations,
)

BLOCK = 300_000
"""Rows of all vehicles checked at once: a quarter of an hour of thirty vehicles, some 100 MB."""


@dataclass(frozen=True)
class Move:
    """A synchronous move between slots."""

    name: str  # of the target pattern
    # start, duration: us since the formation's start
    start: int
    duration: int
    # begin, end: (n, 3) m, formation frame; equal for vehicles that do not take part
    begin: Floats
    end: Floats

    @property
    def over(self) -> int:
        """End of the move, us."""
        return self.start + self.duration

    def at(self, time: int) -> Floats:
        """Return (3, n, 3): offsets at a time in us, and their first and second derivative."""
        return self._after.copy() if time >= self.over else self.rows(np.array([time]))

    @cached_property
    def _after(self) -> Floats:
        return self.rows(np.array([self.over]))

    def rows(self, time: Ints) -> Floats:
        """Return (3, k n, 3): offsets at times (k,) in us, time by time, and their two derivatives."""
        span = max(self.duration, 1) * 1e-6
        parts = minimum_jerk(np.asarray((time - self.start) * 1e-6 / span, dtype=np.float64))
        way, rate, bend = (part[:, None, None] for part in parts)
        change = self.end - self.begin
        motion = np.stack([self.begin + way * change, rate / span * change, bend / span**2 * change])
        return motion.reshape(3, -1, 3)


@dataclass
class Choreography:
    """The moves of a formation, in order.

    Args:
        start: (n, 3) m, positions relative to the centre before the first move.
        limits: limits of the moves; speed and acceleration are those of a move, without the centre's.
    """

    start: Floats
    limits: Limits = field(default_factory=Limits)
    moves: list[Move] = field(init=False)  # by epoch; the first is only the start positions

    def __post_init__(self) -> None:
        check_separation(self.start, self.limits.separation, "start")
        self.moves = [Move("start", 0, 0, self.start, self.start)]

    @property
    def count(self) -> int:
        """Vehicles."""
        return len(self.start)

    def add(
        self,
        name: str,
        slots: Floats,
        time: int,
        *,
        duration: int | None = None,
        members: Mask | None = None,
        leader: int | None = 0,
    ) -> Move:
        """Add a move to new slots, after the planned ones.

        The leader keeps its slot, the first of the pattern, if the others can pass it; otherwise all slots
        are assigned freely.

        Args:
            slots: (m, 3) m, formation frame, one per member.
            time: us since the formation's start of the move's begin; later if another move is not over.
            duration: us; None for the shortest within the limits.
            members: (n,) vehicles that take part; all by default.
            leader: vehicle for the first slot.

        Raises:
            UserError: if slots are too close, or the vehicles would come too close on the way.
        """
        members = np.ones(self.count, np.bool_) if members is None else members
        who = np.flatnonzero(members)
        if len(slots) != len(who):
            raise UserError(f"{name}: {len(slots)} slots for {len(who)} vehicles")
        check_separation(slots, self.limits.separation, name)
        begin = self.moves[-1].end
        end = begin.copy()
        end[who] = slots[self._choose(name, begin[who], slots, who, leader)]
        farthest = float(np.linalg.norm(end - begin, axis=1).max())
        shortest = math.ceil(1e6 * move_time(farthest, self.limits.speed, self.limits.acceleration))
        if duration is not None and duration < shortest:
            raise UserError(
                f"{name}: {duration * 1e-6:g} s are too short for a distance of {farthest:.1f} m at "
                f"{self.limits.speed:g} m/s and {self.limits.acceleration:g} m/s^2; "
                f"use at least {shortest * 1e-6:.1f} s"
            )
        move = Move(
            name, max(time, self.moves[-1].over), shortest if duration is None else duration, begin, end
        )
        self.moves.append(move)
        return move

    def up_to(self, time: int) -> Choreography:
        """Return a copy without the moves that start after ``time`` us."""
        kept = copy(self)
        kept.moves = [move for k, move in enumerate(self.moves) if k == 0 or move.start < time]
        return kept

    def _choose(self, name: str, begin: Floats, slots: Floats, who: Ints, leader: int | None) -> Ints:
        wanted = self.limits.separation
        tried = []
        rows = np.flatnonzero(who == leader) if leader is not None else np.zeros(0, np.int64)
        if len(rows):
            fixed = {int(rows[0]): 0}
            # Not just beyond the limit, but as far apart as a free assignment would keep them.
            clearance = max(wanted, min(closest_pair(begin)[0], closest_pair(slots)[0]) / math.sqrt(2.0))
            tried.append(assign_wide(begin, slots, fixed=fixed, clearance=clearance))
        for attempt in range(2):
            choice = tried[attempt] if attempt < len(tried) else assign_wide(begin, slots)
            distance, part, i, j = closest_approach(begin, slots[choice])
            if distance >= wanted:
                return choice
        raise UserError(
            f"{name}: on the way, vehicles {who[i]} and {who[j]} would come within {distance:.2f} m "
            f"after {part:.0%} of the way; the minimum is {wanted:g} m: increase the spacing"
        )

    def offsets(self, known: Ints, time: int) -> Floats:
        """Return (3, n, 3): offsets of the vehicles at ``time`` us since the start, and two derivatives.

        Args:
            known: (n,) newest move known to each vehicle.
            time: us.
        """
        epochs = np.minimum(known, self.epoch_at(time))
        if (epochs == epochs[0]).all():
            return self.moves[int(epochs[0])].at(time)
        result = np.zeros((3, self.count, 3))
        for epoch in np.unique(epochs).tolist():
            rows = epochs == epoch
            result[:, rows] = self.moves[epoch].at(time)[:, rows]
        return result

    def epoch_at(self, time: int) -> int:
        """Return the newest move that has started by ``time`` us."""
        return max(k for k, move in enumerate(self.moves) if k == 0 or move.start <= time)

    def plan_motion(self, path: Trajectory, heading: float | None, times: Floats) -> Moment:
        """Return the planned motion of all vehicles.

        Args:
            heading: rad of the formation's frame; None turns it with the path's yaw.
            times: (k,) s since the start.

        Returns:
            position, velocity, acceleration (k, n, 3), yaw and yaw rate (k, n).
        """
        centre = path.at(times)
        shape = (len(times), self.count)
        frame = centre.yaw if heading is None else np.full(len(times), heading)
        rate = centre.yaw_rate if heading is None else np.zeros(len(times))
        now = np.rint(times * 1e6).astype(np.int64)
        newest = np.searchsorted([move.start for move in self.moves[1:]], now, side="right")
        fields = np.zeros((3, *shape, 3))
        for epoch in np.unique(newest).tolist():
            rows = newest == epoch
            offsets = self.moves[epoch].rows(now[rows])
            turned = in_world(offsets, np.repeat(frame[rows], self.count), np.repeat(rate[rows], self.count))
            fields[:, rows] = turned.reshape(3, -1, self.count, 3)
        return Moment(
            centre.position[:, None] + fields[0],
            centre.velocity[:, None] + fields[1],
            centre.acceleration[:, None] + fields[2],
            np.broadcast_to(centre.yaw[:, None], shape),
            np.broadcast_to(centre.yaw_rate[:, None], shape),
        )

    def check(self, path: Trajectory, heading: float | None, limits: Limits, until: float) -> None:
        """Reject a plan that violates the limits of the whole show, up to ``until`` s.

        The separation follows from the moves alone, whatever the centre does; ``add`` has checked it.

        Raises:
            UnsafeShowError: with vehicle, time and value of each violation.
        """
        times = np.arange(0.0, until, ROW_PERIOD)
        block = max(1, BLOCK // self.count)
        for first in range(0, len(times), block):
            part = times[first : first + block]
            plan = self.plan_motion(path, heading, part)
            found = single_violations(part, plan.position, plan.velocity, plan.acceleration, limits)
            if found:
                raise UnsafeShowError(found)

    def trajectories(self, path: Trajectory, heading: float | None, until: float) -> list[Trajectory]:
        """Return the plan of every vehicle up to ``until`` s, in rows of 0.1 s, as in the CSV files."""
        times = np.arange(0.0, until + 0.5 * ROW_PERIOD, ROW_PERIOD)
        plan = self.plan_motion(path, heading, times)
        return [
            Trajectory(
                times, plan.position[:, i], plan.velocity[:, i], plan.acceleration[:, i], plan.yaw[:, i]
            )
            for i in range(self.count)
        ]


def in_world(offsets: Floats, heading: Floats, turn_rate: Floats) -> Floats:
    """Return offsets of a rotating frame in NED, and their derivatives in the inertial frame.

    With R the rotation by the heading and w the turn about down: d/dt(R f) = R f' + w x R f, and d2/dt2(R f)
    = R f'' + 2 w x R f' + w x (w x R f), for a steady turn.

    Args:
        offsets: (3, n, 3) f, f', f''.
        heading, turn_rate: (n,) rad, rad/s.

    Returns:
        (3, n, 3) likewise.
    """
    c, s = np.cos(heading), np.sin(heading)
    turned = np.array(offsets)
    x, y = turned[..., 0], turned[..., 1]
    turned[..., 0], turned[..., 1] = c * x - s * y, s * x + c * y
    place, rate, bend = turned
    if turn_rate.any():
        w = turn_rate
        bend[:, 0] -= w * (2.0 * rate[:, 1] + w * place[:, 0])
        bend[:, 1] += w * (2.0 * rate[:, 0] - w * place[:, 1])
        rate[:, 0] -= w * place[:, 1]
        rate[:, 1] += w * place[:, 0]
    return turned
