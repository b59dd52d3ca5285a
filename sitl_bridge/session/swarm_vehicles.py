"""Vehicles that formations and avoidance steer: states in, set-points out, take-off, landing, lost vehicles.

The flight stacks are PX4 or the built-in one, behind links or in this process.  Set-points are computed and
sent at fixed intervals of simulated time, also while a vehicle is waited for.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from sitl_bridge.base.arrays import Floats, Mask
from sitl_bridge.base.errors import UserError
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.session.stacks import ARMING, STEP, FlightStacks, Target
from sitl_bridge.swarm.formation.leave_and_rejoin import Action, Legs
from sitl_bridge.swarm.interface import LANDING_SEPARATION, Setpoints, States, Steered, Watch

ARRIVED, AT_REST = 0.5, 0.3
"""m between a vehicle and its place in the air, and m/s, at which it has arrived."""
TAKE_OFF_LIMIT = 90.0
"""s of simulated time for the climb."""
CLIMB_SPEED, CLIMB_ACCELERATION = 1.5, 0.5
"""m/s and m/s^2 of the climb to the starting places; the first is PX4's MPC_TKO_SPEED."""
CLIMB_DELAY = 500_000
"""us from arming to it, in which the motors start."""
LANDING_TIME, SLOWEST_DESCENT = 60.0, 0.4
"""s of simulated time for a landing, beyond the present height at this speed in m/s, which is below PX4's
slowest default (MPC_LAND_SPEED 0.7 m/s)."""


class SwarmVehicles:
    """The vehicles of a flight, from the ground to the ground.

    Args:
        stacks: of vehicles that stand at their starting places, disarmed.
        interval: us between set-points.

    Attributes:
        left: the action with which each vehicle has left, by its number.
    """

    def __init__(self, stacks: FlightStacks, say: Callable[[str], None], interval: int) -> None:
        self.stacks, self.say = stacks, say
        self.left: dict[int, Action] = {}
        self._interval = interval
        self._muted: dict[int, int | None] = {}
        self._monitoring = False
        self._alive: Mask = np.ones(len(stacks.names), dtype=np.bool_)

    # ------------------------------------------------------------------ states and set-points

    def states(self) -> States:
        """Return the present states, by the vehicles' own estimates."""
        stacks = self.stacks
        alive = np.array([self._is_alive(i) for i in range(len(stacks.names))], dtype=np.bool_)
        if self._monitoring:
            for i in np.flatnonzero(self._alive & ~alive).tolist():
                if i not in self.left and i not in self._muted:
                    self.say(f"vehicle {stacks.names[i]} {self._loss(i)}")
        self._alive = alive
        attitudes = stacks.attitudes
        return States(
            stacks.now, stacks.estimates, stacks.velocities, attitudes[:, 2], alive.copy(), attitudes[:, :2]
        )

    def _loss(self, vehicle: int) -> str:
        """Why a vehicle does not fly by set-points any more."""
        if not self.stacks.reports(vehicle):
            return "sends no telemetry any more"
        if not self.stacks.is_armed(vehicle):
            return "disarmed"
        return f"changed to {self.stacks.mode(vehicle)}, by itself or by another's command"

    def _is_alive(self, vehicle: int) -> bool:
        if vehicle in self._muted or not self.stacks.reports(vehicle):
            return False
        return not self._monitoring or self._follows(vehicle)

    def _follows(self, vehicle: int) -> bool:
        stacks = self.stacks
        return (
            stacks.reports(vehicle)
            and stacks.is_armed(vehicle)
            and stacks.mode(vehicle) == "Offboard"
            and vehicle not in self.left
            and vehicle not in stacks.taken_over
        )

    def mute(self, vehicle: int, back: int | None = None) -> None:
        """Make a vehicle silent and send it no set-points until ``back`` us, or permanently.

        Its flight stack then reacts to the loss of set-points.
        """
        self._muted[vehicle] = back
        self.stacks.targets[vehicle] = None

    def unmute(self) -> None:
        """Let muted vehicles whose time has come fly by set-points again, unless they have landed.

        Raises:
            UserError: when one refuses.
        """
        stacks = self.stacks
        for vehicle in [v for v, back in self._muted.items() if back is not None and stacks.now >= back]:
            self._muted[vehicle] = None
            if stacks.is_armed(vehicle):
                north, east, down = stacks.estimates[vehicle].tolist()
                stacks.targets[vehicle] = Target((north, east, down), (0.0, 0.0, 0.0))
                stacks.set_mode([vehicle], "Offboard")
                del self._muted[vehicle]

    def _send(self, setpoints: Setpoints) -> None:
        """Set the targets of the vehicles that fly by set-points.

        Each holds for an interval, and is extrapolated to its middle, so that on average it is not late.
        """
        setpoints = extrapolate(setpoints, 0.5e-6 * self._interval)
        columns = (setpoints.position, setpoints.velocity, setpoints.acceleration)
        for i, row in enumerate(np.stack(columns, axis=1).tolist()):
            if i not in self._muted and i not in self.left:
                self.stacks.targets[i] = target(*row, yaw=float(setpoints.yaw[i]))

    def _steer(self, steered: Steered, watch: Watch | None = None) -> None:
        def tick() -> None:
            states = self.states()
            setpoints = steered.tick(states)
            if watch is not None:
                watch(states)
            self._send(setpoints)

        self.stacks.chunk = max(1, round(self._interval / STEP))
        self.stacks.steering = tick

    def fly(
        self,
        steered: Steered,
        until: Callable[[], int],
        watch: Watch | None = None,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """Fly by the set-points of ``steered`` until us of simulated time, read after each tick.

        ``watch`` is called in each tick; ``between`` after it, and may give commands.

        Raises:
            UserError: when the simulation fails, and that ``between`` raises.
        """
        self._steer(steered, watch)
        while True:
            self.stacks.advance(self.stacks.chunk)
            if self.stacks.now >= until():
                return
            between()

    # ------------------------------------------------------------------ take-off

    def take_off(self, places: Floats, yaw: float | Floats) -> None:
        """Arm all vehicles, climb in offboard mode to ``places`` (n, 3) m NED, and hold there.

        They turn to ``yaw`` in rad on the way, one for all or (n,).

        Raises:
            UserError: if a vehicle cannot arm, leaves offboard mode or does not arrive, with the reason.
        """
        stacks, everybody = self.stacks, range(len(self.stacks.names))
        stacks.wait_until_ready(everybody)
        climb = Climb(self.states(), places, np.broadcast_to(yaw, len(places)))
        self._steer(climb)
        stacks.advance(stacks.steps_to_look)
        stacks.set_mode(everybody, "Offboard", "fly by set-points")
        waiting = stacks.wait(everybody, lambda i: stacks.mode(i) == "Offboard", ARMING)
        if waiting:
            raise UserError(f"{stacks.title(waiting[0])} has not switched to Offboard within {ARMING:g} s")
        stacks.arm(everybody)
        self.say("all vehicles are armed; climbing")
        said = len(stacks.messages)
        climb.start = stacks.now + CLIMB_DELAY

        def away(i: int) -> float:
            return float(np.linalg.norm(stacks.estimates[i] - places[i]))

        def arrived(i: int) -> bool:
            if not self._follows(i):
                what = f"{stacks.title(i)} left offboard mode or disarmed during the climb"
                raise self._failure(what, i, said)
            at_rest = float(np.linalg.norm(stacks.velocities[i])) < AT_REST
            return stacks.now > climb.over and away(i) < ARRIVED and at_rest

        waiting = stacks.wait(everybody, arrived, TAKE_OFF_LIMIT)
        if waiting:
            i = waiting[0]
            late = f"{away(i):.2f} m from its starting place after {TAKE_OFF_LIMIT:.0f} s"
            raise self._failure(f"{stacks.title(i)} is {late}", i, said)
        self.say("all vehicles are at their starting positions")
        self._monitoring = True

    def _failure(self, what: str, vehicle: int, since: int) -> UserError:
        """Make an error of a vehicle with what its flight stack said after its first ``since`` texts."""
        name = self.stacks.names[vehicle]
        texts = [m.text for m in self.stacks.messages[since:] if m.vehicle == name]
        return UserError("; ".join([what, *texts]))

    # ------------------------------------------------------------------ leaving and landing

    def leave(self, vehicle: int, action: Action) -> None:
        """Remove a vehicle: its autopilot holds, lands or returns to launch.

        A vehicle that does not report is left to its failsafes.

        Raises:
            UserError: if it refuses.
        """
        name = f"vehicle {self.stacks.names[vehicle]}"
        if not self.stacks.reports(vehicle):
            self.say(f"{name} cannot be commanded to {action}: it sends no telemetry")
            return
        self.left[vehicle] = action
        self._go(vehicle, action)
        self.say(f"{name} leaves the fleet: {action}")

    def _go(self, vehicle: int, action: Action) -> None:
        if action == "hold":
            self.stacks.targets[vehicle] = None
            self.stacks.set_mode([vehicle], "Hold", "hold")
        else:
            here = [*[0.0] * 3, *[math.nan] * 4]
            land = action == "land"
            number = mavlink.MAV_CMD_NAV_LAND if land else mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH
            self.stacks.command([vehicle], action, number, here)
            self.stacks.targets[vehicle] = None

    def land(self) -> None:
        """Land all vehicles; wait until they and those that left to land are disarmed.

        Raises:
            UserError: at the end, for the vehicles that do not land.
        """
        stacks = self.stacks
        self.say("landing")
        present = self.states().alive
        self._monitoring, stacks.steering = False, None
        failures: dict[int, str] = {}
        going = [i for i, action in self.left.items() if action != "hold" and stacks.reports(i)]
        for i in np.flatnonzero(present).tolist():
            if i not in self.left:
                try:
                    self._go(i, "land")
                    going.append(i)
                except UserError as error:
                    failures[i] = str(error)
        failures |= self._wait_until_landed(going)
        for i, name in enumerate(stacks.names):
            if i not in failures and i not in going and stacks.reports(i) and stacks.is_armed(i):
                self.say(f"vehicle {name} stays in the air, in mode {stacks.mode(i)}: it was taken out")
        if failures:
            raise UserError("; ".join(failures[i] for i in sorted(failures)))

    def _wait_until_landed(self, vehicles: Collection[int]) -> dict[int, str]:
        """Wait until vehicles are disarmed on the ground; why some are not, by their numbers."""
        stacks = self.stacks
        failures: dict[int, str] = {}
        landed: set[int] = set()
        heights = [-float(stacks.estimates[i][2]) for i in vehicles]
        limit = LANDING_TIME + max([0.0, *heights]) / SLOWEST_DESCENT

        def over(i: int) -> bool:
            if i in landed or i in failures:
                return True
            if not stacks.reports(i):
                failures[i] = f"{stacks.title(i)} sent no telemetry any more while it landed"
            elif not stacks.is_armed(i):
                if stacks.on_ground(i):
                    landed.add(i)
                    self.say(f"vehicle {stacks.names[i]}: landed and disarmed")
                else:
                    failures[i] = f"{stacks.title(i)} disarmed in the air"
            return i in landed or i in failures

        for i in stacks.wait(sorted(vehicles), over, limit):
            late = f"has not landed within {limit:.0f} s; its mode is {stacks.mode(i)}"
            failures[i] = f"{stacks.title(i)} {late}"
        return failures

    def finish(self, failure: str) -> None:
        """Land all vehicles after a flight.

        Raises:
            UserError: with ``failure``, unless it is empty, and the vehicles that do not land.
        """
        failures = [failure] if failure else []
        try:
            self.land()
        except UserError as error:
            failures.append(str(error))
        if failures:
            raise UserError("; ".join(failures))

    @contextlib.contextmanager
    def hold_on_failure(self) -> Iterator[None]:
        """Let all vehicles that are in the air hold their places when the block fails; ignore refusals."""
        try:
            yield
        except UserError:
            stacks = self.stacks
            self._monitoring, stacks.steering = False, None
            self.say("vehicles in the air hold their position")
            for i in range(len(stacks.names)):
                stacks.targets[i] = None
                flies = stacks.reports(i) and stacks.is_armed(i) and not stacks.on_ground(i)
                if flies and i not in self.left:
                    with contextlib.suppress(UserError):
                        stacks.set_mode([i], "Hold")
            raise


def target(position: Sequence[float], *derivatives: Sequence[float], yaw: float) -> Target | None:
    """Position, velocity and acceleration, m NED, and yaw, rad, as a target; nan, or None, for no control."""
    place, speed, acceleration = (
        None if math.isnan(row[0]) else (row[0], row[1], row[2]) for row in (position, *derivatives)
    )
    if place is None and speed is None:
        return None
    return Target(place, speed or (0.0, 0.0, 0.0), acceleration, yaw)


def extrapolate(setpoints: Setpoints, seconds: float) -> Setpoints:
    """Set-points extrapolated by some seconds at constant acceleration."""
    velocity, acceleration = np.nan_to_num(setpoints.velocity), np.nan_to_num(setpoints.acceleration)
    return Setpoints(
        setpoints.position + seconds * velocity + 0.5 * seconds**2 * acceleration,
        setpoints.velocity + seconds * acceleration,
        setpoints.acceleration,
        setpoints.yaw,
    )


def is_clear_to_land(position: Floats) -> bool:
    """Whether the horizontal distances between all vehicles are at least LANDING_SEPARATION."""
    distance = np.linalg.norm(position[:, None, :2] - position[None, :, :2], axis=2)
    np.fill_diagonal(distance, np.inf)
    return bool(distance.min(initial=np.inf) >= LANDING_SEPARATION)


class Climb:
    """Climbs from states on the ground to places (n, 3) m NED, with turns to yaw (n,) rad."""

    start = 1 << 62
    """us of simulated time; before it the vehicles stay on the ground."""

    def __init__(self, begin: States, places: Floats, yaw: Floats) -> None:
        ways = np.stack([begin.position, places], axis=1)
        self._legs = [Legs.within(0, way, (CLIMB_SPEED,), CLIMB_ACCELERATION) for way in ways]
        self._yaw = begin.yaw
        self._turn = np.remainder(yaw - begin.yaw + math.pi, 2.0 * math.pi) - math.pi
        self._duration = max(legs.over for legs in self._legs)

    @property
    def over(self) -> int:
        """us of simulated time at the end."""
        return self.start + self._duration

    def tick(self, states: States) -> Setpoints:
        """Return the set-points at the time of ``states``."""
        since = min(max(states.time - self.start, 0), self._duration)
        ways = [legs.at(min(since, legs.over)) for legs in self._legs]
        position, velocity, acceleration = (np.stack(parts) for parts in zip(*ways, strict=True))
        yaw = self._yaw + since / self._duration * self._turn
        return Setpoints(position, velocity, acceleration, yaw)
