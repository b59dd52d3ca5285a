"""Broadcasts on their way from each vehicle to all others, in memory: with a rate, a delay and losses."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from sitl_bridge.kernels.random_streams import stream
from sitl_bridge.swarm.avoidance.avoidance_specification import Link as LinkPlan
from sitl_bridge.swarm.avoidance.neighbours import Broadcast


class Link:
    """What connects all with all.

    Args:
        plan: how broadcasts travel.
        count: of vehicles.
        start: us from which on they speak.
        seed: of the losses.
    """

    def __init__(self, plan: LinkPlan, count: int, start: int, seed: int) -> None:
        self._delay = round(plan.delay * 1e6)
        self._loss = plan.loss
        self._period = 1e6 / plan.rate
        self._next = [float(start)] * count
        self._order = 0
        self._waiting: list[list[tuple[int, int, Broadcast]]] = [[] for _ in range(count)]
        self._random = np.random.default_rng(int(stream(seed, "avoidance", "link")[0]))

    def send(self, sender: int, now: int, speak: Callable[[], Broadcast]) -> None:
        """Take a word of vehicle ``sender`` where one is due at ``now`` (us)."""
        if now < self._next[sender]:
            return
        # One that was late, or silent for a while, does not make up for it.
        self._next[sender] = max(self._next[sender] + self._period, now - self._period)
        word = speak()
        for receiver, waiting in enumerate(self._waiting):
            if receiver != sender and not (self._loss and self._random.random() < self._loss):
                heapq.heappush(waiting, (now + self._delay, self._order, word))
                self._order += 1

    def receive(self, receiver: int, now: int) -> list[Broadcast]:
        """What has reached vehicle ``receiver`` by ``now`` (us), in the order of arrival."""
        waiting = self._waiting[receiver]
        heard = []
        while waiting and waiting[0][0] <= now:
            heard.append(heapq.heappop(waiting)[2])
        return heard
