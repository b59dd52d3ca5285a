"""Flights of tests: what a test's markers ask for, begun when it is first used, described where it fails."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitl_bridge.api.airframe_choice import AirframeChoice
from sitl_bridge.api.pool import FlightPool, needs_processes
from sitl_bridge.api.sitl import Flight, events_of
from sitl_bridge.api.vehicle_arrays import place_vehicles
from sitl_bridge.api.vehicles import Vehicles
from sitl_bridge.api.world_choice import WindChoice, World, WorldChoice, world_of
from sitl_bridge.base.error_log import ErrorLog, print_error
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.events import EventSpecification
from sitl_bridge.session.settings import FlightSettings, VehicleSettings

LAST_MESSAGES = 12


@dataclass(frozen=True)
class ChosenFlight:
    """Flight of a test."""

    settings: FlightSettings  # of the flight
    faults: tuple[EventSpecification, ...]  # scheduled, at s from when the test takes the flight over
    alone: bool  # whether it is one vehicle, without a vehicle axis

    @property
    def needs_processes(self) -> bool:
        """Whether a flight stack in this process cannot fly it."""
        settings = self.settings
        linked = settings.px4 is not None or settings.speed != float("inf")
        return linked or needs_processes(settings, self.faults)

    def open(self, pool: FlightPool, *, linked: bool) -> Flight:
        """Begin it.

        Raises:
            UserError: when it does not become ready.
        """
        linked |= self.needs_processes
        return Flight(self.settings, self.faults, pool, linked=linked, alone=self.alone)


def flight_of(
    airframes: Sequence[AirframeChoice],
    world: WorldChoice,
    wind: WindChoice,
    faults: Sequence[ReadJson],
    parameters: Mapping[str, int | float],
    px4: Path | None,
    *,
    alone: bool,
    **others: Any,
) -> ChosenFlight:
    """A flight of what a test names.

    Args:
        airframes: one a vehicle.
        world: where.
        wind: that blows there instead of the world's; None keeps that.
        faults: events as a scenario file lists them.
        parameters: of the flight stacks.
        px4: build to fly with; None for the built-in stack.
        alone: whether it is one vehicle, without a vehicle axis.
        others: name, runs, seed and speed of FlightSettings.

    Raises:
        UserError: for what does not fit.
    """
    found, names, places, _ = place_vehicles(list(airframes), None, None, 5.0, 0.0)
    place = world_of(world).specification
    if wind is not None:
        place = place.model_copy(update={"wind": World(wind=wind).specification.wind})
    vehicles = tuple(
        VehicleSettings(
            airframe,
            name=name,
            position=position,
            autopilot="builtin" if px4 is None else "px4",
            parameters=dict(parameters),
        )
        for airframe, name, position in zip(found, names, places, strict=True)
    )
    proximity = Proximity() if len(vehicles) > 1 else None
    settings = FlightSettings(vehicles, world=place, px4=px4, on_stall="wait", proximity=proximity, **others)
    return ChosenFlight(settings, events_of(faults, settings), alone)


class DeferredFlight:
    """A flight that begins when it is first used.

    Where ``url`` is used first, it is flown with MAVLink; else in this process where that is possible.

    Args:
        begin: begins it, with MAVLink or without.
    """

    def __init__(self, begin: Callable[[bool], Flight]) -> None:
        self._begin = begin
        self.begun: Flight | None = None

    def _now(self, linked: bool = False) -> Flight:
        if self.begun is None:
            self.begun = self._begin(linked)
        return self.begun

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._now(name in ("url", "urls")), name)

    def __getitem__(self, which: int | str | slice) -> Vehicles:
        return self._now()[which]

    def __len__(self) -> int:
        return len(self._now())

    def __iter__(self) -> Iterator[Vehicles]:
        return iter(self._now())

    def end(self, *, keep: bool) -> None:
        """End it; safe to call twice.

        Args:
            keep: whether its run directory stays.
        """
        if self.begun is None:
            return
        if keep:
            finish(self.begun, "")
        self.begun.close()
        if not keep:
            shutil.rmtree(self.begun.directory, ignore_errors=True)


def finish(flight: Flight, reason: str) -> list[str]:
    """End a flight, and write its summary and report.

    Args:
        reason: why the test failed; empty where it passed.

    Returns:
        what is where, and the verdict, in lines.
    """
    # Plots take half a second to load, which only a test that fails waits for.
    from sitl_bridge.analysis.evaluation.run_record import read_run
    from sitl_bridge.analysis.report.report_page import write_report
    from sitl_bridge.analysis.report.reported_run import report

    verdict, directory = flight.verdict(reason), flight.directory
    logs = flight.stacks.finish(reason).logs
    files = [f"{name}: {logs[name]}" for name in ("run directory", "summary") if name in logs]
    with ErrorLog(print_error).guard(f"writing of the report of {directory}"):
        files.append(f"report: {write_report(report([read_run(directory)]), directory / 'report.html')}")
    others = [text for text in verdict.reasons if text != reason]  # that one is in the traceback
    files.append(": ".join([f"verdict: {verdict.word}", *others]))
    return [*files, *(f"note: {note}" for note in verdict.notes)]


def describe(flight: Flight) -> list[str]:
    """Describe a flight for whoever looks at the failed test, in lines."""
    lines = [
        f"flown by {flight.flown_by}, seed {flight.seed}",
        f"at {flight.time:.1f} s: {flight.state_in_words}",
    ]
    several = len(flight) > 1
    said = [f"  {f'{m.vehicle}: ' if several else ''}{m}" for m in flight.messages[-LAST_MESSAGES:]]
    return [*lines, *(["last messages:", *said] if said else ["no messages"])]
