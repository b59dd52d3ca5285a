"""The time gate: a mission, which runs in wall time, limits how far and how fast simulated time runs.

MAVSDK's timeouts run in wall time, PX4's in simulated time: at 20 times real time, the 250 ms after which
PX4 repeats a mission request are 12 ms for MAVSDK, which aborts a transfer at the fifth repetition.  Requests
are therefore made at real time.  Setpoints and decisions of a mission would be late if simulated time ran on
while the mission is busy; simulated time therefore waits for a mission that reports its progress.

With the built-in stack a mission advances simulated time in turns: the stack sends its messages every
``turn`` of simulated time, time stands still until the mission has taken them and waits for the next, and
whatever the mission sent meanwhile is read before the next step.  So a flight depends on simulated time
alone.  This takes an event loop that knows when it has nothing left to do, see mission_script.py.

Both ends of the socket pair are in this module, which needs only the standard library.  Without a simulation,
as with a real vehicle, the mission's end does nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import math
import os
import socket
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from sitl_bridge.link.hil.time_limits import TimeLimit

VARIABLE = "SITL_BRIDGE_TIME_GATE"
"""Environment variable of a mission: number of the file descriptor of its end, a SOCK_SEQPACKET.

Messages to the simulation are ``hello``; ``until US`` (on the vehicles' clock), ``until`` for no limit; and
``speed FACTOR NUMBER``, which is answered with the number once the speed is in effect."""

TURN_VARIABLE = "SITL_BRIDGE_TURN"
"""Environment variable of a mission: us of simulated time between two turns; not set without turns."""

REQUEST_SPEED = 1.0
"""Simulated over wall time during a request: the timeouts of PX4 and MAVSDK assume a common clock."""

UNANNOUNCED_SPEED = 2.0
"""Simulated over wall time while a vehicle is disarmed, for a mission that does not use this gate: missions
are uploaded and parameters set then.  MAVSDK aborts an upload at PX4's fifth repetition of a request, after
1.25 s of simulated time.  At this speed that is 0.6 s of wall time, longer than the pauses of a busy machine;
at 20 times real time it is 62 ms, which is shorter."""

STALE, STALE_IN_TURNS = 0.5, 4.0
"""s of wall time without an update for a vehicle, after which it no longer limits the time of the others; the
second where missions take turns, far above the pauses of a busy machine."""

TIMEOUT, TIMEOUT_IN_TURNS = 5.0, 15.0
"""s of wall time without a new limit from a mission, after which simulated time continues at real time:
longer than the pauses of a busy machine, and below the 20 s after which missions count a vehicle as lost."""
START_TIMEOUT = 30.0
"""s of wall time likewise, for a mission that starts."""

ATTEMPTS = 5
"""Times that a request is made until it is answered, as many as MAVSDK sends one message.  Without them,
1 of 2 uploads timed out on a machine with 20 runnable programs for two processors."""
TRANSFER_LIMIT = 5.0
"""s after which PX4 ends a transfer of a plan that its partner left
(MAVLINK_MISSION_PROTOCOL_TIMEOUT_DEFAULT); until then it refuses another."""
UNFINISHED = ("BUSY", "PROTOCOL_ERROR")
"""Results by which a repeated request learns that the flight stack is still at the one before."""

Plugin = TypeVar("Plugin")
T = TypeVar("T")


class TimeGate:
    """The mission's end of the gate.

    Args:
        number: of the file descriptor, as text; any other text means that there is no simulation.
        clock: s of wall time.
        turn: us of simulated time between two turns; 0 without turns.

    Attributes:
        turn: likewise; 0 without a simulation.
    """

    def __init__(self, number: str, clock: Callable[[], float] = time.monotonic, turn: int = 0) -> None:
        self._socket = _socket_of(number)
        self.turn = turn if self._socket is not None else 0
        self._clock = clock
        self._holds = self._on_board = 0
        self._limits: dict[object, tuple[int, float]] = {}
        self._sent: int | None = None
        self._speeds: list[float] = []
        self._requests = 0
        self._lock = asyncio.Lock()
        self._send(b"hello")

    @property
    def open(self) -> bool:
        """Whether there is a simulation at the other end."""
        return self._socket is not None

    def allow(self, user: object, until: int | None) -> None:
        """Set the limit of simulated time of one user; the least limit of all users is in effect.

        With turns, it takes effect once the mission has nothing left to do, and the last one stays.

        Args:
            user: a vehicle; its limit expires after STALE.
            until: us on the vehicles' clock; None removes the limit.
        """
        if self._socket is None:
            return
        self._limits.pop(user, None)
        if until is not None:
            self._limits[user] = (until, self._clock())
        if not self.turn:
            self._send_limit(STALE)

    def _send_limit(self, stale: float) -> None:
        now = self._clock()
        least = min((time for time, updated in self._limits.values() if now - updated < stale), default=None)
        if least != self._sent:
            self._sent = least
            self._send(b"until" if least is None else b"until %d" % least)

    def hold(self) -> None:
        """Begin something during which simulated time stands still between turns."""
        self._holds += 1

    def release(self) -> None:
        """End what ``hold`` began."""
        self._holds -= 1

    def idle(self) -> None:
        """End a turn, unless something holds time: the mission waits for what comes from outside."""
        if self.turn and (self._on_board or not self._holds) and self._limits:
            self._send_limit(STALE_IN_TURNS if len(self._limits) > 1 else math.inf)

    @asynccontextmanager
    async def at_most(self, speed: float) -> AsyncIterator[None]:
        """Limit simulated time to ``speed`` times real time within a ``with`` block.

        The block begins when the limit is in effect.  With turns, time stands still in it.
        """
        if self._socket is None:
            yield
            return
        if self.turn:
            self.hold()
            try:
                yield
            finally:
                self.release()
            return
        self._speeds.append(speed)
        try:
            await self._set_speed()
            yield
        finally:
            self._speeds.remove(speed)
            await self._set_speed()

    def request(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Limit simulated time to real time during a request of MAVSDK, whose timeouts run in wall time."""
        return self.at_most(REQUEST_SPEED)

    @asynccontextmanager
    async def request_on_board(self) -> AsyncIterator[None]:
        """As ``request``, to a camera or gimbal, which answers as simulated time passes: turns go on.

        When the answer comes depends on the machine, so such a flight does not repeat to the bit.
        """
        self._on_board += 1
        try:
            async with self.request():
                yield
        finally:
            self._on_board -= 1

    async def _set_speed(self) -> None:
        async with self._lock:
            if self._socket is None:
                return
            self._requests += 1
            number = b"%d" % self._requests
            speed = b"%r" % min(self._speeds, default=math.inf)
            await self._ask(b"speed %s %s" % (speed, number), number.__eq__)

    async def _ask(self, message: bytes, answers: Callable[[bytes], bool]) -> None:
        """Send a message and wait for its answer; answers to cancelled messages arrive before it."""
        if self._socket is None:
            return
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self._socket, message)
            while answer := await loop.sock_recv(self._socket, 64):
                if answers(answer):
                    return
        except OSError:
            pass
        self.end()

    def _send(self, message: bytes) -> None:
        if self._socket is None:
            return
        try:
            self._socket.send(message)
        except BlockingIOError:
            self._sent = None  # the buffer is full; the next message contains the present limit
        except OSError:
            self.end()

    def end(self) -> None:
        """Close the gate: the simulation has ended."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


@functools.cache
def time_gate() -> TimeGate:
    """The gate of this process, opened at the first call."""
    turn = os.environ.get(TURN_VARIABLE, "")
    return TimeGate(os.environ.get(VARIABLE, ""), turn=int(turn) if turn.isdigit() else 0)


def _socket_of(number: str) -> socket.socket | None:
    """The socket of a file descriptor, given as text; None if there is none, as in children of a mission."""
    if not number.isdigit():
        return None
    try:
        if not stat.S_ISSOCK(os.fstat(int(number)).st_mode):
            return None
        os.set_inheritable(int(number), False)
        found = socket.socket(fileno=int(number))
    except OSError:
        return None
    found.setblocking(False)
    return found


def in_real_time(plugin: Plugin, gate: TimeGate, names: Collection[str] | None = None) -> Plugin:
    """A MAVSDK plug-in whose coroutines limit simulated time to real time: each is a request to the vehicle.

    A request that times out is made again, up to ATTEMPTS times: MAVSDK's time-outs run in wall time, which
    passes for a flight stack that waits for a processor, too.  So is a repeated request that the flight stack
    refuses because it is still at the one before.

    Args:
        plugin: of ``mavsdk.asyncio``.
        names: of the coroutines; None for all.
    """
    return cast("Plugin", _InRealTime(plugin, gate, names)) if gate.open else plugin


class _InRealTime:
    def __init__(self, plugin: object, gate: TimeGate, names: Collection[str] | None) -> None:
        self._plugin, self._gate, self._names = plugin, gate, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._plugin, name)
        if not inspect.iscoroutinefunction(found) or (self._names is not None and name not in self._names):
            return found

        async def request(*arguments: object, **named: object) -> object:
            async with self._gate.request():
                for attempt in range(2, ATTEMPTS + 1):
                    try:
                        return await _await_to_end(found(*arguments, **named))
                    except Exception as error:
                        result = getattr(getattr(error, "result", None), "name", "")
                        again = attempt > 2 and result in UNFINISHED
                        if result != "TIMEOUT" and not again:
                            raise
                    reason = "still at the one before" if again else "no answer"
                    print(f"{name}: {reason}: attempt {attempt} of {ATTEMPTS}", file=sys.stderr, flush=True)
                    if again:
                        await asyncio.sleep(TRANSFER_LIMIT)
                return await _await_to_end(found(*arguments, **named))

        return request


async def _await_to_end(call: Coroutine[None, None, T]) -> T:
    """Await a call of MAVSDK, to its end even if this task is cancelled meanwhile.

    MAVSDK waits for the answer in a thread, which would never return once its connection is closed.
    """
    task = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at, else asyncio prints its traceback
        raise


class MissionGate:
    """The simulation's end of the gate of one mission.  All limits end with the mission, however it ends.

    A mission that does not use the gate is limited to UNANNOUNCED_SPEED while a vehicle of it is disarmed.

    Args:
        limits: of simulated time, set here.
        turn: us of simulated time at which the first turn begins, and between turns; 0 without turns.
            With turns, the last limit stays in effect when the mission ends, until ``free``, so a flight ends
            at the simulated time of its last turn.

    Attributes:
        mission_end: file descriptor that the mission inherits.
        ended: set once the mission has closed its end.
    """

    def __init__(self, limits: TimeLimit, turn: int = 0) -> None:
        self._limits = limits
        self.turn = turn
        self._here, self._there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.mission_end = self._there.fileno()
        self._announced = False
        self.ended = threading.Event()
        self._timeout = TIMEOUT_IN_TURNS if turn else TIMEOUT
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._listen, name="time gate", daemon=True)
        if turn:
            limits.run_until(turn, START_TIMEOUT)
        limits.at_most(UNANNOUNCED_SPEED)

    def start(self) -> None:
        """Close this process's copy of the mission's end, and read until the mission closes its own."""
        self._there.close()
        self._thread.start()

    def _answer(self, message: bytes) -> None:
        with contextlib.suppress(OSError):  # the mission has ended, which the reading thread detects
            self._here.send(message)

    def release_time(self) -> None:
        """Remove all limits of a mission that has ended; safe to call twice."""
        self._limits.release()

    def close(self) -> None:
        """Remove all limits, even if a process still has the mission's end; safe to call twice."""
        with contextlib.suppress(OSError):
            self._here.shutdown(socket.SHUT_RDWR)

    def limit_speed(self, *, armed: bool) -> None:
        """Limit the speed of a mission that does not use the gate, unless all its vehicles are armed."""
        with self._lock:
            if not self._announced and not self.ended.is_set():
                self._limits.at_most(math.inf if armed else UNANNOUNCED_SPEED)

    def _listen(self) -> None:
        with self._here:
            # A mission that is killed with unread answers resets the connection.
            with contextlib.suppress(ConnectionError):
                while message := self._here.recv(256):
                    with contextlib.suppress(ValueError):  # not a valid message
                        self._take(message.decode("ascii").split())
            with self._lock:
                self.ended.set()
                if not self.turn:
                    self._limits.release()

    def _take(self, words: list[str]) -> None:
        match words:
            case ["hello"]:
                with self._lock:
                    self._announced = True
                    self._limits.at_most(math.inf)
            case ["until"]:
                self._limits.run_until(None, self._timeout)
            case ["until", until]:
                self._limits.run_until(int(until), self._timeout)
            case ["speed", factor, number] if float(factor) > 0.0:
                self._limits.at_most(float(factor))
                self._answer(b"%d" % int(number))
