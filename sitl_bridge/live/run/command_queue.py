"""The queue of commands: parse, validate, and pass on once, or refuse with a reason.

No MQTT and no simulation here.  Commands are passed on in small batches, so that a flood does not delay the
simulation: at most one batch of at most ``BATCH`` commands is in progress, and at most ``RATE`` commands a
second are accepted.  execution.py executes them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, ValidationError, ValidationInfo

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.live.run.messages import RUN_COMMANDS, VEHICLE_COMMANDS, BusCommand, DelegatedCommand, Reply
from sitl_bridge.live.run.topics import Address, Topics

RATE = 20.0
"""Accepted commands a second of wall time; as many refusals and repeats are answered."""
BURST = 50
"""Commands accepted at once."""
BATCH = 8
"""Commands executed between the same two steps."""
MAX_SIZE = 65_536
"""Largest size of a command, bytes, far above any sensible command."""
REMEMBERED_REPLIES = 1000
MAX_COMMANDS = 1_000_000
"""Limit of commands per run: their ids are stored, 70 bytes each."""
MAX_WAITING = 100
"""Limit of commands waiting for the simulation."""
UNIDENTIFIED = "unidentified"


class TokenBucket:
    """A token bucket: admits BURST events at once, and RATE a second."""

    def __init__(self) -> None:
        self._left, self._at = float(BURST), 0.0

    def take(self, now: float) -> bool:
        """Take a token at ``now`` (s); return whether there was one."""
        self._left = min(BURST, self._left + (now - self._at) * RATE)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


@dataclass
class Counts:
    """Counters of commands."""

    executed: int = 0
    refused: int = 0
    duplicates: int = 0
    retained: int = 0
    unanswered: int = 0

    @property
    def read(self) -> int:
        """Number of received commands."""
        return self.executed + self.refused + self.duplicates + self.retained


def commands_for(vehicle: str | None) -> dict[str, type[BusCommand]]:
    """The commands of a vehicle, or of the run, by the last level of their topics."""
    return RUN_COMMANDS if vehicle is None else VEHICLE_COMMANDS


def _as_received(command: BusCommand) -> JsonObject:
    return command.model_dump(mode="json", exclude_unset=True)


def _validate(command: object, info: ValidationInfo) -> BusCommand:
    """The command of an order from another process, which is not trusted: it is validated again."""
    address = info.data.get("address")
    known = commands_for(address.vehicle) if address is not None else {}
    if address is None or address.kind not in known:
        raise ValueError("unknown command")
    return known[address.kind].model_validate(command)


@dataclass(frozen=True)
class Order:
    """An accepted command."""

    address: Address
    command: Annotated[BusCommand, PlainSerializer(_as_received), PlainValidator(_validate)]


@dataclass(frozen=True)
class Result:
    """Result of an order."""

    order: Order  # the order
    time: float  # s of simulated time
    refused: str | None  # reason of a refusal; None if it was executed
    withdrawn: bool = False  # whether it was not attempted and may be sent again


class CommandQueue:
    """Accepts commands, stores their ids, and passes them on.

    Args:
        hand_on: executes a batch of orders; ``settle`` receives each result.
        time: approximate simulated time, s.
        now: wall time, s.
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
        self._accepting = TokenBucket()
        self._answering = TokenBucket()

    def receive(self, topic: str, payload: bytes, *, retained: bool = False) -> Reply | None:
        """Process a message on a command topic.

        Returns:
            an immediate reply: a refusal, or the reply to a duplicate; None if there is none.
        """
        if retained:
            # Retained by the broker from earlier: no longer current.
            self.counts.retained += 1
            return None
        address = self._topics.address(topic)
        if address is None:
            return None
        try:
            command = self._read(address, payload)
        except UserError as error:
            return self._refuse(_request_id(payload), address, str(error))
        return self._take(Order(address, command))

    def _read(self, address: Address, payload: bytes) -> BusCommand:
        known = commands_for(address.vehicle)
        if address.vehicle is not None and address.vehicle not in self._topics.vehicles:
            raise UserError(
                f"no vehicle {address.vehicle!r}; vehicles: {', '.join(self._topics.vehicles[:20])}"
            )
        if address.kind not in known:
            raise UserError(f"no command {address.kind!r} here; commands: {', '.join(known)}")
        if len(payload) > MAX_SIZE:
            raise UserError(f"the command has {len(payload)} bytes, more than the limit of {MAX_SIZE}")
        try:
            return known[address.kind].model_validate_json(payload)
        except ValidationError as error:
            raise UserError("; ".join(faults_of(error))) from error

    def _take(self, order: Order) -> Reply | None:
        request = order.command.request_id
        mark = _id_hash(request)
        if mark in self._taken:
            self.counts.duplicates += 1
            known = self._replies.get(mark)
            if known is None or not self._answering.take(self._now()):
                return None
            return known.model_copy(update={"duplicate": True})
        if not self._accepting.take(self._now()):
            return self._refuse(request, order.address, f"more than {RATE:g} commands a second")
        if len(self._taken) >= MAX_COMMANDS:
            return self._refuse(request, order.address, f"the limit of {MAX_COMMANDS} commands is reached")
        if len(self._orders) >= MAX_WAITING:
            return self._refuse(request, order.address, f"{MAX_WAITING} commands are waiting already")
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

    def poll(self) -> None:
        """Pass on waiting commands once the previous batch has completed; call it every few milliseconds."""
        if self._under_way or not self._orders:
            return
        orders = [self._orders.popleft() for _ in range(min(BATCH, len(self._orders)))]
        self._under_way = sum(_for_simulation(order) for order in orders)
        self._hand_on(orders)

    def settle(self, results: Sequence[Result]) -> list[Reply]:
        """Process results of orders; return the replies."""
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
            self._taken.discard(_id_hash(request))
            return reply
        self._replies[_id_hash(request)] = reply
        if len(self._replies) > REMEMBERED_REPLIES:
            self._replies.popitem(last=False)
        return reply


def _for_simulation(order: Order) -> bool:
    """Return whether the order occupies the simulation; delegated commands take their own time."""
    return not isinstance(order.command, DelegatedCommand)


def _id_hash(request: str) -> int:
    """Return a 64-bit hash of a request's id: a million ids collide with a probability of 3e-8."""
    return int.from_bytes(hashlib.blake2b(request.encode(), digest_size=8).digest(), "big")


def _request_id(payload: bytes) -> str:
    """Return the request id of a faulty command for its reply; ``unidentified`` without a valid one."""
    try:
        found = json.loads(payload[:MAX_SIZE])["request_id"]
        return BusCommand(version=1, request_id=found).request_id
    except (ValueError, TypeError, KeyError, RecursionError):
        return UNIDENTIFIED


def faults_of(error: ValidationError) -> list[str]:
    """Return the first validation errors, one line each."""
    lines = []
    for fault in error.errors(include_url=False, include_context=False, include_input=False)[:5]:
        where = ".".join(str(part) for part in fault["loc"])
        lines.append(f"{where}: {fault['msg']}" if where else fault["msg"])
    return lines
