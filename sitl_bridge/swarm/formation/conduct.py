"""Behaviour settings of a formation, and its reported events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

LeaderLoss: TypeAlias = Literal["next", "hold", "return"]


@dataclass(frozen=True)
class Conduct:
    """Behaviour of the vehicles of a formation.

    Attributes:
        beacon_period: us between two beacons of a vehicle.
        notice: us from the announcement of a start or a move to its begin: long enough for several beacons
            over all links, so that losses have no effect.
        leader_loss: ``next``: the next vehicle in line leads; ``hold``: all come to rest in their slots;
            ``return``: and then fly to their start positions.
        timeout: us without a message of the leader after which it counts as lost.
        stagger: us of additional time-out for each further vehicle in line.
        line: of succession; by number if empty.
        braking: m/s^2 of deceleration without a leader.
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
        """Time in s without a message of the leader for which the centre keeps its velocity."""
        wait = 3 * self.stagger if self.leader_loss == "next" else 0
        return (self.timeout + wait) * 1e-6


@dataclass(frozen=True)
class FormationLogEntry:
    """An event: us, vehicle (-1 for all), and text."""

    time: int
    vehicle: int
    text: str
