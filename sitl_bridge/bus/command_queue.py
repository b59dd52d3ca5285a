"""Where commands are taken: read, checked, handed on once or refused with a reason.

No MQTT in here, and no simulation.  Commands are handed on a few at a time, so that no flood of them delays
the simulation: at most one batch is under way, of at most ``BATCH`` commands, and no more than ``RATE`` a
second are taken.  What carries them out is execution.py.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from sitl_bridge.bus.messages import RUN_COMMANDS, VEHICLE_COMMANDS, Command, FormationCommand, Reply
from sitl_bridge.bus.topics import Address, Topics
from sitl_bridge.errors import UserError

RATE = 20.0
"""Commands a second of wall time that are taken; as many refused and repeated ones are answered."""
BURST = 50
"""Commands that may come at once."""
BATCH = 8
"""Commands that are executed between the same two steps."""
LARGEST = 65_536
"""Bytes of a command; the longest sensible one is far below."""
REMEMBERED_REPLIES = 1000
MOST_COMMANDS = 1_000_000
"""A run takes: their ids are all remembered, 70 bytes each."""
MOST_WAITING = 100
"""Commands that wait for the simulation to take them."""
UNIDENTIFIED = "unidentified"


class Bucket:
    """Lets so many things through a second, and a few at once.

    Args:
        rate: a second.
        burst: at once after a rest.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = burst, 0.0

    def take(self, now: float) -> bool:
        """Whether one more may pass at ``now`` (s)."""
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


@dataclass
class Counts:
    """What became of commands."""

    executed: int = 0
    refused: int = 0
    duplicates: int = 0
    retained: int = 0
    unanswered: int = 0

    @property
    def read(self) -> int:
        """Commands that came."""
        return self.executed + self.refused + self.duplicates + self.retained


@dataclass(frozen=True)
class Order:
    """A command that was taken."""

    command: Command
    address: Address


@dataclass(frozen=True)
class Result:
    """What became of an order.

    Attributes:
        order: which.
        time: s of simulated time.
        refused: why; None when it was carried out.
        withdrawn: it was not even tried, and may be sent again.
    """

    order: Order
    time: float
    refused: str | None
    withdrawn: bool = False


class CommandQueue:
    """Takes commands, remembers which were taken, and hands them on.

    Args:
        topics: of the run.
        hand_on: takes a batch of orders, of which each is answered by ``settle``.
        time: s of simulated time, about.
        now: s of wall time.
    """

    def __init__(
        self,
        topics: Topics,
        hand_on: Callable[[list[Order]], None],
        time: Callable[[], float],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = Counts()
        self._topics, self._hand_on, self._time, self._now = topics, hand_on, time, now
        self._taken: set[int] = set()
        self._replies: OrderedDict[int, Reply] = OrderedDict()
        self._orders: deque[Order] = deque()
        self._under_way = 0
        self._accepting = Bucket(RATE, BURST)
        self._answering = Bucket(RATE, BURST)

    def receive(self, topic: str, payload: bytes, *, retained: bool = False) -> Reply | None:
        """Take a message from a command's topic.

        Returns:
            what to answer at once: a refusal, or the answer to a duplicate; None where nothing is.
        """
        if retained:
            # Kept by the broker from before: nobody asks for it now.
            self.counts.retained += 1
            return None
        address = self._topics.address(topic)
        if address is None:
            return None
        try:
            command = self._read(address, payload)
        except UserError as error:
            return self._refuse(_request_id(payload), address, str(error))
        return self._take(Order(command, address))

    def _read(self, address: Address, payload: bytes) -> Command:
        known = RUN_COMMANDS if address.vehicle is None else VEHICLE_COMMANDS
        if address.vehicle is not None and address.vehicle not in self._topics.vehicles:
            raise UserError(
                f"no vehicle {address.vehicle!r}; there is {', '.join(self._topics.vehicles[:20])}"
            )
        if address.kind not in known:
            raise UserError(f"no command {address.kind!r} here; there is {', '.join(known)}")
        if len(payload) > LARGEST:
            raise UserError(f"a command has at most {LARGEST} bytes, not {len(payload)}")
        try:
            return known[address.kind].model_validate_json(payload)
        except ValidationError as error:
            raise UserError("; ".join(_faults(error))) from error

    def _take(self, order: Order) -> Reply | None:
        request = order.command.request_id
        mark = _mark(request)
        if mark in self._taken:
            self.counts.duplicates += 1
            known = self._replies.get(mark)
            if known is None or not self._answering.take(self._now()):
                return None
            return known.model_copy(update={"duplicate": True})
        if not self._accepting.take(self._now()):
            return self._refuse(request, order.address, f"more than {RATE:g} commands a second")
        if len(self._taken) >= MOST_COMMANDS:
            return self._refuse(request, order.address, f"the run has taken {MOST_COMMANDS} commands")
        if len(self._orders) >= MOST_WAITING:
            return self._refuse(request, order.address, f"{MOST_WAITING} commands wait already")
        self._taken.add(mark)
        self._orders.append(order)
        return None

    def _refuse(self, request: str, address: Address, reason: str) -> Reply | None:
        self.counts.refused += 1
        if not self._answering.take(self._now()):
            self.counts.unanswered += 1
            return None
        return Reply(
            time=self._time(),
            request_id=request,
            command=address.kind[:64],
            vehicle=None if address.vehicle is None else address.vehicle[:64],
            accepted=False,
            reason=reason,
        )

    def turn(self) -> None:
        """Hand on what waits, once what was handed on before is settled; called every few milliseconds."""
        if self._under_way or not self._orders:
            return
        orders = [self._orders.popleft() for _ in range(min(BATCH, len(self._orders)))]
        self._under_way = sum(_for_simulation(order) for order in orders)
        self._hand_on(orders)

    def settle(self, results: Sequence[Result]) -> list[Reply]:
        """Take note of what became of orders; returns the answers to send."""
        self._under_way -= sum(_for_simulation(result.order) for result in results)
        return [self._note(result) for result in results]

    def _note(self, result: Result) -> Reply:
        address, request = result.order.address, result.order.command.request_id
        reply = Reply(
            time=result.time,
            request_id=request,
            command=address.kind,
            vehicle=address.vehicle,
            accepted=result.refused is None,
            reason=result.refused or "",
        )
        if reply.accepted:
            self.counts.executed += 1
        else:
            self.counts.refused += 1
        if result.withdrawn:
            self._taken.discard(_mark(request))
            return reply
        self._replies[_mark(request)] = reply
        if len(self._replies) > REMEMBERED_REPLIES:
            self._replies.popitem(last=False)
        return reply


def _for_simulation(order: Order) -> bool:
    """Whether others wait for it; a formation answers in its own time."""
    return not isinstance(order.command, FormationCommand)


def _mark(request: str) -> int:
    """64 bits of a request's id: a million ids share one with a probability of 3e-8."""
    return int.from_bytes(hashlib.blake2b(request.encode(), digest_size=8).digest(), "big")


def _request_id(payload: bytes) -> str:
    """Of a faulty command, for its answer; ``unidentified`` where it has none that may be a topic's level."""
    try:
        found = json.loads(payload[:LARGEST])["request_id"]
        return Command(version=1, request_id=found).request_id
    except (ValueError, TypeError, KeyError, RecursionError):
        return UNIDENTIFIED


def _faults(error: ValidationError) -> list[str]:
    """One line each, the first few."""
    lines = []
    for fault in error.errors(include_url=False, include_context=False, include_input=False)[:5]:
        where = ".".join(str(part) for part in fault["loc"])
        lines.append(f"{where}: {fault['msg']}" if where else fault["msg"])
    return lines
