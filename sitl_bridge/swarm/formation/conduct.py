"""How the vehicles of a formation behave, and the events that are reported of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

LeaderLoss: TypeAlias = Literal["next", "hold", "return"]


@dataclass(frozen=True)
class Conduct:
    """How the vehicles of a formation behave.

    Attributes:
        beacon_period: us between two beacons of a vehicle.
        notice: us between telling of a start or a move and its begin: long enough for several beacons over
            all links, so that lost ones do not matter.
        leader_loss: ``next``: the next in line leads on; ``hold``: all come to rest in their slots;
            ``return``: and then fly to where they started.
        timeout: us without word of the leader after which it counts as lost.
        stagger: us by which each further vehicle in line waits longer.
        line: of succession; empty is by number.
        braking: m/s^2 with which a formation without a leader comes to rest.
    """

    beacon_period: int = 50_000
    notice: int = 1_500_000
    leader_loss: LeaderLoss = "next"
    timeout: int = 1_000_000
    stagger: int = 300_000
    line: tuple[int, ...] = ()
    braking: float = 2.0

    @property
    def coast(self) -> float:
        """s without word of the leader for which the centre is taken to fly on."""
        wait = 3 * self.stagger if self.leader_loss == "next" else 0
        return (self.timeout + wait) * 1e-6


@dataclass(frozen=True)
class Event:
    """Something that happened: us, who (-1 for all), and what."""

    time: int
    vehicle: int
    text: str
