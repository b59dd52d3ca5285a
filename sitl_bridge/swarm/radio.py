"""The radio between vehicles: rate, delay, loss, range and graph, for formations and avoidance.

A message is broadcast to all receivers.  Every directed link has its own random stream for losses, so that an
additional vehicle or link does not change the others.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike
from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import AnyArray, Floats, Ints, Mask, Words
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import stream, uniform
from sitl_bridge.base.quantities import STRICT
from sitl_bridge.swarm.neighbour_graph import Kind, Topology


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
