"""Vehicles over MAVSDK as one fleet: states in, setpoints out, take-off, landing and lost vehicles."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeAlias

import numpy as np
from mavsdk.asyncio import MavsdkError
from mavsdk.plugins.offboard import AccelerationNed, PositionNedYaw, VelocityNedYaw
from mavsdk.plugins.telemetry import FlightMode
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Mask
from sitl_bridge.session.missions.concurrent_work import each, ended_by, named, together, until
from sitl_bridge.session.missions.environment import paused
from sitl_bridge.session.missions.log_stamp import stamp
from sitl_bridge.session.missions.mavsdk_vehicle import (
    SETPOINT_RATE,
    SILENCE_LIMIT,
    STATE_LIMIT,
    MissionFailedError,
    reason,
    within,
)
from sitl_bridge.session.missions.swarm_vehicle import (
    MEAN_WEIGHT,
    SHARED_CLOCK,
    Place,
    Say,
    SwarmVehicle,
    from_place,
    to_place,
)
from sitl_bridge.session.missions.time_gate import time_gate
from sitl_bridge.swarm.formation.leave_and_rejoin import Action
from sitl_bridge.swarm.formation.trajectory import minimum_jerk, move_time
from sitl_bridge.swarm.interface import Setpoints, States, Steered, Watch, fly_async

Array: TypeAlias = NDArray[np.float64]

RATE = SETPOINT_RATE
"""Default rate in Hz of the fleet's clock, of telemetry and of ticks."""

LOST_AFTER, LOST_AFTER_WALL = 1.0, 0.5
"""s of the fleet's clock, and of wall time, without telemetry, after both of which a vehicle counts as lost.
With the second, a pause of a busy computer is not taken for a lost vehicle when simulated time runs fast."""

LONGEST_EXTRAPOLATION = 0.3
"""s over which a position is extrapolated with its velocity to the time of a tick."""

AHEAD, MOST_AHEAD = 1.25, 2.5
"""Limits of simulated time, in periods after a tick, until the setpoints of the next tick are sent: at first,
and if no vehicle has sent telemetry by then.  With 2.5 from the start, setpoints were 44 ms of simulated time
later than their states on a busy computer, now 8 to 11 ms: the least distance of six vehicles that swap
places rose from 0.66 to 1.31 m in the worst flight."""

WAIT_STEP = 0.01
"""s of wall time without telemetry after which simulated time may run a quarter of a period further: PX4
sends telemetry a few milliseconds of its time later than requested."""

PACE_INTERVAL = 0.25
"""s of wall time over which the speed of simulated time is measured."""

FIXES = 10
"""Global positions over which the position of a vehicle's origin is averaged; they arrive at 5 Hz."""

PLACE_TOLERANCE = 2.0
"""m between a vehicle and its planned position on the ground: the 1 m of an ordinary fix, for both."""

ARRIVED = 0.5
"""m between a vehicle and its position in the air, at which it has arrived."""


class MavsdkFleet:
    """A fleet of vehicles over MAVSDK; :func:`connect_fleet` creates it.

    The fleet's clock is that of the vehicle whose time is the latest, so that it continues when a vehicle is
    lost.  Positions are extrapolated to it with their velocities.  With simulated vehicles all times are
    simulated.

    **Common frame.**  Each vehicle has its own local origin, the position of its first fix.  The positions of
    all origins are found from the vehicles' global positions (:meth:`find_origins`).  Messages round these to
    1e-7 deg and 1 mm, so the frames agree to 6 mm; they are parallel to 0.2 mrad per km between origins; and
    PX4's spherical Earth scales distances from an origin by up to 0.5 %, equally for all.  The remaining
    error is that of the receivers, decimetres to metres.  If the vehicles stand on surveyed positions,
    ``surveyed`` removes its value at that time.

    Args:
        say: receives lines for the user.
        rate: Hz of the fleet's clock, of telemetry and of ticks.

    Attributes:
        members: connected vehicles, in the order of the formation.
        time: s of the fleet's clock.
        period: s between two ticks, nominal.
        interval: s between two ticks, mean over about twenty; longer than the period if the computer is too
            slow or telemetry is less frequent.
        longest: s, longest time between two ticks in flight.
        delay: s from the states of a tick to the sending of its setpoints, mean over about twenty.
    """

    def __init__(self, say: Say, rate: float = RATE) -> None:
        self.members: list[SwarmVehicle] = []
        self.period = 1.0 / rate
        self.say = say
        self.time = -math.inf
        self._ticked = -math.inf
        self._allowed = math.inf  # s of the fleet's clock to which a simulation may run
        self.interval, self.longest, self.delay = self.period, 0.0, 0.0
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._gate = time_gate()
        self._pace = 0.0
        self._pace_begun = (-math.inf, math.nan)  # s of the wall, s of the fleet's clock
        self._moment = time.monotonic()  # of the last change of the clock
        self._monitoring = False
        self._alive: Mask = np.zeros(0, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.members)

    # ---------------------------------------------------------------- the protocol

    def on_position(self, member: SwarmVehicle) -> None:
        """Advance the clock by a new position of a member; called on MAVSDK's thread."""
        clock = member.clock
        if clock <= self.time:
            return
        due = self._ticked + self.period
        came_due = self.time < due <= clock
        self.time, self._moment = clock, time.monotonic()
        self._measure_pace()
        if came_due:
            self._loop.call_soon_threadsafe(self._news.set)

    def _measure_pace(self) -> None:
        wall, clock = self._pace_begun
        elapsed = self._moment - wall
        if elapsed > PACE_INTERVAL:
            if elapsed < 4.0 * PACE_INTERVAL:
                self._pace = (self.time - clock) / elapsed
            self._pace_begun = (self._moment, self.time)

    def now(self) -> float:
        """Present time of the fleet's clock in s: that of the last telemetry, extrapolated at its pace."""
        since = self._pace * (time.monotonic() - self._moment)
        now = self.time + min(max(since, 0.0), LONGEST_EXTRAPOLATION)
        waited_for = self._gate.open and math.isfinite(self._ticked)
        return min(now, self._allowed) if waited_for else now

    async def next_states(self) -> States:
        """Wait for the next tick, a period after the last, and return its states.

        Raises:
            MissionFailedError: if no vehicle has sent telemetry for ``SILENCE_LIMIT`` s of wall time.
        """
        while self.time < self._ticked + self.period:
            await self._wait_for_news()
        if math.isfinite(self._ticked):
            elapsed = self.time - self._ticked
            self.interval += MEAN_WEIGHT * (min(elapsed, LONGEST_EXTRAPOLATION) - self.interval)
            self.longest = max(self.longest, elapsed)
        self._ticked = self.time
        return self.states()

    async def _wait_for_news(self) -> None:
        """Wait until a tick is due by the vehicles' telemetry, while simulated time may run on slowly."""
        begun = time.monotonic()
        while True:
            self._news.clear()
            if self.time >= self._ticked + self.period:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_STEP):
                    await self._news.wait()
                    return
            if paused():
                begun = time.monotonic()
            self._extend_time_limit()
            if time.monotonic() - begun > SILENCE_LIMIT:
                raise MissionFailedError(
                    f"none of the {len(self)} vehicles has sent telemetry for {SILENCE_LIMIT:.0f} s: they "
                    "have stopped, their simulation is paused, or the link is interrupted"
                )

    def _extend_time_limit(self) -> None:
        """Let simulated time run a quarter of a period further."""
        most = self._ticked + MOST_AHEAD * self.period
        if self._allowed < most:
            self._allowed = min(self._allowed + 0.25 * self.period, most)
            self._gate.allow(self, round(1e6 * self._allowed))

    def states(self) -> States:
        """Present states."""
        local = np.stack([member.local for member in self.members])
        origin = np.stack([member.origin for member in self.members])
        late = np.array([self.time - member.clock for member in self.members])
        late = np.clip(late, 0.0, LONGEST_EXTRAPOLATION)
        attitude = np.radians([member.attitude for member in self.members])
        self._alive = self._alive_now()
        return States(
            round(self.time * 1e6),
            local[:, :3] + late[:, None] * local[:, 3:] + origin,
            local[:, 3:],
            attitude[:, 2],
            self._alive.copy(),
            attitude[:, :2],
        )

    def _alive_now(self) -> Mask:
        alive = np.ones(len(self), dtype=np.bool_)
        for i, member in enumerate(self.members):
            silent = self._silent(member)
            alive[i] = not (silent or (self._monitoring and not member.flying_here))
            if self._monitoring and not alive[i] and self._alive[i] and not member.left:
                mode = FlightMode(member.mode).name
                what = "sends no telemetry any more" if silent else f"changed to {mode} by itself"
                self._log(f"vehicle {i} {what}")
        return alive

    def _any_late(self) -> bool:
        """Whether a vehicle that counts as alive has sent no telemetry for half of LOST_AFTER."""
        late = (self.time - member.clock > 0.5 * LOST_AFTER for member in self.members)
        return any(is_late and alive for is_late, alive in zip(late, self._alive.tolist(), strict=False))

    def _silent(self, member: SwarmVehicle) -> bool:
        wall = time.monotonic() - member.heard
        return self.time - member.clock > LOST_AFTER and wall > LOST_AFTER_WALL

    async def command(self, setpoints: Setpoints) -> None:
        """Send setpoints to the vehicles of the fleet.

        A setpoint is in effect from its arrival, later than the states from which it was computed, until the
        next one arrives.  Each is therefore extrapolated to the middle of that time: on average it is then
        not late.  Simulated time may run to AHEAD periods after the states.
        """
        made = self._ticked if math.isfinite(self._ticked) else self.time
        delay = min(max(self.now() - made, 0.0), LONGEST_EXTRAPOLATION)
        self.delay += MEAN_WEIGHT * (delay - self.delay)
        # MAVSDK only queues them; a change of threads would take longer on a busy computer.
        setpoints = extrapolated(setpoints, delay + 0.5 * self.interval)
        for i, member in enumerate(self.members):
            target = None if member.left else offboard_target(setpoints, i, member.origin)
            if target is None:
                continue
            if not isinstance(target, tuple):
                member.targets.set_velocity_ned(target)
            elif len(target) == 2:
                member.targets.set_position_velocity_ned(*target)
            else:
                member.targets.set_position_velocity_acceleration_ned(*target)
        if self._gate.open and self._any_late():
            await asyncio.sleep(
                self.period
            )  # real time, so that a lost vehicle is soon detected by both clocks
        self._allowed = made + AHEAD * self.period
        self._gate.allow(self, round(1e6 * self._allowed))

    def release_time(self) -> None:
        """Remove the limit of simulated time, as no more setpoints will be sent for now."""
        self._allowed = math.inf
        self._gate.allow(self, None)

    async def steer(self, steered: Steered, until: int | Callable[[], int], watch: Watch) -> None:
        """Fly the setpoints of ``steered`` until us of the fleet's clock, see ``fly_async``; then print the
        speed of the flight and its delays."""
        begun, start, self.longest = time.monotonic(), self.time, 0.0
        await fly_async(steered, self, until, watch)
        pace = (self.time - start) / (time.monotonic() - begun)
        self.say(
            f"flown at {pace:.2f} x real time; in the vehicles' time, mean interval of ticks "
            f"{1e3 * self.interval:.0f} ms, longest {1e3 * self.longest:.0f} ms, delay from states to "
            f"setpoints {1e3 * self.delay:.0f} ms"
        )

    # ---------------------------------------------------------------- before the flight

    async def ready(self, limit: float = 120.0) -> None:
        """Wait until all vehicles can arm, at most ``limit`` s of their clocks.

        Raises:
            MissionFailedError: with a vehicle that cannot arm, and its reasons.
        """
        await together(named(member, member.wait_until_armable(limit)) for member in self.members)
        await until(lambda: all(np.isfinite(member.local).all() for member in self.members), "positions")
        await self._synchronise()

    async def _synchronise(self) -> None:
        """Measure the differences between the vehicles' clocks, to within the delay of a message."""
        rows: list[list[float]] = []
        for _ in range(15):
            await asyncio.sleep(0.05)
            rows.append([member.stamp - self.members[0].stamp for member in self.members])
        for member, differences in zip(self.members, zip(*rows, strict=True), strict=True):
            shift = median(differences)
            member.shift = 0.0 if abs(shift) < SHARED_CLOCK else -shift
        self.time = max(member.clock for member in self.members)

    async def find_origins(
        self, places: Array, common: Place | None = None, *, surveyed: bool = False
    ) -> Place:
        """Find the common frame, while the vehicles stand on the ground.

        Args:
            places: (n, 3) m NED of their planned starting positions; they stand on the ground below these.
            common: the common origin; None finds the one that fits the planned positions best.
            surveyed: whether they stand there exactly, better than by their receivers.

        Returns:
            the common origin.

        Raises:
            MissionFailedError: for vehicles that are not at their planned positions.
        """
        stands = places * (1.0, 1.0, 0.0)
        fixes = await together(named(member, self._fix(member)) for member in self.members)
        first = np.array([fix[0] for fix in fixes])
        local = np.array([fix[1] for fix in fixes])
        middle: Place = tuple(first.mean(axis=0).tolist()) if common is None else common
        found = from_place(middle, first)
        if common is None:
            away = (found - stands).mean(axis=0)
            middle = to_place(middle, away)
            found = found - away
        self._check_places(found - stands)
        for i, member in enumerate(self.members):
            member.origin = (stands[i] if surveyed else found[i]) - local[i]
        return middle

    async def _fix(self, member: SwarmVehicle) -> tuple[Place, Place]:
        """The mean of FIXES global positions, and of the simultaneous local ones."""
        rows = []
        for _ in range(FIXES):
            now = member.fixes
            await member.wait("global positions", lambda now=now: member.fixes > now, STATE_LIMIT)  # type: ignore[misc]
            rows.append([*member.global_position, *member.local[:3].tolist()])
        mean = np.array(rows).mean(axis=0).tolist()
        return (mean[0], mean[1], mean[2]), (mean[3], mean[4], mean[5])

    def _check_places(self, away: Array) -> None:
        distance = np.hypot(away[:, 0], away[:, 1])
        wrong = [f"vehicle {i} by {distance[i]:.1f} m" for i in np.flatnonzero(distance > PLACE_TOLERANCE)]
        if wrong:
            raise MissionFailedError(
                f"vehicles are more than {PLACE_TOLERANCE:g} m away from their planned positions: "
                f"{', '.join(wrong)}; put them there, in the plan's order, or change the plan's start"
            )

    # ---------------------------------------------------------------- take-off

    async def take_off(self, places: Array, yaw: float | Array, limit: float = 90.0) -> None:
        """Arm all vehicles together, climb in offboard mode to ``places``, and hold there.

        Args:
            places: (n, 3) m NED from the common origin.
            yaw: rad, to which they turn during the climb; one for all or (n,).
            limit: s of the fleet's clock.

        Raises:
            MissionFailedError: if a vehicle cannot arm, leaves offboard mode or does not arrive.
        """
        climb = Climb(self.states(), places, yaw)
        await self.command(climb.at(-1.0))
        stream = asyncio.create_task(self._stream(climb))
        try:
            await ended_by(stream, self._lift(climb, limit))
        finally:
            stream.cancel()
            await asyncio.wait([stream])

    async def _lift(self, climb: Climb, limit: float) -> None:
        for member in self.members:
            member.offboard_active = True
        # PX4 requires setpoints for more than a second before (user guide, "Offboard Mode").
        await self.pass_time(1.5)
        await together(named(member, self._offboard(member)) for member in self.members)
        await together(named(member, member.arm()) for member in self.members)
        self._log("all vehicles are armed; climbing")
        climb.start = self.time + 0.5
        over = climb.start + climb.duration

        def there() -> bool:
            lost = [member for member in self.members if not member.flying_here]
            if lost:
                lost[0].fail(f"vehicle {lost[0].number} left offboard mode or disarmed during the climb")
            return self.time > over and self._settled(climb.places)

        end = self.time + limit
        while not there():
            if self.time > end:
                away = np.linalg.norm(self.states().position - climb.places, axis=1)
                self.members[int(away.argmax())].fail(
                    f"vehicle {int(away.argmax())} is {away.max():.2f} m from its starting position after "
                    f"{limit:.0f} s"
                )
            await self.pass_time(0.1)
        self._log("all vehicles are at their starting positions")
        self._monitoring = True

    async def _offboard(self, member: SwarmVehicle) -> None:
        """Start offboard mode as OffboardControl does, through the plug-in that sends the setpoints."""
        loop = asyncio.get_running_loop()
        deadline = member.time + STATE_LIMIT
        while True:
            try:
                await loop.run_in_executor(None, member.targets.start)
                break
            except MavsdkError as refusal:
                if member.time > deadline:
                    member.fail(f"it refuses offboard mode: {reason(refusal)}")
                await member.sleep(0.2)
        await member.wait("offboard mode", lambda: member.mode == FlightMode.OFFBOARD, STATE_LIMIT)

    def _settled(self, places: Array) -> bool:
        states = self.states()
        away = np.linalg.norm(states.position - places, axis=1)
        return bool(away.max() < ARRIVED and np.linalg.norm(states.velocity, axis=1).max() < 0.3)

    async def _stream(self, climb: Climb) -> None:
        while True:
            states = await self.next_states()
            await self.command(climb.at(states.time * 1e-6))

    async def pass_time(self, seconds: float) -> None:
        """Wait for a time in s of the fleet's clock.

        Raises:
            MissionFailedError: if no vehicle sends telemetry any more.
        """
        end = self.time + seconds
        await until(lambda: self.time >= end, f"{seconds:g} s to pass", lambda: self.time)

    # ---------------------------------------------------------------- leaving and landing

    async def abort(self, vehicle: int, action: Action) -> None:
        """Remove a vehicle from the fleet: its autopilot holds, lands or returns to launch.

        A vehicle that sends no telemetry is left to its failsafes.

        Raises:
            MissionFailedError: if it refuses.
        """
        member = self.members[vehicle]
        if self._silent(member):
            self._log(f"vehicle {vehicle} cannot be commanded to {action}: it sends no telemetry")
            return
        member.left = action
        commands = {
            "hold": member.action.hold,
            "land": member.action.land,
            "return": member.action.return_to_launch,
        }
        try:
            await commands[action]()
        except MavsdkError as refusal:
            member.fail(f"vehicle {vehicle} refuses to {action}: {reason(refusal)}")
        self._log(f"vehicle {vehicle} leaves the fleet: {action}")

    async def land(self) -> None:
        """Land all vehicles of the fleet; wait until they and those that left it to land are disarmed.

        Raises:
            MissionFailedError: at the end, for the vehicles that do not land.
        """
        self._log("landing")
        self.release_time()
        alive = self._alive_now()
        self._monitoring = False
        landing = [m for m in self.members if m.left in ("land", "return") and not self._silent(m)]
        await each([m for m in self.members if alive[m.number] or m in landing], self._land)

    async def _land(self, member: SwarmVehicle) -> None:
        if not member.left:
            member.left = "land"
            await member.action.land()
        await self._landed(member)

    async def _landed(self, member: SwarmVehicle) -> None:
        # Once disarmed, PX4 returns to the mode that was selected before the landing.
        modes = {FlightMode.LAND, FlightMode.HOLD, FlightMode.READY, FlightMode.OFFBOARD}
        await member.wait_until_landed(modes=None if member.left == "return" else modes)

    async def hold(self) -> None:
        """Command all vehicles in the air to hold their position; ignores those that do not answer."""
        self.release_time()
        flying = [member for member in self.members if member.armed and not member.left]
        await asyncio.gather(*(within(3.0, member.action.hold()) for member in flying))

    def _log(self, text: str) -> None:
        self.say(f"{stamp(self.time)} {text}")


Target: TypeAlias = Any
"""Arguments of one of MAVSDK's setters: a tuple, or a single one."""


def offboard_target(setpoints: Setpoints, vehicle: int, origin: Array) -> Target:
    """MAVSDK's setpoint for one vehicle.

    Args:
        setpoints: of the fleet, from the common origin.
        vehicle: its row.
        origin: (3,) m NED of the vehicle's own local origin from the common one.

    Returns:
        (PositionNedYaw, VelocityNedYaw, AccelerationNed) for set_position_velocity_acceleration_ned; without
        the last if there is no acceleration; VelocityNedYaw for set_velocity_ned if there is no position;
        None if there is no velocity either.
    """
    position = (setpoints.position[vehicle] - origin).tolist()
    velocity = setpoints.velocity[vehicle].tolist()
    acceleration = setpoints.acceleration[vehicle].tolist()
    yaw = math.degrees(float(setpoints.yaw[vehicle]))
    if math.isnan(velocity[0]) and math.isnan(position[0]):
        return None
    if math.isnan(position[0]):
        return VelocityNedYaw(*velocity, yaw)
    feed = VelocityNedYaw(*(0.0 if math.isnan(v) else v for v in velocity), yaw)
    if math.isnan(acceleration[0]):
        return PositionNedYaw(*position, yaw), feed
    return PositionNedYaw(*position, yaw), feed, AccelerationNed(*acceleration)


CLIMB_SPEED, CLIMB_ACCELERATION = 1.5, 0.5
"""m/s and m/s^2 of the climb to the starting positions; the first is PX4's MPC_TKO_SPEED."""


@dataclass
class Climb:
    """Simultaneous climb from the ground to positions in the air; it begins at ``start`` s, inf at first."""

    begin: States
    places: Array
    yaw: float | Array
    start: float = math.inf

    @property
    def duration(self) -> float:
        """s from start to end."""
        longest = float(np.linalg.norm(self.places - self.begin.position, axis=1).max())
        return move_time(longest, CLIMB_SPEED, CLIMB_ACCELERATION)

    def at(self, time: float) -> Setpoints:
        """Setpoints at a time in s of the fleet's clock."""
        part = 0.0 if time < self.start else min((time - self.start) / self.duration, 1.0)
        way, rate, change_of_rate = (float(x) for x in minimum_jerk(part))
        change = self.places - self.begin.position
        turn = np.remainder(self.yaw - self.begin.yaw + math.pi, 2.0 * math.pi) - math.pi
        return Setpoints(
            self.begin.position + way * change,
            rate / self.duration * change,
            change_of_rate / self.duration**2 * change,
            self.begin.yaw + way * turn,
        )


def extrapolated(setpoints: Setpoints, seconds: float) -> Setpoints:
    """Setpoints extrapolated by some seconds at constant acceleration."""
    velocity, acceleration = np.nan_to_num(setpoints.velocity), np.nan_to_num(setpoints.acceleration)
    return Setpoints(
        setpoints.position + seconds * velocity + 0.5 * seconds**2 * acceleration,
        setpoints.velocity + seconds * acceleration,
        setpoints.acceleration,
        setpoints.yaw,
    )
