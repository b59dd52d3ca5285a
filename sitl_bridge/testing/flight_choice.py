"""What a test flies: vehicles, world, faults, seed and flight stack, gathered from its markers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sitl_bridge.api.airframe_choice import AirframeChoice, airframe_of
from sitl_bridge.api.world_choice import World, world_of
from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.core.simulation.events import EventSpecification, GustEvent, StackEvent, problems
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.world import WorldSpecification

_EVENTS: TypeAdapter[tuple[EventSpecification, ...]] = TypeAdapter(tuple[EventSpecification, ...])


@dataclass(frozen=True)
class FlightChoice:
    """What is flown.

    Attributes:
        airframes: loaded, one a vehicle.
        world: where.
        events: scheduled faults and changes, in s from when the test takes the flight over.
        seed: of all random streams.
        px4: build to fly with; None for the built-in stack.
        speed: simulated over wall time; inf for as fast as it goes.
        spacing: m between neighbours.
        parameters: of the flight stacks, on top of what follows from the airframe.
    """

    airframes: tuple[Airframe, ...]
    world: WorldSpecification
    events: tuple[EventSpecification, ...] = ()
    seed: int = 1
    px4: Path | None = None
    speed: float = float("inf")
    spacing: float = 5.0
    parameters: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the vehicles."""
        return tuple(str(i) for i in range(len(self.airframes)))

    @property
    def positions(self) -> tuple[tuple[float, float, float], ...]:
        """m NED of the points on the ground where the vehicles stand: a row towards the east."""
        return tuple((0.0, self.spacing * i, 0.0) for i in range(len(self.airframes)))

    @property
    def needs_processes(self) -> bool:
        """Whether a flight stack in this process cannot fly it."""
        return self.px4 is not None or any(isinstance(event, StackEvent) for event in self.events)

    @property
    def key(self) -> str:
        """The same for flights that differ in nothing that a flight stack is started with."""
        parts = [airframe.model_dump_json(exclude_defaults=True) for airframe in self.airframes]
        parts += [self.world.model_dump_json(), str((self.seed, self.px4, self.spacing, self.speed))]
        return "\n".join([*parts, str(sorted(self.parameters.items()))])


def events_of(
    given: Sequence[Mapping[str, Any]], airframes: Sequence[Airframe]
) -> tuple[EventSpecification, ...]:
    """Events as a scenario file lists them.

    Raises:
        ConfigurationError: with what is wrong, by event.
    """
    try:
        events = _EVENTS.validate_python(tuple(given))
    except ValidationError as error:
        faults = [f"faults[{'.'.join(map(str, fault['loc']))}]: {fault['msg']}" for fault in error.errors()]
        raise ConfigurationError("faults", faults) from error
    faults = problems(events, [str(i) for i in range(len(airframes))], airframes)
    faults += [
        f"faults: a gust at {event.at:g} s is part of the world's wind; name it there (wind: gusts:)"
        for event in events
        if isinstance(event, GustEvent)
    ]
    if faults:
        raise ConfigurationError("faults", faults)
    return events


def choice_of(
    airframes: Sequence[AirframeChoice],
    world: World | str | Path | None,
    wind: Any,
    faults: Sequence[Mapping[str, Any]],
    **others: Any,
) -> FlightChoice:
    """A flight of what a test names.

    Args:
        airframes: one a vehicle.
        world: where.
        wind: that blows there instead of the world's; None keeps that.
        faults: events.
        others: further fields of FlightChoice.

    Raises:
        UserError: for what does not fit.
    """
    loaded: list[Airframe] = [airframe_of(choice) for choice in airframes]
    place = world_of(world).specification
    if wind is not None:
        place = place.model_copy(update={"wind": World(wind=wind).specification.wind})
    return FlightChoice(tuple(loaded), place, events_of(faults, loaded), **others)
