"""Control laws of leaders and followers, as classes to use or to derive from.

As in XTDrone there is one class for the leader and one for the followers; a scheme is a pair of them.  Here
one follower object controls all followers of a fleet, row by row in arrays: each row uses only the
measurements and received messages of its vehicle.  For a user's own law, derive from Follower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.swarm.formation.trajectory import Moment, Trajectory
from sitl_bridge.swarm.interface import Setpoints


class Reference(Record):
    """Motion of the formation's centre."""

    stamp: int  # us, time of validity
    position: Annotated[Floats, 3]  # m NED, of the formation's centre
    velocity: Annotated[Floats, 3]  # m/s
    acceleration: Annotated[Floats, 3]  # m/s^2
    heading: float  # rad, of the formation's frame
    turn_rate: float  # rad/s


REFERENCE = Reference.dtype


class Beacon(Record):
    """The message of a vehicle of a formation.

    It refers to moves by number, because all vehicles have the plan.
    """

    stamp: int  # us, time of sending; 0: nothing received yet
    position: Annotated[Floats, 3]  # m NED, the sender's own
    velocity: Annotated[Floats, 3]  # m/s
    claim: int  # of the sender's leader; the highest one leads
    leader: int  # vehicle number of that leader
    epoch: int  # newest move known to the sender
    start: int  # us, start of the formation; 0: not known yet
    reference: Reference  # newest reference known to the sender, passed on


BEACON = Beacon.dtype


ACCELERATION_HORIZON = 0.3
"""Time for which a received acceleration is extrapolated, s: about the time in which a multirotor changes its
tilt.  After it, the velocity is constant."""


@dataclass(frozen=True)
class Own:
    """State of the leader's own vehicle."""

    time: float  # s since the formation's start
    stamp: int  # us of the vehicles' clock
    # position, velocity: (3,) NED
    position: Floats
    velocity: Floats
    yaw: float  # rad
    # offset, offset_rate: (3,) m, m/s NED, of its slot from the centre
    offset: Floats
    offset_rate: Floats


class Leader:
    """Guides the formation's centre along a path known to every leading vehicle.

    Args:
        path: of the centre, time 0 at the formation's start.
        heading: rad of the formation's frame; None turns it with the path's yaw.
    """

    def __init__(self, path: Trajectory, heading: float | None = None) -> None:
        self.path = path
        self.heading = heading
        self._moment = (-1.0, path.at(0.0))

    def guide(self, own: Own) -> Records:
        """Return () REFERENCE: the present reference of the centre."""
        moment = self._at(own.time)
        turns = self.heading is None
        return reference(
            own.stamp, moment.position, moment.velocity, moment.acceleration,
            float(moment.yaw) if self.heading is None else self.heading,
            float(moment.yaw_rate) if turns else 0.0,
        )  # fmt: skip

    def yaw(self, own: Own) -> float:
        """Return the yaw of the leader's vehicle, rad."""
        return float(self._at(own.time).yaw)

    def _at(self, time: float) -> Moment:
        """Return the path at ``time`` s, computed once per tick."""
        if self._moment[0] != time:
            self._moment = (time, self.path.at(time))
        return self._moment[1]

    def announce(self, own: Own, guided: Records) -> Records:
        """Return () REFERENCE for the other vehicles; by default the reference of the centre."""
        del own
        return guided


class MeasuredLeader(Leader):
    """A leader that sends the measured motion of its vehicle instead of the plan."""

    def announce(self, own: Own, guided: Records) -> Records:
        """Return the centre computed from the leader's position."""
        measured = guided.copy()
        measured["position"] = own.position - own.offset
        measured["velocity"] = own.velocity - own.offset_rate
        return measured


def reference(
    stamp: int, position: Floats, velocity: Floats, acceleration: Floats, heading: float, turn_rate: float
) -> Records:
    """Return () REFERENCE with the given values."""
    record = np.zeros((), REFERENCE)
    record["stamp"], record["heading"], record["turn_rate"] = stamp, heading, turn_rate
    record["position"], record["velocity"], record["acceleration"] = position, velocity, acceleration
    return record


@dataclass(frozen=True)
class NeighbourLinks:
    """Messages received by followers from their neighbours, one row per link."""

    row: Ints  # (m,) row of the receiver in the view, increasing
    neighbour: Ints  # (m,) sender
    # position, velocity: (m, 3) NED, of the neighbour, extrapolated to now with its velocity
    position: Floats
    velocity: Floats
    # offset, offset_rate: (m, 3) NED, of the neighbour's slot from the centre
    offset: Floats
    offset_rate: Floats
    age: Floats  # (m,) s since it was sent


@dataclass(frozen=True)
class FormationView:
    """Knowledge of the followers; k rows, one per follower."""

    time: float  # s since the formation's start
    vehicle: Ints  # (k,) numbers
    # position, velocity: (k, 3) NED, measured
    position: Floats
    velocity: Floats
    yaw: Floats  # (k,) rad, measured
    centre: Records  # (k,) REFERENCE, the newest received by each, extrapolated to now
    age: Floats  # (k,) s since the leader sent it
    # offset, offset_rate, offset_acceleration: (k, 3) NED, of the own slot from the centre
    offset: Floats
    offset_rate: Floats
    offset_acceleration: Floats
    listen: Callable[[], NeighbourLinks]  # returns ``links``

    @cached_property
    def links(self) -> NeighbourLinks:
        """Messages from neighbours; computed only for a law that uses them."""
        return self.listen()

    @cached_property
    def slot(self) -> Setpoints:
        """Return each follower's slot from its received centre: position, velocity, acceleration, yaw."""
        return Setpoints(
            self.centre["position"] + self.offset,
            self.centre["velocity"] + self.offset_rate,
            self.centre["acceleration"] + self.offset_acceleration,
            self.centre["heading"].copy(),
        )

    def mean_over_links(self, values: Floats) -> Floats:
        """Return (k, 3) means of (m, 3) over each follower's links; nan for a follower without links."""
        count = np.bincount(self.links.row, minlength=len(self.vehicle))
        total = np.stack(
            [np.bincount(self.links.row, values[:, a], minlength=len(self.vehicle)) for a in range(3)], axis=1
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(total / count[:, None])


class Follower:
    """Flies its slot: the newest received centre plus the slot's offset."""

    def steer(self, view: FormationView) -> Setpoints:
        """Return setpoints, one row per row of the view."""
        return view.slot


class ConsensusFollower(Follower):
    """Consensus on a moving centre from the neighbours' positions and velocities, without a plan.

    Ren, "Multi-vehicle consensus with a time-varying reference state", Systems & Control Letters 56(7-8),
    2007: v_i = mean of v_j - gain ((p_i - f_i) - mean of (p_j - f_j)).  The gain is that of the vehicle's own
    position loop: the mean is sent as position, the mean velocity is fed forward.
    """

    def steer(self, view: FormationView) -> Setpoints:
        """Return position and velocity; a follower without links follows the last received centre."""
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


class VelocityFollower(Follower):
    """Commands a velocity in proportion to the distance from the slot: v = Kp (p_leader + f - p).

    Xiao et al., "XTDrone: A Customizable Multi-Rotor UAVs Simulation Platform", 2020, section V; the defaults
    are those of its coordination/formation_demo.

    Args:
        gain: Kp, 1/s.
        max_speed: of the command, m/s.
    """

    def __init__(self, gain: float = 1.0, max_speed: float = 1.0) -> None:
        self.gain, self.max_speed = gain, max_speed

    def steer(self, view: FormationView) -> Setpoints:
        """Return velocity setpoints and the leader's heading."""
        velocity = self.gain * (view.slot.position - view.position)
        speed = np.linalg.norm(velocity, axis=1, keepdims=True)
        wanted = Setpoints.none(len(view.vehicle))
        wanted.velocity[:] = velocity * np.minimum(1.0, self.max_speed / np.maximum(speed, 1e-12))
        wanted.yaw[:] = view.centre["heading"]
        return wanted


def extrapolate(centre: Records, time: int, coast: float, braking: float) -> Records:
    """Return references extrapolated to ``time`` us; after ``coast`` s of silence the centre brakes to rest.

    The acceleration is kept for ACCELERATION_HORIZON; then the velocity is constant until ``coast`` s have
    passed; then it decreases by ``braking`` m/s^2 to zero, and the formation stops.

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
    result["heading"] = centre["heading"] + centre["turn_rate"] * np.minimum(age, coast)[:, 0]
    if (age <= coast).all():
        result["position"], result["velocity"] = position, velocity
        result["acceleration"][(age > ACCELERATION_HORIZON)[:, 0]] = 0.0
        return result
    speed = np.linalg.norm(velocity, axis=1, keepdims=True)
    slowing = np.clip(age - coast, 0.0, speed / braking)
    direction = velocity / np.maximum(speed, 1e-9)
    result["position"] = position + slowing * (velocity - 0.5 * braking * slowing * direction)
    result["velocity"] = velocity - braking * slowing * direction
    on_way = (slowing > 0.0) & (slowing < speed / braking)
    result["acceleration"] = np.where(
        age <= ACCELERATION_HORIZON, centre["acceleration"], np.where(on_way, -braking * direction, 0.0)
    )
    result["turn_rate"] = np.where(age[:, 0] <= coast, centre["turn_rate"], 0.0)
    return result


SCHEMES: dict[str, tuple[type[Leader], type[Follower]]] = {
    "centralised": (Leader, Follower),
    "leader_follower": (MeasuredLeader, Follower),
    "consensus": (MeasuredLeader, ConsensusFollower),
    "velocity": (MeasuredLeader, VelocityFollower),
}
"""``centralised``: all fly their part of one plan, whose reference is relayed; ``leader_follower``: the
leader's measured motion is relayed; ``consensus``: each vehicle uses only its neighbours' positions;
``velocity``: as ``leader_follower``, with XTDrone's law of velocities."""


@contextmanager
def failures_of(what: str, role: Leader | Follower) -> Iterator[None]:
    """Name the user's own role, ``what`` it is and its class, in what it raises.

    Raises:
        UserError: with what a role raises that is not one of this module.
    """
    try:
        yield
    except Exception as error:
        if type(role).__module__ == __name__:
            raise
        raise UserError(f"{what} {type(role).__name__} failed: {error!r}") from error
