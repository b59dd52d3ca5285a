"""Vehicles with flight stacks that take commands, in whatever process they are.

A backend knows how to let simulated time pass and how to hand a flight stack a command: ``linked.py`` over
MAVLink, ``api/fleet_stacks.py`` in this process.  What commands mean is said once, here and in
``api/vehicles.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError, did_you_mean
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.link.px4.vehicle_status import MODE_NUMBERS
from sitl_bridge.plan.plan import Plan
from sitl_bridge.session.missions.log_stamp import stamp

STEP = 4000
"""us between inertial samples, PX4's 250 Hz."""
CHUNK = 12
"""Steps between looks at what the vehicles do: 48 ms, about PX4's 20 Hz of set-points."""
ROUND = 8_000_000
"""us: vehicles begin at a multiple of this, so that one seed repeats closely.  PX4 says that it is ready
after 4.0 to 6.1 s (v1.16.0 to main of July 2026, 16 starts), as it reports its checks at most every 2 s (PX4
src/modules/commander/HealthAndArmingChecks/Common.cpp)."""
READY_LIMIT = 120.0
"""s of simulated time to become ready to arm in; an estimator with GPS takes 5 to 30 s."""
ARMING = 5.0
"""s of simulated time in which the motors start after the flight stack has agreed."""
CUSTOM = 1.0
"""MAV_MODE_FLAG_CUSTOM_MODE_ENABLED."""
STICKS = ("forward", "right", "throttle", "clockwise")
"""Of a remote control, each -1..1 but the throttle, 0..1."""
CENTRED = (0.0, 0.0, 0.5, 0.0)
"""Their neutral places."""


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
        return f"{stamp(self.time if self.time >= 0.0 else np.nan)} {self.text}"


@dataclass
class Target:
    """A target for a vehicle to follow; None is not controlled.

    A set-point has a position, velocity or acceleration, or an attitude or rates with a thrust.
    """

    position: tuple[float, float, float] | None = None  # m NED from the world's origin
    velocity: tuple[float, float, float] | None = None  # m/s NED, or forward, right, down with ``body``
    acceleration: tuple[float, float, float] | None = None  # m/s^2 NED
    yaw: float = np.nan  # rad from north; nan keeps the heading
    # rad/s clockwise, in place of ``yaw``, of flight stacks behind links; nan for none
    yaw_rate: float = np.nan
    attitude: tuple[float, float, float, float] | None = None  # quaternion w, x, y, z, body FRD to NED
    rates: tuple[float, float, float] | None = None  # rad/s, body FRD
    thrust: float = 0.0  # 0..1 of full thrust
    body: bool = False  # whether the velocity turns with the heading


@dataclass(frozen=True)
class MissionProgress:
    """How far a vehicle is in its mission."""

    item: int = -1  # number of the present one, from 0; -1 before the first is known
    finished: bool = False  # whether the last one is completed


def not_ready(reasons: Mapping[str, Sequence[str]], limit: float) -> UserError:
    """That vehicles cannot arm after ``limit`` s, by their names with the reasons."""
    listed = "; ".join(f"{name}: {', '.join(found)}" for name, found in reasons.items() if found)
    return UserError(f"not ready to arm within {limit:g} s of simulated time: {listed}")


def end_of_flight() -> UserError:
    """That a flight is over, in which no time passes and nothing is commanded any more."""
    return UserError("the flight has ended; sitl.reset() begins another")


def no_mavlink(what: str) -> UserError:
    """That flight stacks within this process have no MAVLink."""
    return UserError(
        f"{what}: this flight of the built-in stack is within this process, where there is no MAVLink;"
        " give sb.Sitl mavlink=True (of a pytest fixture: take the url before the first command)"
    )


class FlightStacks(ABC):
    """Flight stacks of vehicles that are named by their numbers, from 0.

    Args:
        origins: (n, 3) m NED from the world's origin of the points where they stand.

    Attributes:
        targets: what each vehicle is to follow, sent again every ``chunk`` steps; None for nothing.
        taken_over: vehicles that page, bus or ROS steer by set-points of their own.
        chunk: steps.
        steering: called before targets are sent, to change them; None for targets that are set by hand.
        ready_at: us of simulated time from which the times of messages count.
        ended: whether the flight is over, after which no time passes and nothing is commanded.
        sticks: of each vehicle's remote control, sent likewise, in the order of ``STICKS``; None until there
            is one.
    """

    def __init__(
        self, names: Sequence[str], kinds: Sequence[str], origins: Sequence[Sequence[float]]
    ) -> None:
        self.names, self._kinds = tuple(names), tuple(kinds)
        self.origins = np.array(origins, dtype=np.float64)
        self.targets: list[Target | None] = [None] * len(self.names)
        self.taken_over: set[int] = set()
        self.chunk = CHUNK
        self.steering: Callable[[], None] | None = None
        self.ready_at, self.ended = 0, False
        self.sticks: list[tuple[float, float, float, float] | None] = [None] * len(self.names)

    def title(self, vehicle: int) -> str:
        """A vehicle by name and airframe, for messages."""
        return f"vehicle {self.names[vehicle]} ({self._kinds[vehicle]})"

    def own_place(self, vehicle: int, position: Sequence[float]) -> tuple[float, float, float]:
        """A place in m NED from the world's origin, from the vehicle's own."""
        north, east, down = (np.array(position) - self.origins[vehicle]).tolist()
        return north, east, down

    # ------------------------------------------------------------------ time

    @property
    @abstractmethod
    def now(self) -> int:
        """us of simulated time."""

    def take_control(self) -> None:
        """Take hold of time before it passes here, and before a command.

        Raises:
            UserError: after the end.
        """
        if self.ended:
            raise end_of_flight()

    @abstractmethod
    def advance(self, steps: int) -> None:
        """Let time pass, with the targets in force.

        Raises:
            UserError: when the simulation or a flight stack fails.
        """

    @property
    def steps_to_look(self) -> int:
        """Steps to the next change of what the flight stacks do."""
        return self.chunk

    def wait(self, vehicles: Sequence[int], done: Callable[[int], bool], limit: float) -> list[int]:
        """Let time pass until all are done, at most ``limit`` s; returns those that are not."""
        end = self.now + round(limit * 1e6)
        while waiting := [i for i in vehicles if not done(i)]:
            if self.now >= end:
                return waiting
            self.advance(self.steps_to_look)
        return []

    # ------------------------------------------------------------------ what they report

    @property
    @abstractmethod
    def place(self) -> tuple[float, float]:
        """Deg latitude and longitude of the origin of positions."""

    @property
    @abstractmethod
    def messages(self) -> list[Message]:
        """Status texts so far, oldest first."""

    @abstractmethod
    def is_armed(self, vehicle: int) -> bool:
        """Whether a vehicle's motors may turn."""

    @abstractmethod
    def on_ground(self, vehicle: int) -> bool:
        """Whether a vehicle stands on something."""

    @abstractmethod
    def mode(self, vehicle: int) -> str:
        """Flight mode of a vehicle, by PX4's name."""

    @property
    @abstractmethod
    def estimates(self) -> NDArray[np.float64]:
        """(n, 3) m NED from the world's origin, positions by the vehicles' own estimates."""

    @property
    @abstractmethod
    def velocities(self) -> NDArray[np.float64]:
        """(n, 3) m/s NED likewise."""

    @property
    @abstractmethod
    def attitudes(self) -> NDArray[np.float64]:
        """(n, 3) rad roll, pitch, yaw likewise."""

    @property
    @abstractmethod
    def batteries(self) -> NDArray[np.float64]:
        """(n,) share of the charge by the flight stacks, 0..1; nan before it is known."""

    def reports(self, vehicle: int) -> bool:
        """Whether a vehicle reports its state, and takes commands."""
        del vehicle
        return True

    @abstractmethod
    def problems(self, vehicle: int) -> Sequence[str]:
        """Why a vehicle cannot arm; empty if it can."""

    @abstractmethod
    def mission(self, vehicle: int) -> MissionProgress:
        """How far a vehicle is in its mission."""

    # ------------------------------------------------------------------ commands

    @abstractmethod
    def command(self, vehicles: Sequence[int], what: str, number: int, params: Sequence[float] = ()) -> None:
        """Give vehicles a MAV_CMD at the same time, and wait for their answers.

        Args:
            what: they are to do, for messages.
            params: seven at most; those left out are 0.

        Raises:
            UserError: when one refuses or does not answer, with its reasons.
        """

    def send(self, vehicle: int, message: MavlinkMessage) -> None:
        """Send a vehicle a MAVLink message.

        Raises:
            UserError: where the flight stacks are within this process.
        """
        del vehicle, message
        raise no_mavlink("send")

    def received(self, vehicle: int, number: int) -> MavlinkMessage | None:
        """The last MAVLink message of an id that a vehicle has sent; None before it has sent one.

        Raises:
            UserError: as ``send``.
        """
        del vehicle, number
        raise no_mavlink("received")

    @abstractmethod
    def parameter(self, vehicle: int, name: str) -> float:
        """A parameter.

        Raises:
            UserError: for one that the flight stack does not have.
        """

    @abstractmethod
    def set_parameter(self, vehicles: Sequence[int], name: str, value: float) -> None:
        """Set a parameter of vehicles.

        Raises:
            UserError: for one that a flight stack does not have or does not take.
        """

    @abstractmethod
    def upload(self, vehicle: int, plan: Plan) -> None:
        """Give a vehicle a plan's fence, rally points and mission, if it has one.

        Raises:
            UserError: when it refuses a part.
        """

    def not_ready(self, vehicles: Sequence[int], limit: float) -> UserError:
        """That vehicles cannot arm after ``limit`` s."""
        return not_ready({self.title(i): self.problems(i) for i in vehicles}, limit)

    def wait_until_ready(self, vehicles: Sequence[int], limit: float = READY_LIMIT) -> None:
        """Let time pass until vehicles can arm.

        Raises:
            UserError: for those that cannot after ``limit`` s, with the reasons.
        """
        waiting = self.wait(vehicles, lambda i: not self.problems(i), limit)
        if waiting:
            raise self.not_ready(waiting, limit)

    def arm(self, vehicles: Sequence[int], limit: float = READY_LIMIT) -> None:
        """Wait until vehicles can arm, at most ``limit`` s, and arm them.

        Raises:
            UserError: for those that do not become ready or do not arm, with the reasons.
        """
        self.leave_last_mode(vehicles)
        self.wait_until_ready(vehicles, limit)
        self.switch_motors(vehicles, on=True)
        waiting = self.wait(vehicles, self.is_armed, ARMING)
        if waiting:
            raise UserError(f"{self.title(waiting[0])} has not armed within {ARMING:g} s of simulated time")

    def leave_last_mode(self, vehicles: Sequence[int]) -> None:
        """Switch vehicles to Hold that cannot arm in the mode in which they ended a flight.

        Raises:
            UserError: when one refuses.
        """
        # PX4 leaves Land and Return after the landing by itself, but not at once.
        # No set-points come until the vehicle is in the air again.
        ended = [i for i in vehicles if self.mode(i) in ("Offboard", "Land", "Return")]
        ended = [i for i in ended if not (self.targets[i] or self.is_armed(i))]
        if ended:
            self.set_mode(ended, "Hold")

    def switch_motors(self, vehicles: Sequence[int], *, on: bool, force: float = 0.0) -> None:
        """Arm or disarm vehicles now; ``force`` is the second parameter of the command."""
        number = mavlink.MAV_CMD_COMPONENT_ARM_DISARM
        self.command(vehicles, "arm" if on else "disarm", number, (float(on), force))

    def take_off(self, vehicles: Sequence[int], height: float) -> None:
        """Let armed vehicles climb ``height`` m from where they are."""
        self.set_parameter(vehicles, "MIS_TAKEOFF_ALT", height)
        for vehicle in vehicles:
            self.targets[vehicle] = None
        self.command(vehicles, "take off", mavlink.MAV_CMD_NAV_TAKEOFF, [np.nan] * 7)

    def set_mode(self, vehicles: Sequence[int], name: str, what: str = "") -> None:
        """Switch vehicles to a flight mode by PX4's name; ``what`` says for what.

        Raises:
            UserError: for an unknown mode, and when one refuses.
        """
        if name not in MODE_NUMBERS:
            near = did_you_mean(name, MODE_NUMBERS)
            raise UserError(f"there is no flight mode {name!r}{near}; there are {', '.join(MODE_NUMBERS)}")
        main, sub = MODE_NUMBERS[name]
        params = (CUSTOM, float(main), float(sub))
        self.command(vehicles, what or f"switch to {name}", mavlink.MAV_CMD_DO_SET_MODE, params)
