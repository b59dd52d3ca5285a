"""The one surface between formations and vehicles: states in, setpoints out, as arrays over the fleet.

The quick simulator, a fleet in this process and PX4 behind MAVSDK each have an interface of a few lines; the
formation code is the same behind all of them and keeps the fleet's time, never the wall's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

LANDING_SEPARATION = 1.5
"""m between two vehicles on the ground; closer together they do not land where they are.  Ordinary receivers
leave two metres of error between two vehicles, so that one could land on the other."""


@dataclass(frozen=True)
class States:
    """What the vehicles know of themselves at one moment.

    Attributes:
        time: us of the fleet's own time.
        position: (n, 3) m NED, of all vehicles from one common origin.
        velocity: (n, 3) m/s NED.
        yaw: (n,) rad from north.
        alive: (n,) False for a vehicle that is gone, stalled, or not heard of.
        tilt: (n, 2) rad roll and pitch; None from a fleet that does not know them.
    """

    time: int
    position: Array
    velocity: Array
    yaw: Array
    alive: Mask
    tilt: Array | None = None


@dataclass
class Setpoints:
    """What the vehicles are told; nan where a figure is not controlled.

    Attributes:
        position: (n, 3) m NED from the common origin.
        velocity: (n, 3) m/s NED; beside a position it is fed forward.
        acceleration: (n, 3) m/s^2 NED, fed forward.
        yaw: (n,) rad from north.
    """

    position: Array
    velocity: Array
    acceleration: Array
    yaw: Array

    @classmethod
    def none(cls, count: int) -> Setpoints:
        """Setpoints that control nothing."""
        empty = np.full((count, 3), np.nan)
        return cls(empty, empty.copy(), empty.copy(), np.full(count, np.nan))

    def put(self, rows: NDArray[np.int64] | Mask, other: Setpoints) -> None:
        """Take the rows of ``other``, one for each of ``rows``."""
        self.position[rows] = other.position
        self.velocity[rows] = other.velocity
        self.acceleration[rows] = other.acceleration
        self.yaw[rows] = other.yaw


class Steered(Protocol):
    """What steers a fleet: a formation, or whatever else makes setpoints of states."""

    def tick(self, states: States) -> Setpoints:
        """Setpoints of this moment."""
        ...


class FleetInterface(Protocol):
    """Vehicles whose time this program advances: the quick simulator, a fleet in this process."""

    def states(self) -> States:
        """Of this moment."""
        ...

    def command(self, setpoints: Setpoints) -> None:
        """Follow these until told otherwise."""
        ...

    def advance(self, time: int) -> None:
        """Let the fleet's time pass until ``time`` us."""
        ...


class AsyncFleetInterface(Protocol):
    """Vehicles whose time passes by itself: PX4 behind MAVSDK, real ones."""

    async def next_states(self) -> States:
        """Wait for the next tick of the vehicles' clock; their states then."""
        ...

    async def command(self, setpoints: Setpoints) -> None:
        """Send these to the vehicles."""
        ...


Watch: TypeAlias = Callable[[States, Setpoints], None]
"""Called every tick with what came in and what went out."""


def fly(steered: Steered, fleet: FleetInterface, until: int, period: int, watch: Watch | None = None) -> None:
    """Fly a fleet to ``until`` us of its time, with a tick every ``period`` us."""
    while True:
        states = fleet.states()
        setpoints = steered.tick(states)
        if watch is not None:
            watch(states, setpoints)
        if states.time >= until:
            return
        fleet.command(setpoints)
        fleet.advance(min(states.time + period, until))


async def fly_async(
    steered: Steered, fleet: AsyncFleetInterface, until: int | Callable[[], int], watch: Watch | None = None
) -> None:
    """Fly a fleet that keeps its own time to ``until`` us of it, a tick with each of its own.

    An end that may change on the way is asked for every tick.
    """
    while True:
        states = await fleet.next_states()
        setpoints = steered.tick(states)
        if watch is not None:
            watch(states, setpoints)
        if states.time >= (until() if callable(until) else until):
            return
        await fleet.command(setpoints)
