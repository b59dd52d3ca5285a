"""Flights by commands of a program: flight stacks in this process, or linked ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sitl_bridge.analysis.evaluation.run_record import RunRecord
from sitl_bridge.analysis.evaluation.verdict import Verdict
from sitl_bridge.api.truth_table import TruthTable
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.events import EventSpecification, ScheduledEvent, affected_vehicles
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.run_clock import RunClock
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.session.settings import FlightSettings
from sitl_bridge.session.stacks import FlightStacks


@dataclass
class Flown:
    """A flight that has ended."""

    run: RunRecord  # as read back
    verdict: Verdict  # on the flight
    files: list[tuple[str, Path]] = field(default_factory=list)  # what is where


class Stacks(FlightStacks):
    """Simulated vehicles and their flight stacks, ready to arm; simulated time stands still between calls.

    Attributes:
        ended: whether the flight is over, after which no time passes and nothing is commanded.
    """

    settings: FlightSettings  # of the flight
    ready_at: int  # us of simulated time at which the vehicles were ready
    simulation: Simulation  # of the vehicles; to be changed between two steps only
    hosts: tuple[SensorHost, ...]  # what runs the sensors that are sampled between steps
    source: RunClock  # of the run, as outlets see it
    ended = False

    def __init__(self, settings: FlightSettings) -> None:
        self.settings = settings
        self.airframes = tuple(vehicle.airframe for vehicle in settings.vehicles)
        super().__init__(
            [vehicle.name for vehicle in settings.vehicles],
            [airframe.name for airframe in self.airframes],
            [vehicle.position for vehicle in settings.vehicles],
        )

    # ------------------------------------------------------------------ the simulation

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

    def refuse_ended(self) -> None:
        """Refuse what a flight that is over cannot do.

        Raises:
            UserError: after the end.
        """
        if self.ended:
            raise UserError("the flight has ended; sitl.reset() begins another")

    @property
    def place(self) -> tuple[float, float]:
        """Deg latitude and longitude of the world's origin."""
        origin = self.simulation.world.specification.origin
        return origin.latitude, origin.longitude

    def on_ground(self, vehicle: int) -> bool:
        """Whether a vehicle stands on something."""
        return bool(self.simulation.states[vehicle]["in_contact"])

    # ------------------------------------------------------------------ the flight stacks

    @property
    @abstractmethod
    def batteries(self) -> Floats:
        """(n,) share of the charge by the flight stacks, 0..1; nan before it is known."""

    def send(self, vehicle: int, message: MavlinkMessage) -> None:
        """Send a vehicle a MAVLink message.

        Raises:
            UserError: where the flight stacks are within this process.
        """
        del vehicle, message
        raise self._no_mavlink("send")

    def received(self, vehicle: int, number: int) -> MavlinkMessage | None:
        """The last MAVLink message of an id that a vehicle has sent; None before it has sent one.

        Raises:
            UserError: as ``send``.
        """
        del vehicle, number
        raise self._no_mavlink("received")

    def urls(self) -> tuple[str, ...]:
        """Let simulated time pass by itself, and return where MAVSDK reaches each vehicle.

        Raises:
            UserError: as ``send``.
        """
        raise self._no_mavlink("url")

    @staticmethod
    def _no_mavlink(what: str) -> UserError:
        return UserError(
            f"{what}: this flight of the built-in stack is within this process, where there is no MAVLink;"
            " give sb.Sitl mavlink=True (of a pytest fixture: take the url before the first command)"
        )

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
    def finish(self, reason: str) -> Flown:
        """End and judge the flight; safe to call twice.

        Args:
            reason: why it failed; empty where it did not.
        """

    @abstractmethod
    def close(self) -> None:
        """End the flight without judging it; safe to call twice."""
