"""The radio between vehicles: rate, delay, loss, range and graph of links, for formations and avoidance.

A message is broadcast to all receivers.  Every directed link has its own random stream for losses, so that an
additional vehicle or link does not change the others.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy
from numpy.typing import DTypeLike
from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import AnyArray, Floats, Ints, Mask, Words
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import stream, uniform
from sitl_bridge.base.quantities import STRICT

Kind: TypeAlias = Literal["star", "complete", "ring", "chain", "nearest", "inwards", "links"]

MAX_LINKS = 200_000
"""Largest number of directed links; the complete graph of 447 vehicles."""


@dataclass(frozen=True)
class Topology:
    """A rule for the links between vehicles; absent vehicles are skipped, and the others linked directly."""

    # ``star``: every vehicle with the leader; ``complete``: all pairs; ``ring``, ``chain``: neighbours by
    # number; ``nearest``: each vehicle both ways with its ``neighbours`` nearest; ``inwards``: each receives
    # from the ``neighbours`` nearest of the vehicles closer to the leader's slot than itself, so that
    # messages travel outwards without cycles, as in XTDrone's get_communication_topology; ``links``: as
    # listed
    kind: Kind = "star"
    neighbours: int = 4  # for nearest and inwards
    links: tuple[tuple[int, int], ...] = ()  # (from, to) pairs of vehicles, one-way, for links

    def edges(self, offsets: Floats, members: Mask, leaders: Sequence[int]) -> Ints:
        """Return the directed links, sorted by receiver and then by sender.

        Args:
            offsets: (n, 3) m, slots.
            members: (n,) vehicles in the formation.
            leaders: vehicles that lead or claim to lead.

        Returns:
            (m, 2) sender, receiver.

        Raises:
            UserError: for more than MAX_LINKS.
        """
        who = np.flatnonzero(members)
        edges = _EDGES[self.kind](self, offsets, who, [i for i in leaders if members[i]])
        edges = edges[members[edges].all(axis=1) & (edges[:, 0] != edges[:, 1])]
        unique: Ints = np.unique(edges[:, ::-1], axis=0)[:, ::-1]
        return unique


def _both_ways(edges: Ints) -> Ints:
    return np.concatenate([edges, edges[:, ::-1]])


def _star(_: Topology, __: Floats, who: Ints, leaders: Sequence[int]) -> Ints:
    pairs = [np.stack([np.full(len(who), leader), who], axis=1) for leader in leaders]
    return _both_ways(np.concatenate([np.zeros((0, 2), np.int64), *pairs]))


def _complete(_: Topology, __: Floats, who: Ints, ___: Sequence[int]) -> Ints:
    if len(who) * (len(who) - 1) > MAX_LINKS:
        raise UserError(
            f"a complete graph of {len(who)} vehicles has more than {MAX_LINKS} links; use nearest"
        )
    return np.stack(np.meshgrid(who, who, indexing="ij"), axis=-1).reshape(-1, 2)


def _chain(_: Topology, __: Floats, who: Ints, ___: Sequence[int]) -> Ints:
    return _both_ways(np.stack([who[:-1], who[1:]], axis=1))


def _ring(_: Topology, __: Floats, who: Ints, ___: Sequence[int]) -> Ints:
    return _both_ways(np.stack([who, np.roll(who, -1)], axis=1))


def _nearest(topology: Topology, offsets: Floats, who: Ints, _: Sequence[int]) -> Ints:
    count = min(topology.neighbours, len(who) - 1)
    if count < 1:
        return np.zeros((0, 2), np.int64)
    near = np.asarray(scipy.spatial.KDTree(offsets[who]).query(offsets[who], k=count + 1)[1])
    pairs = np.stack([who[near], np.broadcast_to(who[:, None], near.shape)], axis=-1).reshape(-1, 2)
    return _both_ways(pairs)


def _inwards(topology: Topology, offsets: Floats, who: Ints, leaders: Sequence[int]) -> Ints:
    if not len(who):
        return np.zeros((0, 2), np.int64)
    first = leaders[0] if leaders else int(who[0])
    away = np.round(np.linalg.norm(offsets[who] - offsets[first], axis=1), 6)
    away[who == first] = -1.0
    order = who[np.lexsort((who, away))]
    pairs = []
    for rank in range(1, len(order)):
        inner = order[:rank]
        distance = np.round(np.linalg.norm(offsets[inner] - offsets[order[rank]], axis=1), 6)
        pairs += [
            (int(i), int(order[rank])) for i in inner[np.lexsort((inner, distance))[: topology.neighbours]]
        ]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _links(topology: Topology, offsets: Floats, _: Ints, __: Sequence[int]) -> Ints:
    edges = np.array(topology.links, dtype=np.int64).reshape(-1, 2)
    if len(edges) and not (edges.min() >= 0 and edges.max() < len(offsets)):
        raise UserError(f"the graph's links name vehicles outside 0..{len(offsets) - 1}")
    return edges


_EDGES = {
    "star": _star,
    "complete": _complete,
    "ring": _ring,
    "chain": _chain,
    "nearest": _nearest,
    "inwards": _inwards,
    "links": _links,
}


def hops(edges: Ints, count: int, source: int) -> Ints:
    """Return the (n,) number of links from ``source`` to each vehicle; -1 if unreachable."""
    found = np.full(count, -1, dtype=np.int64)
    found[source] = 0
    far = 0
    while True:
        far += 1
        more = edges[(found[edges[:, 0]] >= 0) & (found[edges[:, 1]] < 0), 1]
        if not len(more):
            return found
        found[more] = far


class RadioSpecification(BaseModel):
    """Radio messages between the vehicles of a formation or an avoidance scenario."""

    model_config = STRICT

    graph: Kind | None = Field(
        None,
        description="which vehicles receive from which; default: complete in avoidance, star about the leader"
        " in a formation",
    )
    neighbours: int = Field(4, ge=1, le=100, description="of each vehicle, for nearest and inwards")
    links: tuple[tuple[int, int], ...] = Field(
        (), description="for the graph links: [from, to], numbers of vehicles from 0, one way each"
    )
    rate: float = Field(50.0, ge=0.1, le=1000.0, description="Hz of messages of each vehicle")
    delay: float = Field(0.0, ge=0.0, le=5.0, description="s from sending to receiving")
    loss: float = Field(
        0.0, ge=0.0, le=0.99, description="probability that a link loses a message, independent of others"
    )
    range: float | None = Field(None, ge=0.01, le=1e5, description="m; default: unlimited")

    def topology(self, default: Kind) -> Topology:
        """Return the graph's rule; of kind ``default`` if none is given."""
        return Topology(self.graph or default, self.neighbours, self.links)

    def radio(self, count: int, message: DTypeLike, seed: int) -> Radio:
        """Return the radio of ``count`` vehicles for messages of a type."""
        return Radio(
            count,
            message,
            seed=seed,
            delay=round(1e6 * self.delay),
            loss=self.loss,
            reach=math.inf if self.range is None else self.range,
        )


@compiled
def _draw_losses(streams: Words, probability: float, arrives: Mask) -> None:
    """Draw whether messages arrive, (m,) bool, one draw from each link's stream (m, 4)."""
    for k in range(len(arrives)):
        arrives[k] = uniform(streams[k]) >= probability


class Radio:
    """Messages in transit and the newest received ones.

    Args:
        message: numpy type of a message; ``object`` for any.
        delay: us from sending to receiving.
        loss: probability that a link loses a message, independent of others.
        reach: m, largest distance of reception.

    Attributes:
        edges: (m, 2) sender, receiver, sorted by receiver.
        heard: (m,) newest received message of each link; zero before the first.
        sent, lost: numbers of messages by link.
    """

    def __init__(
        self,
        count: int,
        message: DTypeLike,
        *,
        seed: int,
        delay: int = 0,
        loss: float = 0.0,
        reach: float = np.inf,
    ) -> None:
        self.count, self.seed, self.delay, self.loss, self.reach = count, seed, delay, loss, reach
        self.edges: Ints = np.zeros((0, 2), np.int64)
        self.heard: AnyArray = np.zeros(0, message)
        self.sent = self.lost = 0
        self._streams = np.zeros((0, 4), np.uint64)
        self._known: dict[int, Words] = {}
        self._air: deque[tuple[int, AnyArray, Ints, Mask]] = deque()

    def connect(self, edges: Ints) -> None:
        """Change the graph.  Messages in transit still arrive; those of unchanged links are kept."""
        old, new = self._keys(self.edges), self._keys(edges)
        heard = np.zeros(len(edges), self.heard.dtype)
        shared, before, now = np.intersect1d(old, new, assume_unique=True, return_indices=True)
        del shared
        heard[now] = self.heard[before]
        if self.loss > 0.0:
            self._known.update(zip(old.tolist(), self._streams, strict=True))
            self._streams = np.zeros((len(edges), 4), np.uint64)
            for k, (key, (sender, receiver)) in enumerate(zip(new.tolist(), edges.tolist(), strict=True)):
                known = self._known.get(key)
                self._streams[k] = stream(self.seed, "radio", sender, receiver) if known is None else known
        self.edges, self.heard = edges, heard

    def _keys(self, edges: Ints) -> Ints:
        keys: Ints = edges[:, 1] * self.count + edges[:, 0]
        return keys

    def send(self, time: int, messages: AnyArray, position: Floats, on_air: Mask) -> None:
        """Send a message of every vehicle on air.

        Args:
            time: us.
            messages: (n,) one per vehicle.
            position: (n, 3) m, of the vehicles.
            on_air: (n,) vehicles that send and receive.
        """
        arrives = np.ones(len(self.edges), dtype=np.bool_)
        if self.loss > 0.0:
            _draw_losses(self._streams, self.loss, arrives)
        sender, receiver = self.edges[:, 0], self.edges[:, 1]
        possible = on_air[sender] & on_air[receiver]
        if np.isfinite(self.reach):
            apart = position[sender] - position[receiver]
            possible &= (apart**2).sum(axis=1) <= self.reach**2
        self.sent += int(possible.sum())
        self.lost += int((possible & ~arrives).sum())
        self._air.append((time, messages.copy(), self.edges, possible & arrives))

    def receive(self, time: int, on_air: Mask) -> Mask:
        """Receive the messages that have arrived by ``time`` us.

        Returns:
            (m,) links with a new message.
        """
        fresh = np.zeros(len(self.edges), dtype=np.bool_)
        for links in self.arrivals(time, on_air):
            fresh[links] = True
        return fresh

    def arrivals(self, time: int, on_air: Mask) -> Iterator[Ints]:
        """Receive the messages that have arrived by ``time`` us, in the order of sending.

        Yields:
            links with a message of one sending; it is in ``heard``.
        """
        while self._air and self._air[0][0] + self.delay <= time:
            _, messages, edges, arrives = self._air.popleft()
            if edges is self.edges:
                links, sender = np.flatnonzero(arrives & on_air[edges[:, 1]]), edges[:, 0]
                self.heard[links] = messages[sender[links]]
            else:
                _, mine, _ = np.intersect1d(
                    self._keys(self.edges),
                    self._keys(edges[arrives]),
                    assume_unique=True,
                    return_indices=True,
                )
                links = mine[on_air[self.edges[mine, 1]]]
                self.heard[links] = messages[self.edges[links, 0]]
            yield links
