"""What leaders and followers do: classes to fly with, and to derive from.

As in XTDrone there is one class for the leader and one for the followers, and a scheme is a pair of them.
Here one follower object steers all followers of a fleet, row by row in arrays: each row knows of the world
only what its vehicle measures and what it heard.  For a law of your own derive from Follower.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.swarm.formation.records import REFERENCE
from sitl_bridge.swarm.formation.trajectory import Moment, Trajectory
from sitl_bridge.swarm.interface import Setpoints

Array: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.int64]

ACCELERATION_HORIZON = 0.3
"""s for which an acceleration that was heard is believed to last: about the time in which a multirotor tilts
anew.  After it, the velocity is taken to stay."""


@dataclass(frozen=True)
class Own:
    """What the leader knows of itself.

    Attributes:
        time: s since the formation's start.
        stamp: us of the vehicles' clock.
        position, velocity: (3,) NED.
        yaw: rad.
        offset, offset_rate: (3,) m, m/s NED, of its slot from the centre.
    """

    time: float
    stamp: int
    position: Array
    velocity: Array
    yaw: float
    offset: Array
    offset_rate: Array


class Leader:
    """Leads the formation's centre along a path; whoever leads knows the path.

    Args:
        path: of the centre, time 0 at the formation's start.
        heading: rad of the formation's frame; None turns it with the path's yaw.
    """

    steers = True
    """Whether the leader's own vehicle is told where to fly; False leaves it to whoever flies it."""

    def __init__(self, path: Trajectory, heading: float | None = None) -> None:
        self.path = path
        self.heading = heading
        self._moment = (-1.0, path.at(0.0))

    def guide(self, own: Own) -> NDArray[np.void]:
        """() REFERENCE: where the centre is to be now."""
        moment = self._at(own.time)
        turns = self.heading is None
        return reference(
            own.stamp, moment.position, moment.velocity, moment.acceleration,
            float(moment.yaw) if self.heading is None else self.heading,
            float(moment.yaw_rate) if turns else 0.0,
        )  # fmt: skip

    def yaw(self, own: Own) -> float:
        """Yaw of the leader's vehicle, rad."""
        return float(self._at(own.time).yaw)

    def _at(self, time: float) -> Moment:
        """The path at ``time`` s, worked out once a tick."""
        if self._moment[0] != time:
            self._moment = (time, self.path.at(time))
        return self._moment[1]

    def announce(self, own: Own, guided: NDArray[np.void]) -> NDArray[np.void]:
        """() REFERENCE: what the others are told.  Here: where the centre is to be."""
        del own
        return guided


class MeasuredLeader(Leader):
    """A leader whose followers follow the vehicle itself, whatever it does, not the plan of it."""

    def announce(self, own: Own, guided: NDArray[np.void]) -> NDArray[np.void]:
        """The centre as it follows from where the leader is."""
        told = guided.copy()
        told["position"] = own.position - own.offset
        told["velocity"] = own.velocity - own.offset_rate
        return told


class FlownLeader(MeasuredLeader):
    """A leader that somebody else flies: QGroundControl's mission, a script, a pilot."""

    steers = False

    def __init__(self, heading: float | None = None) -> None:
        super().__init__(_NOWHERE, heading)

    def guide(self, own: Own) -> NDArray[np.void]:
        """The centre as it follows from where the leader is."""
        heading = own.yaw if self.heading is None else self.heading
        zero = np.zeros(3)
        return reference(
            own.stamp, own.position - own.offset, own.velocity - own.offset_rate, zero, heading, 0.0
        )

    def yaw(self, own: Own) -> float:
        """As it is."""
        return own.yaw


_NOWHERE = Trajectory(np.zeros(1), np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 3)), np.zeros(1))


def reference(
    stamp: int, position: Array, velocity: Array, acceleration: Array, heading: float, turn_rate: float
) -> NDArray[np.void]:
    """() REFERENCE of its figures."""
    record = np.zeros((), REFERENCE)
    record["stamp"], record["heading"], record["turn_rate"] = stamp, heading, turn_rate
    record["position"], record["velocity"], record["acceleration"] = position, velocity, acceleration
    return record


@dataclass(frozen=True)
class NeighbourLinks:
    """What followers heard from their neighbours, one row a link.

    Attributes:
        row: (m,) which row of the view heard it, rising.
        neighbour: (m,) whom.
        position, velocity: (m, 3) NED, the neighbour's, carried forward to now at the velocity it told.
        offset, offset_rate: (m, 3) NED, of the neighbour's slot from the centre.
        age: (m,) s since it was sent.
    """

    row: Index
    neighbour: Index
    position: Array
    velocity: Array
    offset: Array
    offset_rate: Array
    age: Array


@dataclass(frozen=True)
class FormationView:
    """What the followers know now; k rows, one a follower.

    Attributes:
        time: s since the formation's start.
        vehicle: (k,) numbers.
        position, velocity: (k, 3) NED, measured.
        yaw: (k,) rad, measured.
        centre: (k,) REFERENCE, the newest that each heard, carried forward to now.
        age: (k,) s since the leader said so.
        offset, offset_rate, offset_acceleration: (k, 3) NED, of the own slot from the centre.
        listen: makes ``links``.
    """

    time: float
    vehicle: Index
    position: Array
    velocity: Array
    yaw: Array
    centre: NDArray[np.void]
    age: Array
    offset: Array
    offset_rate: Array
    offset_acceleration: Array
    listen: Callable[[], NeighbourLinks]

    @cached_property
    def links(self) -> NeighbourLinks:
        """What was heard from neighbours; worked out only for a law that asks for it."""
        return self.listen()

    @cached_property
    def slot(self) -> Setpoints:
        """Each follower's own slot, by the centre that it heard of: position, velocity, acceleration, yaw."""
        return Setpoints(
            self.centre["position"] + self.offset,
            self.centre["velocity"] + self.offset_rate,
            self.centre["acceleration"] + self.offset_acceleration,
            self.centre["heading"].copy(),
        )

    def mean_over_links(self, values: Array) -> Array:
        """(k, 3) means of (m, 3) over each follower's links; nan for one that hears nobody."""
        count = np.bincount(self.links.row, minlength=len(self.vehicle))
        total = np.stack(
            [np.bincount(self.links.row, values[:, a], minlength=len(self.vehicle)) for a in range(3)], axis=1
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(total / count[:, None])


class Follower:
    """Flies its slot: where the centre is by the newest word of it, plus the slot's own way."""

    def steer(self, view: FormationView) -> Setpoints:
        """Setpoints, one row for each of the view's."""
        return view.slot


class VelocityFollower(Follower):
    """XTDrone's follower: a velocity towards the slot, nothing fed forward.

    follower.py there: v = Kp (p_leader + f - p) with Kp 1; above sqrt(3) v_max its length becomes v_max,
    which makes it jump, so here it is simply limited to v_max, 1 m/s.

    Args:
        gain: 1/s.
        max_speed: m/s.
    """

    def __init__(self, gain: float = 1.0, max_speed: float = 1.0) -> None:
        self.gain, self.max_speed = gain, max_speed

    def steer(self, view: FormationView) -> Setpoints:
        """Velocities only."""
        slot = view.slot
        return self.towards(view, self.gain * (slot.position - view.position))

    def towards(self, view: FormationView, velocity: Array) -> Setpoints:
        """Setpoints of a velocity (k, 3), limited."""
        speed = np.linalg.norm(velocity, axis=1, keepdims=True)
        told = Setpoints.none(len(view.vehicle))
        told.velocity[:] = velocity * np.minimum(1.0, self.max_speed / np.maximum(speed, 1e-12))
        told.yaw[:] = view.centre["heading"]
        return told


class ConsensusFollower(Follower):
    """Consensus on a centre that moves: the neighbours' positions and velocities, and nobody's plan.

    Ren, "Multi-vehicle consensus with a time-varying reference state", Systems & Control Letters 56(7-8),
    2007: v_i = mean of v_j - gain ((p_i - f_i) - mean of (p_j - f_j)).  The gain is that of the vehicle's own
    position loop: the mean goes out as position, the mean velocity is fed forward.
    """

    def steer(self, view: FormationView) -> Setpoints:
        """Position and velocity; who hears nobody flies on as the last word of the centre has it."""
        links = view.links
        centre = view.mean_over_links(links.position - links.offset)
        drift = view.mean_over_links(links.velocity - links.offset_rate)
        alone = np.isnan(centre[:, :1])
        slot = view.slot
        return Setpoints(
            np.where(alone, slot.position, centre + view.offset),
            np.where(alone, slot.velocity, drift + view.offset_rate),
            np.where(alone, slot.acceleration, view.offset_acceleration),
            slot.yaw,
        )


def carried(centre: NDArray[np.void], time: int, coast: float, braking: float) -> NDArray[np.void]:
    """References carried forward to ``time`` us; silence beyond ``coast`` s brings the centre to rest.

    The acceleration is believed for ACCELERATION_HORIZON; then the velocity stays, until ``coast`` s have
    passed; then it falls by ``braking`` m/s^2 to nothing, and the formation stands.

    Args:
        centre: (k,) REFERENCE.
        time: us.
        coast, braking: s, m/s^2.

    Returns:
        (k,) REFERENCE with the same stamps.
    """
    result = centre.copy()
    age = np.maximum((time - centre["stamp"]) * 1e-6, 0.0)[:, None]
    short = np.minimum(age, ACCELERATION_HORIZON)
    velocity = centre["velocity"] + short * centre["acceleration"]
    position = centre["position"] + short * (centre["velocity"] + 0.5 * short * centre["acceleration"])
    position += velocity * np.maximum(np.minimum(age, coast) - short, 0.0)
    speed = np.linalg.norm(velocity, axis=1, keepdims=True)
    slowing = np.clip(age - coast, 0.0, speed / braking)
    direction = velocity / np.maximum(speed, 1e-9)
    result["position"] = position + slowing * (velocity - 0.5 * braking * slowing * direction)
    result["velocity"] = velocity - braking * slowing * direction
    on_way = (slowing > 0.0) & (slowing < speed / braking)
    result["acceleration"] = np.where(
        age <= ACCELERATION_HORIZON, centre["acceleration"], np.where(on_way, -braking * direction, 0.0)
    )
    result["heading"] = centre["heading"] + centre["turn_rate"] * np.minimum(age, coast)[:, 0]
    result["turn_rate"] = np.where(age[:, 0] <= coast, centre["turn_rate"], 0.0)
    return result


SCHEMES: dict[str, tuple[type[Leader], type[Follower]]] = {
    "centralised": (Leader, Follower),
    "leader_follower": (MeasuredLeader, Follower),
    "consensus": (MeasuredLeader, ConsensusFollower),
}
"""``centralised``: all fly their part of one plan, and the word of it is passed on; ``leader_follower``: the
leader tells where it is, and that is passed on; ``consensus``: each knows only where its neighbours are."""
