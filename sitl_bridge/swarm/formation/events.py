"""Scheduled events of a formation: a vehicle leaves it, or its radio and setpoints fail.

Their times count from the formation's start, like those of the patterns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, get_args

from pydantic import Field

from sitl_bridge.base.field_paths import kinds
from sitl_bridge.base.quantities import Seconds
from sitl_bridge.core.simulation.events import VehicleEvent
from sitl_bridge.swarm.formation.leave_and_rejoin import Action


class FormationEvent(VehicleEvent):
    """An event of vehicles of a formation."""

    at: Seconds = Field(description="s since the formation's start")
    vehicles: tuple[int | str, ...] = Field(min_length=1, description="numbers or names")


class LeaveEvent(FormationEvent):
    """Vehicles leave the formation."""

    kind: Literal["leave_formation"] = Field(description="of event")
    action: Action = Field("land", description="of the vehicles afterwards")


class LossEvent(FormationEvent):
    """Vehicles permanently send no messages and receive no setpoints; a point mass stands still."""

    kind: Literal["vehicle_lost"] = Field(description="of event")


class StallEvent(FormationEvent):
    """Vehicles send no messages and receive no setpoints for a time; a point mass stands still."""

    kind: Literal["vehicle_stalled"] = Field(description="of event")
    lasts: Annotated[Seconds, Field(gt=0.0)] = Field(5.0, description="s")


AnyFormationEvent = LeaveEvent | LossEvent | StallEvent
FORMATION_KINDS = tuple(kind for event in get_args(AnyFormationEvent) for kind in kinds(event))
FormationEventSpecification = Annotated[AnyFormationEvent, Field(discriminator="kind")]


class EventQueue:
    """Future events of a formation.

    Args:
        events: with vehicles by number.
    """

    def __init__(self, events: Iterable[AnyFormationEvent]) -> None:
        self._pending = sorted(events, key=lambda event: event.at)

    def take_due(self, seconds: float) -> list[tuple[int, AnyFormationEvent]]:
        """Remove and return vehicles and their events that are due at ``seconds`` since the start."""
        found: list[tuple[int, AnyFormationEvent]] = []
        while self._pending and seconds >= self._pending[0].at:
            event = self._pending.pop(0)
            found += [(int(vehicle), event) for vehicle in event.vehicles]
        return found
