"""Flights by commands of a program: flight stacks in this process, or linked ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from sitl_bridge.api.truth_table import TruthTable
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.events import EventSpecification, ScheduledEvent, affected_vehicles
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.run_clock import RunClock
from sitl_bridge.session.outcome import FlightOutcome
from sitl_bridge.session.settings import FlightSettings
from sitl_bridge.session.stacks import FlightStacks, no_mavlink


class Stacks(ABC):
    """A flight of simulated vehicles, ready to arm; simulated time stands still between calls.

    Args:
        settings: of the flight.
    """

    commands: FlightStacks  # the flight stacks, as they are commanded
    simulation: Simulation  # of the vehicles; to be changed between two steps only
    hosts: tuple[SensorHost, ...]  # what runs the sensors that are sampled between steps
    source: RunClock  # of the run, as outlets see it

    def __init__(self, settings: FlightSettings) -> None:
        self.settings = settings
        self.names = tuple(vehicle.name for vehicle in settings.vehicles)
        self.airframes = tuple(vehicle.airframe for vehicle in settings.vehicles)

    # ------------------------------------------------------------------ the simulation

    @property
    def now(self) -> int:
        """us of simulated time."""
        return self.source.now

    @property
    def ready_at(self) -> int:
        """us of simulated time at which the vehicles were ready."""
        return self.commands.ready_at

    @property
    @abstractmethod
    def flown_by(self) -> str:
        """The flight stack, in words."""

    @property
    @abstractmethod
    def directory(self) -> Path:
        """Run directory.

        Raises:
            UserError: when nothing is written.
        """

    @property
    @abstractmethod
    def track(self) -> TruthTable:
        """The true motion since the vehicles were ready."""

    def urls(self) -> tuple[str, ...]:
        """Let simulated time pass by itself, and return where MAVSDK reaches each vehicle.

        Raises:
            UserError: where the flight stacks are within this process.
        """
        raise no_mavlink("url")

    # ------------------------------------------------------------------ faults and the end

    @abstractmethod
    def schedule(self, events: Sequence[EventSpecification]) -> None:
        """Let events happen, at their times from now on."""

    @abstractmethod
    def happen(self, event: ScheduledEvent, *, begins: bool) -> None:
        """Let an event begin or end now.

        Raises:
            UserError: for an event that cannot happen here.
        """

    def affected(self, event: ScheduledEvent) -> list[int]:
        """Numbers of the vehicles of an event.

        Raises:
            UserError: for a vehicle that does not exist, and for an event that cannot happen to it.
        """
        vehicles = affected_vehicles(event, self.names)
        for vehicle in vehicles:
            problem = event.problem(self.airframes[vehicle])
            if problem:
                raise UserError(f"vehicle {self.names[vehicle]}: {problem}")
        return vehicles

    @abstractmethod
    def finish(self, reason: str) -> FlightOutcome:
        """End and judge the flight; safe to call twice.

        Args:
            reason: why it failed; empty where it did not.
        """

    @abstractmethod
    def close(self) -> None:
        """End the flight without judging it; safe to call twice."""
