"""The verbs by which a program flies vehicles: the same for PX4 and the built-in stack, in simulated time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ValidationError

from sitl_bridge.api.stacks import Stacks
from sitl_bridge.api.thrown_motion import Throw
from sitl_bridge.api.truth_table import TruthTable
from sitl_bridge.api.vehicle_arrays import VehicleArrays
from sitl_bridge.api.was_attribute import was_attribute
from sitl_bridge.base.arrays import AnyArray, Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import euler_angles, quaternion_from_euler, wrap_angle
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.events import TeleportEvent
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.plan.plan import Plan
from sitl_bridge.plan.plan_file import load_plan
from sitl_bridge.session.plan_flight import fly_plans
from sitl_bridge.session.stacks import CENTRED, FlightStacks, Message, Target

T = TypeVar("T")

Which: TypeAlias = int | str | slice | Sequence[int | str] | AnyArray
"""Vehicles: a number or a name; a slice, several of them, or (n,) True and False."""

WARNING: int = mavlink.MAV_SEVERITY_WARNING
SETTLED = 0.2
"""m/s of climb below which a take-off counts as finished, once the flight stack holds."""
SLOW = 0.5
"""m/s below which a vehicle counts as having come to a halt; from there PX4 stops within 0.05 m
(MPC_ACC_HOR, 3 m/s^2)."""
LEFT = 2.0
"""s in another mode after which a command counts as given up: flight stacks tell their mode once a second,
and the last one may still be on its way."""
GOING_DOWN = ("Land", "Return", "Precision land", "Descend")
UNSET = math.nan
FACING = math.radians(12.0)
"""Heading error at which a vehicle faces where it is to: PX4's MIS_YAW_ERR."""
STILL, STILL_FOR = 0.05, 2.0
"""rad/s and s of a vehicle that turns no more: its own idea of its heading may be off by more than FACING."""


Range: TypeAlias = tuple[float, float] | None
"""Least and greatest value; None for no limit."""


class FlightCheck:
    """Whether a statement about a flight holds, and the figures that decide.

    pytest prints it where an ``assert`` fails, so that the message needs no words of the test's own.

    Attributes:
        holds: whether it does.
        text: the figures.
    """

    def __init__(self, holds: bool, text: str) -> None:
        self.holds, self.text = bool(holds), text

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return f"<{'yes' if self.holds else 'NO'}: {self.text}>"


class Vehicles(VehicleArrays):
    """One or several of the vehicles of a ``Sitl``; commands go to all of them.

    ``sitl`` itself is all vehicles, ``sitl.vehicle`` the only one, ``sitl["a"]`` one by name or number,
    ``sitl[["a", "c"]]`` and ``sitl[2:]`` several.  One vehicle's states are without a vehicle axis, those of
    several have it first.  Positions are NED in m from the world's origin.  Simulated time passes only in
    calls that wait, and stands still in between.  A refusal is a ``UserError`` with the vehicle and what its
    flight stack said.

    Statements are decided on the truth so far; of several vehicles one holds when it does for each.
    """

    def __init__(self, flight: list[Stacks], numbers: Sequence[int], alone: bool) -> None:
        self._flight, self._numbers, self._alone = flight, list(numbers), alone
        self.names = tuple(self._stacks.names[i] for i in self._numbers)
        self.airframes = tuple(self._stacks.airframes[i] for i in self._numbers)

    @property
    def _stacks(self) -> Stacks:
        return self._flight[0]

    @property
    def _commands(self) -> FlightStacks:
        return self._stacks.commands

    def __getitem__(self, which: Which) -> Vehicles:
        """One vehicle by name or number, or several.

        Raises:
            UserError: for an unknown vehicle.
        """
        if isinstance(which, int | str | np.integer):
            return Vehicles(self._flight, [self._number(which)], True)
        if isinstance(which, slice):
            return Vehicles(self._flight, self._numbers[which], False)
        listed = list(which)
        if listed and all(isinstance(entry, bool | np.bool_) for entry in listed):
            if len(listed) != len(self):
                raise UserError(f"vehicles: a mask has {len(self)} entries, not {len(listed)}")
            return Vehicles(self._flight, [i for i, x in zip(self._numbers, listed, strict=True) if x], False)
        return Vehicles(self._flight, [self._number(entry) for entry in listed], False)

    def __iter__(self) -> Iterator[Vehicles]:
        return (Vehicles(self._flight, [i], True) for i in self._numbers)

    def _number(self, which: int | str) -> int:
        if isinstance(which, str) and which in self.names:
            return self._numbers[self.names.index(which)]
        if isinstance(which, int | np.integer) and -len(self) <= which < len(self):
            return self._numbers[which]
        raise UserError(f"there is no vehicle {which!r}; there are {', '.join(self.names)}")

    # ------------------------------------------------------------------ states

    @property
    def _core(self) -> Simulation:
        return self._stacks.simulation

    @property
    def _hosts(self) -> tuple[SensorHost, ...]:
        return self._stacks.hosts

    def _pick(self, rows: AnyArray) -> Any:
        """The rows of the chosen vehicles, copied; of one vehicle without the vehicle axis."""
        return rows[self._numbers[0]].copy() if self._alone else rows[self._numbers]

    def _each(self, value: Callable[[int], T], together: Callable[[list[T]], object]) -> Any:
        """A value of the only vehicle, or of each."""
        found = [value(i) for i in self._numbers]
        return found[0] if self._alone else together(found)

    @property
    def _zero(self) -> int:
        return self._stacks.ready_at

    @property
    def time(self) -> float:
        """s of simulated time since the vehicles were ready."""
        return (self._commands.now - self._zero) * 1e-6

    @property
    def armed(self) -> Any:
        """Whether the motors may turn, by vehicle."""
        return self._each(self._commands.is_armed, np.array)

    @property
    def mode(self) -> Any:
        """Flight mode by PX4's name, by vehicle."""
        return self._each(self._commands.mode, tuple)

    @property
    def battery(self) -> Any:
        """Share of the charge by the flight stack, 0..1, by vehicle; nan before it is known."""
        return self._pick(self._commands.batteries)

    @property
    def estimated_position(self) -> Floats:
        """(k, 3) m NED from the world's origin, by the vehicles' own estimates."""
        return self._pick(self._commands.estimates)  # type: ignore[no-any-return]

    @property
    def arming_problems(self) -> Any:
        """Why each vehicle cannot arm, texts; empty if it can."""
        return self._each(lambda i: tuple(self._commands.problems(i)), tuple)

    @property
    def messages(self) -> list[Message]:
        """Status texts of the flight stacks so far, oldest first."""
        return [message for message in self._commands.messages if message.vehicle in self.names]

    @property
    def truth(self) -> TruthTable:
        """The true motion so far, step by step since the vehicles were ready: ``truth["position"]``."""
        return self._stacks.track.select(self._numbers, self.names, alone=self._alone)

    @property
    def _track(self) -> TruthTable:
        """The true motion since the vehicles were ready, with the vehicle axis."""
        return self._stacks.track.select(self._numbers, self.names)

    @was_attribute
    def url(self) -> str:
        """Let simulated time pass by itself, and return where MAVSDK reaches the vehicle.

        ``run`` and all commands that wait stop time again.

        Raises:
            UserError: for several vehicles, and where the flight stack is within this process.
        """
        if len(self) != 1:
            raise UserError("url: these are several vehicles; use urls()")
        return self.urls()[0]

    @was_attribute
    def urls(self) -> tuple[str, ...]:
        """``url`` of each vehicle."""
        urls = self._stacks.urls()
        return tuple(urls[i] for i in self._numbers)

    # ------------------------------------------------------------------ time

    def run(self, seconds: float, each: Callable[[Self], None] | None = None) -> None:
        """Let simulated time pass, in whole steps.

        Args:
            seconds: of simulated time.
            each: called with the vehicles every 48 ms; it may give commands that take no time.

        Raises:
            UserError: when the simulation or a flight stack fails.
        """
        if not 0.0 <= seconds < math.inf:
            raise UserError(f"run: {seconds!r} s is not a duration")
        left = round(seconds / self.step_size)
        while left > 0:
            if each is not None:
                each(self)
            count = min(left, self._commands.steps_to_look)
            self._commands.advance(count)
            left -= count

    def step(self, count: int = 1) -> None:
        """Let ``count`` steps of 4 ms pass."""
        self._commands.advance(count)

    def run_until(self, condition: Callable[[Self], ArrayLike], limit: float = 60.0) -> None:
        """Let simulated time pass until a condition holds, looked at every 48 ms.

        Args:
            condition: of these vehicles; true for a single value or for all of an array.
            limit: s of simulated time.

        Raises:
            UserError: when it does not hold within that time.
        """
        end = self.time + limit
        while not np.all(condition(self)):
            if self.time >= end:
                raise UserError(
                    f"run_until: the condition has not become true within {limit:g} s; {self.state_in_words}"
                )
            self._commands.advance(self._commands.steps_to_look)

    def _wait(
        self, done: Callable[[int], bool], limit: float, what: str, command: str, modes: Sequence[str]
    ) -> None:
        """Wait until all are done; gives up what a vehicle no longer does.

        Args:
            done: whether a vehicle is.
            limit: s of simulated time.
            what: they are to be by then, for messages.
            command: that they follow.
            modes: in which they do.
        """
        began, seen = self.time, dict.fromkeys(self._numbers, self.time)

        def done_or_left(i: int) -> bool:
            if done(i):
                return True
            if self._commands.mode(i) in modes:
                seen[i] = self.time
            if self.time - seen[i] > LEFT or not self._commands.is_armed(i):
                said = [m for m in self._commands.messages if m.time >= began and m.level <= WARNING]
                words = dict.fromkeys(m.text for m in said if m.vehicle == self._stacks.names[i])
                cause = "; ".join(words) or "the flight stack names no cause"
                raise UserError(f"{cause}: {command} is given up, {self._state_of(i, last_words=False)}")
            return False

        waiting = self._commands.wait(self._numbers, done_or_left, limit)
        if waiting:
            listed = "; ".join(self._state_of(i) for i in waiting)
            raise UserError(f"not {what} within {limit:g} s of simulated time: {listed}")

    # ------------------------------------------------------------------ arming, take-off, landing

    def arm(self, *, limit: float = 60.0) -> None:
        """Wait until the vehicles can arm, and arm them.

        Args:
            limit: s of simulated time to become ready in.

        Raises:
            UserError: with the vehicles that do not become ready, and the reasons.
        """
        self._commands.arm(self._numbers, limit)

    def disarm(self, *, force: bool = False) -> None:
        """Stop the motors; ``force`` does so in the air, too."""
        self._commands.switch_motors(self._numbers, on=False, force=mavlink.FORCE_ARMING if force else 0.0)
        self._release()

    def take_off(self, height: float, *, wait: bool = True, limit: float = 60.0) -> None:
        """Climb, and hold there.

        Args:
            height: m above where each vehicle is now.
            wait: whether to return only when they hold.
            limit: s of simulated time for that.

        Raises:
            UserError: for a vehicle that is not armed, refuses, or does not get there in time.
        """
        if not 0.0 < height < 10_000.0:
            raise UserError(f"take_off: {height!r} m is not a height to climb to; give a positive number")
        self._require_armed("take off")
        ground = self._core.states["position"][:, 2].copy()
        self._commands.take_off(self._numbers, height)
        self._release()

        def is_up(i: int) -> bool:
            state = self._core.states[i]
            climbed = ground[i] - state["position"][2] > 0.7 * height
            return bool(climbed and abs(state["velocity"][2]) < SETTLED and self._commands.mode(i) == "Hold")

        if wait:
            self._wait(is_up, limit, f"at a height of {height:g} m", "take_off", ("Takeoff", "Hold"))

    def hold(self) -> None:
        """Stop and hold; returns at once."""
        self.set_mode("Hold")

    def land(self, *, wait: bool = True, limit: float = 120.0) -> None:
        """Land where the vehicles are; they disarm by themselves.

        Args:
            wait: whether to return only when they have disarmed.
            limit: s of simulated time for that.

        Raises:
            UserError: for a vehicle that refuses or is not down in time.
        """
        self._go_down("land", "Land", wait, limit)

    def return_home(self, *, wait: bool = True, limit: float = 300.0) -> None:
        """Fly back to where the vehicles took off, and land; as ``land``."""
        self._go_down("return home", "Return", wait, limit)

    def _go_down(self, what: str, mode: str, wait: bool, limit: float) -> None:
        flying = Vehicles(self._flight, [i for i in self._numbers if self._commands.is_armed(i)], False)
        self._commands.set_mode(flying._numbers, mode, what)
        flying._release()
        if wait:
            flying._wait(lambda i: not self._commands.is_armed(i), limit, "on the ground", what, GOING_DOWN)

    # ------------------------------------------------------------------ set-points

    def go_to(
        self,
        position: ArrayLike | None = None,
        yaw: ArrayLike | None = None,
        *,
        north: float | None = None,
        east: float | None = None,
        height: float | None = None,
        within: float = 0.5,
        limit: float = 60.0,
        fly_by: bool = False,
        wait: bool = True,
    ) -> None:
        """Fly to a place and stop there.

        Args:
            position: m NED from the world's origin; (k, 3) gives each vehicle its own.
            yaw: rad from north, clockwise, one or (k,); None keeps the heading.
            north: m from the world's origin; with ``east`` and ``height`` instead of a position.  What is
                left out stays as it is.
            east: m.
            height: m over the world's origin.
            within: m of the place, by the vehicles' own estimates, where they have arrived.
            limit: s of simulated time for that.
            fly_by: whether to return as soon as each vehicle has been there, whatever its speed; otherwise
                each has also slowed down to less than 0.5 m/s there, and faces ``yaw`` within 12 degrees or
                has not turned for 2 s.
            wait: whether to wait for that at all.

        Raises:
            UserError: for a place that does not fit, and for a vehicle that is not armed, refuses, leaves
                Offboard on the way, as by a failsafe, or has not arrived in time.
        """
        if position is None:
            if north is None and east is None and height is None:
                raise UserError("go_to: give a position, or north, east and height")
            places = self._commands.estimates[self._numbers]
            for axis, given in enumerate((north, east, None if height is None else -height)):
                if given is not None:
                    places[:, axis] = given
        elif north is not None or east is not None or height is not None:
            raise UserError("go_to: give either a position or north, east and height, not both")
        else:
            places = self._rows("go_to: position", position, 3, same_for_all=False)
        self.follow(places, yaw=yaw, what="go_to")
        if not wait:
            return
        target = dict(zip(self._numbers, places, strict=True))
        headings = dict(zip(self._numbers, self._headings(yaw, "go_to"), strict=True))
        turned = dict.fromkeys(self._numbers, self.time)
        arrived: set[int] = set()

        def faces(i: int) -> bool:
            state = self._core.states[i]
            if math.isnan(headings[i]):
                return True
            if abs(state["angular_velocity"][2]) > STILL:
                turned[i] = self.time
            error = wrap_angle(euler_angles(*state["attitude"].tolist())[2] - headings[i])
            return abs(error) < FACING or self.time - turned[i] > STILL_FOR

        def there(i: int) -> bool:
            facing = fly_by or faces(i)
            if self._away(i, target[i]) <= within:
                speed = float(np.linalg.norm(self._core.states[i]["velocity"]))
                if fly_by or (speed < SLOW and facing):
                    arrived.add(i)
            return i in arrived

        what = f"{'' if fly_by else 'slow and '}within {within:g} m of the place"
        self._wait(there, limit, what, "go_to", ("Offboard",))

    def _headings(self, yaw: ArrayLike | None, what: str) -> list[float]:
        if yaw is None:
            return [UNSET] * len(self)
        headings: list[float] = self._rows(f"{what}: yaw", np.reshape(yaw, (-1, 1)), 1)[:, 0].tolist()
        return headings

    def _away(self, i: int, place: Floats) -> float:
        return float(np.linalg.norm(self._commands.estimates[i] - place))

    @property
    def distance_left(self) -> Any:
        """m from the estimated positions to the commanded ones, by vehicle; nan without a command."""
        left = np.full(len(self._stacks.names), np.nan)
        for i in self._numbers:
            target = self._commands.targets[i]
            if target is not None and target.position is not None:
                left[i] = self._away(i, np.array(target.position))
        return self._pick(left)

    def set_velocity(self, velocity: ArrayLike, yaw: ArrayLike | None = None, *, frame: str = "ned") -> None:
        """Fly with a velocity; returns at once, ``run`` lets time pass.

        Args:
            velocity: m/s; (k, 3) gives each vehicle its own.
            yaw: rad from north, clockwise, one or (k,); None keeps the heading.
            frame: ``"ned"``, or ``"body"`` for forward, right, down at the vehicle's heading.

        Raises:
            UserError: for a velocity that does not fit, and for a vehicle that is not armed or refuses.
        """
        if frame not in ("ned", "body"):
            raise UserError(f"set_velocity: frame {frame!r} is neither 'ned' nor 'body'")
        self.follow(velocity=velocity, yaw=yaw, what="set_velocity", body=frame == "body")

    def follow(
        self,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
        yaw: ArrayLike | None = None,
        *,
        what: str = "follow",
        body: bool = False,
    ) -> None:
        """Follow a point of a trajectory; returns at once.  Give the next point from ``each`` of ``run``.

        Args:
            position: m NED from the world's origin, (k, 3) or (3,) for all; None is not controlled.
            velocity: m/s NED; beside a position it is fed forward.
            acceleration: m/s^2 NED, fed forward.
            yaw: rad from north, clockwise, one or (k,); None keeps the heading.
            what: names the command in messages.
            body: whether the velocity is forward, right, down at the vehicle's heading.

        Raises:
            UserError: for arrays of another shape, and for a vehicle that is not armed or refuses.
        """
        if position is None and velocity is None and acceleration is None:
            raise UserError(f"{what}: give a position, a velocity or an acceleration")
        given = {"position": position, "velocity": velocity, "acceleration": acceleration}
        rows = {
            name: self._rows(f"{what}: {name}", values, 3, same_for_all=name != "position").tolist()
            for name, values in given.items()
            if values is not None
        }
        targets = [Target(yaw=heading, body=body) for heading in self._headings(yaw, what)]
        for name, values in rows.items():
            for target, row in zip(targets, values, strict=True):
                setattr(target, name, tuple(row))
        self._lead(what, targets)

    def set_attitude(self, roll: float = 0.0, pitch: float = 0.0, yaw: float = 0.0, *, thrust: float) -> None:
        """Fly with an attitude; returns at once.

        Args:
            roll: rad, right wing down.
            pitch: rad, nose up.
            yaw: rad from north, clockwise.
            thrust: 0..1 of full thrust.

        Raises:
            UserError: for a vehicle that is not armed or refuses.
        """
        self._check_thrust("set_attitude", (roll, pitch, yaw), thrust)
        attitude = quaternion_from_euler(roll, pitch, yaw)
        self._lead("set_attitude", [Target(attitude=attitude, thrust=thrust) for _ in self._numbers])

    def set_rates(self, roll: float = 0.0, pitch: float = 0.0, yaw: float = 0.0, *, thrust: float) -> None:
        """Fly with angular velocities in rad/s, body FRD; else as ``set_attitude``."""
        self._check_thrust("set_rates", (roll, pitch, yaw), thrust)
        rates = (float(roll), float(pitch), float(yaw))
        self._lead("set_rates", [Target(rates=rates, thrust=thrust) for _ in self._numbers])

    @staticmethod
    def _check_thrust(what: str, angles: tuple[float, float, float], thrust: float) -> None:
        if not 0.0 <= thrust <= 1.0:
            raise UserError(f"{what}: a thrust of {thrust!r} is not within 0 to 1")
        if not all(map(math.isfinite, angles)):
            raise UserError(f"{what}: {angles} are not finite")

    def sticks(
        self,
        forward: float = 0.0,
        right: float = 0.0,
        throttle: float = 0.5,
        clockwise: float = 0.0,
        *,
        mode: str = "Position",
    ) -> None:
        """Fly by the sticks of a remote control from now on; returns at once.

        The remote control then stays on: with other commands its sticks are centred.

        Args:
            forward: -1..1; tilts the nose down in modes without position control.
            right: -1..1.
            throttle: 0..1; 0.5 holds the height.
            clockwise: -1..1.
            mode: that the sticks fly in: ``"Position"``, ``"Altitude"``, ``"Stabilized"`` or ``"Acro"``.

        Raises:
            UserError: for sticks beyond their ends, and for a vehicle that is not armed or refuses.
        """
        if not (max(abs(forward), abs(right), abs(clockwise)) <= 1.0 and 0.0 <= throttle <= 1.0):
            raise UserError("sticks: forward, right and clockwise are within -1 to 1, throttle within 0 to 1")
        self._require_armed("fly by the sticks")
        self._release()
        for i in self._numbers:
            self._commands.sticks[i] = (float(forward), float(right), float(throttle), float(clockwise))
        self._switch(mode, "fly by the sticks")

    def _lead(self, what: str, targets: Sequence[Target]) -> None:
        self._require_armed(what)
        for i, target in zip(self._numbers, targets, strict=True):
            self._commands.targets[i] = target
        self._switch("Offboard", what)

    def _switch(self, mode: str, what: str) -> None:
        """Switch those that fly in another mode."""
        others = [i for i in self._numbers if self._commands.mode(i) != mode]
        if others:
            self._commands.set_mode(others, mode, what)

    def _release(self) -> None:
        """Send no more set-points, and let go of the sticks, if there is a remote control."""
        for i in self._numbers:
            self._commands.targets[i] = None
            if self._commands.sticks[i] is not None:
                self._commands.sticks[i] = CENTRED

    def place(
        self,
        position: tuple[float, float, float],
        velocity: tuple[float, float, float] = (0.0, 0.0, 0.0),
        yaw: float = 0.0,
    ) -> None:
        """Move the vehicle at once, level; its flight stack is not told and has to find out by its sensors.

        Args:
            position: m NED from the world's origin, of its lowest point.
            velocity: m/s NED.
            yaw: rad from north, clockwise.

        Raises:
            UserError: for several vehicles, and for a place where another vehicle is.
        """
        if len(self) != 1:
            raise UserError("place: these are several vehicles; take one by name")
        try:
            event = TeleportEvent(
                at=0.0,
                kind="teleport",
                position=position,
                velocity=velocity,
                yaw=math.degrees(yaw),
                vehicles=(self._numbers[0],),
            )
        except ValidationError as error:
            raise UserError(f"place: {error.errors()[0]['msg']}") from error
        self._stacks.happen(event, begins=True)

    def throw(
        self,
        velocity: ArrayLike | None = None,
        attitude: ArrayLike | None = None,
        angular_velocity: ArrayLike = (0.0, 0.0, 0.0),
        *,
        seconds: float = 0.5,
    ) -> None:
        """Bring the vehicles into a motion, by a force and a moment from outside; then they fly on.

        The sensors feel them, so the flight stack's estimate stays right, PX4's, too.

        Args:
            velocity: m/s NED at the end, (3,) or (k, 3); None keeps the present one.
            attitude: quaternion w, x, y, z at the end, body FRD to NED, (4,) or (k, 4); None keeps it.
            angular_velocity: rad/s at the end, body FRD, (3,) or (k, 3).
            seconds: of simulated time that it takes.

        Raises:
            UserError: for values that do not fit.
        """
        steps = round(seconds / self.step_size)
        if not 2 <= steps <= 10_000:
            raise UserError(f"throw: {seconds!r} s is no time for it; 0.5 s is usual")
        states = self._core.states[self._numbers]
        rows = [
            self._rows(f"throw: {name}", states[name] if given is None else given, width)
            for name, given, width in (
                ("velocity", velocity, 3),
                ("attitude", attitude, 4),
                ("angular_velocity", angular_velocity, 3),
            )
        ]
        if (np.abs(np.linalg.norm(rows[1], axis=1) - 1.0) > 0.01).any():
            raise UserError("throw: attitude: a quaternion's length is not 1; its order is w, x, y, z")
        thrown = [Throw(self._core, i, *row) for i, *row in zip(self._numbers, *rows, strict=True)]
        for left in range(steps, 0, -1):
            for one in thrown:
                one.push(left)
            self._commands.advance(1)
            for one in thrown:
                one.observe()

    # ------------------------------------------------------------------ missions, modes, parameters, MAVLink

    def fly_plan(self, *plans: str | Path | Plan, limit: float = math.inf) -> None:
        """Fly plans of QGroundControl from the ground to the ground.

        A vehicle whose plan ends in the air returns home.

        Args:
            plans: one for each vehicle, or one for all of them.
            limit: s of simulated time in which all have landed; each plan has a generous one of its own.

        Raises:
            UserError: for a faulty plan, and when a flight stack refuses it, ends it by itself or does not
                end it in time.
        """
        loaded = [plan if isinstance(plan, Plan) else load_plan(Path(plan)) for plan in plans]
        if len(loaded) not in (1, len(self)):
            raise UserError(f"fly_plan: one plan or {len(self)} are needed, not {len(loaded)}")
        self._release()
        fly_plans(
            self._commands, {i: loaded[k % len(loaded)] for k, i in enumerate(self._numbers)}, limit=limit
        )

    def set_mode(self, name: str) -> None:
        """Switch to a flight mode by PX4's name, such as ``"Hold"``; set-points are no longer sent.

        Raises:
            UserError: for an unknown mode, and for a vehicle that refuses it.
        """
        self._release()
        self._commands.set_mode(self._numbers, name)

    def parameter(self, name: str) -> Any:
        """A parameter of the flight stack, by vehicle.

        Raises:
            UserError: for one that it does not have.
        """
        return self._each(lambda i: self._commands.parameter(i, name), np.array)

    def set_parameter(self, name: str, value: float) -> None:
        """Set a parameter of the flight stack; returns when it is in effect.

        Raises:
            UserError: for one that it does not have, or a value that it does not take.
        """
        self._commands.set_parameter(self._numbers, name, value)

    def command(self, command: str | int, *params: float) -> None:
        """Give a command of MAVLink by name, such as ``"MAV_CMD_DO_SET_HOME"``, or by number.

        Args:
            command: MAV_CMD, whose name may leave out ``MAV_CMD_``.
            params: seven at most; those left out are 0.

        Raises:
            UserError: for an unknown command, and for a vehicle that refuses it or does not answer.
        """
        number: int | None
        if isinstance(command, str):
            name = f"MAV_CMD_{command.removeprefix('MAV_CMD_')}"
            number = getattr(mavlink, name, None)
            if number is None:
                raise UserError(f"there is no command {name} in MAVLink's common messages")
        else:
            number = command
        self._commands.command(self._numbers, str(command), number, params)

    def send(self, message: MavlinkMessage) -> None:
        """Send a MAVLink message, made with pymavlink's ``dialects.v20.common``; needs ``mavlink=True``."""
        for i in self._numbers:
            self._commands.send(i, message)

    def received(self, name: str) -> Any:
        """The last MAVLink message of a name, such as ``"ATTITUDE"``, by vehicle; None before the first.

        Ask once before time passes: what nobody asked for is not kept.  Needs ``mavlink=True``.

        Raises:
            UserError: for an unknown message.
        """
        number = getattr(mavlink, f"MAVLINK_MSG_ID_{name}", None)
        if number is None:
            raise UserError(f"there is no message {name} among MAVLink's common messages")
        return self._each(lambda i: self._commands.received(i, number), list)

    # ------------------------------------------------------------------ statements

    def reached(self, position: ArrayLike, within: float) -> FlightCheck:
        """Whether a vehicle has come within a distance of a place at any time.

        Args:
            position: m NED; (n, 3) gives each vehicle its own.
            within: m.
        """
        time, places = self._motion()
        targets = self._rows("reached: position", position, 3)
        verdicts = []
        for i in range(len(self.names)):
            distance = np.linalg.norm(places[:, i] - targets[i], axis=1)
            k = int(np.argmin(distance))
            verdicts.append(
                (
                    bool(distance[k] <= within),
                    f"{self._who(i)}came within {distance[k]:.2f} m of {_point(targets[i])} at"
                    f" {time[k]:.1f} s, at {_point(places[k, i])}; {within:g} m were to be reached",
                )
            )
        return _all(verdicts)

    def within(self, distance: float, of: ArrayLike) -> FlightCheck:
        """Whether a vehicle is within a distance of a place now.

        Args:
            distance: m.
            of: m NED.
        """
        _, places = self._motion()
        targets = self._rows("within: of", of, 3)
        verdicts = []
        for i in range(len(self.names)):
            away = float(np.linalg.norm(places[-1, i] - targets[i]))
            text = f"{self._who(i)}is {away:.2f} m from {_point(targets[i])}, at {_point(places[-1, i])}"
            verdicts.append((away <= distance, f"{text}; {distance:g} m are allowed"))
        return _all(verdicts)

    def stayed_inside(
        self,
        *,
        north: Range = None,
        east: Range = None,
        height: Range = None,
        radius: float | None = None,
        speed: Range = None,
    ) -> FlightCheck:
        """Whether a vehicle has always been inside limits.

        Args:
            north: m.
            east: m.
            height: m over the world's origin.
            radius: m horizontally from the world's origin.
            speed: m/s.

        Raises:
            UserError: for limits that are none.
        """
        time, places = self._motion()
        quantities: list[tuple[str, str, Floats, Range]] = [
            ("north", "m", places[:, :, 0], north),
            ("east", "m", places[:, :, 1], east),
            ("height", "m", -places[:, :, 2], height),
            (
                "radius",
                "m",
                np.hypot(places[:, :, 0], places[:, :, 1]),
                None if radius is None else (0, radius),
            ),
        ]
        if speed is not None:
            quantities.append(("speed", "m/s", np.linalg.norm(self._track.velocity, axis=2), speed))
        verdicts = []
        for i in range(len(self.names)):
            for name, unit, values, limits in quantities:
                if limits is not None:
                    verdicts.append(_inside(f"{self._who(i)}{name}", unit, time, values[:, i], limits))
        if not verdicts:
            raise UserError("stayed_inside: give a limit: north, east, height, radius or speed")
        return _all(verdicts)

    def landed_within(self, distance: float, of: ArrayLike | None = None) -> FlightCheck:
        """Whether a vehicle has flown, and stands disarmed within a horizontal distance of a place.

        Args:
            distance: m.
            of: m north and east, or NED; None for where it stood at the start.
        """
        _, places = self._motion()
        contact = self._track.rows["in_contact"][-1]
        level = places[0] if of is None else np.atleast_1d(of)
        targets = self._rows("landed_within: of", level[..., :2], 2)
        verdicts = []
        for i, target in enumerate(targets):
            away = float(np.hypot(*(places[-1, i, :2] - target)))
            climbed = float((places[0, i, 2] - places[:, i, 2]).max())
            who, armed = self._who(i), self._commands.is_armed(self._numbers[i])
            if climbed < 0.3:
                verdicts.append((False, f"{who}has not left the ground"))
            elif armed or not contact[i]:
                height = places[0, i, 2] - places[-1, i, 2]
                state = "armed" if armed else "disarmed"
                verdicts.append((False, f"{who}has not landed: it is {state}, at a height of {height:.2f} m"))
            else:
                text = f"{who}landed {away:.2f} m from {_point(target)}, at {_point(places[-1, i, :2])}"
                verdicts.append((away <= distance, f"{text}; {distance:g} m are allowed"))
        return _all(verdicts)

    def kept_apart(self, distance: float) -> FlightCheck:
        """Whether any two vehicles have always been further apart than a distance in m."""
        time, places = self._motion()
        nearest = (math.inf, 0, 0, 0)
        for i in range(len(self.names)):
            for j in range(i):
                apart = np.linalg.norm(places[:, i] - places[:, j], axis=1)
                k = int(np.argmin(apart))
                nearest = min(nearest, (float(apart[k]), k, j, i))
        least, k, j, i = nearest
        if not math.isfinite(least):
            return FlightCheck(True, "there is one vehicle")
        who = f"{self.names[j]} and {self.names[i]}"
        return FlightCheck(
            least >= distance,
            f"{who} were {least:.2f} m apart at {time[k]:.1f} s; {distance:g} m had to be kept",
        )

    def said(self, text: str) -> FlightCheck:
        """Whether a flight stack has sent a status text that contains ``text``, in any case."""
        said = [str(message) for message in self.messages]
        found = [line for line in said if text.lower() in line.lower()]
        last = "; ".join(said[-5:]) or "nothing"
        return FlightCheck(
            bool(found), found[-1] if found else f"{text!r} was not said; the last was: {last}"
        )

    # ------------------------------------------------------------------ helpers

    def _require_armed(self, what: str) -> None:
        for i in self._numbers:
            if not self._commands.is_armed(i):
                raise UserError(
                    f"{self._commands.title(i)} refuses to {what}: it is not armed; call arm() first"
                )

    def _rows(self, name: str, value: ArrayLike, columns: int, *, same_for_all: bool = True) -> Floats:
        return super()._rows(name, np.atleast_1d(value), columns, same_for_all=same_for_all)

    def _motion(self) -> tuple[Floats, Floats]:
        """Times (k,) and true positions (k, n, 3)."""
        track = self._track
        if not len(track):
            raise UserError("no simulated time has passed in this flight yet; call run() or fly first")
        return track.time, track.position

    def _who(self, i: int) -> str:
        return f"vehicle {self.names[i]}: " if len(self.names) > 1 else ""

    def _state_of(self, i: int, *, last_words: bool = True) -> str:
        north, east, down = self._core.states[i]["position"]
        armed = "armed" if self._commands.is_armed(i) else "disarmed"
        target = self._commands.targets[i]
        away = ""
        if target is not None and target.position is not None:
            away = f", {self._away(i, np.array(target.position)):.2f} m away"
        who = f"vehicle {self._stacks.names[i]}: " if len(self._stacks.names) > 1 else ""
        mode = self._commands.mode(i)
        place = f"at ({north:.2f}, {east:.2f}, {down:.2f})"
        return f"{who}{armed}, in {mode}, {place}{away}{self._last_words(i) if last_words else ''}"

    def _last_words(self, i: int) -> str:
        name = self._stacks.names[i]
        words = [m.text for m in self._commands.messages if m.vehicle == name and m.level <= WARNING]
        return f" ({words[-1]})" if words else ""

    @property
    def state_in_words(self) -> str:
        """Armed or not, mode and place of each vehicle."""
        return "; ".join(self._state_of(i) for i in self._numbers)


def _inside(
    name: str, unit: str, time: Floats, values: Floats, limits: tuple[float, float]
) -> tuple[bool, str]:
    try:
        low, high = (float(limit) for limit in limits)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not low <= high:
        raise UserError(f"stayed_inside: {name}: a least and a greatest value are needed, not {limits!r}")
    out = np.flatnonzero((values < low) | (values > high))
    extent = f"{name} was {values.min():.2f} to {values.max():.2f} {unit}; {low:g} to {high:g} are allowed"
    return (True, extent) if not len(out) else (False, f"{extent}; it left them at {time[out[0]]:.1f} s")


def _all(verdicts: Sequence[tuple[bool, str]]) -> FlightCheck:
    wrong = [text for holds, text in verdicts if not holds]
    return FlightCheck(not wrong, "; ".join(wrong or [text for _, text in verdicts]))


def _point(figures: ArrayLike) -> str:
    return "(" + ", ".join(f"{float(value):.2f}" for value in np.asarray(figures)) + ")"
