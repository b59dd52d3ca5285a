"""Where commands are taken: read, checked, executed once or refused with a reason.

No MQTT in here.  Commands are handed to the simulation a few at a time, so that no flood of them delays it:
at most one batch is under way, of at most ``BATCH`` commands, and no more than ``RATE`` a second are taken.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from pydantic import ValidationError

from sitl_bridge.bus.messages import (
    RUN_COMMANDS,
    VEHICLE_COMMANDS,
    Command,
    FormationCommand,
    Reply,
)
from sitl_bridge.bus.source import Source
from sitl_bridge.bus.steering import OnFormation, steer_run, steer_vehicle
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
PATIENCE = 5.0
"""s of wall time within which the simulation must take a batch, or its commands are withdrawn and refused."""
FORMATION_PATIENCE = 6.0
"""s of wall time within which whoever flies a formation must answer; a second more than it may take."""
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


@dataclass(frozen=True)
class Order:
    """A command that was taken."""

    command: Command
    address: Address

    def reply(self, time: float, reason: str | None) -> Reply:
        """Its answer; a reason refuses it."""
        return Reply(
            time=time,
            request_id=self.command.request_id,
            command=self.address.kind,
            vehicle=self.address.vehicle,
            accepted=reason is None,
            reason=reason or "",
        )


@dataclass
class Batch:
    """Orders on their way to the simulation: executed there, or withdrawn here, never both."""

    orders: list[Order]
    source: Source
    expires: float
    replies: list[Reply] = field(default_factory=list)
    done: bool = False
    _claim: threading.Lock = field(default_factory=threading.Lock)

    def claim(self) -> bool:
        """Whether the caller is the first to ask, and may execute or withdraw."""
        return self._claim.acquire(blocking=False)

    def run(self) -> None:
        """Execute everything; on the simulation's thread, between two steps."""
        if not self.claim():
            return
        simulation = self.source.simulation
        seconds = (simulation.time - simulation.start) * 1e-6
        for order in self.orders:
            self.replies.append(order.reply(seconds, self._execute(order)))
        self.done = True

    def _execute(self, order: Order) -> str | None:
        """Why it was refused; None when it was done."""
        try:
            if order.address.vehicle is None:
                steer_run(order.command, self.source)
            else:
                simulation = self.source.simulation
                vehicle = simulation.names.index(order.address.vehicle)
                steer_vehicle(order.command, simulation, vehicle)
        except UserError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  (no message, whatever is in it, ends the simulation)
            return f"failed: {error!r}"
        return None


class Desk:
    """Takes commands, remembers which were taken, and hands them to the simulation.

    Args:
        source: what runs the simulation.
        topics: of the run.
        on_formation: takes formation targets; None refuses them.
        now: s of wall time.
    """

    def __init__(
        self,
        source: Source,
        topics: Topics,
        on_formation: OnFormation | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = Counts()
        self._source, self._topics, self._on_formation, self._now = source, topics, on_formation, now
        self._taken: set[int] = set()
        self._replies: OrderedDict[int, Reply] = OrderedDict()
        self._orders: deque[Order] = deque()
        self._batch: Batch | None = None
        self._asked: list[tuple[Order, Future[None], float]] = []
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
            time=self._source.status().time,
            request_id=request,
            command=address.kind[:64],
            vehicle=None if address.vehicle is None else address.vehicle[:64],
            accepted=False,
            reason=reason,
        )

    def turn(self) -> list[Reply]:
        """Collect what was executed, hand over what waits; called every few milliseconds.

        Returns:
            answers to send.
        """
        replies = self._collect()
        if self._batch is None and self._orders:
            self._hand_over()
        return replies + self._answered()

    def _answered(self) -> list[Reply]:
        """What became of commands for the formation."""
        now = self._now()
        over = [asked for asked in self._asked if asked[1].done() or now > asked[2]]
        self._asked = [asked for asked in self._asked if asked not in over]
        seconds = self._source.status().time
        return [self._note(order.reply(seconds, _why_not(answer))) for order, answer, _ in over]

    def _collect(self) -> list[Reply]:
        batch = self._batch
        if batch is None:
            return []
        if batch.done:
            self._batch = None
            return [self._note(reply) for reply in batch.replies]
        if self._now() < batch.expires or not batch.claim():
            return []
        self._batch = None
        reason = f"the simulation did not take it within {PATIENCE:g} s"
        seconds = self._source.status().time
        for order in batch.orders:  # they were not executed, and may be sent again
            self._taken.discard(_mark(order.command.request_id))
        self.counts.refused += len(batch.orders)
        return [order.reply(seconds, reason) for order in batch.orders]

    def _hand_over(self) -> None:
        orders: list[Order] = []
        while self._orders and len(orders) < BATCH:
            order = self._orders.popleft()
            if isinstance(order.command, FormationCommand):
                self._asked.append((order, self._ask(order, order.command), self._now() + FORMATION_PATIENCE))
            else:
                orders.append(order)
        if orders:
            self._batch = Batch(orders, self._source, self._now() + PATIENCE)
            self._source.call(self._batch.run)

    def _ask(self, order: Order, command: FormationCommand) -> Future[None]:
        """Formations are flown outside the simulation's thread, and are told here."""
        answer: Future[None] = Future()
        try:
            if self._on_formation is None:
                raise UserError("nothing in this run flies a formation")
            name = order.address.vehicle
            vehicle = None if name is None else self._topics.vehicles.index(name)
            answer = self._on_formation(command, order.address.kind, vehicle)
        except Exception as error:  # noqa: BLE001  (the user's code; the bus goes on)
            answer.set_exception(error)
        return answer

    def _note(self, reply: Reply) -> Reply:
        if reply.accepted:
            self.counts.executed += 1
        else:
            self.counts.refused += 1
        self._replies[_mark(reply.request_id)] = reply
        if len(self._replies) > REMEMBERED_REPLIES:
            self._replies.popitem(last=False)
        return reply


def _why_not(answer: Future[None]) -> str | None:
    """Why a formation does not do it; None when it does."""
    if not answer.done():
        return f"what flies the formation has not answered within {FORMATION_PATIENCE:g} s"
    error = answer.exception()
    return None if error is None else str(error) if isinstance(error, UserError) else f"failed: {error!r}"


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
