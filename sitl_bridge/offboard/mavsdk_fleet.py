"""Vehicles over MAVSDK as one fleet: states in, setpoints out, take-off, landing and lost vehicles."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from statistics import median
from typing import TypeAlias

import numpy as np
from mavsdk.asyncio import MavsdkError
from mavsdk.plugins.telemetry import FlightMode
from numpy.typing import NDArray

from sitl_bridge.mission_link.pause_flag import paused
from sitl_bridge.mission_link.time_gate import time_gate
from sitl_bridge.offboard.climb import Climb, later
from sitl_bridge.offboard.concurrent_work import ended_by, named, together, until
from sitl_bridge.offboard.log_stamp import stamp
from sitl_bridge.offboard.mavsdk_vehicle import (
    SETPOINT_RATE,
    SILENCE_LIMIT,
    STATE_LIMIT,
    MissionFailedError,
    reason,
    within,
)
from sitl_bridge.offboard.setpoint import offboard_target
from sitl_bridge.offboard.swarm_vehicle import (
    MEAN_OVER,
    SHARED_CLOCK,
    Place,
    Say,
    SwarmVehicle,
    from_place,
    to_place,
)
from sitl_bridge.swarm.formation.leave_and_rejoin import Action
from sitl_bridge.swarm.interface import Mask, Setpoints, States, Steered, Watch, fly_async

Array: TypeAlias = NDArray[np.float64]


RATE = SETPOINT_RATE
"""Hz of the fleet's clock at which vehicles report, and of its ticks, where nothing else is asked for."""

GONE_AFTER, GONE_AFTER_WALL = 1.0, 0.5
"""s of the fleet's clock, and of the wall's, without news of a vehicle after which it counts as gone.  The
second keeps a busy computer from being taken for a lost vehicle where the first passes in a blink."""

LONGEST_EXTRAPOLATION = 0.3
"""s over which a position is carried on with its velocity to the moment of a tick."""

AHEAD, MOST_AHEAD = 1.25, 2.5
"""Periods after a tick to which a simulation that waits for this program may run before the next tick's
setpoints are out; and at most, if no vehicle has reported by then.  With 2.5 at once, setpoints came 44 ms of
simulated time after their states on a busy computer, now 8 to 11 ms: the least distance of six vehicles that
swap places rose from 0.66 to 1.31 m in the worst flight seen."""

NUDGE = 0.01
"""s of wall time without a report after which a simulation that waits may run a quarter of a period further:
PX4 reports a few milliseconds of its time later than asked."""

PACE_OVER = 0.25
"""s of wall time over which it is measured how fast the vehicles' time runs."""

FIXES = 10
"""Global positions over which the place of a vehicle's origin is averaged; they come at 5 Hz."""

OUT_OF_PLACE = 2.0
"""m beside its planned place at which a vehicle may stand: twice the 1 m of an ordinary fix, for two."""


ARRIVED = 0.5
"""m from its place at which a vehicle counts as there."""


class MavsdkFleet:
    """Vehicles behind MAVSDK; use :func:`connect_fleet` to get one.

    The fleet's clock is that of the vehicle that is furthest ahead, so that it goes on when any is lost, and
    positions are carried to it with the velocity that came with them.  Times are simulated ones where the
    vehicles are.

    **One frame for all.**  Each vehicle has a local origin of its own, where it first had a fix.  Found are
    the places of all origins by the vehicles' own global positions (:meth:`find_origins`).  Messages round
    these to 1e-7 deg and 1 mm, so the frames agree to 6 mm; they are parallel to 0.2 mrad per km between
    origins; and PX4's sphere stretches ways from an origin by up to 0.5 %, for all alike.  What remains is
    the receivers' own error, decimetres to metres, which no frame removes: where the vehicles stand on
    surveyed places, say so, and what they err by at that moment is removed.

    Args:
        say: takes lines for the user.
        rate: Hz of the fleet's clock, of reports and ticks.

    Attributes:
        members: connected, in the order of the formation.
        time: s of the fleet's clock.
        period: s of it that are to pass between two ticks.
        interval: s of it between ticks, the mean over some twenty; longer than the period where the computer
            does not keep up with the vehicles, or they report more seldom.
        longest: s between any two ticks in flight.
        delay: s of it from a tick's states to its setpoints on their way, the mean over some twenty.
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
        self._moment = time.monotonic()  # when the clock was last heard
        self._watchful = False
        self._alive: Mask = np.zeros(0, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.members)

    # ---------------------------------------------------------------- the protocol

    def hear(self, member: SwarmVehicle) -> None:
        """Take note of news of a member; members call this, on MAVSDK's thread."""
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
        took = self._moment - wall
        if took > PACE_OVER:
            if took < 4.0 * PACE_OVER:
                self._pace = (self.time - clock) / took
            self._pace_begun = (self._moment, self.time)

    def now(self) -> float:
        """S of the fleet's clock by now: the last that was heard, and what has passed since at its pace."""
        since = self._pace * (time.monotonic() - self._moment)
        now = self.time + min(max(since, 0.0), LONGEST_EXTRAPOLATION)
        waited_for = self._gate.open and math.isfinite(self._ticked)
        return min(now, self._allowed) if waited_for else now

    async def next_states(self) -> States:
        """Of the next tick, a period after the last.

        Raises:
            MissionFailedError: when no vehicle has been heard of for ``SILENCE_LIMIT`` s of wall time.
        """
        while self.time < self._ticked + self.period:
            await self._wait_for_news()
        if math.isfinite(self._ticked):
            took = self.time - self._ticked
            self.interval += MEAN_OVER * (min(took, LONGEST_EXTRAPOLATION) - self.interval)
            self.longest = max(self.longest, took)
        self._ticked = self.time
        return self.states()

    async def _wait_for_news(self) -> None:
        """Until a vehicle reports a time that is due for a tick; a simulation that waits is let on slowly."""
        begun = time.monotonic()
        while True:
            self._news.clear()
            if self.time >= self._ticked + self.period:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NUDGE):
                    await self._news.wait()
                    return
            if paused():
                begun = time.monotonic()
            self._let_on()
            if time.monotonic() - begun > SILENCE_LIMIT:
                raise MissionFailedError(
                    f"none of the {len(self)} vehicles has reported for {SILENCE_LIMIT:.0f} s: they "
                    "stopped, their simulation is paused, or the link is cut"
                )

    def _let_on(self) -> None:
        """Let a simulation that waits for this program run a quarter of a period further."""
        most = self._ticked + MOST_AHEAD * self.period
        if self._allowed < most:
            self._allowed = min(self._allowed + 0.25 * self.period, most)
            self._gate.allow(self, round(1e6 * self._allowed))

    def states(self) -> States:
        """Of this moment."""
        local = np.stack([member.local for member in self.members])
        origin = np.stack([member.origin for member in self.members])
        late = np.array([self.time - member.clock for member in self.members])
        late = np.clip(late, 0.0, LONGEST_EXTRAPOLATION)
        attitude = np.radians([member.attitude for member in self.members])
        self._alive = self._who_is_alive()
        return States(
            round(self.time * 1e6),
            local[:, :3] + late[:, None] * local[:, 3:] + origin,
            local[:, 3:],
            attitude[:, 2],
            self._alive.copy(),
            attitude[:, :2],
        )

    def _who_is_alive(self) -> Mask:
        alive = np.ones(len(self), dtype=np.bool_)
        for i, member in enumerate(self.members):
            silent = self._silent(member)
            alive[i] = not (silent or (self._watchful and not member.flying_here))
            if self._watchful and not alive[i] and self._alive[i] and not member.left:
                why = "has fallen silent" if silent else f"went to {FlightMode(member.mode).name} by itself"
                self._tell(f"vehicle {i} {why}")
        return alive

    def _is_one_late(self) -> bool:
        """Whether a vehicle that counts as alive has not reported for half of GONE_AFTER."""
        late = (self.time - member.clock > 0.5 * GONE_AFTER for member in self.members)
        return any(one and alive for one, alive in zip(late, self._alive.tolist(), strict=False))

    def _silent(self, member: SwarmVehicle) -> bool:
        wall = time.monotonic() - member.heard
        return self.time - member.clock > GONE_AFTER and wall > GONE_AFTER_WALL

    async def command(self, setpoints: Setpoints) -> None:
        """Send these to the vehicles that are there.

        A vehicle flies by a setpoint from when it comes, which is later than the states it was made of, until
        the next comes; so each goes out as it will be in the middle of that time, by its own velocity and
        acceleration: in the mean it is then not late.  A simulation that waits for this program may run on
        to AHEAD periods after the states.
        """
        made = self._ticked if math.isfinite(self._ticked) else self.time
        delay = min(max(self.now() - made, 0.0), LONGEST_EXTRAPOLATION)
        self.delay += MEAN_OVER * (delay - self.delay)
        # MAVSDK only queues them, so not from another thread: to and fro costs more on a busy computer.
        setpoints = later(setpoints, delay + 0.5 * self.interval)
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
        if self._gate.open and self._is_one_late():
            await asyncio.sleep(self.period)  # in real time, so that its silence is soon long by either clock
        self._allowed = made + AHEAD * self.period
        self._gate.allow(self, round(1e6 * self._allowed))

    def let_go(self) -> None:
        """No more setpoints for now: a simulation that waits for this program need not."""
        self._allowed = math.inf
        self._gate.allow(self, None)

    async def steer(self, steered: Steered, until: int | Callable[[], int], watch: Watch) -> None:
        """Fly by what ``steered`` tells until us of the fleet's clock, see ``fly_async``; then say how well
        this computer kept up with the vehicles."""
        begun, start, self.longest = time.monotonic(), self.time, 0.0
        await fly_async(steered, self, until, watch)
        pace = (self.time - start) / (time.monotonic() - begun)
        self.say(
            f"flown in {pace:.2f} x real time, with a tick every {1e3 * self.interval:.0f} ms of the "
            f"vehicles' time, the longest after {1e3 * self.longest:.0f} ms, and {1e3 * self.delay:.0f} ms "
            "from states to setpoints"
        )

    # ---------------------------------------------------------------- before the flight

    async def ready(self, limit: float = 120.0) -> None:
        """Wait until all can arm, ``limit`` s of their clocks.

        Raises:
            MissionFailedError: with what keeps which vehicle from it.
        """
        await together(named(member, member.wait_until_armable(limit)) for member in self.members)
        await until(lambda: all(np.isfinite(member.local).all() for member in self.members), "positions")
        await self._synchronise()

    async def _synchronise(self) -> None:
        """Learn by how much the vehicles' clocks differ, to a message's delay."""
        apart: list[list[float]] = []
        for _ in range(15):
            await asyncio.sleep(0.05)
            apart.append([member.stamp - self.members[0].stamp for member in self.members])
        for member, differences in zip(self.members, zip(*apart, strict=True), strict=True):
            shift = median(differences)
            member.shift = 0.0 if abs(shift) < SHARED_CLOCK else -shift
        self.time = max(member.clock for member in self.members)

    async def find_origins(
        self, places: Array, common: Place | None = None, *, surveyed: bool = False
    ) -> Place:
        """Bring the vehicles' frames to one, while they stand on the ground.

        Args:
            places: (n, 3) m NED where they are planned to start; on the ground below they stand.
            common: the common origin; None finds the one about which the vehicles stand most nearly where
                they are planned to.
            surveyed: whether they stand there exactly, better than their receivers know.

        Returns:
            the common origin.

        Raises:
            MissionFailedError: for vehicles that do not stand where they are planned to.
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
        """The mean of some global positions, and of the local ones beside them."""
        rows = []
        for _ in range(FIXES):
            now = member.fixes
            await member.wait("global positions", lambda now=now: member.fixes > now, STATE_LIMIT)  # type: ignore[misc]
            rows.append([*member.global_position, *member.local[:3].tolist()])
        mean = np.array(rows).mean(axis=0).tolist()
        return (mean[0], mean[1], mean[2]), (mean[3], mean[4], mean[5])

    def _check_places(self, away: Array) -> None:
        beside = np.hypot(away[:, 0], away[:, 1])
        wrong = [f"vehicle {i} by {beside[i]:.1f} m" for i in np.flatnonzero(beside > OUT_OF_PLACE)]
        if wrong:
            raise MissionFailedError(
                f"vehicles do not stand where the plan starts, within {OUT_OF_PLACE:g} m: {', '.join(wrong)};"
                " put them there, in the plan's order, or change the plan's start"
            )

    # ---------------------------------------------------------------- up

    async def take_off(self, places: Array, yaw: float | Array, limit: float = 90.0) -> None:
        """Arm all together and climb in offboard mode to ``places``, (n, 3) m NED; then hold there.

        Args:
            places: from the common origin.
            yaw: rad, to which they turn meanwhile; one for all or (n,).
            limit: s of the fleet's clock.

        Raises:
            MissionFailedError: where one cannot arm, leaves the mode or does not get there.
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
        # PX4 wants to have seen the stream for more than a second (user guide, "Offboard Mode").
        await self.pass_time(1.5)
        await together(named(member, self._offboard(member)) for member in self.members)
        await together(named(member, member.arm()) for member in self.members)
        self._tell("all are armed; climbing")
        climb.start = self.time + 0.5
        over = climb.start + climb.duration

        def there() -> bool:
            lost = [member for member in self.members if not member.flying_here]
            if lost:
                lost[0].fail(f"vehicle {lost[0].number} left offboard mode or disarmed on its way up")
            return self.time > over and self._settled(climb.places)

        end = self.time + limit
        while not there():
            if self.time > end:
                away = np.linalg.norm(self.states().position - climb.places, axis=1)
                self.members[int(away.argmax())].fail(
                    f"vehicle {int(away.argmax())} is {away.max():.2f} m from its place of the start after "
                    f"{limit:.0f} s"
                )
            await self.pass_time(0.1)
        self._tell("all are at their places")
        self._watchful = True

    async def _offboard(self, member: SwarmVehicle) -> None:
        """As OffboardControl does it, over the plug-in that has the setpoints."""
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
        """Let time of the fleet's clock pass.

        Raises:
            MissionFailedError: when no vehicle is heard of any more.
        """
        end = self.time + seconds
        await until(lambda: self.time >= end, f"{seconds:g} s to pass", lambda: self.time)

    # ---------------------------------------------------------------- out, and down

    async def abort(self, vehicle: int, action: Action) -> None:
        """Take one out of the fleet: the autopilot itself holds, lands or returns to its launch.

        One that is not heard of is left to its failsafes.

        Raises:
            MissionFailedError: when it refuses.
        """
        member = self.members[vehicle]
        if self._silent(member):
            self._tell(f"vehicle {vehicle} cannot be told to {action}: it is silent")
            return
        member.left = action
        orders = {
            "hold": member.action.hold,
            "land": member.action.land,
            "return": member.action.return_to_launch,
        }
        try:
            await orders[action]()
        except MavsdkError as refusal:
            member.fail(f"vehicle {vehicle} refuses to {action}: {reason(refusal)}")
        self._tell(f"vehicle {vehicle} leaves the fleet: {action}")

    async def land(self) -> None:
        """Land all that fly here where they are; wait until they and those told before are down and disarmed.

        Raises:
            MissionFailedError: for one that does not.
        """
        self._tell("landing")
        self.let_go()
        alive = self._who_is_alive()
        self._watchful = False
        on_way = ("land", "return")
        await together(
            named(member, self._land(member) if alive[member.number] else self._landed(member))
            for member in self.members
            if alive[member.number] or (member.left in on_way and not self._silent(member))
        )

    async def _land(self, member: SwarmVehicle) -> None:
        member.left = "land"
        await member.action.land()
        await self._landed(member)

    async def _landed(self, member: SwarmVehicle) -> None:
        # Once disarmed, PX4 goes back to the mode that was chosen before the landing.
        modes = {FlightMode.LAND, FlightMode.HOLD, FlightMode.READY, FlightMode.OFFBOARD}
        await member.wait_until_landed(modes=None if member.left == "return" else modes)

    async def hold(self) -> None:
        """Tell all that are in the air to hold their position; those that do not answer are left alone."""
        self.let_go()
        up = [member for member in self.members if member.armed and not member.left]
        await asyncio.gather(*(within(3.0, member.action.hold()) for member in up))

    def _tell(self, text: str) -> None:
        self.say(f"{stamp(self.time)} {text}")
