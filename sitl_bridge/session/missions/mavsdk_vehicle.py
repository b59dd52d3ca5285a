"""A PX4 vehicle over MAVSDK: wait until it can arm, arm, take off, land.

Every wait has a time limit on the *vehicle's* clock, so that it means the same at 1 and at 25 times real
time, and fails with a message if the limit passes or the vehicle sends nothing.  Offboard setpoints are in
``setpoint_stream.py``.  The vehicle may be simulated or real.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from typing import NoReturn, TypeVar

from mavsdk.asyncio import Mavsdk, MavsdkError, System
from mavsdk.asyncio.plugins.action import ActionAsync
from mavsdk.asyncio.plugins.events import EventsAsync
from mavsdk.asyncio.plugins.mavlink_direct import MavlinkDirectAsync
from mavsdk.asyncio.plugins.mission_raw import MissionRawAsync
from mavsdk.asyncio.plugins.offboard import OffboardAsync
from mavsdk.asyncio.plugins.param import ParamAsync
from mavsdk.asyncio.plugins.telemetry import TelemetryAsync
from mavsdk.plugins.events import HealthAndArmingCheckReport
from mavsdk.plugins.mavlink_direct import MavlinkMessage
from mavsdk.plugins.telemetry import (
    EulerAngle,
    FlightMode,
    Health,
    LandedState,
    Position,
    PositionVelocityNed,
    StatusText,
    StatusTextType,
)

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.px4.versions import PARAMETER_INTERVAL
from sitl_bridge.session.missions.environment import paused
from sitl_bridge.session.missions.log_stamp import stamp
from sitl_bridge.session.missions.time_gate import in_real_time, time_gate
from sitl_bridge.session.stacks import ROUND

T = TypeVar("T")

SILENCE_LIMIT = 20.0
"""s of wall time without a message, after which a vehicle counts as lost.  Derived: far above the 5 s after
which PX4 and MAVSDK themselves report a lost link, so that a short pause of a simulation has no effect."""
HEARING = 2.0
"""s of wall time.  A program whose waits end so late has stood still itself, by Ctrl-Z or in a debugger; it
listens as long again before the vehicle counts as lost."""

SETPOINT_RATE = 20.0
"""Hz of the vehicle's clock, of telemetry and of setpoints: MAVSDK's own rate, and far above the 2 Hz that
PX4 requires (user guide, "Offboard Mode")."""

REFRESH = 0.5
"""s of the vehicle's time between queries of MAVSDK's copy of the vehicle's state.  MAVSDK drops callbacks if
too many are queued, so a single change of the mode or a health flag could be missed."""

MOST_LEAD = 0.5
"""s of the vehicle's time by which simulated time may be ahead of the last telemetry: 25 ms at 20 times real
time, several times the delay of a message on an idle machine, so that simulated time waits only on a busy
one.  It is half of the second after which PX4 reports a lost stream of setpoints (COM_OF_LOSS_T)."""

MOST_WAIT = 1.2
"""s after the last telemetry to which simulated time may run while this program waits for the next."""

LEAD_STEP = 0.1
"""s of the vehicle's time between two settings of the limit."""

LONG_TURN = 5
"""Turns as one, 0.24 s of the built-in stack's time, while no setpoints are streamed: each waits for this
program, which takes longer than the simulation."""

STATE_LIMIT = 30.0
"""s of the vehicle's time until its state messages, at 1 Hz, must show a change that it has acknowledged.  A
busy computer may delay a script by 0.5 s of wall time, which is 10 s at 20 times real time."""

TAKE_OFF_TOLERANCE = 1.0
"""m between the requested height and the one held after take-off.  PX4 v1.14 and v1.15 end the climb within
NAV_MC_ALT_RAD, 0.8 m by default, and hold the height reached; the estimate adds a decimetre or two."""


class MissionFailedError(UserError):
    """A mission has failed, with the expected and the actual state."""


PREFLIGHT = "Preflight Fail"
"""Begins the text of a check that prevents arming."""


class Vehicle:
    """A connected vehicle: MAVSDK's plug-ins, and the latest telemetry.

    :func:`connect` creates it.  The plug-ins (``action``, ``offboard``, ``telemetry``, ``mission_raw``,
    ``param``, ``mavlink``) are MAVSDK's own, for everything that has no method here.  While one of their
    requests waits for its answer, simulated time runs no faster than real time; it is at most MOST_LEAD ahead
    of the last telemetry; see ``time_gate.py``.  Put other transfers within ``gate.request()``.

    Attributes:
        system_id: of MAVLink.
        prefix: of every line that it prints.
        time: s, the vehicle's own clock (since its boot); nan before the first telemetry.
        position: m north, east, down of PX4's local origin; nan until PX4 has an estimate.
        global_position: deg latitude, deg longitude, m AMSL; nan until PX4 has an estimate.
        velocity: m/s north, east, down.
        attitude: deg roll, pitch, yaw.
        armed: whether the motors may turn.
        landed: MAVSDK's LandedState.
        mode: MAVSDK's FlightMode.
        ground: m down of the ground at its last arming or take-off; nan before.
        failed_checks: texts of the checks that prevent arming: of PX4's report, else of the last refusal.
        messages: the last status texts, newest last.
        offboard_active: whether this program streams setpoints to it.
        gate: limits simulated time, if there is a simulation.
    """

    def __init__(self, mavsdk: Mavsdk, system: System, system_id: int, url: str) -> None:
        self.url = url
        self.prefix = ""
        self.mavsdk = mavsdk
        self.system = system
        self.system_id = system_id
        self.gate = time_gate()
        self.action = in_real_time(ActionAsync(system), self.gate)
        self.events = EventsAsync(system)
        self.mavlink = MavlinkDirectAsync(system)
        self.mission_raw = in_real_time(MissionRawAsync(system), self.gate)
        self.offboard = in_real_time(OffboardAsync(system), self.gate, ("start", "stop"))
        self.param = in_real_time(ParamAsync(system), self.gate)
        self.telemetry = TelemetryAsync(system)

        self.time = math.nan
        self.position = (math.nan, math.nan, math.nan)
        self.global_position = (math.nan, math.nan, math.nan)
        self.velocity = (math.nan, math.nan, math.nan)
        self.attitude = (math.nan, math.nan, math.nan)
        self.armed = False
        self.landed = LandedState.UNKNOWN
        self.mode = FlightMode.UNKNOWN
        self.health: Health | None = None
        self.failed_checks: tuple[str, ...] = ()
        self._reports_checks = False
        self.messages: deque[str] = deque(maxlen=20)
        self.ground = math.nan

        self.offboard_active = False
        self._update = asyncio.Event()
        self._turn_end = self.gate.turn  # us, when the present turn ends
        self._streams = 0
        self._queries = 0
        self._answers: dict[int, int] = {}  # us, by number of the query
        self._answered = asyncio.Event()
        self._ticked = asyncio.get_running_loop().time()  # wall time of its clock's last change
        self._listened = self._ticked  # wall time of the last message that was awaited
        self._allowed = -math.inf  # s of its clock to which simulated time may run

    # ------------------------------------------------------------------ telemetry

    @property
    def height(self) -> float:
        """Height in m above the ground at its last arming."""
        return self.ground - self.position[2]

    def say(self, text: str) -> None:
        """Print a line of the mission's own log, stamped with the vehicle's time in s."""
        print(f"{self.prefix}{stamp(self.time)} {text}", flush=True)

    async def changed(self) -> None:
        """Return at the next telemetry message, and regularly while its simulation is paused.

        Raises:
            MissionFailedError: if its clock has not advanced for ``SILENCE_LIMIT`` s of wall time.
        """
        if paused():
            self._ticked = asyncio.get_running_loop().time()
        loop = asyncio.get_running_loop()
        while True:
            end = self._ticked + SILENCE_LIMIT
            if loop.time() > self._listened + HEARING:  # a program that stood still has messages to read
                end = max(end, loop.time() + HEARING)
            # Not wait_for: that of Python 3.11 may swallow a cancellation (CPython gh-86296).
            try:
                async with asyncio.timeout_at(end):
                    await self._update.wait()
            except TimeoutError:
                if loop.time() > end + HEARING:
                    continue
                if not paused():
                    break
            self._listened = loop.time()
            return
        raise MissionFailedError(
            f"the clock of the vehicle on {self.url} (ATTITUDE messages) has not advanced for "
            f"{SILENCE_LIMIT:.0f} s: it has stopped, its simulation is paused, or the link is interrupted"
        )

    async def watch(self) -> None:
        """Keep the attributes at their latest values until cancelled; :func:`connect` runs it."""
        telemetry = self.telemetry
        async with asyncio.TaskGroup() as group:
            if self.gate.turn:
                group.create_task(self._turns(group))
                group.create_task(self._each(self.mavlink.subscribe_message("TIMESYNC"), self._on_time))
            else:
                group.create_task(self._refresh())
                group.create_task(self._each(telemetry.subscribe_attitude_euler(), self._on_attitude))
            for stream, handle in (
                (telemetry.subscribe_status_text(), self._on_status_text),
                (self.events.subscribe_health_and_arming_checks(), self._on_arming_report),
                (telemetry.subscribe_position(), self._on_global_position),
                (telemetry.subscribe_position_velocity_ned(), self._on_position),
            ):
                group.create_task(self._each(stream, handle))

    def _notify(self) -> None:
        self._update.set()
        self._update = asyncio.Event()

    async def _each(self, stream: AsyncGenerator[T, None], handle: Callable[[T], None]) -> None:
        async with aclosing(stream):
            async for item in stream:
                handle(item)
                if not self.gate.turn:
                    self._notify()

    async def _turns(self, group: asyncio.TaskGroup) -> None:
        """Let the mission see the telemetry of a turn at once, when the last message of its time is here."""
        begin, refreshed = group.create_task(self._begin_turns()), -1
        async with aclosing(self.telemetry.subscribe_attitude_euler()) as attitudes:
            async for attitude in attitudes:
                begin.cancel()
                self._on_attitude(attitude)
                now = round(1e6 * self.time)
                if now < self._turn_end:
                    continue
                self._set_time_limit()
                if now // (LONG_TURN * self.gate.turn) != refreshed:
                    refreshed = now // (LONG_TURN * self.gate.turn)
                    await self._read_state()
                self._notify()

    async def _begin_turns(self) -> None:
        """Let time run, turn by turn, until the vehicle knows its attitude and so sends the first one."""
        while True:
            if await self._query_time() >= self._turn_end:
                await self._query_time()  # the messages of that turn come before the answer
                self._turn_end += self.gate.turn
                self.gate.allow(self, self._turn_end)
            await asyncio.sleep(0.001)

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Take a turn at every message of the vehicle's clock within a ``with`` block, for setpoints."""
        self._streams += 1
        if self.gate.turn and not math.isnan(self.time):
            self._set_time_limit()
        try:
            yield
        finally:
            self._streams -= 1

    async def confirmed(self, sending: Awaitable[object]) -> None:
        """Send something that is not answered.  With turns, return when the vehicle has received it.

        MAVSDK sends from a thread of its own, in order.
        """
        if not self.gate.turn:
            await sending
            return
        async with self.gate.request():
            await sending
            await self._query_time()

    async def _query_time(self) -> int:
        """Us of the vehicle's clock, by TIMESYNC."""
        self._queries += 1
        query = self._queries
        fields = {"tc1": 0, "ts1": query, "target_system": 0, "target_component": 0}
        message = MavlinkMessage("TIMESYNC", 0, 0, 0, 0, json.dumps(fields))
        async with self.gate.request(), asyncio.timeout(SILENCE_LIMIT):
            await self.mavlink.send_message(message)
            while query not in self._answers:
                await self._answered.wait()
        return self._answers.pop(query)

    def _on_time(self, message: MavlinkMessage) -> None:
        fields = json.loads(message.fields_json)
        if fields["tc1"] and fields["ts1"] <= self._queries:  # not an answer to MAVSDK's own
            self._answers[fields["ts1"]] = fields["tc1"] // 1000
            self._answered.set()
            self._answered = asyncio.Event()

    async def _refresh(self) -> None:
        """Query states that change rarely, until cancelled."""
        while True:
            await self._read_state()
            self._notify()
            if math.isnan(self.time):
                await asyncio.sleep(0.02)
                continue
            due = self.time + REFRESH
            try:
                async with asyncio.timeout(REFRESH):  # of wall time, if the vehicle's clock does not advance
                    while self.time < due:
                        await self._update.wait()
            except TimeoutError:
                self._extend_time_limit()

    async def _read_state(self) -> None:
        telemetry = self.telemetry
        self.armed = await telemetry.armed()
        self.landed = await telemetry.landed_state()
        self.mode = await telemetry.flight_mode()
        self.health = await telemetry.health()

    def _on_position(self, state: PositionVelocityNed) -> None:
        position, velocity = state.position, state.velocity
        self.position = (position.north_m, position.east_m, position.down_m)
        self.velocity = (velocity.north_m_s, velocity.east_m_s, velocity.down_m_s)

    def _on_global_position(self, position: Position) -> None:
        self.global_position = (
            position.latitude_deg,
            position.longitude_deg,
            position.absolute_altitude_m,
        )

    def _on_attitude(self, euler: EulerAngle) -> None:
        self.attitude = (euler.roll_deg, euler.pitch_deg, euler.yaw_deg)
        seconds = euler.timestamp_us * 1e-6
        if not self.time >= seconds:  # also where the time is still nan
            self.time = seconds
            self._ticked = asyncio.get_running_loop().time()
            if not self.gate.turn:
                self._set_time_limit()

    def _set_time_limit(self) -> None:
        """Let simulated time run on from the last telemetry, at least to the message after the next."""
        if self.gate.turn:
            # Multiples of the turn's length, however soon the mission was there.
            length = self.gate.turn * (1 if self._streams else LONG_TURN)
            self._turn_end = (round(1e6 * self.time) // length + 1) * length
            self.gate.allow(self, self._turn_end)
            return
        until = self.time + max(MOST_LEAD, 2.0 / SETPOINT_RATE)
        if not abs(until - self._allowed) < LEAD_STEP:
            self._allowed = until
            self.gate.allow(self, round(1e6 * until))

    def _extend_time_limit(self) -> None:
        """Let simulated time run a little further without telemetry, in case messages were lost.

        If the vehicle still sends nothing, its limit expires.
        """
        if self._allowed < self.time + MOST_WAIT:
            self._allowed += MOST_LEAD
            self.gate.allow(self, round(1e6 * self._allowed))

    def _on_status_text(self, status: StatusText) -> None:
        kind = StatusTextType(status.type)
        text = status.text.strip()
        if text.startswith(PREFLIGHT) and not self.armed:
            # Repeated while PX4 starts; missing_for_arming lists what is still missing.
            if not self._reports_checks:
                check = text.removeprefix(PREFLIGHT).lstrip(": ")
                self.failed_checks = tuple(dict.fromkeys((*self.failed_checks, check)))
            return
        self.messages.append(f"{kind.name.lower()}: {text}")
        if kind >= StatusTextType.WARNING:
            self.say(f"autopilot {kind.name.lower()}: {text}")

    def _on_arming_report(self, report: HealthAndArmingCheckReport) -> None:
        self._reports_checks = True
        present_mode = report.current_mode_intention
        if present_mode.can_arm_or_run:
            self.failed_checks = ()
            return
        # Level 4 is a warning; information does not prevent arming (events interface, MAVLink).
        self.failed_checks = tuple(
            dict.fromkeys(problem.message for problem in present_mode.problems if int(problem.log_level) <= 4)
        )

    # ------------------------------------------------------------------ waiting

    async def wait(
        self,
        what: str,
        condition: Callable[[], bool],
        limit: float,
        *,
        modes: Collection[FlightMode] | None = None,
        must_stay_armed: bool = False,
        state: Callable[[], str] | None = None,
    ) -> None:
        """Wait until ``condition`` is true.

        Args:
            what: description of the condition, as the end of the sentence "waited ... for".
            condition: evaluated at every telemetry message.
            limit: s of the vehicle's clock.
            modes: flight modes that are expected until then; any other means that PX4 has taken over.
            must_stay_armed: whether disarming is a failure.
            state: returns the state reached, for the error message.

        Raises:
            MissionFailedError: at the time limit, if PX4 leaves the expected modes or disarms, or if the
                vehicle sends no telemetry.
        """
        start = self.time
        # Both may still be from before the mission's last command.
        mode_before, was_armed = self.mode, False
        while not condition():
            if modes is not None and self.mode != mode_before:
                if self.mode not in modes:
                    name = FlightMode(self.mode).name
                    self.fail(
                        f"the autopilot changed to {name}, by itself or by another's command, while the"
                        f" mission waited for {what}"
                    )
                mode_before = FlightMode.UNKNOWN
            was_armed |= self.armed
            if must_stay_armed and was_armed and not self.armed:
                self.fail(f"the autopilot disarmed while the mission waited for {what}")
            if math.isnan(start):
                start = self.time
            if self.time - start > limit:
                reached = f"; {state()}" if state else ""
                self.fail(f"waited {limit:.0f} s (of the vehicle's time) for {what}{reached}")
            await self.changed()

    async def sleep(self, seconds: float, *, modes: Collection[FlightMode] | None = None) -> None:
        """Wait ``seconds`` of the vehicle's time, in the air or on the ground; see :meth:`wait`."""
        end = self.time + seconds
        await self.wait(
            f"{seconds:g} s to pass",
            lambda: self.time >= end,
            limit=seconds + 1.0,
            modes=modes,
            must_stay_armed=True,
        )

    def fail(self, text: str) -> NoReturn:
        """Raise ``text`` as MissionFailedError, with the last warnings of the vehicle.

        Raises:
            MissionFailedError: always.
        """
        warnings = [
            message for message in self.messages if not message.startswith(("info:", "debug:", "notice:"))
        ]
        tail = f" (its last messages: {'; '.join(warnings[-3:])})" if warnings else ""
        raise MissionFailedError(text + tail)

    # ------------------------------------------------------------------ flying

    def missing_for_arming(self) -> list[str]:
        """Conditions that the flight stack lacks for arming and position control, as texts; empty if none."""
        health = self.health
        if health is None:
            return ["the first health report (SYS_STATUS)"]
        flags = {
            "gyroscope calibration": health.is_gyrometer_calibration_ok,
            "accelerometer calibration": health.is_accelerometer_calibration_ok,
            "magnetometer calibration": health.is_magnetometer_calibration_ok,
            "local position estimate": health.is_local_position_ok,
            "global position estimate": health.is_global_position_ok,
            "home position": health.is_home_position_ok,
            "the flight stack's arming checks": health.is_armable,
        }
        missing = [name for name, good in flags.items() if not good]
        if missing:
            missing += [f"arming check: {check}" for check in self.failed_checks]
        if any(math.isnan(value) for value in (self.time, *self.position)):
            missing.append("local position messages (LOCAL_POSITION_NED)")
        if math.isnan(self.global_position[0]):
            missing.append("global position messages (GLOBAL_POSITION_INT)")
        return missing

    async def wait_until_armable(self, limit: float = 120.0) -> None:
        """Wait until PX4's checks allow arming and it has a position estimate.

        A vehicle on the ground that an earlier script left in Offboard mode is first put into Hold, because
        it could not arm without that script's setpoints.

        Args:
            limit: s of the vehicle's clock; an estimator with GPS takes 10 to 30 s after boot.

        Raises:
            MissionFailedError: at the time limit, with each missing condition.
        """
        await self.wait("the first state report", lambda: self.mode != FlightMode.UNKNOWN, limit)
        if self.mode == FlightMode.OFFBOARD and not self.armed and not self.offboard_active:
            await self.action.hold()
        await self.wait(
            "the autopilot to become ready to arm",
            lambda: not self.missing_for_arming(),
            limit,
            state=lambda: "still missing: " + ", ".join(self.missing_for_arming()),
        )

    async def arm(self, limit: float = 30.0) -> None:
        """Arm, with PX4's checks; a refusal is retried until ``limit``.

        Raises:
            MissionFailedError: if PX4 still refuses after ``limit`` s of its clock, with its reasons.
        """
        deadline = self.time + limit
        while True:
            await self.wait_until_armable(limit)
            if self.gate.open:
                await self._wait_for_round_time()
            self.ground = self.position[2]
            if not self._reports_checks:
                self.failed_checks = ()
            try:
                await self.action.arm()
                break
            except MavsdkError as refusal:
                if self.time > deadline:
                    reasons = ", ".join(self.failed_checks) or "it gave no reason"
                    self.fail(f"the autopilot refuses to arm ({reason(refusal)}): {reasons}")
                await self.sleep(0.5)
        await self.wait("the autopilot to report that it is armed", lambda: self.armed, limit)
        self.say("armed")

    async def _wait_for_round_time(self) -> None:
        """Let simulated flights begin at a multiple of ROUND, for flights that repeat closely."""
        end = math.ceil(self.time * 1e6 / ROUND) * ROUND * 1e-6
        limit = end - self.time + 1.0
        await self.wait("the next arming time", lambda: self.time >= end, limit)

    async def take_off(self, height: float) -> None:
        """Take off to ``height`` m above the ground and wait until the vehicle holds there.

        Raises:
            MissionFailedError: if it does not reach the height in time, or PX4 changes the mode.
        """
        self.say(f"taking off to {height:g} m")
        await self.action.set_takeoff_altitude(height)
        await self.sleep(PARAMETER_INTERVAL)
        if self.landed == LandedState.ON_GROUND:
            self.ground = self.position[2]  # the estimate moves until it flies, and PX4's home with it
        await self.action.takeoff()
        least = min(0.8 * height, max(height - TAKE_OFF_TOLERANCE, 0.2 * height))
        # PX4 climbs with MPC_TKO_SPEED (1.5 m/s by default) after spooling up for a second or two.
        await self.wait(
            f"the vehicle to climb to {height:g} m and hold",
            lambda: self.mode == FlightMode.HOLD and self.height > least,
            limit=30.0 + 2.0 * height,
            modes={FlightMode.TAKEOFF, FlightMode.HOLD},
            must_stay_armed=True,
            state=lambda: f"height {self.height:.2f} m, mode {FlightMode(self.mode).name}",
        )
        await self.wait(
            f"the climb to end at {height:g} m",
            lambda: abs(self.height - height) < TAKE_OFF_TOLERANCE and abs(self.velocity[2]) < 0.2,
            limit=20.0 + height,
            modes={FlightMode.HOLD},
            must_stay_armed=True,
            state=lambda: f"height {self.height:.2f} m, climbing {-self.velocity[2]:.2f} m/s",
        )

    async def land(self) -> None:
        """Land at the present position and wait until PX4 has landed and disarmed by itself.

        Raises:
            MissionFailedError: see :meth:`wait_until_landed`.
        """
        self.say("landing")
        await self.action.land()
        await self.wait_until_landed(modes={FlightMode.LAND, FlightMode.HOLD, FlightMode.READY})

    async def wait_until_landed(
        self, limit: float = 0.0, modes: Collection[FlightMode] | None = None
    ) -> None:
        """Wait until PX4 reports ground contact and disarms by itself.

        Args:
            limit: s of the vehicle's clock; 0 means a minute, and the present height at 0.4 m/s, which is
                below PX4's slowest default descent (MPC_LAND_SPEED 0.7 m/s).
            modes: see :meth:`wait`.

        Raises:
            MissionFailedError: at the time limit, if the vehicle has not landed or not disarmed.
        """
        height = self.height if math.isfinite(self.height) else 0.0
        await self.wait(
            "the vehicle to land",
            lambda: self.landed == LandedState.ON_GROUND or not self.armed,
            limit or 60.0 + max(height, 0.0) / 0.4,
            modes=modes,
            state=lambda: f"landed state {LandedState(self.landed).name}, height {self.height:.2f} m",
        )
        # It leaves its mode when it disarms; the two messages may arrive in any order.
        await self.wait("the vehicle to disarm after it landed", lambda: not self.armed, STATE_LIMIT)
        await self.wait(
            "the autopilot to report ON_GROUND after it disarmed",
            lambda: self.landed == LandedState.ON_GROUND,
            limit=STATE_LIMIT,
            state=lambda: f"landed state {LandedState(self.landed).name}: it disarmed in the air",
        )
        self.say("landed and disarmed")


def reason(refusal: MavsdkError) -> str:
    """Short reason of a refusal by MAVSDK, without the arguments in its messages."""
    result = getattr(refusal, "result", None)
    return result.name.lower().replace("_", " ") if result is not None else str(refusal)


async def within(seconds: float, work: Coroutine[None, None, T]) -> T | None:
    """Result of ``work``, or None if it takes longer than ``seconds`` of wall time or MAVSDK refuses."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except (TimeoutError, MavsdkError):
        return None
