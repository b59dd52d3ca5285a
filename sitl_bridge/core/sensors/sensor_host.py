"""Host of a sensor that runs between steps, in Python: a user's own, or one that sees the scene."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sitl_bridge.base.arrays import Records


class SensorHost(Protocol):
    """Runs one sensor of one vehicle."""

    vehicle: int
    """Index of the vehicle."""

    @property
    def name(self) -> str:
        """Name of the sensor."""
        ...

    @property
    def label(self) -> str:
        """The sensor in messages: where it is described, and its name."""
        ...

    @property
    def due(self) -> int:
        """Us of simulated time at which ``run`` is to be called next."""
        ...

    def run(self, state: Records, time: int) -> Sequence[Any]:
        """Do what is due at ``time`` (us), given the vehicle's STATE.

        Returns:
            Messages for the flight stack.
        """
        ...

    def close(self) -> None:
        """Finish what it writes."""
        ...
