"""The radio between vehicles: graphs, delay, loss and range, for formations and avoidance alike."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.swarm.avoidance.closed_loop import BroadcastNetwork
from sitl_bridge.swarm.avoidance.neighbours import Broadcast
from sitl_bridge.swarm.avoidance.specification import (
    AvoidanceSpecification,
    RouteSpecification,
    check_scenario,
)
from sitl_bridge.swarm.avoidance.swarm import Swarm
from sitl_bridge.swarm.interface import States
from sitl_bridge.swarm.radio import RadioSpecification, Topology

ORIGIN = (0.0, 0.0, 0.0)
LINE = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [7.0, 0.0, 0.0]])
EVERYBODY = np.ones(4, dtype=np.bool_)


def broadcast(name: int, time: int) -> Broadcast:
    return Broadcast(str(name), time, ORIGIN, ORIGIN, ORIGIN, ORIGIN)


def exchange(
    radio: RadioSpecification, milliseconds: int, position: NDArray[np.float64] = LINE, seed: int = 0
) -> list[list[tuple[int, str, int]]]:
    """What each of four vehicles receives: ms of arrival, sender and ms of sending, in ticks of 10 ms."""
    network = BroadcastNetwork(radio, 4, 0, seed)
    received: list[list[tuple[int, str, int]]] = [[] for _ in range(4)]
    for now in range(0, milliseconds + 1, 10):
        for i, messages in enumerate(network.receive(now * 1000, EVERYBODY)):
            received[i] += [(now, one.name, one.time // 1000) for one in messages]

        def speak(i: int, now: int = now) -> Broadcast:
            return broadcast(i, now * 1000)

        network.send(now * 1000, position, EVERYBODY, speak)
    return received


def test_nothing_arrives_before_the_delay_and_everything_right_after_it() -> None:
    received = exchange(RadioSpecification(rate=10.0, delay=0.05), 250)
    for i, messages in enumerate(received):
        others = [str(j) for j in range(4) if j != i]
        expected = [(sent + 50, j, sent) for sent in (0, 100, 200) for j in others]
        assert messages == expected


def test_a_swarm_knows_of_its_neighbours_only_after_the_radios_delay() -> None:
    routes = tuple(
        RouteSpecification(name=name, points=((0.0, east, -5.0), (5.0, east, -5.0)))
        for name, east in (("a", 0.0), ("b", 3.0))
    )
    scenario = AvoidanceSpecification(
        name="s", duration=9.0, routes=routes, radio=RadioSpecification(delay=0.2)
    )
    swarm = Swarm(scenario, 0, 0.03)
    place, zero = np.array([route.start() for route in routes]), np.zeros((2, 3))
    known = []
    for k in range(8):
        now = k * 50_000
        swarm.tick(States(now, place, zero, np.zeros(2), np.ones(2, np.bool_), np.zeros((2, 2))))
        known.append(len(swarm.agents[0].neighbourhood.entities(now)))
    # The first broadcast goes out after the tick at 0 ms and arrives at 200 ms, the fifth tick.
    assert known == [0, 0, 0, 0, 1, 1, 1, 1]


def test_each_receives_from_its_nearest_and_they_from_it() -> None:
    edges = Topology("nearest", neighbours=1).edges(LINE, EVERYBODY, [])
    links = {(int(a), int(b)) for a, b in edges}
    # 3's nearest is 2, whose own nearest is 1: without the way back, 3 would not be received by anybody.
    assert links == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}
    received = exchange(RadioSpecification(graph="nearest", neighbours=1, rate=10.0), 20)
    assert [sorted(sender for _, sender, _ in messages) for messages in received] == [
        ["1"], ["0", "2"], ["1", "3"], ["2"],
    ]  # fmt: skip


def test_the_nearest_are_those_of_now() -> None:
    network = BroadcastNetwork(RadioSpecification(graph="nearest", neighbours=1, rate=100.0), 4, 0, 0)
    for now, position in ((0, LINE), (10_000, LINE[[0, 3, 2, 1]])):
        network.send(now, position, EVERYBODY, lambda i, now=now: broadcast(i, now))  # type: ignore[misc]
        received = network.receive(now, EVERYBODY)
    assert [one.name for one in received[0]] == ["3"]


def test_beyond_the_range_nothing_is_received() -> None:
    received = exchange(RadioSpecification(range=2.5, rate=10.0), 20)
    assert [sorted(sender for _, sender, _ in messages) for messages in received] == [
        ["1"], ["0", "2"], ["1"], [],
    ]  # fmt: skip


def test_losses_are_drawn_for_each_link_and_follow_from_the_seed() -> None:
    radio = RadioSpecification(rate=100.0, loss=0.3)
    first, again, other = (exchange(radio, 5000, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    share = sum(len(messages) for messages in first) / (12 * 500)
    assert share == pytest.approx(0.7, abs=0.03)
    times = [{at for at, sender, _ in first[0] if sender == name} for name in "123"]
    assert times[0] != times[1] != times[2]


def test_one_that_is_gone_neither_sends_nor_receives() -> None:
    network = BroadcastNetwork(RadioSpecification(rate=100.0), 4, 0, 0)
    alive = np.array([True, True, False, True])
    network.send(0, LINE, alive, lambda i: broadcast(i, 0))
    received = network.receive(0, alive)
    assert [len(messages) for messages in received] == [2, 2, 0, 2]


@pytest.mark.parametrize(
    ("radio", "reason"),
    [
        (RadioSpecification(graph="star"), "star is about a leader, and avoidance has none; take complete"),
        (RadioSpecification(graph="links", links=((0, 2),)), "the vehicles are numbered 0 to 1"),
    ],
)
def test_a_graph_that_avoidance_cannot_use_is_refused(radio: RadioSpecification, reason: str) -> None:
    routes = tuple(
        RouteSpecification(name=name, points=((0.0, east, -5.0),)) for name, east in (("a", 0.0), ("b", 3.0))
    )
    with pytest.raises(ConfigurationError, match=reason):
        check_scenario(AvoidanceSpecification(name="s", duration=9.0, routes=routes, radio=radio))
