"""The interface between formations and vehicles: states in, setpoints out, as arrays over the fleet.

The formation code is the same for the quick simulator and for flight stacks, and uses simulated time, never
wall time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints, Mask

LANDING_SEPARATION = 1.5
"""Smallest distance between two vehicles for landing at their positions, m.  Ordinary receivers have a
relative error of up to two metres, so that one vehicle could land on another."""


@dataclass(frozen=True)
class States:
    """Estimated states of the vehicles at one time."""

    time: int  # us of the fleet's time
    position: Floats  # (n, 3) m NED from the common origin
    velocity: Floats  # (n, 3) m/s NED
    yaw: Floats  # (n,) rad from north
    alive: Mask  # (n,) False for a vehicle that is gone, stalled, or silent
    tilt: Floats | None = None  # (n, 2) rad roll and pitch; None if the fleet does not report them


@dataclass
class Setpoints:
    """Setpoints of the vehicles; nan for uncontrolled values."""

    position: Floats  # (n, 3) m NED from the common origin
    velocity: Floats  # (n, 3) m/s NED; with a position it is fed forward
    acceleration: Floats  # (n, 3) m/s^2 NED, fed forward
    yaw: Floats  # (n,) rad from north

    @classmethod
    def none(cls, count: int) -> Setpoints:
        """Return setpoints without control."""
        empty = np.full((count, 3), np.nan)
        return cls(empty, empty.copy(), empty.copy(), np.full(count, np.nan))

    def put(self, rows: Ints | Mask, other: Setpoints) -> None:
        """Replace the given rows with those of ``other``."""
        self.position[rows] = other.position
        self.velocity[rows] = other.velocity
        self.acceleration[rows] = other.acceleration
        self.yaw[rows] = other.yaw


class Steered(Protocol):
    """A source of setpoints for a fleet: a formation, or any other object with ``tick``."""

    def tick(self, states: States) -> Setpoints:
        """Return the setpoints for the present states."""
        ...


Watch: TypeAlias = Callable[[States], None]
"""Called every tick."""
