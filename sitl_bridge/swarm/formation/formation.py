"""A formation in flight: received messages, leadership and setpoints of each vehicle, every tick.

Every vehicle decides from its own knowledge: its own state, the plan, and received beacons.  Only the absence
of a vehicle is known to all at once, as from its neighbours' radios.  Time is the fleet's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints, Mask, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.base.rotations import matrix_from_euler
from sitl_bridge.swarm.formation.assignment import assign, closest_approach
from sitl_bridge.swarm.formation.choreography import Choreography, Move, in_world
from sitl_bridge.swarm.formation.leave_and_rejoin import Action, Legs, leave, path_back
from sitl_bridge.swarm.formation.roles import (
    BEACON,
    REFERENCE,
    Follower,
    FormationView,
    Leader,
    NeighbourLinks,
    Own,
    extrapolate,
    failures_of,
    reference,
)
from sitl_bridge.swarm.interface import Setpoints, States
from sitl_bridge.swarm.radio import Radio, Topology

LeaderLoss: TypeAlias = Literal["next", "hold", "return"]


@dataclass(frozen=True)
class FormationBehaviour:
    """Behaviour of the vehicles of a formation."""

    beacon_period: int = 50_000  # us between two beacons of a vehicle
    # us from the announcement of a start or a move to its begin: long enough for several beacons over all
    # links, so that losses have no effect
    notice: int = 1_500_000
    # ``next``: the next vehicle in line leads; ``hold``: all come to rest in their slots; ``return``: and
    # then fly to their start positions
    leader_loss: LeaderLoss = "next"
    timeout: int = 1_000_000  # us without a message of the leader after which it counts as lost
    stagger: int = 300_000  # us of additional time-out for each further vehicle in line
    line: tuple[int, ...] = ()  # of succession; by number if empty
    braking: float = 2.0  # m/s^2 of deceleration without a leader

    @property
    def coast(self) -> float:
        """Time in s without a message of the leader for which the centre keeps its velocity."""
        wait = 3 * self.stagger if self.leader_loss == "next" else 0
        return (self.timeout + wait) * 1e-6


@dataclass(frozen=True)
class FormationLogEntry:
    """An event: us, vehicle (-1 for all), and text."""

    time: int
    vehicle: int
    text: str


class Formation:
    """Computes the setpoints of n vehicles; vehicle 0 is the first leader.

    Args:
        choreography: start positions and planned moves.
        leader: guides the centre, for any leading vehicle.
        follower: control law of the other vehicles.
        topology: links of the radio.

    Attributes:
        started_at: us of the start, 0 before it is set.
    """

    def __init__(
        self,
        choreography: Choreography,
        leader: Leader,
        follower: Follower,
        *,
        topology: Topology,
        radio: Radio,
        behaviour: FormationBehaviour,
    ) -> None:
        count = choreography.count
        self.choreography, self.leader, self.follower = choreography, leader, follower
        self.topology, self.radio, self.behaviour = topology, radio, behaviour
        self.events: list[FormationLogEntry] = []
        self.started_at = 0
        self.present = np.ones(count, dtype=np.bool_)
        self._place = _places(self.behaviour.line, count)
        # --- knowledge of each vehicle
        self._claim = np.full(count, count - 1 - self._place[0], dtype=np.int64)
        self._leader = np.zeros(count, dtype=np.int64)
        self._epoch = np.full(count, len(choreography.moves) - 1, dtype=np.int64)
        self._start = np.zeros(count, dtype=np.int64)
        self._centre = np.zeros(count, REFERENCE)
        # --- individual paths
        self._home: Floats = np.full((count, 3), np.nan)
        self._home_yaw: Floats = np.full(count, np.nan)
        self._leaving: dict[int, Legs] = {}
        self._lost_way: set[int] = set()
        self._returning: dict[int, Legs] = {}
        self._rejoining: dict[int, Legs] = {}
        self._connected: tuple[object, ...] = ()
        self._next_beacon = 0
        self._time = 0
        self._alive = np.ones(count, dtype=np.bool_)

    # ---------------------------------------------------------------- external orders

    @property
    def leaders(self) -> tuple[int, ...]:
        """Vehicles that act as leader; one, except during a change."""
        rows = (self._leader == np.arange(len(self._leader))) & self.present & self._alive
        return tuple(int(i) for i in np.flatnonzero(rows))

    @property
    def elapsed(self) -> float:
        """s since the start, at the last tick; 0 before."""
        return (self._time - self.started_at) * 1e-6 if self.started_at else 0.0

    @property
    def members(self) -> Mask:
        """(n,) vehicles in the formation."""
        return self.present & self._alive

    def start(self) -> int:
        """Start all vehicles together, ``notice`` from now; return that time in us.

        Raises:
            UserError: if it has been started already.
        """
        if self.started_at:
            raise UserError("the formation has been started already")
        self.started_at = self._time + self.behaviour.notice
        for i in self.leaders:
            self._start[i] = self.started_at
        self._note(-1, f"start at {self.started_at * 1e-6:.2f} s")
        return self.started_at

    def redirect(
        self,
        name: str,
        slots: Callable[[Choreography, Mask, int], Floats],
        check: Callable[[Choreography], None] = lambda _plan: None,
    ) -> Move:
        """Change to other slots as soon as possible; moves that have not begun are dropped.

        Args:
            slots: returns (m, 3) m for the m members, the leader's first, from the plan without those moves,
                the members (n,) and the leader's number.
            check: check of the new plan before use.

        Raises:
            UserError: if the slots are unsuitable, or there is no leader; and the errors of the arguments.
                The old plan then stays in use.
        """
        leaders = self.leaders
        if not (leaders and self.started_at):
            raise UserError("the formation has no leader now, so it cannot change its slots")
        at = self._time - self.started_at + self.behaviour.notice
        trial, members = self.choreography.up_to(at), self.members
        kept = len(trial.moves)
        move = trial.add(name, slots(trial, members, leaders[0]), at, members=members, leader=leaders[0])
        check(trial)
        self.choreography.moves[:] = trial.moves
        np.minimum(self._epoch, kept - 1, out=self._epoch)
        for i in leaders:
            self._epoch[i] = kept
        self._note(leaders[0], f"{name} from {(self.started_at + move.start) * 1e-6:.2f} s on")
        return move

    def abort(self, vehicle: int, action: Action = "land") -> None:
        """Remove a vehicle from the formation permanently; see ``leave``.

        Raises:
            UserError: for an unknown vehicle or one that has left already.
        """
        if not 0 <= vehicle < len(self.present):
            raise UserError(f"there is no vehicle {vehicle}; they are 0 to {len(self.present) - 1}")
        if not self.present[vehicle]:
            raise UserError(f"vehicle {vehicle} has left the formation already")
        if np.isnan(self._home_yaw[vehicle]):
            raise UserError(f"vehicle {vehicle} has not reported yet, so it cannot leave the formation")
        self.present[vehicle] = False
        self._leaving[vehicle] = leave(
            action, self._time, self._states.position[vehicle], self._states.velocity[vehicle],
            self._home[vehicle], speed=self.choreography.limits.speed, braking=self.behaviour.braking,
        )  # fmt: skip
        self._note(vehicle, f"aborts: {action}")

    def _note(self, vehicle: int, text: str) -> None:
        self.events.append(FormationLogEntry(self._time, vehicle, text))

    # ---------------------------------------------------------------- the tick

    def tick(self, states: States) -> Setpoints:
        """Return the setpoint of every vehicle for ``states``; nan for absent vehicles.

        Raises:
            UserError: if a role of the user's own fails.
        """
        new = states.alive & np.isnan(self._home_yaw)
        self._home[new], self._home_yaw[new] = states.position[new], states.yaw[new]
        self._states, self._time = states, states.time
        self._update_present(states)
        on_air = self.members
        self._connect(on_air)
        self._update_claims(self.radio.receive(states.time, on_air))
        self._apply_leader_loss(on_air)
        zero = np.zeros_like(states.position)
        setpoints = Setpoints(self._home.copy(), zero, zero.copy(), self._home_yaw.copy())
        offsets = self._offsets()
        with failures_of("leader", self.leader):
            self._lead(states, offsets, setpoints)
        with failures_of("follower", self.follower):
            self._follow(states, offsets, setpoints)
        for ways in (self._returning, self._leaving):
            for vehicle, legs in ways.items():
                _put(setpoints, vehicle, legs.at(states.time))
        setpoints.put(~states.alive, Setpoints.none(int((~states.alive).sum())))
        self._send(states, on_air)
        return setpoints

    def _update_present(self, states: States) -> None:
        for i in np.flatnonzero(states.alive != self._alive).tolist():
            if not states.alive[i]:
                self._note(i, "is gone")
                continue
            # It has missed the events meanwhile: it holds its position and receives.
            self._note(i, "is back")
            self._claim[i], self._leader[i] = -1, -1
            frame = matrix_from_euler(0.0, 0.0, float(self._centre["heading"][i]))
            offset = frame @ self.choreography.offsets(self._epoch, self._time - int(self._start[i]))[0][i]
            self._centre[i] = reference(
                states.time, states.position[i] - offset, np.zeros(3), np.zeros(3),
                float(self._centre["heading"][i]), 0.0,
            )  # fmt: skip
            self._lost_way.add(i)
        self._alive = states.alive.copy()

    def _connect(self, on_air: Mask) -> None:
        """Update the graph if its inputs have changed since the last tick."""
        epoch = self.choreography.epoch_at(self._time - self.started_at) if self.started_at else 0
        state = (self.leaders, epoch, on_air.tobytes())
        if state != self._connected:
            self._connected = state
            leaders = self.leaders or (int(np.argmin(self._place)),)
            self.radio.connect(self.topology.edges(self.choreography.moves[epoch].end, on_air, leaders))

    def _update_claims(self, fresh: Mask) -> None:
        """Adopt the highest leadership claim received, and its newest reference."""
        links = np.flatnonzero(fresh)
        if not len(links):
            return
        heard, receiver = self.radio.heard[links], self.radio.edges[links, 1]
        np.maximum.at(self._epoch, receiver, heard["epoch"])
        np.maximum.at(self._start, receiver, heard["start"])
        stamp = heard["reference"]["stamp"]
        order = np.lexsort((stamp, heard["claim"], receiver))
        last = order[np.concatenate([np.diff(receiver[order]) != 0, [True]])]
        who, claim = receiver[last], heard["claim"][last]
        newer = (stamp[last] > self._centre["stamp"][who]) & (self._leader[who] != who)
        better = ((claim > self._claim[who]) | ((claim == self._claim[who]) & newer)) & (stamp[last] > 0)
        for i in who[better & (self._leader[who] == who)].tolist():
            self._note(i, "is no longer leader")
        who, last = who[better], last[better]
        self._claim[who], self._leader[who] = heard["claim"][last], heard["leader"][last]
        self._centre[who] = heard["reference"][last]
        for i in self._lost_way.intersection(who.tolist()):
            self._rejoin(i)

    def _apply_leader_loss(self, on_air: Mask) -> None:
        """Apply the leader-loss policy to vehicles without a message of the leader for too long."""
        followers = on_air & (self._leader != np.arange(len(on_air))) & (self._start > 0)
        followers &= self._centre["stamp"] > 0
        silence = self._time - self._centre["stamp"]
        if not (followers & (silence > self.behaviour.timeout)).any():
            return
        if self.behaviour.leader_loss == "next":
            known = np.maximum(self._leader, 0)
            rank = self._place - ((self._place[known] < self._place) & (self._leader >= 0))
            heirs = np.flatnonzero(
                followers & (silence > self.behaviour.timeout + self.behaviour.stagger * rank)
            )
            for i in heirs.tolist():
                count = len(on_air)
                self._claim[i] = (self._claim[i] // count + 1) * count + count - 1 - self._place[i]
                self._leader[i] = i
                self._note(i, "leads now")
        elif self.behaviour.leader_loss == "return" and not self._returning:
            self._plan_return(followers)

    def _plan_return(self, followers: Mask) -> None:
        who = np.flatnonzero(followers)
        places = self._home[~np.isnan(self._home_yaw)]
        rest = extrapolate(
            self._centre[who[:1]], self._time + 10**9, self.behaviour.coast, self.behaviour.braking
        )
        speed = float(np.linalg.norm(self._centre["velocity"][who[0]]))
        begin_at = self._time + round(1e6 * (speed / self.behaviour.braking + 1.0))
        heading = np.full(len(self.present), float(rest["heading"][0]))
        offsets = self.choreography.offsets(self._epoch, begin_at - int(self._start[who[0]]))
        begin = rest["position"] + in_world(offsets, heading, np.zeros(len(heading)))[0][who]
        choice = assign(begin, places)
        distance, _, i, j = closest_approach(begin, places[choice])
        if distance < self.choreography.limits.separation:
            self._note(-1, f"holds: on the way back {who[i]} and {who[j]} would come within {distance:.2f} m")
            return
        limits = self.choreography.limits
        farthest = float(np.linalg.norm(begin - places[choice], axis=1).max())
        duration = Legs.within(
            0, np.array([[0.0, 0, 0], [farthest, 0, 0]]), (limits.speed,), limits.acceleration
        )
        for row, vehicle in enumerate(who.tolist()):
            ends = np.stack([begin[row], places[choice[row]]])
            self._returning[vehicle] = Legs(begin_at, ends, duration.durations)
        self._note(-1, "the leader is lost: all return")

    def _rejoin(self, vehicle: int) -> None:
        """Plan the path of a returned vehicle to its slot, around the slots of the others."""
        self._lost_way.discard(vehicle)
        centre = extrapolate(
            self._centre[[vehicle]], self._time, self.behaviour.coast, self.behaviour.braking
        )
        slots = self.choreography.offsets(self._epoch, self._time - int(self._start[vehicle]))[0]
        apart = self._states.position[vehicle] - centre["position"][0]
        place = matrix_from_euler(0.0, 0.0, float(centre["heading"][0])).T @ apart
        others = self.members.copy()
        others[vehicle] = False
        way = path_back(place, slots[vehicle], slots[others], self.choreography.limits.separation)
        if way is None:
            self.abort(vehicle, "hold")
            self._note(vehicle, "has no free path back to its slot")
            return
        limits = self.choreography.limits
        legs = Legs.within(self._time, way, (limits.speed,) * (len(way) - 1), limits.acceleration)
        self._rejoining[vehicle] = legs
        self._note(vehicle, f"is back in its slot at {legs.over * 1e-6:.1f} s")

    # ---------------------------------------------------------------- slots

    def _offsets(self) -> Floats:
        """Return (3, n, 3) offsets and derivatives in the formation's frame, including returning vehicles."""
        time = self._time - self.started_at if self.started_at else 0
        offsets = self.choreography.offsets(self._epoch, time)
        for vehicle, legs in list(self._rejoining.items()):
            if self._time >= legs.over:
                del self._rejoining[vehicle]
            else:
                offsets[:, vehicle] = legs.at(self._time)
        return offsets

    def _lead(self, states: States, offsets: Floats, setpoints: Setpoints) -> None:
        for i in self.leaders:
            part = offsets[:, [i]]
            own = self._own_state(states, i, part, self._centre[[i]])
            guided = self.leader.guide(own)
            turned = in_world(part, guided["heading"][None], guided["turn_rate"][None])
            now = replace(own, offset=turned[0][0], offset_rate=turned[1][0])
            self._centre[i] = self.leader.announce(now, guided)
            if self._start[i]:
                way = (guided["position"], guided["velocity"], guided["acceleration"])
                _put(setpoints, i, [a + b[0] for a, b in zip(way, turned, strict=True)])
                setpoints.yaw[i] = self.leader.yaw(own)

    def _own_state(self, states: States, i: int, offset: Floats, centre: Records) -> Own:
        """Return the state of vehicle ``i`` for its leader role, with its last known heading."""
        place, rate, _ = in_world(offset, centre["heading"], centre["turn_rate"])
        since = max(0, self._time - int(self._start[i])) if self._start[i] else 0
        return Own(
            since * 1e-6, self._time, states.position[i], states.velocity[i], float(states.yaw[i]),
            place[0], rate[0],
        )  # fmt: skip

    def _follow(self, states: States, offsets: Floats, setpoints: Setpoints) -> None:
        """Write the followers' setpoints: their law while they receive the reference, else braking."""
        rows = self.members & (self._leader != np.arange(len(self.present))) & (self._start > 0)
        who = np.flatnonzero(rows & (self._centre["stamp"] > 0))
        if not len(who):
            return
        view = self._view(states, offsets, who)
        setpoints.put(who, self.follower.steer(view))
        silent = view.age > self.behaviour.coast
        if silent.any():
            rest = Setpoints(
                view.slot.position[silent], view.slot.velocity[silent],
                view.slot.acceleration[silent], view.slot.yaw[silent],
            )  # fmt: skip
            setpoints.put(who[silent], rest)

    def _view(self, states: States, offsets: Floats, who: Ints) -> FormationView:
        centre = extrapolate(self._centre, self._time, self.behaviour.coast, self.behaviour.braking)
        place, rate, bend = in_world(offsets, centre["heading"], centre["turn_rate"])[:, who]
        age = (self._time - self._centre["stamp"]) * 1e-6
        return FormationView(
            (self._time - self.started_at) * 1e-6, who, states.position[who], states.velocity[who],
            states.yaw[who], centre[who], age[who], place, rate, bend,
            lambda: self._links(offsets, centre, who),
        )  # fmt: skip

    def _links(self, offsets: Floats, centre: Records, who: Ints) -> NeighbourLinks:
        """Return the newest message of each link that is not silent, in the receiver's heading."""
        row = np.full(len(self.present), -1, dtype=np.int64)
        row[who] = np.arange(len(who))
        edges, heard = self.radio.edges, self.radio.heard
        age = self._time - heard["stamp"]
        use = (heard["stamp"] > 0) & (age <= self.behaviour.timeout) & (row[edges[:, 1]] >= 0)
        sender, receiver, heard, age = edges[use, 0], edges[use, 1], heard[use], age[use] * 1e-6
        heading, turn_rate = centre["heading"][receiver], centre["turn_rate"][receiver]
        place, rate, _ = in_world(offsets[:, sender], heading, turn_rate)
        return NeighbourLinks(
            row[receiver], sender, heard["position"] + age[:, None] * heard["velocity"], heard["velocity"],
            place, rate, age,
        )  # fmt: skip

    def _send(self, states: States, on_air: Mask) -> None:
        if states.time < self._next_beacon:
            return
        # At its rate on average, whatever the ticks; a late beacon is not made up for by more of them.
        self._next_beacon = max(self._next_beacon + self.behaviour.beacon_period, states.time)
        beacons = np.zeros(len(on_air), BEACON)
        beacons["stamp"] = states.time
        beacons["position"], beacons["velocity"] = states.position, states.velocity
        beacons["claim"], beacons["leader"] = self._claim, self._leader
        beacons["epoch"], beacons["start"] = self._epoch, self._start
        beacons["reference"] = self._centre
        self.radio.send(states.time, beacons, states.position, on_air)

    # ---------------------------------------------------------------- slot errors

    def slots(self, states: States) -> Floats:
        """Return the slots (n, 3) m NED, relative to the leader's position.

        Without a leader, about the centre last received by each vehicle.
        """
        leaders = self.leaders
        time = self._time - self.started_at if self.started_at else 0
        offsets = self.choreography.offsets(self._epoch, time)
        centre = extrapolate(self._centre, self._time, self.behaviour.coast, self.behaviour.braking)
        heading: Floats = centre["heading"]
        if leaders:
            heading = np.full(len(heading), float(heading[leaders[0]]))
        place = in_world(offsets, heading, np.zeros(len(heading)))[0]
        middle = states.position[leaders[0]] - place[leaders[0]] if leaders else centre["position"]
        slots: Floats = middle + place
        return slots

    def slot_errors(self, states: States, slots: Floats | None = None) -> Floats:
        """Return distances (n,) in m from the slots; nan for vehicles absent, left or returning.

        Args:
            slots: of these states, where they are known.
        """
        error = np.linalg.norm(states.position - (self.slots(states) if slots is None else slots), axis=1)
        counts = self.members & (self.started_at > 0)
        counts[[*self._rejoining, *self._lost_way, *self._returning]] = False
        return np.where(counts, error, np.nan)


def _places(line: tuple[int, ...], count: int) -> Ints:
    """Return the rank (n,) of each vehicle in the line of succession; those not in it follow by number."""
    if len(set(line)) < len(line) or any(not 0 <= i < count for i in line):
        raise UserError(f"the line of succession {list(line)} must name vehicles 0 to {count - 1}, each once")
    order = [*line, *(i for i in range(count) if i not in set(line))]
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    return place


def _put(setpoints: Setpoints, vehicle: int, way: Sequence[Floats]) -> None:
    setpoints.position[vehicle], setpoints.velocity[vehicle], setpoints.acceleration[vehicle] = way


def true_slot_errors(tracks: ReadJson, true: Floats) -> Floats:
    """Return true distances (k, n) in m of the vehicles from their slots, by the leader's true position.

    A vehicle's position error is added to its estimated slot error; the leader's position error is common to
    all and cancels.

    Args:
        tracks: of ``Result.tracks``.
        true: (k, n, 3) m NED at the times of the tracks.

    Returns:
        nan if the vehicle is not in formation, or there is no leader.
    """
    leader = tracks["leader"]
    error = true - tracks["position"]
    common = error[np.arange(len(leader)), np.maximum(leader, 0)]
    apart = tracks["position"] - tracks["slot"] + error - common[:, None]
    errors: Floats = np.linalg.norm(apart, axis=2)
    return np.where((leader >= 0)[:, None] & np.isfinite(tracks["slot_error"]), errors, np.nan)
