"""Neighbour graphs: the directed links over which vehicles receive messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy

from sitl_bridge.base.arrays import Floats, Ints, Mask
from sitl_bridge.base.errors import UserError

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
