"""What a bus and its client, a process of its own, send to one another: JSON lines over a pair of sockets.

The client reads the network, so nothing it sends is trusted: every line has a limit, and what it holds is
checked against the message it claims to be.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, TypeAdapter, ValidationError

from sitl_bridge.bus.address import BusAddress
from sitl_bridge.bus.command_queue import Counts, Order, Result
from sitl_bridge.bus.messages import RUN_COMMANDS, VEHICLE_COMMANDS, Event
from sitl_bridge.bus.topics import Address

FROM_CLIENT = 1 << 20
"""Bytes of a line from the client at most: a batch of commands of the greatest length."""
FROM_BRIDGE = 1 << 26
"""Bytes of a line from the program that runs the simulation: a snapshot of ten thousand vehicles."""

Rows: TypeAlias = list[list[float]]


@dataclass(frozen=True)
class Settings:
    """What the client needs, sent first.

    Attributes:
        address: of the broker, with the password.
        port: its own, where the address leaves it open.
        url: the address without the password.
        run: name of the run in topics.
        vehicles: their names.
        directory: where the embedded broker keeps its log.
    """

    address: BusAddress
    port: int
    url: str
    run: str
    vehicles: tuple[str, ...]
    directory: Path


@dataclass(frozen=True)
class Ask:
    """The client wants another snapshot; with it come the counts of commands so far."""

    counts: Counts


@dataclass(frozen=True)
class Look:
    """A snapshot of a simulation: the answer to Ask, plain figures only.

    Attributes:
        time: s of simulated time since the start.
        clock, world: fields of ``Clock`` and ``WorldState`` but the time.
        motion: (n, ...) by the field of ``VehicleState``.
        rotor_speed: rad/s of the rotors there are, for each vehicle.
        health: fields of ``VehicleHealth`` but the time, for each vehicle; faults as fields of FaultySensor.
    """

    time: float
    clock: dict[str, Any]
    world: dict[str, Any]
    motion: dict[str, Rows]
    rotor_speed: Rows
    health: list[dict[str, Any]]


@dataclass(frozen=True)
class SentOrder:
    """An order on its way: its command as it came, which is checked again where it arrives."""

    kind: str
    vehicle: str | None
    command: dict[str, Any]

    @classmethod
    def of(cls, order: Order) -> SentOrder:
        """Make one for an order."""
        command = order.command.model_dump(mode="json", exclude_unset=True)
        return cls(order.address.kind, order.address.vehicle, command)

    def order(self) -> Order:
        """The order again.

        Raises:
            ValueError: for a command that is none.
        """
        known = RUN_COMMANDS if self.vehicle is None else VEHICLE_COMMANDS
        if self.kind not in known:
            raise ValueError(f"there is no command {self.kind!r}")
        return Order(known[self.kind].model_validate(self.command), Address(self.kind, self.vehicle))


@dataclass(frozen=True)
class Orders:
    """Commands to be carried out."""

    orders: list[SentOrder]


@dataclass(frozen=True)
class SentResult:
    """What became of an order, see ``Result``."""

    order: SentOrder
    time: float
    refused: str | None
    withdrawn: bool

    @classmethod
    def of(cls, result: Result) -> SentResult:
        """Make one for a result."""
        return cls(SentOrder.of(result.order), result.time, result.refused, result.withdrawn)

    def result(self) -> Result:
        """The result again."""
        return Result(self.order.order(), self.time, self.refused, self.withdrawn)


@dataclass(frozen=True)
class Results:
    """What became of commands."""

    results: list[SentResult]


@dataclass(frozen=True)
class Happened:
    """An event to be published."""

    topic: str
    event: Event


@dataclass(frozen=True)
class Connected:
    """Whether there is a connection to the broker."""

    connected: bool


@dataclass(frozen=True)
class Note:
    """A line for the user."""

    line: str


@dataclass(frozen=True)
class Stop:
    """Publish that the run is over, and end."""


Sent: TypeAlias = Settings | Ask | Look | Orders | Results | Happened | Connected | Note | Stop

_KINDS: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind)
    for kind in (Settings, Ask, Look, Orders, Results, Happened, Connected, Note, Stop)
}


def encode(what: Sent) -> bytes:
    """A message as a line."""
    kind = type(what).__name__
    return json.dumps([kind, _KINDS[kind].dump_python(what)], default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


def decode(line: bytes) -> Sent:
    """A line as a message.

    Raises:
        ValueError: for a line that is none.
    """
    try:
        kind, body = json.loads(line)
        message: Sent = _KINDS[kind].validate_python(body)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no message of the bus: {type(error).__name__}") from error
    except ValidationError as error:
        raise ValueError(f"no {kind} of the bus: {error.error_count()} fields are wrong") from error
    return message


class Link:
    """One end of the connection between the two processes.

    Args:
        connection: a stream socket.
        limit: bytes of a line that is taken.
    """

    def __init__(self, connection: socket.socket, limit: int) -> None:
        self._socket, self._limit = connection, limit
        self._sending = threading.Lock()
        self._received = bytearray()

    def send(self, what: Sent) -> None:
        """Send a message, from any thread.

        Raises:
            OSError: when the other end is gone.
        """
        with self._sending:
            self._socket.sendall(encode(what))

    def poll(self, seconds: float) -> bool:
        """Whether something arrives within so many s, which may be a part of a line."""
        return b"\n" in self._received or bool(select.select([self._socket], [], [], seconds)[0])

    def receive(self) -> Sent:
        """The next message, waiting for it.

        Raises:
            EOFError: when the other end is gone, or sends a line beyond the limit.
            ValueError: for a line that is no message; the next one may be.
        """
        while (end := self._received.find(b"\n")) < 0:
            if len(self._received) > self._limit:
                raise EOFError(f"a line of more than {self._limit} bytes")
            part = self._socket.recv(1 << 16)
            if not part:
                raise EOFError
            self._received += part
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return decode(line)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
