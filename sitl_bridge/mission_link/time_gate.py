"""Ties simulated time to a mission that works in wall time: over a socket pair, the mission limits how far
simulated time may run, and how fast.

MAVSDK repeats requests and gives up by the wall clock, PX4 by its own, simulated one: at 20 times real time
PX4's 250 ms to the repetition of a mission request are 12 ms for MAVSDK, which gives a transfer up at the
fifth.  So requests are made at real time.  And setpoints and decisions of a mission come late where simulated
time runs on while it is busy; so time waits for a mission that says how far it has come.

Both ends are here and need the standard library alone.  Without a simulation, with a real vehicle, the
mission's end does nothing.
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
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar, cast

VARIABLE = "SITL_BRIDGE_TIME_GATE"
"""Environment variable of a mission: number of the file descriptor of its end, a SOCK_SEQPACKET.

Messages to the simulation are ``hello``; ``ready``, which is answered with ``go`` once the vehicles may be
flown; ``until US`` (on the vehicles' clock), ``until`` for no limit; and ``speed FACTOR NUMBER``, which is
answered with the number once it is in force."""

REQUEST_SPEED = 1.0
"""Times real time during a request: the time-outs of PX4 and MAVSDK are made for one clock."""

UNANNOUNCED_SPEED = 2.0
"""Times real time while a mission that does not use this gate has a vehicle that stands disarmed: then
missions are uploaded and parameters set.  MAVSDK gives an upload up at PX4's fifth repetition of a request,
after 1.25 s of simulated time.  These are 0.6 s of wall time here, more than a busy machine takes from a
program; at 20 times real time they are 62 ms, which it does take."""

STALE = 0.5
"""s of wall time without news of a vehicle after which the others of the same mission are not held for it."""

Plugin = TypeVar("Plugin")


class TimeGate:
    """The mission's end; see ``time_gate``.

    Args:
        number: of the file descriptor, as text; anything else is no simulation.
        clock: s of wall time.
    """

    def __init__(self, number: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._socket = _socket_of(number)
        self._clock = clock
        self._limits: dict[object, tuple[int, float]] = {}
        self._sent: int | None = None
        self._speeds: list[float] = []
        self._requests = 0
        self._lock = asyncio.Lock()
        self._send(b"hello")

    @property
    def open(self) -> bool:
        """Whether a simulation listens."""
        return self._socket is not None

    async def ready(self) -> None:
        """Report that all is loaded and compiled; flight stacks that wait for that start.  Returns when they
        may be flown; call it before anything else."""
        if self._socket is not None:
            await self._ask(b"ready", b"go".__eq__)

    def allow(self, user: object, until: int | None) -> None:
        """Let simulated time run to ``until`` us on the part of ``user``; the least of all users counts.

        Args:
            user: a vehicle, or what steers several; not waited for once it has been silent for STALE.
            until: on the vehicles' clock; None to wait for this user no more.
        """
        if self._socket is None:
            return
        now = self._clock()
        self._limits.pop(user, None)
        if until is not None:
            self._limits[user] = (until, now)
        least = min((time for time, told in self._limits.values() if now - told < STALE), default=None)
        if least != self._sent:
            self._sent = least
            self._send(b"until" if least is None else b"until %d" % least)

    @asynccontextmanager
    async def at_most(self, speed: float) -> AsyncIterator[None]:
        """Let simulated time run at most ``speed`` times real time for the length of a ``with`` block.

        The block begins once that is in force.
        """
        if self._socket is None:
            yield
            return
        self._speeds.append(speed)
        try:
            await self._set_speed()
            yield
        finally:
            self._speeds.remove(speed)
            await self._set_speed()

    def request(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Real time at most, for a request that MAVSDK times by the wall clock."""
        return self.at_most(REQUEST_SPEED)

    async def _set_speed(self) -> None:
        async with self._lock:
            if self._socket is None:
                return
            self._requests += 1
            number = b"%d" % self._requests
            speed = b"%r" % min(self._speeds, default=math.inf)
            await self._ask(b"speed %s %s" % (speed, number), number.__eq__)

    async def _ask(self, message: bytes, answers: Callable[[bytes], bool]) -> None:
        """Send a message and wait for its answer; those to messages that were cancelled come before."""
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
        self._end()

    def _send(self, message: bytes) -> None:
        if self._socket is None:
            return
        try:
            self._socket.send(message)
        except BlockingIOError:
            self._sent = None  # not read at the moment; the next message says more
        except OSError:
            self._end()

    def _end(self) -> None:
        """The simulation has gone."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


@functools.cache
def time_gate() -> TimeGate:
    """The gate of this process, opened at the first call."""
    return TimeGate(os.environ.get(VARIABLE, ""))


def _socket_of(number: str) -> socket.socket | None:
    """The socket of a file descriptor, as text; None where there is none, as in a mission's own children."""
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
    """A MAVSDK plug-in whose coroutines run in real time at most: each is a request to the vehicle.

    Args:
        plugin: of ``mavsdk.asyncio``.
        gate: of this process.
        names: of the coroutines; None for all.
    """
    return cast("Plugin", _InRealTime(plugin, gate, names)) if gate.open else plugin


class _InRealTime:
    def __init__(self, plugin: Any, gate: TimeGate, names: Collection[str] | None) -> None:
        self._plugin, self._gate, self._names = plugin, gate, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._plugin, name)
        if not inspect.iscoroutinefunction(found) or (self._names is not None and name not in self._names):
            return found

        async def request(*arguments: Any, **named: Any) -> Any:
            async with self._gate.request():
                return await found(*arguments, **named)

        return request


class GateLimits(Protocol):
    """What a mission asks of simulated time, in force at once; ``hil.server.TimeLimit``."""

    def run_until(self, time_us: int | None) -> None:
        """Let time run to ``time_us``, or without limit."""

    def at_most(self, speed: float) -> None:
        """Run at most ``speed`` times real time; inf for no limit."""

    def release(self) -> None:
        """No limit any more."""


class MissionGate:
    """The simulation's end: one mission's.  All limits end with the mission, whatever way it ends.

    A mission that has not used the gate is held to UNANNOUNCED_SPEED while a vehicle of its is disarmed.

    Args:
        limits: in force from now on.

    Attributes:
        mission_end: file descriptor that the mission inherits.
        ready: set once the mission has loaded and compiled what it needs.
        ended: set once the mission has closed its end.
    """

    def __init__(self, limits: GateLimits) -> None:
        self._limits = limits
        self._here, self._there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.mission_end = self._there.fileno()
        self.ready = threading.Event()
        self._announced = False
        self.ended = threading.Event()
        self._may_fly = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._listen, name="time gate", daemon=True)
        limits.at_most(UNANNOUNCED_SPEED)

    def start(self) -> None:
        """Close the mission's end here, and listen until the mission has closed its own."""
        self._there.close()
        self._thread.start()

    def go(self) -> None:
        """Let the mission fly as soon as it is ready."""
        with self._lock:
            self._may_fly = True
            if self.ready.is_set():
                self._answer(b"go")

    def _answer(self, message: bytes) -> None:
        with contextlib.suppress(OSError):  # the mission has ended, which the listener sees
            self._here.send(message)

    def close(self) -> None:
        """No limits any more, whoever may still have the mission's end; safe to call twice."""
        with contextlib.suppress(OSError):
            self._here.shutdown(socket.SHUT_RDWR)

    def look(self, *, armed: bool) -> None:
        """Adapt the speed to whether all vehicles of the mission are armed."""
        with self._lock:
            if not self._announced and not self.ended.is_set():
                self._limits.at_most(math.inf if armed else UNANNOUNCED_SPEED)

    def _listen(self) -> None:
        with self._here:
            # A mission that is killed with unread answers resets the connection.
            with contextlib.suppress(ConnectionError):
                while message := self._here.recv(256):
                    with contextlib.suppress(ValueError):  # nothing that could be followed
                        self._take(message.decode("ascii").split())
            with self._lock:
                self.ended.set()
                self._limits.release()

    def _take(self, words: list[str]) -> None:
        match words:
            case ["hello"]:
                with self._lock:
                    self._announced = True
                    self._limits.at_most(math.inf)
            case ["ready"]:
                with self._lock:
                    self.ready.set()
                    if self._may_fly:
                        self._answer(b"go")
            case ["until"]:
                self._limits.run_until(None)
            case ["until", until]:
                self._limits.run_until(int(until))
            case ["speed", factor, number] if float(factor) > 0.0:
                self._limits.at_most(float(factor))
                self._answer(b"%d" % int(number))
