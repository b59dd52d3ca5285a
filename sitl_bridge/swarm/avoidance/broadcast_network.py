"""The broadcasts of all vehicles of an avoidance scenario over one radio, sent at its rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.swarm.avoidance.neighbours import Broadcast
from sitl_bridge.swarm.radio import RadioSpecification

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


class BroadcastNetwork:
    """Carries broadcasts between vehicles.

    Args:
        specification: how messages travel; without a graph of its own, from everybody to everybody.
        count: of vehicles.
        start: us from which on the vehicles broadcast.
        seed: of the losses.
    """

    def __init__(self, specification: RadioSpecification, count: int, start: int, seed: int) -> None:
        self._topology = specification.topology("complete")
        self._radio = specification.radio(count, object, seed)
        self._period = 1e6 / specification.rate
        self._next = float(start)
        self._on_air = np.zeros(count, dtype=np.bool_)

    def send(self, now: int, position: Array, on_air: Mask, broadcast: Callable[[int], Broadcast]) -> None:
        """Send a broadcast of every vehicle that is on air, where one is due at ``now`` (us).

        Args:
            now: us.
            position: (n, 3) m.
            on_air: (n,) which vehicles send and receive.
            broadcast: makes the message of a vehicle.
        """
        if now < self._next:
            return
        # A late broadcast is not made up for by more of them.
        self._next = max(self._next + self._period, now - self._period)
        if self._topology.kind == "nearest" or not np.array_equal(on_air, self._on_air):
            self._on_air = on_air.copy()
            self._radio.connect(self._topology.edges(position, on_air, ()))
        messages = np.zeros(len(on_air), dtype=object)
        for i in np.flatnonzero(on_air).tolist():
            messages[i] = broadcast(i)
        self._radio.send(now, messages, position, on_air)

    def receive(self, now: int, on_air: Mask) -> list[list[Broadcast]]:
        """What has reached each vehicle by ``now`` (us), in the order of arrival."""
        received: list[list[Broadcast]] = [[] for _ in range(len(on_air))]
        for links in self._radio.arrivals(now, on_air):
            for link in links.tolist():
                received[int(self._radio.edges[link, 1])].append(self._radio.heard[link])
        return received
