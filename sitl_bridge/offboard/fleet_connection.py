"""Vehicles behind MAVSDK as one flock: n of them in this process, over one MAVSDK, without a server each.

How vehicles are found and how their own origins are brought to a common one is here, and their way into the
air and back; what they fly there is a formation's.  Times are those of the vehicles' clocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeAlias

import mavsdk
import numpy as np
from mavsdk.asyncio import MavsdkError
from mavsdk.asyncio import System as AsyncSystem
from mavsdk.logging import log_subscribe
from mavsdk.plugins.mavlink_direct import MavlinkDirect, MavlinkMessage
from mavsdk.plugins.offboard import Offboard
from mavsdk.plugins.telemetry import FlightMode, Telemetry
from numpy.typing import NDArray

from sitl_bridge.mission_link.pause_flag import paused
from sitl_bridge.mission_link.time_gate import time_gate
from sitl_bridge.offboard.log_stamp import stamp
from sitl_bridge.offboard.mavsdk_vehicle import (
    SETPOINT_RATE,
    SILENCE_LIMIT,
    STATE_LIMIT,
    URL_FORMS,
    MissionFailedError,
    Vehicle,
    keep_mavsdk_quiet,
    reason,
    watched,
    within,
)
from sitl_bridge.offboard.setpoint import offboard_target
from sitl_bridge.swarm.formation.leave_and_rejoin import Action
from sitl_bridge.swarm.formation.trajectory import minimum_jerk, move_time
from sitl_bridge.swarm.interface import Mask, Setpoints, States, Steered, Watch, fly_async
from sitl_bridge.world.geography import Projection

Array: TypeAlias = NDArray[np.float64]
Say: TypeAlias = Callable[[str], None]
Place: TypeAlias = tuple[float, float, float]
"""deg latitude, deg longitude, m AMSL."""

RATE = SETPOINT_RATE
"""Hz of the flock's clock at which vehicles report, and of its ticks, where nothing else is asked for."""

GONE_AFTER, GONE_AFTER_WALL = 1.0, 0.5
"""s of the flock's clock, and of the wall's, without news of a vehicle after which it counts as gone.  The
second keeps a busy computer from being taken for a lost vehicle where the first passes in a blink."""

LONGEST_EXTRAPOLATION = 0.3
"""s over which a position is carried on with its velocity to the moment of a tick."""

MEAN_OVER = 0.05
"""Weight of a new interval between ticks in their mean."""

KEEP_UP = 0.1
"""s of the vehicles' time after a tick to which a simulation that waits for this program may run before the
next tick's setpoints are out: two ticks, so that it waits only where this program falls behind."""

PACE_OVER = 0.25
"""s of wall time over which it is measured how fast the vehicles' time runs."""

SHARED_CLOCK = 0.5
"""s between two vehicles' clocks under which they are one: those of one simulation agree to a message's
delay, while those of vehicles that were switched on by hand differ by seconds."""

FIXES = 10
"""Global positions over which the place of a vehicle's origin is averaged; they come at 5 Hz."""

OUT_OF_PLACE = 2.0
"""m beside its planned place at which a vehicle may stand: twice the 1 m of an ordinary fix, for two."""

CLIMB_SPEED, CLIMB_ACCELERATION = 1.5, 0.5
"""m/s and m/s^2 of the climb to the places of the start; the first is PX4's MPC_TKO_SPEED."""

UNREAD = (31, 36, 62, 65, 74, 83, 85, 87, 105, 141, 231, 284, 286, 290, 291, 331)
"""Messages that nobody here reads and PX4 sends 10 to 50 times a second to a companion computer (mavlink_main
.cpp, MAVLINK_MODE_ONBOARD): quaternions, motors, targets, inertial samples, odometry and the like.  MAVSDK
takes each of them apart, and of a fleet at several times real time that is most of what this program does."""

SET_MESSAGE_INTERVAL = 511
"""MAV_CMD_SET_MESSAGE_INTERVAL"""

ARRIVED = 0.5
"""m from its place at which a vehicle counts as there."""


class Member(Vehicle):
    """A vehicle of a flock.

    Attributes:
        number: its row.
        shift: s to be added to its clock for the flock's.
        origin: (3,) m NED of its local origin from the common one; nan before it was found.
        left: what it was told when it was taken out of the flock; empty before.
        stamp: s of its clock of ``local``, its position and velocity as one (6,) row.
        heard: s of the monotonic clock when that last came.
    """

    def __init__(
        self, raw: Any, system_id: int, url: str, number: int, say: Say, news: Callable[[Member], None]
    ) -> None:
        super().__init__(None, AsyncSystem(raw), system_id, url)
        # Not MAVSDK's coroutines: each setpoint, position and look of each would cost hops to threads.
        self.targets = Offboard(raw)
        self._state, self._direct = Telemetry(raw), MavlinkDirect(raw)
        self.number = number
        self.shift = 0.0
        self.origin: Array = np.full(3, np.nan)
        self.left: Action | str = ""
        self.stamp = math.nan
        self.local: Array = np.full(6, np.nan)
        self.heard = -math.inf
        self.fixes = 0
        self._say, self._news = say, news

    def say(self, text: str) -> None:
        """Pass a line on, with the vehicle's number."""
        self._say(f"{stamp(self.time)} vehicle {self.number}: {text}")

    async def quieten(self, rate: float) -> None:
        """Ask for what is read at ``rate`` Hz, for each of UNREAD once a second only.

        A vehicle that will not goes on as it does.
        """
        if rate != SETPOINT_RATE:  # which it was asked for as it was connected
            await within(2.0, self.telemetry.set_rate_position_velocity_ned(rate))
        for message in UNREAD:
            fields = {
                "target_system": self.system_id, "target_component": 1, "confirmation": 0,
                "command": SET_MESSAGE_INTERVAL, "param1": message, "param2": 1_000_000,
                "param3": 0, "param4": 0, "param5": 0, "param6": 0, "param7": 0,
            }  # fmt: skip
            order = MavlinkMessage("COMMAND_LONG", 0, 0, self.system_id, 1, json.dumps(fields))
            await within(2.0, self.mavlink.send_message(order))

    def _local_positions(self) -> list[tuple[AsyncGenerator[Any, None], Callable[[Any], None]]]:
        # Not MAVSDK's own, which carry no time.
        return []

    def listen(self) -> None:
        """Take its positions as they come, on MAVSDK's thread."""
        self._direct.subscribe_message("LOCAL_POSITION_NED", self._on_local)

    def _on_local(self, message: Any, _: Any) -> None:
        fields = json.loads(message.fields_json)
        row = [fields["x"], fields["y"], fields["z"], fields["vx"], fields["vy"], fields["vz"]]
        stamp = fields["time_boot_ms"] * 1e-3
        if self.stamp >= stamp or not all(map(math.isfinite, row)):
            return
        self.position, self.velocity = (row[0], row[1], row[2]), (row[3], row[4], row[5])
        self.local = np.array(row)
        self.stamp = stamp
        self.heard = time.monotonic()
        self._news(self)

    async def _look(self) -> None:
        state = self._state
        self.armed, self.landed = state.armed(), state.landed_state()
        self.mode, self.health = state.flight_mode(), state.health()

    def _on_global_position(self, position: Any) -> None:
        super()._on_global_position(position)
        self.fixes += 1

    @property
    def clock(self) -> float:
        """s of the flock's clock of its last position."""
        return self.stamp + self.shift

    @property
    def flying_here(self) -> bool:
        """Whether it flies by this program's setpoints, as far as it says itself."""
        return self.armed and self.mode == FlightMode.OFFBOARD and not self.left


class MavsdkFlock:
    """Vehicles behind MAVSDK; use :func:`connect_flock` to get one.

    The flock's clock is that of the vehicle that is furthest ahead, so that it goes on when any is lost, and
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
        rate: Hz of the flock's clock, of reports and ticks.

    Attributes:
        members: connected, in the order of the formation.
        time: s of the flock's clock.
        period: s of it that are to pass between two ticks.
        interval: s of it between ticks, the mean over some twenty; longer than the period where the computer
            does not keep up with the vehicles, or they report more seldom.
        longest: s between any two ticks in flight.
        delay: s of it from a tick's states to its setpoints on their way, the mean over some twenty.
    """

    def __init__(self, say: Say, rate: float = RATE) -> None:
        self.members: list[Member] = []
        self.period = 1.0 / rate
        self.say = say
        self.time = -math.inf
        self._ticked = -math.inf
        self.interval, self.longest, self.delay = self.period, 0.0, 0.0
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._gate = time_gate()
        self._pace = 0.0
        self._pace_begun = (-math.inf, math.nan)  # s of the wall, s of the flock's clock
        self._moment = time.monotonic()  # when the clock was last heard
        self._watchful = False
        self._alive: Mask = np.zeros(0, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.members)

    # ---------------------------------------------------------------- the protocol

    def hear(self, member: Member) -> None:
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
        """S of the flock's clock by now: the last that was heard, and what has passed since at its pace."""
        since = self._pace * (time.monotonic() - self._moment)
        now = self.time + min(max(since, 0.0), LONGEST_EXTRAPOLATION)
        waited_for = self._gate.open and math.isfinite(self._ticked)
        return min(now, self._ticked + KEEP_UP) if waited_for else now

    async def next_states(self) -> States:
        """Of the next tick, a period after the last.

        Raises:
            MissionFailedError: when no vehicle has been heard of for ``SILENCE_LIMIT`` s of wall time.
        """
        self._news.clear()
        if self.time < self._ticked + self.period:
            await self._wait_for_news()
        if math.isfinite(self._ticked):
            took = self.time - self._ticked
            self.interval += MEAN_OVER * (min(took, LONGEST_EXTRAPOLATION) - self.interval)
            self.longest = max(self.longest, took)
        self._ticked = self.time
        return self.states()

    async def _wait_for_news(self) -> None:
        silent = 0.0
        while silent < SILENCE_LIMIT:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._news.wait()
                    return
            silent = 0.0 if paused() else silent + 1.0
        raise MissionFailedError(
            f"none of the {len(self)} vehicles has been heard of for {SILENCE_LIMIT:.0f} s: they "
            "stopped, their simulation is paused, or the link is cut"
        )

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

    def _silent(self, member: Member) -> bool:
        wall = time.monotonic() - member.heard
        return self.time - member.clock > GONE_AFTER and wall > GONE_AFTER_WALL

    async def command(self, setpoints: Setpoints) -> None:
        """Send these to the vehicles that are there.

        A vehicle flies by a setpoint from when it comes, which is later than the states it was made of, until
        the next comes; so each goes out as it will be in the middle of that time, by its own velocity and
        acceleration: in the mean it is then not late.  A simulation that waits for this program may run on
        to KEEP_UP after the states.
        """
        made = self._ticked if math.isfinite(self._ticked) else self.time
        delay = min(max(self.now() - made, 0.0), LONGEST_EXTRAPOLATION)
        self.delay += MEAN_OVER * (delay - self.delay)
        # MAVSDK only queues them, so not from another thread: to and fro costs more on a busy computer.
        setpoints = _later(setpoints, delay + 0.5 * self.interval)
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
        self._gate.allow(self, round(1e6 * (made + KEEP_UP)))

    def let_go(self) -> None:
        """No more setpoints for now: a simulation that waits for this program need not."""
        self._gate.allow(self, None)

    async def steer(self, steered: Steered, until: int | Callable[[], int], watch: Watch) -> None:
        """Fly by what ``steered`` tells until us of the flock's clock, see ``fly_async``; then say how well
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
        await _together(_named(member, member.wait_until_armable(limit)) for member in self.members)
        await _until(lambda: all(np.isfinite(member.local).all() for member in self.members), "positions")
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
        fixes = await _together(_named(member, self._fix(member)) for member in self.members)
        first = np.array([fix[0] for fix in fixes])
        local = np.array([fix[1] for fix in fixes])
        middle: Place = tuple(first.mean(axis=0).tolist()) if common is None else common
        found = _from_place(middle, first)
        if common is None:
            away = (found - stands).mean(axis=0)
            middle = _to_place(middle, away)
            found = found - away
        self._check_places(found - stands)
        for i, member in enumerate(self.members):
            member.origin = (stands[i] if surveyed else found[i]) - local[i]
        return middle

    async def _fix(self, member: Member) -> tuple[Place, Place]:
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
            limit: s of the flock's clock.

        Raises:
            MissionFailedError: where one cannot arm, leaves the mode or does not get there.
        """
        climb = _Climb(self.states(), places, yaw)
        await self.command(climb.at(-1.0))
        stream = asyncio.create_task(self._stream(climb))
        try:
            await _ended_by(stream, self._lift(climb, limit))
        finally:
            stream.cancel()
            await asyncio.wait([stream])

    async def _lift(self, climb: _Climb, limit: float) -> None:
        for member in self.members:
            member.offboard_active = True
        # PX4 wants to have seen the stream for more than a second (user guide, "Offboard Mode").
        await self.pass_time(1.5)
        await _together(_named(member, self._offboard(member)) for member in self.members)
        await _together(_named(member, member.arm()) for member in self.members)
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

    async def _offboard(self, member: Member) -> None:
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

    async def _stream(self, climb: _Climb) -> None:
        while True:
            states = await self.next_states()
            await self.command(climb.at(states.time * 1e-6))

    async def pass_time(self, seconds: float) -> None:
        """Let time of the flock's clock pass.

        Raises:
            MissionFailedError: when no vehicle is heard of any more.
        """
        end = self.time + seconds
        await _until(lambda: self.time >= end, f"{seconds:g} s to pass", lambda: self.time)

    # ---------------------------------------------------------------- out, and down

    async def abort(self, vehicle: int, action: Action) -> None:
        """Take one out of the flock: the autopilot itself holds, lands or returns to its launch.

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
        self._tell(f"vehicle {vehicle} leaves the flock: {action}")

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
        await _together(
            _named(member, self._land(member) if alive[member.number] else self._landed(member))
            for member in self.members
            if alive[member.number] or (member.left in on_way and not self._silent(member))
        )

    async def _land(self, member: Member) -> None:
        member.left = "land"
        await member.action.land()
        await self._landed(member)

    async def _landed(self, member: Member) -> None:
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


@dataclass
class _Climb:
    """From where they stand to places in the air, all in step; ``start`` in s, not set at first."""

    begin: States
    places: Array
    yaw: float | Array
    start: float = math.inf

    @property
    def duration(self) -> float:
        """s."""
        far = float(np.linalg.norm(self.places - self.begin.position, axis=1).max())
        return move_time(far, CLIMB_SPEED, CLIMB_ACCELERATION)

    def at(self, time: float) -> Setpoints:
        """Setpoints at a time in s of the flock's clock."""
        part = 0.0 if time < self.start else min((time - self.start) / self.duration, 1.0)
        way, rate, bend = (float(x) for x in minimum_jerk(part))
        change = self.places - self.begin.position
        turn = np.remainder(self.yaw - self.begin.yaw + math.pi, 2.0 * math.pi) - math.pi
        return Setpoints(
            self.begin.position + way * change,
            rate / self.duration * change,
            bend / self.duration**2 * change,
            self.begin.yaw + way * turn,
        )


def _later(setpoints: Setpoints, seconds: float) -> Setpoints:
    velocity, acceleration = np.nan_to_num(setpoints.velocity), np.nan_to_num(setpoints.acceleration)
    return Setpoints(
        setpoints.position + seconds * velocity + 0.5 * seconds**2 * acceleration,
        setpoints.velocity + seconds * acceleration,
        setpoints.acceleration,
        setpoints.yaw,
    )


def _from_place(origin: Place, places: Array) -> Array:
    """(n, 3) m NED of places (n, 3) in deg and m from an origin."""
    projection = Projection(math.radians(origin[0]), math.radians(origin[1]), origin[2])
    return np.array([[*projection.local(p[0], p[1]), projection.down(p[2])] for p in places.tolist()])


def _to_place(origin: Place, away: Array) -> Place:
    projection = Projection(math.radians(origin[0]), math.radians(origin[1]), origin[2])
    latitude, longitude = projection.point(float(away[0]), float(away[1]))
    return latitude, longitude, projection.altitude(float(away[2]))


# ---------------------------------------------------------------- connecting


@contextlib.asynccontextmanager
async def connect_flock(
    urls: Sequence[str],
    say: Say,
    *,
    systems: Sequence[int] | None = None,
    limit: float = 60.0,
    attitude_rate: float = SETPOINT_RATE,
    rate: float = RATE,
) -> AsyncIterator[MavsdkFlock]:
    """Connect to n autopilots and yield them as a flock, watched.

    Args:
        urls: MAVSDK connection URLs, one a vehicle in the formation's order; several vehicles may be heard
            on one, which then comes several times.
        say: takes lines for the user.
        systems: MAVLink system ids of the vehicles.  None opens the URLs one after the other and takes the
            first autopilot that is new on each.
        limit: s of wall time for all to be heard.
        attitude_rate: Hz of the vehicles' clock at which they tell their attitude; their positions come at
            ``rate``.
        rate: Hz of the vehicles' clocks, of their reports and the flock's ticks.

    Raises:
        MissionFailedError: when a URL is wrong or its port taken, or a vehicle is not heard in time.
    """
    keep_mavsdk_quiet()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * len(urls) + 4, "mavsdk"))
    one = mavsdk.Mavsdk(mavsdk.Configuration.create_with_component_type(mavsdk.ComponentType.GROUND_STATION))
    try:
        flock = MavsdkFlock(say, rate)
        found = await _find_all(one, urls, systems, limit)
        async with contextlib.AsyncExitStack() as stack:
            for number, raw in enumerate(found):
                member = Member(raw, raw.get_system_id(), urls[number], number, say, flock.hear)
                member.attitude_rate = attitude_rate
                flock.members.append(member)
                member.listen()
                await stack.enter_async_context(watched(member))
            await _together(member.quieten(rate) for member in flock.members)
            yield flock
    finally:
        log_subscribe(lambda *_: True)  # its complaints about the sockets it closes itself
        one.destroy()


async def _find_all(
    one: mavsdk.Mavsdk, urls: Sequence[str], systems: Sequence[int] | None, limit: float
) -> list[Any]:
    """The autopilots, in the order of the URLs."""
    end = asyncio.get_running_loop().time() + limit
    found: dict[int, Any] = {}  # by system id
    for k, url in enumerate(urls):
        if url not in urls[:k]:
            _open(one, url)
        if systems is not None:
            continue
        new = await _new_system(one, found, None, end)
        if new is None:
            raise MissionFailedError(_unheard(f"vehicle {k}", url, limit))
        found[new.get_system_id()] = new
    for k, system_id in enumerate(systems or ()):
        new = await _new_system(one, found, system_id, end)
        if new is None:
            raise MissionFailedError(_unheard(f"vehicle {k} (system id {system_id})", urls[k], limit))
        found[system_id] = new
    return list(found.values())


def _open(one: mavsdk.Mavsdk, url: str) -> None:
    result = one.add_any_connection(url)
    if result != mavsdk.ConnectionResult.SUCCESS:
        raise MissionFailedError(
            f"cannot open {url}: {result.name.lower().replace('_', ' ')}. It must be one of {URL_FORMS}, "
            "and no other program may use its port"
        )


async def _new_system(
    one: mavsdk.Mavsdk, found: dict[int, Any], system_id: int | None, end: float
) -> Any | None:
    while asyncio.get_running_loop().time() < end:
        for system in one.get_systems():
            number = system.get_system_id()
            if system.has_autopilot() and number not in found and system_id in (None, number):
                return system
        await asyncio.sleep(0.05)
    return None


def _unheard(who: str, url: str, limit: float) -> str:
    return (
        f"waited {limit:.0f} s for {who} on {url} and heard nothing: does its flight stack run, "
        "and does its offboard link send there?"
    )


# ---------------------------------------------------------------- waiting for many


async def _named(member: Member, work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await work
    except MissionFailedError as error:
        raise MissionFailedError(f"vehicle {member.number}: {error}") from error


async def _together(work: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Results of all; at the first failure the others are cancelled, and it is raised by itself."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return [task.result() for task in tasks]


async def _ended_by(stream: asyncio.Task[None], work: Coroutine[Any, Any, None]) -> None:
    """Do ``work``; a stream that breaks meanwhile breaks it off."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([stream, task], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            stream.result()
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _until(condition: Callable[[], bool], what: str, sign: Callable[[], Any] = lambda: None) -> None:
    """Wait for a condition; in vain after ``SILENCE_LIMIT`` s of wall time without a new ``sign`` of life."""
    loop = asyncio.get_running_loop()
    last, since = sign(), loop.time()
    while not condition():
        await asyncio.sleep(0.01)
        if sign() != last:
            last, since = sign(), loop.time()
        elif loop.time() - since > SILENCE_LIMIT:
            raise MissionFailedError(f"waited for {what} and heard nothing for {SILENCE_LIMIT:.0f} s")
