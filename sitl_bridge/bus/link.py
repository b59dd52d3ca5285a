"""What a bus and its client, a process of its own, say to one another; pickled, over a pair of sockets.

Events are told as (topic, Event).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.bus.address import BusAddress
from sitl_bridge.bus.desk import Counts, Order, Result
from sitl_bridge.bus.topics import Topics

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """What the client is told first.

    Attributes:
        address: of the broker.
        port: its own, where the address leaves it open.
        url: the address without the password.
        topics: of the run.
        directory: where the embedded broker keeps its log.
    """

    address: BusAddress
    port: int
    url: str
    topics: Topics
    directory: Path


@dataclass(frozen=True)
class Ask:
    """The client wants another look, and says what became of commands so far."""

    counts: Counts


@dataclass(frozen=True)
class Look:
    """What was seen of a simulation: the answer, and plain figures only.

    Attributes:
        time: s of simulated time since the start.
        clock, world: fields of ``Clock`` and ``WorldState`` but the time.
        motion: (n, ...) by the field of ``VehicleState``.
        rotor_speed: rad/s of the rotors there are, for each vehicle.
        health: fields of ``VehicleHealth`` but the time, for each vehicle; faults as tuples of FaultySensor.
    """

    time: float
    clock: dict[str, Any]
    world: dict[str, Any]
    motion: dict[str, Array]
    rotor_speed: list[list[float]]
    health: list[dict[str, Any]]


@dataclass(frozen=True)
class Orders:
    """Commands to be carried out."""

    orders: list[Order]


@dataclass(frozen=True)
class Results:
    """What became of them."""

    results: list[Result]


@dataclass(frozen=True)
class Connected:
    """Whether there is a connection to the broker."""

    connected: bool


@dataclass(frozen=True)
class Note:
    """Words for the user."""

    line: str


@dataclass(frozen=True)
class Stop:
    """Say farewell and end."""
