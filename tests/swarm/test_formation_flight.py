"""Formations in flight on the quick simulator: slots, graphs, silence, losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.fleet_loop import TICK, fly

from sitl_bridge.base.errors import UserError
from sitl_bridge.swarm.formation.choreography import Choreography
from sitl_bridge.swarm.formation.formation import Formation, FormationBehaviour
from sitl_bridge.swarm.formation.patterns import closest_pair, pattern
from sitl_bridge.swarm.formation.roles import (
    BEACON,
    SCHEMES,
    Follower,
    FormationView,
    Leader,
    VelocityFollower,
    extrapolate,
    reference,
)
from sitl_bridge.swarm.formation.trajectory import Limits, Trajectory, path_through, stationary
from sitl_bridge.swarm.interface import Setpoints, States
from sitl_bridge.swarm.point_mass import PointMass, PointMassFleet
from sitl_bridge.swarm.radio import Radio, Topology, hops

Array = NDArray[np.float64]
Hook = Callable[["Flight", States], None]

PATTERNS = ("cube", "pyramid", "triangle", "cube")
EVERY = 8.5
"""s between two patterns; the longest move takes 6 s."""


def there() -> Trajectory:
    """50 m north and 5 m east at up to 2 m/s, 10 m up; under way from 2 s to 46 s."""
    points = np.array([[0.0, 0, -10], [50, 5, -12]])
    return path_through(points, speed=2.0, acceleration=1.0, holds=[2.0, 30.0], yaw=0.0)


@dataclass
class Flight:
    formation: Formation
    fleet: PointMassFleet
    hook: Hook | None = None
    times: list[float] = field(default_factory=list)
    errors: list[Array] = field(default_factory=list)
    separation: list[float] = field(default_factory=list)
    states: list[States] = field(default_factory=list)

    def fly(self, seconds: float) -> Flight:
        fly(self.formation, self.fleet, round(seconds * 1e6), self._watch)
        return self

    def _watch(self, states: States) -> None:
        if not self.formation.started_at:
            self.formation.start()
        if self.hook is not None:
            self.hook(self, states)
        if states.time % 100_000 == 0:
            self.times.append((states.time - self.formation.started_at) * 1e-6)
            self.errors.append(self.formation.slot_errors(states))
            self.separation.append(closest_pair(states.position[states.alive])[0])
            self.states.append(states)

    def worst_error(self, begin: float = 0.0, end: float = math.inf) -> float:
        """Worst slot error of anybody, s since the start."""
        chosen = [e for t, e in zip(self.times, self.errors, strict=True) if begin <= t <= end]
        return float(np.nanmax(chosen))

    def texts(self) -> list[str]:
        return [f"{event.vehicle}: {event.text}" for event in self.formation.events]


def flight(
    scheme: str = "leader_follower",
    *,
    count: int = 9,
    graph: str = "star",
    start: str = "grid",
    path: Trajectory | None = None,
    delay: float = 0.0,
    loss: float = 0.0,
    seed: int = 1,
    patterns: tuple[str, ...] = PATTERNS,
    hook: Hook | None = None,
    leader: Leader | None = None,
    follower: Follower | None = None,
    model: PointMass | None = None,
    **behaviour: Any,
) -> Flight:
    path = path or there()
    choreography = Choreography(pattern(start, count, 3.0), Limits(speed=2.0, acceleration=1.5))
    for k, name in enumerate(patterns):
        choreography.add(name, pattern(name, count), round(k * EVERY * 1e6))
    lead, follow = SCHEMES[scheme]
    formation = Formation(
        choreography,
        leader or lead(path, 0.0),
        follower or follow(),
        topology=Topology(graph),  # type: ignore[arg-type]
        radio=Radio(count, BEACON, seed=seed, delay=round(delay * 1e6), loss=loss),
        behaviour=FormationBehaviour(**behaviour),
    )
    places = choreography.start + path.at(0.0).position
    return Flight(formation, PointMassFleet(places, model), hook)


# ---------------------------------------------------------------- the nine of XTDrone


@pytest.mark.parametrize(("scheme", "graph"), [
    ("centralised", "star"), ("leader_follower", "star"), ("leader_follower", "chain"),
    ("consensus", "inwards"),
])  # fmt: skip
def test_nine_change_patterns_on_the_way_and_keep_their_slots(scheme: str, graph: str) -> None:
    run = flight(scheme, graph=graph).fly(52.0)
    moves = run.formation.choreography.moves[1:]
    assert [m.name for m in moves] == list(PATTERNS)
    way = run.formation.leader.path.at(np.array([8.5, 17.0, 25.5, 34.0])).velocity
    assert (way[:, 0] > 0.3).all()  # under way at every change
    for move, following in zip(moves, [*moves[1:], None], strict=True):
        end = following.start * 1e-6 if following else math.inf
        assert run.worst_error(move.over * 1e-6 + 2.0, end) < 0.5
    assert min(run.separation) > 1.0
    # The last pattern is a cube: eight corners, 2 sqrt(3) m from the leader in its middle.
    last = run.states[-1].position
    assert np.linalg.norm(last[1:] - last[0], axis=1) == pytest.approx(np.full(8, 2 * math.sqrt(3)), abs=0.05)


@pytest.mark.parametrize(("scheme", "graph"), [
    ("centralised", "star"), ("leader_follower", "star"), ("consensus", "inwards"),
])  # fmt: skip
def test_a_third_of_messages_lost_and_200_ms_late_leave_the_slots_alone(scheme: str, graph: str) -> None:
    run = flight(scheme, graph=graph, delay=0.2, loss=0.3).fly(52.0)
    assert 0.29 < run.formation.radio.lost / run.formation.radio.sent < 0.31
    for move in run.formation.choreography.moves[1:]:
        over = move.over * 1e-6
        assert run.worst_error(over + 2.0, over + 2.5) < 0.5
    assert min(run.separation) > 1.0
    assert not [text for text in run.texts() if "leads" in text]


@pytest.mark.parametrize("count", [100, pytest.param(2000, marks=pytest.mark.slow)])
def test_large_fleets_fly_the_same_code(count: int) -> None:
    path = path_through(
        np.array([[0.0, 0, -60], [20, 0, -60]]), speed=2.0, acceleration=1.0, holds=[8.0, 9.0], yaw=0.0
    )
    run = flight(count=count, path=path, start="cube", patterns=("cube",)).fly(24.0)
    over = run.formation.choreography.moves[1].over * 1e-6
    assert 3.0 < over < 18.0
    assert run.worst_error(over + 2.0) < 0.1
    assert min(run.separation) > 1.0


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not() -> None:
    def tracks(seed: int) -> bytes:
        run = flight(delay=0.1, loss=0.3, seed=seed).fly(20.0)
        return np.stack([s.position for s in run.states]).tobytes()

    assert tracks(1) == tracks(1) != tracks(2)


def test_a_formation_turns_with_its_leader() -> None:
    points = np.array([[0.0, 0, -10], [30, 0, -10], [30, 30, -10]])
    path = path_through(
        points, speed=2.0, acceleration=1.0, holds=[14.0, 12.0, 12.0], turn_rate=math.radians(10.0)
    )
    run = flight(path=path, patterns=("v",), leader=Leader(path, None)).fly(path.duration + 2.0)
    assert run.worst_error(11.0) < 0.5
    first, last = run.states[130].position, run.states[-1].position
    # North at first, so the arms trail south; east at last, so they trail west.
    assert (first[1:, 0] < first[0, 0] - 1.0).all()
    assert (last[1:, 1] < last[0, 1] - 1.0).all()
    assert (last[1:, 0] - last[0, 0]) == pytest.approx(-(first[1:, 1] - first[0, 1]), abs=0.1)


def test_all_wait_for_the_start_and_begin_in_the_same_tick() -> None:
    run = flight(loss=0.3, delay=0.2, patterns=("cube",))
    moved: dict[int, int] = {}

    def hook(_: Flight, states: States) -> None:
        for i in np.flatnonzero(np.linalg.norm(states.velocity, axis=1) > 1e-6).tolist():
            moved.setdefault(i, states.time)

    run.hook = hook
    run.fly(3.0)
    moving = {i: t for i, t in moved.items() if i != 0}
    assert len(moving) == 8
    assert len(set(moving.values())) == 1
    assert 0 < moving[1] - run.formation.started_at <= 2 * TICK


@pytest.mark.parametrize("gain", [0.5, 1.0])
def test_xtdrones_follower_lags_a_moving_leader_by_speed_over_gain(gain: float) -> None:
    path = path_through(
        np.array([[0.0, 0, -10], [0, 20, -10]]), speed=0.5, acceleration=1.0, holds=[8.0, 15.0], yaw=0.0
    )
    run = flight(path=path, patterns=("cube",), follower=VelocityFollower(gain)).fly(path.duration + 1.0)
    middle = 8.0 + (path.duration - 23.0) / 2
    speed = float(np.linalg.norm(path.at(middle).velocity))
    # v = Kp e and v = leader's: e = v / Kp.
    assert run.worst_error(middle - 0.1, middle + 0.1) == pytest.approx(speed / gain, rel=0.03)
    assert run.worst_error(path.duration - 3.0) < 0.01


# ---------------------------------------------------------------- roles of one's own


class Bouncing(Follower):
    """The slot, with a wave on top: what a user may write."""

    def steer(self, view: FormationView) -> Setpoints:
        told = view.slot
        told.position[:, 2] += 0.5 * np.sin(view.time + view.vehicle)
        return told


def test_a_follower_of_ones_own_is_a_class_with_one_method() -> None:
    run = flight(path=stationary([0, 0, -10.0]), patterns=("cube",), follower=Bouncing()).fly(20.0)
    height = np.stack([s.position[1:, 2] for s in run.states[-100:]])
    assert (np.ptp(height, axis=0) > 0.3).all()


# ---------------------------------------------------------------- losses


def gone(*vehicles: int, at: float, back: float = math.inf) -> Hook:
    def hook(self: Flight, states: States) -> None:
        self.fleet.alive[list(vehicles)] = not at <= states.time * 1e-6 < back

    return hook


def test_the_next_in_line_leads_on_and_the_others_keep_their_slots() -> None:
    run = flight(hook=gone(0, at=20.0), line=(0, 4)).fly(52.0)
    assert run.texts()[-2:] == ["0: is gone", "4: leads now"]
    assert run.formation.leaders == (4,)
    event = run.formation.events[-1]
    assert 20.9 <= event.time * 1e-6 <= 21.1  # 1 s after the last beacon
    under_way = run.formation.choreography.moves
    for move in under_way[1:]:
        over = move.over * 1e-6
        assert run.worst_error(over + 2.0, over + 2.5) < 0.5
    # The one that is gone stands in the air where it was, and may be passed; it does not count.
    assert run.worst_error(21.0, 22.0) < 0.1
    end = run.formation.leader.path.at(100.0).position
    assert np.linalg.norm(run.states[-1].position[1:].mean(axis=0) - end) < 0.1


def test_the_second_in_line_waits_longer_and_leads_when_the_first_is_gone_too() -> None:
    run = flight(hook=gone(0, 1, at=10.0)).fly(16.0)
    assert run.texts()[-3:] == ["0: is gone", "1: is gone", "2: leads now"]
    assert 11.2 <= run.formation.events[-1].time * 1e-6 <= 11.4


def test_without_a_successor_the_formation_comes_to_rest_in_its_slots() -> None:
    run = flight(hook=gone(0, at=22.0), leader_loss="hold", patterns=("cube",)).fly(40.0)
    assert np.linalg.norm(run.states[215].velocity[1:], axis=1).min() > 1.0
    assert np.linalg.norm(run.states[-1].velocity[1:], axis=1).max() < 1e-3
    shape = run.states[-1].position[1:] - run.states[-1].position[1]
    before = run.states[215].position[1:] - run.states[215].position[1]
    assert shape == pytest.approx(before, abs=0.05)
    assert run.formation.leaders == ()


def test_without_a_leader_all_return_to_the_places_of_the_start() -> None:
    run = flight(hook=gone(0, at=22.0), leader_loss="return", patterns=("cube",)).fly(70.0)
    places = {tuple(p) for p in np.round(run.states[0].position, 3)}
    assert {tuple(p) for p in np.round(run.states[-1].position[1:], 3)} <= places
    alive = np.stack([s.position[1:] for s in run.states])
    assert min(closest_pair(p)[0] for p in alive) > 1.0


def test_one_that_stood_still_for_five_seconds_finds_back_to_its_slot() -> None:
    run = flight(hook=gone(3, at=20.0, back=25.0), patterns=("cube",)).fly(50.0)
    back = next(e.time * 1e-6 for e in run.formation.events if "is back in its slot" in e.text)
    others = np.delete(np.stack(run.errors), 3, axis=1)[220:]
    assert np.nanmax(others) < 0.1
    assert back < 26.0
    assert run.worst_error(40.0) < 0.1
    assert min(run.separation[250:]) > 1.0


def test_a_leader_that_comes_back_follows_the_new_one() -> None:
    run = flight(hook=gone(0, at=20.0, back=25.0), patterns=("cube",)).fly(55.0)
    assert run.formation.leaders == (1,)
    assert run.worst_error(45.0) < 0.1
    assert [t for t in run.texts() if "leads" in t] == ["1: leads now"]


@pytest.mark.parametrize("action", ["hold", "land", "return"])
def test_one_leaves_and_the_others_fly_on(action: str) -> None:
    def hook(self: Flight, states: States) -> None:
        if states.time == 24_000_000:
            self.formation.abort(5, action)  # type: ignore[arg-type]

    run = flight(hook=hook, patterns=("cube",)).fly(60.0)
    rest, home = run.states[-1].position[5], run.states[0].position[5]
    left = run.states[240].position[5]
    expected = {"hold": left, "land": np.array([left[0], left[1], home[2]]), "return": home}[action]
    assert np.linalg.norm(rest - expected) < (0.1 if action == "return" else 1.6)
    assert rest[2] == pytest.approx(expected[2], abs=0.1)
    assert run.worst_error(26.0) < 0.1
    with pytest.raises(UserError, match="vehicle 5 has left"):
        run.formation.abort(5)


def test_a_leader_that_leaves_is_followed_by_the_next() -> None:
    def hook(self: Flight, states: States) -> None:
        if states.time == 15_000_000:
            self.formation.abort(0, "land")

    run = flight("consensus", graph="inwards", loss=0.3, delay=0.1, hook=hook, patterns=("cube",)).fly(45.0)
    assert run.formation.leaders == (1,)
    assert run.worst_error(18.0) < 0.5
    assert run.states[-1].position[0, 2] == pytest.approx(run.states[0].position[0, 2], abs=0.1)


def test_nobody_leaves_before_it_was_seen() -> None:
    run = flight()
    with pytest.raises(UserError, match="vehicle 2 has not reported yet"):
        run.formation.abort(2)
    with pytest.raises(UserError, match="there is no vehicle 9"):
        run.formation.abort(9)


def test_one_that_comes_late_takes_its_slot() -> None:
    run = flight(hook=gone(4, at=0.0, back=12.0), patterns=("cube",))
    run.fleet.alive[4] = False
    run.fly(40.0)
    assert run.worst_error(30.0) < 0.1
    assert np.isfinite(np.stack([s.position for s in run.states])).all()


def test_patterns_can_be_ordered_in_flight_for_those_that_are_left() -> None:
    def hook(self: Flight, states: States) -> None:
        if states.time == 24_000_000:
            self.formation.abort(5, "hold")
            self.formation.redirect(
                "circle", lambda _plan, members, _leader: pattern("circle", int(members.sum()))
            )

    run = flight(hook=hook, patterns=("cube",)).fly(60.0)
    assert run.worst_error(36.0) < 0.1
    ring = np.delete(run.states[-1].position, 5, axis=0)
    radius = np.linalg.norm(ring[1:] - ring[0], axis=1)
    assert radius == pytest.approx(np.full(7, 4.0 * 0.5 / math.sin(math.pi / 7)), abs=0.05)


# ---------------------------------------------------------------- graphs


@pytest.mark.parametrize("graph", ["star", "complete", "ring", "chain", "nearest", "inwards"])
def test_every_graph_reaches_all_also_when_some_are_gone(graph: str) -> None:
    members = np.ones(30, bool)
    members[[3, 7, 8]] = False
    nobody = np.zeros(30, bool)
    assert len(Topology(graph).edges(pattern("cube", 30), nobody, [])) == 0  # type: ignore[arg-type]
    edges = Topology(graph).edges(pattern("cube", 30), members, [0])  # type: ignore[arg-type]
    assert (hops(edges, 30, 0) >= 0).tolist() == members.tolist()
    assert not (~members[edges]).any()


def test_inward_links_have_no_circles() -> None:
    edges = Topology("inwards", neighbours=3).edges(pattern("pyramid", 20), np.ones(20, bool), [0])
    adjacency = np.zeros((20, 20))
    adjacency[edges[:, 1], edges[:, 0]] = 1.0
    assert not np.linalg.matrix_power(adjacency, 20).any()
    assert adjacency[0].sum() == 0.0
    assert adjacency.sum(axis=1).max() == 3.0


def beacons(time: int, count: int = 2) -> NDArray[np.void]:
    result = np.zeros(count, BEACON)
    result["stamp"] = time
    result["position"][:, 0] = 100.0 * np.arange(count)
    return result


def test_a_message_is_heard_after_its_delay_and_within_range_only() -> None:
    on_air = np.ones(3, bool)
    radio = Radio(3, BEACON, seed=0, delay=200_000, reach=150.0)
    radio.connect(Topology("complete").edges(np.zeros((3, 3)), on_air, []))
    radio.send(1_000, beacons(1_000, 3), beacons(1_000, 3)["position"], on_air)
    assert not radio.receive(200_999, on_air).any()
    fresh = radio.receive(201_000, on_air)
    heard = {tuple(edge) for edge in radio.edges[fresh].tolist()}
    assert heard == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert radio.heard["stamp"][fresh].tolist() == [1_000] * 4


def test_losses_of_a_link_do_not_depend_on_other_links() -> None:
    def arrivals(count: int) -> list[bool]:
        on_air = np.ones(count, bool)
        radio = Radio(count, BEACON, seed=5, loss=0.5)
        radio.connect(Topology("complete").edges(np.zeros((count, 3)), on_air, []))
        link = int(np.flatnonzero((radio.edges == (1, 0)).all(axis=1))[0])
        result = []
        for k in range(1, 200):
            radio.send(k, beacons(k, count), np.zeros((count, 3)), on_air)
            result.append(bool(radio.receive(k, on_air)[link]))
        return result

    assert arrivals(2) == arrivals(5)
    assert 70 < sum(arrivals(2)) < 130


def test_silence_lets_the_centre_fly_on_and_then_brings_it_to_rest() -> None:
    word = reference(1, np.zeros(3), np.array([2.0, 0, 0]), np.zeros(3), 0.0, 0.1)[None]

    def after(seconds: float) -> Any:
        return extrapolate(word, 1 + round(seconds * 1e6), coast=1.0, braking=2.0)[0]

    assert after(0.5)["position"][0] == pytest.approx(1.0)
    assert after(1.5)["velocity"][0] == pytest.approx(1.0)
    # 2 m at 2 m/s, then v^2/(2 b) = 1 m.
    assert after(60.0)["position"][0] == pytest.approx(3.0)
    assert after(60.0)["velocity"][0] == 0.0
    assert after(60.0)["heading"] == pytest.approx(0.1)


# ---------------------------------------------------------------- the point mass


def test_a_point_mass_follows_the_closed_form_of_its_loops() -> None:
    # v' = (u - v)/tau from rest to a velocity of 1 m/s: v = 1 - exp(-t/tau), x = t - tau (1 - exp(-t/tau)).
    model = PointMass(velocity_lag=0.5, max_acceleration=100.0, step=1_000)
    fleet = PointMassFleet(np.zeros((1, 3)), model)
    told = Setpoints.none(1)
    told.velocity[0] = (1.0, 0.0, 0.0)
    fleet.command(told)
    fleet.advance(1_000_000)
    assert fleet.velocity[0, 0] == pytest.approx(1.0 - math.exp(-2.0), abs=1e-3)
    assert fleet.position[0, 0] == pytest.approx(1.0 - 0.5 * (1.0 - math.exp(-2.0)), abs=1e-3)


def test_a_point_mass_keeps_to_its_speed_and_acceleration() -> None:
    fleet = PointMassFleet(np.zeros((1, 3)), PointMass(max_speed=3.0, max_acceleration=2.0))
    told = Setpoints.none(1)
    told.position[0] = (100.0, 100.0, 0.0)
    fleet.command(told)
    last = fleet.velocity.copy()
    for k in range(1, 500):
        fleet.advance(k * 10_000)
        assert np.linalg.norm(fleet.velocity - last) <= 2.0 * 0.01 + 1e-12
        last = fleet.velocity.copy()
    assert np.linalg.norm(last) == pytest.approx(3.0, abs=0.01)


def test_accelerations_alone_are_followed_as_they_are() -> None:
    fleet = PointMassFleet(np.zeros((1, 3)))
    told = Setpoints.none(1)
    told.acceleration[0] = (0.0, 1.0, 0.0)
    fleet.command(told)
    fleet.advance(2_000_000)
    assert fleet.velocity[0].tolist() == pytest.approx([0.0, 2.0, 0.0])
    assert fleet.position[0].tolist() == pytest.approx([0.0, 2.0, 0.0])


def test_yaw_turns_the_short_way_at_its_rate() -> None:
    fleet = PointMassFleet(np.zeros((1, 3)), yaw=math.radians(170.0))
    told = Setpoints.none(1)
    told.yaw[0] = math.radians(-170.0)
    fleet.command(told)
    fleet.advance(100_000)
    assert math.degrees(fleet.yaw[0]) == pytest.approx(174.5)
    fleet.advance(2_000_000)
    assert math.degrees(fleet.yaw[0]) == pytest.approx(190.0)
