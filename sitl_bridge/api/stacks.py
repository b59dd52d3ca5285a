"""The two ways to fly vehicles by commands, behind one interface: see in_process.py and linked.py.

A backend knows how to let simulated time pass and how to hand a flight stack a command; what the verbs of
``Vehicles`` mean is said once, there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.analysis.evaluation.run_record import RunRecord
from sitl_bridge.analysis.evaluation.verdict import Verdict
from sitl_bridge.api.truth_table import TruthTable
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.events import EventSpecification, ScheduledEvent, affected_vehicles
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.live.bus.run_source import RunSource
from sitl_bridge.plan.plan import Plan
from sitl_bridge.session.missions.log_stamp import stamp_since
from sitl_bridge.session.settings import FlightSettings

CHUNK = 12
"""Steps between looks at what the vehicles do: 48 ms, about PX4's 20 Hz of set-points."""
ROUND = 5_000_000
"""us: vehicles are handed over at a multiple of this, so that one seed repeats closely."""
READY_LIMIT = 120.0
"""s of simulated time to become ready to arm in; an estimator with GPS takes 5 to 30 s."""


@dataclass(frozen=True)
class Message:
    """A status text of a vehicle's flight stack.

    Attributes:
        time: s of simulated time since the vehicles were ready.
        vehicle: its name.
        level: MAV_SEVERITY: 0 emergency, 2 critical, 4 warning, 6 information.
        text: as PX4 words it.
    """

    time: float
    vehicle: str
    level: int
    text: str

    def __str__(self) -> str:
        return f"{stamp_since(0.0, self.time)} {self.text}"


@dataclass
class Target:
    """What a vehicle is to follow; None is not controlled.

    A set-point has a position, velocity or acceleration, or an attitude or rates with a thrust.

    Attributes:
        position: m NED from the world's origin.
        velocity: m/s NED, or forward, right, down with ``body``.
        acceleration: m/s^2 NED.
        yaw: rad from north; nan keeps the heading.
        attitude: quaternion w, x, y, z, body FRD to NED.
        rates: rad/s, body FRD.
        thrust: 0..1 of full thrust.
        body: whether the velocity turns with the heading.
    """

    position: tuple[float, float, float] | None = None
    velocity: tuple[float, float, float] | None = None
    acceleration: tuple[float, float, float] | None = None
    yaw: float = np.nan
    attitude: tuple[float, float, float, float] | None = None
    rates: tuple[float, float, float] | None = None
    thrust: float = 0.0
    body: bool = False


@dataclass(frozen=True)
class MissionProgress:
    """How far a vehicle is in its mission.

    Attributes:
        item: number of the present one, from 0; -1 before the first is known.
        finished: whether the last one is completed.
    """

    item: int = -1
    finished: bool = False


@dataclass
class Flown:
    """A flight that has ended.

    Attributes:
        run: as read back.
        verdict: on the flight.
        files: what is where.
    """

    run: RunRecord
    verdict: Verdict
    files: list[tuple[str, Path]] = field(default_factory=list)


class Stacks(ABC):
    """Simulated vehicles and their flight stacks, ready to arm; simulated time stands still between calls.

    Vehicles are named by their numbers, from 0.

    Attributes:
        settings: of the flight.
        targets: what each vehicle is to follow, sent again every CHUNK steps; None for nothing.
        sticks: of each vehicle's remote control, sent likewise: forward, right, throttle, clockwise, each
            -1..1 but the throttle, 0..1; None until there is one.
        ready_at: us of simulated time at which the vehicles were ready.
        ended: whether the flight is over, after which no time passes and nothing is commanded.
    """

    settings: FlightSettings
    ready_at: int
    ended = False

    def __init__(self, settings: FlightSettings) -> None:
        self.settings = settings
        self.names = tuple(vehicle.name for vehicle in settings.vehicles)
        self.airframes = tuple(vehicle.airframe for vehicle in settings.vehicles)
        self.origins = np.array([vehicle.position for vehicle in settings.vehicles], dtype=np.float64)
        self.targets: list[Target | None] = [None] * len(self.names)
        self.sticks: list[tuple[float, float, float, float] | None] = [None] * len(self.names)

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
    def simulation(self) -> Simulation:
        """Of the vehicles; to be changed between two steps only."""

    @property
    @abstractmethod
    def hosts(self) -> tuple[SensorHost, ...]:
        """What runs the sensors that are sampled between steps."""

    @property
    @abstractmethod
    def source(self) -> RunSource:
        """The run as outlets see it."""

    @property
    @abstractmethod
    def now(self) -> int:
        """us of simulated time."""

    @property
    @abstractmethod
    def track(self) -> TruthTable:
        """The true motion since the vehicles were ready."""

    @abstractmethod
    def advance(self, steps: int) -> None:
        """Let time pass, with the targets in force.

        Raises:
            UserError: when the simulation or a flight stack fails.
        """

    def refuse_ended(self) -> None:
        """Refuse what a flight that is over cannot do.

        Raises:
            UserError: after the end.
        """
        if self.ended:
            raise UserError("the flight has ended; sitl.reset() begins another")

    @property
    def steps_to_look(self) -> int:
        """Steps to the next change of what the flight stacks do."""
        return CHUNK

    # ------------------------------------------------------------------ the flight stacks

    @property
    @abstractmethod
    def messages(self) -> list[Message]:
        """Status texts so far, oldest first."""

    @abstractmethod
    def is_armed(self, vehicle: int) -> bool:
        """Whether a vehicle's motors may turn."""

    @abstractmethod
    def mode(self, vehicle: int) -> str:
        """Flight mode of a vehicle, by PX4's name."""

    @property
    @abstractmethod
    def estimates(self) -> NDArray[np.float64]:
        """(n, 3) m NED from the world's origin, positions by the vehicles' own estimates."""

    @property
    @abstractmethod
    def batteries(self) -> NDArray[np.float64]:
        """(n,) share of the charge by the flight stacks, 0..1; nan before it is known."""

    @abstractmethod
    def problems(self, vehicle: int) -> Sequence[str]:
        """Why a vehicle cannot arm; empty if it can."""

    @abstractmethod
    def command(self, vehicle: int, what: str, number: int, params: Sequence[float]) -> None:
        """Give a vehicle a MAV_CMD with seven parameters, and wait for its answer.

        Raises:
            UserError: when it refuses or does not answer, with its reasons.
        """

    @abstractmethod
    def parameter(self, vehicle: int, name: str) -> float:
        """A parameter.

        Raises:
            UserError: for one that the flight stack does not have.
        """

    @abstractmethod
    def set_parameter(self, vehicle: int, name: str, value: float) -> None:
        """Set a parameter.

        Raises:
            UserError: for one that the flight stack does not have or does not take.
        """

    @abstractmethod
    def upload(self, vehicle: int, plan: Plan) -> None:
        """Give a vehicle a plan's fence, rally points and mission.

        Raises:
            UserError: when it refuses a part.
        """

    @abstractmethod
    def mission(self, vehicle: int) -> MissionProgress:
        """How far a vehicle is in its mission."""

    def send(self, vehicle: int, message: Any) -> None:
        """Send a vehicle a MAVLink message.

        Raises:
            UserError: where the flight stacks are within this process.
        """
        del vehicle, message
        raise self._no_mavlink("send")

    def received(self, vehicle: int, number: int) -> Any:
        """The last MAVLink message of an id that a vehicle has sent; None before it has sent one.

        Raises:
            UserError: as ``send``.
        """
        del vehicle, number
        raise self._no_mavlink("received")

    @property
    def urls(self) -> tuple[str, ...]:
        """Where MAVSDK reaches each vehicle; from the first use on, simulated time passes by itself.

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
