"""Broadcasts between vehicles, obstacles, and the graph of who avoids whom.

Broadcasts and obstacles become ENTITY records here; the kernels compute distances and costs from these.

The paper's broadcast holds position and velocity, and receivers extrapolate the velocity (eq. 13).  That
fails where vehicles evade at several m/s^2: over a horizon of 2 s each expects the others metres away from
where they go, evades a conflict that does not exist, and makes the others do the same.  So a broadcast also
holds the sender's plan, as is common in distributed predictive control (Luis, Vukosavljev and Schoellig 2020,
IEEE RA-L 5(2); Zhu and Alonso-Mora 2019, IEEE RA-L 4(2)).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sitl_bridge.base.arrays import AnyArray, Floats, Records
from sitl_bridge.swarm.avoidance.controller_settings import ControllerSettings, Distances
from sitl_bridge.swarm.avoidance.records import ENTITY, PLAN_POINTS, VEHICLE

Vector = tuple[float, float, float]


def to_vector(values: AnyArray) -> Vector:
    """A tuple of three numbers."""
    x, y, z = values.tolist()
    return x, y, z


@dataclass(frozen=True)
class Broadcast:
    """Message of a vehicle to all others."""

    name: str  # of the vehicle
    time: int  # us at which the rest was true
    position: Vector  # m NED
    velocity: Vector  # m/s NED
    position_deviation: Vector = (0.0, 0.0, 0.0)  # m, standard deviations NED
    velocity_deviation: Vector = (0.0, 0.0, 0.0)  # m/s, standard deviations NED
    # (k, 3) m NED, planned positions from ``time`` on; fewer than two points are no plan
    plan: Floats = field(default_factory=lambda: np.zeros((0, 3)), compare=False)
    step: float = 0.1  # s between its points


@dataclass(frozen=True)
class Obstacle:
    """A convex body that stands still."""

    kind: int  # SPHERE, CYLINDER (upright) or BOX (along the axes)
    centre: Vector  # m NED
    size: Vector  # m: radius; radius and half height; half edges
    name: str = field(default="", compare=False)  # in messages


def obstacle_entities(obstacles: Sequence[Obstacle], distances: Distances) -> Records:
    """(m,) ENTITY of obstacles."""
    out = np.zeros(len(obstacles), ENTITY)
    for record, obstacle in zip(out, obstacles, strict=True):
        record["kind"], record["position"], record["size"] = obstacle.kind, obstacle.centre, obstacle.size
        record["minimum"], record["threshold"] = distances.obstacle_minimum, distances.obstacle_threshold
    return out


_NO_PLAN = np.zeros((PLAN_POINTS, 3))


def _is_plan(word: Broadcast) -> bool:
    """Whether the plan of a broadcast is finite and fits into a record."""
    return bool(len(word.plan) <= PLAN_POINTS and word.step > 0.0 and np.isfinite(word.plan).all())


class Neighbourhood:
    """The latest word of every vehicle that one has to avoid, and the obstacles.

    Args:
        avoids: names of the vehicles to avoid: this vehicle's edges of the connectivity graph.
        obstacles: things that stand still.

    Attributes:
        garbled: words that held what is no number, and were not taken in.
        silent: names of vehicles that are no longer avoided: at the last call of ``entities`` their word was
            older than max_age.
    """

    def __init__(
        self, avoids: Iterable[str], obstacles: Sequence[Obstacle], settings: ControllerSettings
    ) -> None:
        self.avoids = frozenset(avoids)
        self.silent: tuple[str, ...] = ()
        self.garbled = 0
        self._settings = settings
        self._latest: dict[str, Broadcast] = {}
        self._heard: dict[str, tuple[int, int]] = {}  # time of the first word, number of words
        # What a vehicle can do is a bound, no deviation: times the spread, the bound itself comes out.
        self._unheard_acceleration = settings.agility() / max(settings.distances.spread, 1.0)
        self._records = np.zeros(len(self.avoids) + len(obstacles), ENTITY)
        self._obstacles = len(obstacles)
        if obstacles:
            self._records[: len(obstacles)] = obstacle_entities(obstacles, settings.distances)

    @property
    def capacity(self) -> int:
        """Most entities there can be."""
        return len(self._records)

    def receive(self, broadcasts: Iterable[Broadcast]) -> None:
        """Take in what arrived; of each vehicle the newest sound word counts, in whatever order it comes."""
        for word in broadcasts:
            numbers = (
                *word.position, *word.velocity, *word.position_deviation, *word.velocity_deviation
            )  # fmt: skip
            if not (all(map(math.isfinite, numbers)) and _is_plan(word)):
                self.garbled += 1
                continue
            known = self._latest.get(word.name)
            if word.name in self.avoids and (known is None or word.time > known.time):
                self._latest[word.name] = word
                first, count = self._heard.get(word.name, (word.time, 0))
                self._heard[word.name] = first, count + 1

    def _silence(self, name: str, age: float) -> float:
        """s until the next word: the mean interval so far, as where each word is lost or not by chance."""
        first, count = self._heard[name]
        return (self._latest[name].time - first) * 1e-6 / (count - 1) if count > 1 else age

    def entities(self, now: int) -> Records:
        """(m,) ENTITY at ``now`` (us): obstacles, then vehicles by name.

        The delay of eq. 13 is the age by the sender's time stamp; clocks are taken as synchronised.  A
        velocity below the threshold counts as none (section 4.4); plans are used as they are.
        """
        settings = self._settings
        i = self._obstacles
        silent = []
        for name in sorted(self._latest):
            word = self._latest[name]
            age = (now - word.time) * 1e-6
            if age > settings.max_age:
                silent.append(name)
                continue
            vx, vy, vz = word.velocity
            moving = vx * vx + vy * vy + vz * vz >= settings.speed_threshold**2
            px, py, pz = word.position_deviation
            sx, sy, sz = word.velocity_deviation
            # One assignment of a whole record: field by field takes ten times as long.
            self._records[i] = (
                VEHICLE,
                word.position,
                word.velocity if moving else (0.0, 0.0, 0.0),
                (0.0, 0.0, 0.0),
                max(age, 0.0),
                (px * px, py * py, pz * pz),
                (sx * sx, sy * sy, sz * sz),
                self._unheard_acceleration,
                self._silence(name, age),
                settings.distances.minimum,
                settings.distances.threshold,
                len(word.plan),
                word.step,
                _NO_PLAN,
            )
            self._records[i]["plan"][: len(word.plan)] = word.plan
            i += 1
        self.silent = tuple(silent)
        return self._records[:i]


def priority_graph(names: Sequence[str], priority: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Each vehicle avoids those of higher priority only (section 4.7); the others avoid one another as well.

    Args:
        priority: names in falling priority, each of ``names`` and once; who is not among them comes last, all
            alike.
    """
    rank = {name: priority.index(name) if name in priority else len(priority) for name in names}
    graph: dict[str, tuple[str, ...]] = {}
    for name in names:
        ranked = rank[name] < len(priority)
        graph[name] = tuple(
            other
            for other in names
            if other != name and (rank[other] < rank[name] or (not ranked and rank[other] == rank[name]))
        )
    return graph
