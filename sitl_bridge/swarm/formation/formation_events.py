"""Scheduled events of a formation: a vehicle leaves it, or its radio and setpoints fail.

Their times count from the formation's start, as the patterns' do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, get_args

from pydantic import Field

from sitl_bridge.field_paths import kinds
from sitl_bridge.quantities import Seconds
from sitl_bridge.swarm.formation.leave_and_rejoin import Action
from sitl_bridge.vehicle.event_specification import VehicleEvent


class FormationEvent(VehicleEvent):
    """An event of vehicles of a formation."""

    at: Seconds = Field(description="s since the formation's start")
    vehicles: tuple[int | str, ...] = Field(min_length=1, description="numbers or names")


class LeaveEvent(FormationEvent):
    """Vehicles leave the formation on order."""

    kind: Literal["leave_formation"] = Field(description="of event")
    action: Action = Field("land", description="of the vehicles afterwards")


class LossEvent(FormationEvent):
    """Vehicles neither send messages nor take setpoints any more; a point mass stands still."""

    kind: Literal["vehicle_lost"] = Field(description="of event")


class StallEvent(FormationEvent):
    """Vehicles neither send messages nor take setpoints for a while; a point mass stands still."""

    kind: Literal["vehicle_stalled"] = Field(description="of event")
    lasts: Annotated[Seconds, Field(gt=0.0)] = Field(5.0, description="s")


AnyFormationEvent = LeaveEvent | LossEvent | StallEvent
FORMATION_KINDS = tuple(kind for event in get_args(AnyFormationEvent) for kind in kinds(event))
FormationEventSpecification = Annotated[AnyFormationEvent, Field(discriminator="kind")]


class EventQueue:
    """Events of a formation that are still to come.

    Args:
        events: with vehicles by number.
    """

    def __init__(self, events: Iterable[AnyFormationEvent]) -> None:
        self._pending = sorted(events, key=lambda event: event.at)

    def take_due(self, seconds: float) -> list[tuple[int, AnyFormationEvent]]:
        """Take vehicles and their events that are due at ``seconds`` since the formation's start."""
        found: list[tuple[int, AnyFormationEvent]] = []
        while self._pending and seconds >= self._pending[0].at:
            event = self._pending.pop(0)
            found += [(int(vehicle), event) for vehicle in event.vehicles]
        return found
