"""Who hears whom, and when: neighbour graphs, and a radio with delay, loss and range.

A message is a beacon, the same for all that hear it.  Every directed link draws its losses from a random
stream of its own, so that a vehicle or a link more changes nothing for the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from sitl_bridge.errors import UserError
from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.kernels.random_streams import stream, uniform

Array: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

Kind: TypeAlias = Literal["star", "complete", "ring", "chain", "nearest", "inwards", "links"]

MAX_LINKS = 200_000
"""Directed links; the complete graph of 447 vehicles."""

REFERENCE = np.dtype(
    [
        ("stamp", "i8"),  # us, when it was true
        ("position", "f8", 3),  # m NED, of the formation's centre
        ("velocity", "f8", 3),  # m/s
        ("acceleration", "f8", 3),  # m/s^2
        ("heading", "f8"),  # rad, of the formation's frame
        ("turn_rate", "f8"),  # rad/s
    ],
    align=True,
)
"""Where the formation as a whole is and goes."""

BEACON = np.dtype(
    [
        ("stamp", "i8"),  # us, when it was sent; 0: nothing was heard yet
        ("position", "f8", 3),  # m NED, the sender's own
        ("velocity", "f8", 3),  # m/s
        ("claim", "i8"),  # of the leader the sender follows; the highest one leads
        ("leader", "i8"),  # who that is
        ("epoch", "i8"),  # of the newest move that the sender knows
        ("start", "i8"),  # us at which the formation starts; 0: not yet told
        ("reference", REFERENCE),  # the newest one it knows, passed on
    ],
    align=True,
)
"""What a vehicle tells those that hear it.  Moves are known to all by their number, as uploaded before."""


@dataclass(frozen=True)
class Topology:
    """A rule for who hears whom; vehicles that are gone are left out and the others close ranks.

    Attributes:
        kind: ``star``: every vehicle and the leader; ``complete``: everybody; ``ring``, ``chain``: neighbours
            by number; ``nearest``: each hears its ``neighbours`` nearest, and is heard by them; ``inwards``:
            each hears the ``neighbours`` nearest of those nearer to the leader's slot than itself, so
            that the word goes outwards without circles, as XTDrone's get_communication_topology has it;
            ``links``: as listed.
        neighbours: for nearest and inwards.
        links: (from, to) pairs of vehicles, one-way, for links.
    """

    kind: Kind = "star"
    neighbours: int = 4
    links: tuple[tuple[int, int], ...] = ()

    def edges(self, offsets: Array, members: Mask, leaders: Sequence[int]) -> Index:
        """Directed links, sorted by who hears and then by who is heard.

        Args:
            offsets: (n, 3) m, slots.
            members: (n,) who takes part.
            leaders: who leads, or claims to.

        Returns:
            (m, 2) sender, receiver.

        Raises:
            UserError: for more than MAX_LINKS.
        """
        who = np.flatnonzero(members)
        edges = _EDGES[self.kind](self, offsets, who, [i for i in leaders if members[i]])
        edges = edges[members[edges].all(axis=1) & (edges[:, 0] != edges[:, 1])]
        unique: Index = np.unique(edges[:, ::-1], axis=0)[:, ::-1]
        return unique


def _both_ways(edges: Index) -> Index:
    return np.concatenate([edges, edges[:, ::-1]])


def _star(_: Topology, __: Array, who: Index, leaders: Sequence[int]) -> Index:
    pairs = [np.stack([np.full(len(who), leader), who], axis=1) for leader in leaders]
    return _both_ways(np.concatenate([np.zeros((0, 2), np.int64), *pairs]))


def _complete(_: Topology, __: Array, who: Index, ___: Sequence[int]) -> Index:
    if len(who) * (len(who) - 1) > MAX_LINKS:
        raise UserError(
            f"a complete graph of {len(who)} vehicles has more than {MAX_LINKS} links; take nearest"
        )
    return np.stack(np.meshgrid(who, who, indexing="ij"), axis=-1).reshape(-1, 2)


def _chain(_: Topology, __: Array, who: Index, ___: Sequence[int]) -> Index:
    return _both_ways(np.stack([who[:-1], who[1:]], axis=1))


def _ring(_: Topology, __: Array, who: Index, ___: Sequence[int]) -> Index:
    return _both_ways(np.stack([who, np.roll(who, -1)], axis=1))


def _nearest(topology: Topology, offsets: Array, who: Index, _: Sequence[int]) -> Index:
    count = min(topology.neighbours, len(who) - 1)
    if count < 1:
        return np.zeros((0, 2), np.int64)
    near = np.asarray(KDTree(offsets[who]).query(offsets[who], k=count + 1)[1])
    pairs = np.stack([who[near], np.broadcast_to(who[:, None], near.shape)], axis=-1).reshape(-1, 2)
    return _both_ways(pairs)


def _inwards(topology: Topology, offsets: Array, who: Index, leaders: Sequence[int]) -> Index:
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


def _links(topology: Topology, offsets: Array, _: Index, __: Sequence[int]) -> Index:
    edges = np.array(topology.links, dtype=np.int64).reshape(-1, 2)
    if len(edges) and not (edges.min() >= 0 and edges.max() < len(offsets)):
        raise UserError(f"the graph's links name vehicles beyond 0..{len(offsets) - 1}")
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


def hops(edges: Index, count: int, source: int) -> Index:
    """(n,) links that the word of ``source`` takes to each; -1 where it does not get."""
    found = np.full(count, -1, dtype=np.int64)
    found[source] = 0
    far = 0
    while True:
        far += 1
        more = edges[(found[edges[:, 0]] >= 0) & (found[edges[:, 1]] < 0), 1]
        if not len(more):
            return found
        found[more] = far


@compiled
def _draw_losses(streams: Any, probability: Any, arrives: Any) -> None:
    """Whether a message gets through, (m,) bool, one draw of each link's stream (m, 4)."""
    for k in range(len(arrives)):
        arrives[k] = uniform(streams[k]) >= probability


class Radio:
    """Beacons on their way.

    Args:
        count: vehicles.
        seed: of the run.
        delay: us from sending to hearing.
        loss: probability that a link loses a message, each on its own.
        reach: m; beyond it nothing is heard.

    Attributes:
        edges: (m, 2) sender, receiver, sorted by receiver.
        heard: (m,) BEACON, the newest one over each link; its stamp is 0 before the first.
        sent, lost: messages counted by link.
    """

    def __init__(
        self, count: int, *, seed: int, delay: int = 0, loss: float = 0.0, reach: float = np.inf
    ) -> None:
        self.count, self.seed, self.delay, self.loss, self.reach = count, seed, delay, loss, reach
        self.edges: Index = np.zeros((0, 2), np.int64)
        self.heard = np.zeros(0, BEACON)
        self.sent = self.lost = 0
        self._streams = np.zeros((0, 4), np.uint64)
        self._known: dict[int, NDArray[np.uint64]] = {}
        self._air: deque[tuple[int, NDArray[np.void], Index, Mask]] = deque()

    def connect(self, edges: Index) -> None:
        """Change the graph; what is on its way arrives still, what was heard over links that stay is kept."""
        old, new = self._keys(self.edges), self._keys(edges)
        heard = np.zeros(len(edges), BEACON)
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

    def _keys(self, edges: Index) -> Index:
        keys: Index = edges[:, 1] * self.count + edges[:, 0]
        return keys

    def send(self, time: int, beacons: NDArray[np.void], on_air: Mask) -> None:
        """Send a beacon of every vehicle that is on air.

        Args:
            time: us.
            beacons: (n,) BEACON.
            on_air: (n,) who sends and hears.
        """
        arrives = np.ones(len(self.edges), dtype=np.bool_)
        if self.loss > 0.0:
            _draw_losses(self._streams, self.loss, arrives)
        sender, receiver = self.edges[:, 0], self.edges[:, 1]
        possible = on_air[sender] & on_air[receiver]
        if np.isfinite(self.reach):
            apart = beacons["position"][sender] - beacons["position"][receiver]
            possible &= (apart**2).sum(axis=1) <= self.reach**2
        self.sent += int(possible.sum())
        self.lost += int((possible & ~arrives).sum())
        self._air.append((time, beacons.copy(), self.edges, possible & arrives))

    def receive(self, time: int, on_air: Mask) -> Mask:
        """Take in what has arrived by ``time`` us.

        Returns:
            (m,) links over which something new was heard.
        """
        fresh = np.zeros(len(self.edges), dtype=np.bool_)
        while self._air and self._air[0][0] + self.delay <= time:
            _, beacons, edges, arrives = self._air.popleft()
            if edges is self.edges:
                links, sender = np.flatnonzero(arrives & on_air[edges[:, 1]]), edges[:, 0]
                self.heard[links] = beacons[sender[links]]
            else:
                _, mine, _ = np.intersect1d(
                    self._keys(self.edges),
                    self._keys(edges[arrives]),
                    assume_unique=True,
                    return_indices=True,
                )
                links = mine[on_air[self.edges[mine, 1]]]
                self.heard[links] = beacons[self.edges[links, 0]]
            fresh[links] = True
        return fresh
