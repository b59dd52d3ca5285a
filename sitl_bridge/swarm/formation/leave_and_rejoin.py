"""Paths of single vehicles out of the formation and back into it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal, TypeAlias

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.swarm.formation.assignment import nearest_part
from sitl_bridge.swarm.formation.trajectory import minimum_jerk, move_time

Action: TypeAlias = Literal["hold", "land", "return"]

SINK_SPEED = 0.7
"""Descent speed, m/s; PX4's MPC_LAND_SPEED."""


@dataclass(frozen=True)
class Legs:
    """Successive straight paths, each minimum-jerk and at rest at both ends."""

    start: int  # us
    points: Floats  # (k, 3) m
    durations: tuple[int, ...]  # (k - 1,) us

    @classmethod
    def within(cls, start: int, points: Floats, speeds: tuple[float, ...], acceleration: float) -> Legs:
        """Return the fastest legs within limits in m/s of each leg and in m/s^2."""
        lengths = np.linalg.norm(np.diff(points, axis=0), axis=1).tolist()
        times = (move_time(d, v, acceleration) for d, v in zip(lengths, speeds, strict=True))
        return cls(start, points, tuple(round(1e6 * t) for t in times))

    @property
    def over(self) -> int:
        """End, us."""
        return self.start + sum(self.durations)

    def at(self, time: int) -> tuple[Floats, Floats, Floats]:
        """Return position, velocity and acceleration (3,) at ``time`` us."""
        begin = self.start
        for k, duration in enumerate(self.durations):
            if time < begin + duration or k == len(self.durations) - 1:
                span = max(duration, 1) * 1e-6
                way, rate, bend = minimum_jerk((time - begin) * 1e-6 / span)
                change = self.points[k + 1] - self.points[k]
                return self.points[k] + way * change, rate / span * change, bend / span**2 * change
            begin += duration
        return self.points[-1], np.zeros(3), np.zeros(3)


def leave(
    action: Action,
    time: int,
    position: Floats,
    velocity: Floats,
    home: Floats,
    *,
    speed: float,
    braking: float,
) -> Legs:
    """Return the path of a leaving vehicle at ``position`` (3,) m with ``velocity`` (3,) m/s: stop, then act.

    ``hold`` stays there; ``land`` descends vertically to the height of ``home``; ``return`` flies above home
    at the present height and descends there.  Other vehicles are not considered (``require_free_descent``).
    """
    stop = position + velocity * float(np.linalg.norm(velocity)) / (2.0 * braking)
    points, speeds = [position, stop], [max(speed, float(np.linalg.norm(velocity)))]
    if action == "return":
        points.append(np.array([home[0], home[1], stop[2]]))
        speeds.append(speed)
    if action != "hold":
        points.append(np.array([points[-1][0], points[-1][1], home[2]]))
        speeds.append(SINK_SPEED)
    return Legs.within(time, np.stack(points), tuple(speeds), braking)


def path_back(place: Floats, slot: Floats, others: Floats, separation: float) -> Floats | None:
    """Return points (k, 3) from ``place`` to ``slot`` that keep ``separation`` m from all other slots.

    Straight if that is free, else over the nearest of a few points around the slot; None if all are blocked.
    All in the formation's frame, in m.
    """
    reach = float(np.linalg.norm(others - slot, axis=1).max()) + 2.0 * separation if len(others) else 0.0
    directions = np.array([d for d in product((-1.0, 0.0, 1.0), repeat=3) if any(d)])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    around = [slot + part * reach * d for part in (0.5, 1.0, 1.5) for d in directions]
    ways = [np.stack([place, slot]), *(np.stack([place, point, slot]) for point in around)]
    for way in sorted(ways, key=lambda w: float(np.linalg.norm(np.diff(w, axis=0), axis=1).sum())):
        if all(_free(a, b, others, separation) for a, b in pairwise(way)):
            return way
    return None


def _free(begin: Floats, end: Floats, others: Floats, separation: float) -> bool:
    """Return whether a straight path keeps its distance, or from too close a start does not come closer."""
    apart = begin - others
    _, square = nearest_part(apart, np.broadcast_to(end - begin, apart.shape))
    return bool((square >= np.minimum(separation**2, (apart**2).sum(axis=1)) - 1e-9).all())
