"""Messages between an outlet and its process: JSON lines over a pair of sockets.

The process of the bus reads the network, so its messages are not trusted: every line has a limit and is
validated.
"""

from __future__ import annotations

import functools
import json
import select
import socket
import threading
from dataclasses import dataclass, field
from typing import TypeAlias, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.live.run.command_queue import Counts, Order, Result

FROM_CLIENT = 1 << 20
"""Largest line from the client, bytes: a batch of commands of maximum length."""
FROM_BRIDGE = 1 << 26
"""Largest line from the simulation's program, bytes: a snapshot of ten thousand vehicles."""

Rows: TypeAlias = list[list[float]]


@dataclass(frozen=True)
class Settings:
    """Settings of the process, sent first."""

    fields: JsonObject = field(repr=False)  # with a password, maybe


@dataclass(frozen=True)
class SnapshotRequest:
    """Request of the client for a snapshot, with its command counts."""

    counts: Counts


@dataclass(frozen=True)
class RowsRequest:
    """Request to write the steps so far into the recording, which the process reads."""


@dataclass(frozen=True)
class PictureRequest:
    """Request for the last picture of a vehicle's sensor."""

    vehicle: str
    sensor: str


@dataclass(frozen=True)
class Picture:
    """The answer to PictureRequest."""

    vehicle: str
    sensor: str
    time: float  # s of simulated time since the start at which it was taken; negative if there is none yet
    # height, width: in pixels
    height: int
    width: int
    pixels: str  # red, green and blue of each, base 64


@dataclass(frozen=True)
class SimulationSnapshot:
    """A snapshot of a simulation, in plain values: the answer to Ask."""

    time: float  # s of simulated time since the start
    # clock, world: fields of ``Clock`` and ``WorldState`` except the time
    clock: JsonObject
    world: JsonObject
    motion: dict[str, Rows]  # (n, ...) by the field of ``VehicleState``
    rotors: dict[str, Rows]  # for each vehicle a figure for each rotor, by the field of ``VehicleState``
    # fields of ``VehicleHealth`` except the time, for each vehicle; faults as fields of FaultySensor
    health: list[JsonObject]
    # all with objects so far: number of the vehicle, s since the start, part, object, m/s
    contacts: list[tuple[int, float, str, str, float]]


@dataclass(frozen=True)
class StackReport:
    """Report of a flight stack of itself."""

    mode: str  # its flight mode; empty where it is not known
    # its last texts: s on its clock, level 0 emergency to 7 debug, text
    messages: list[tuple[float, int, str]]
    # by its own estimate: s on its clock, m north, east, down of its origin; nan where it is not known
    place: tuple[float, float, float, float]


@dataclass(frozen=True)
class StackReports:
    """The reports of all vehicles' flight stacks, in order; none where the run has no link to them."""

    reports: list[StackReport]


@dataclass(frozen=True)
class Orders:
    """Commands to execute."""

    orders: list[Order]


@dataclass(frozen=True)
class Results:
    """Results of orders."""

    results: list[Result]


@dataclass(frozen=True)
class Connected:
    """Whether the broker is connected."""

    connected: bool


@dataclass(frozen=True)
class UserNotice:
    """A line for the user."""

    line: str


@dataclass(frozen=True)
class Stop:
    """Publish the end of the run and stop."""


Sent: TypeAlias = (
    Settings
    | SnapshotRequest
    | RowsRequest
    | PictureRequest
    | Picture
    | SimulationSnapshot
    | StackReports
    | Orders
    | Results
    | Connected
    | UserNotice
    | Stop
)

_KINDS: dict[str, type[Sent]] = {kind.__name__: kind for kind in get_args(Sent)}


@functools.cache
def _adapter(kind: str) -> TypeAdapter[Sent]:
    return TypeAdapter(_KINDS[kind])


def encode(what: Sent) -> bytes:
    """Encode a message as a line."""
    kind = type(what).__name__
    return json.dumps([kind, _adapter(kind).dump_python(what)], default=_plain).encode() + b"\n"


def _plain(value: object) -> object:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


def decode(line: bytes) -> Sent:
    """Decode a line.

    Raises:
        ValueError: if it is not a valid message.
    """
    try:
        kind, body = json.loads(line)
        message: Sent = _adapter(kind).validate_python(body)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a message of the bus: {type(error).__name__}") from error
    except ValidationError as error:
        raise ValueError(f"not a valid {kind} of the bus: {error.error_count()} invalid fields") from error
    return message


class PipeEnd:
    """One end of the connection between the two processes.

    Args:
        limit: largest accepted line, bytes.
    """

    def __init__(self, connection: socket.socket, limit: int) -> None:
        self._socket, self._limit = connection, limit
        self._sending = threading.Lock()
        self._received = bytearray()

    def send(self, what: Sent) -> None:
        """Send a message, from any thread.

        Raises:
            OSError: if the other end is closed.
        """
        with self._sending:
            self._socket.sendall(encode(what))

    def poll(self, seconds: float) -> bool:
        """Return whether data arrives within ``seconds``; it may be a part of a line."""
        return b"\n" in self._received or bool(select.select([self._socket], [], [], seconds)[0])

    def receive(self) -> Sent:
        """Wait for the next message and return it.

        Raises:
            EOFError: if the other end is closed or a line exceeds the limit.
            ValueError: for an invalid message; later ones may be valid.
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
