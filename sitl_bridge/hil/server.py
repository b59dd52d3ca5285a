"""The lockstep server: listening sockets, the thread that runs the loop, pace, pause and events.

What happens in a step is in loop.py; what PX4 does with it, and why the order is what it is, in frames.py.
"""

from __future__ import annotations

import errno
import fcntl
import heapq
import itertools
import math
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pymavlink.dialects.v20 import common as mavlink

from sitl_bridge.error_log import ErrorLog
from sitl_bridge.errors import UserError
from sitl_bridge.hil import loop as kernel
from sitl_bridge.hil.frames import COMPONENT_ID, LINK, MAX_STEP_BYTES, PAYLOADS, SYSTEM_ID, sensor_slots
from sitl_bridge.hil.link_errors import FaultCounts
from sitl_bridge.hil.ports import FIRST_PORT
from sitl_bridge.hil.system_calls import POLL
from sitl_bridge.quantities import FASTEST_PACE, SLOWEST_PACE
from sitl_bridge.record.records import ROW
from sitl_bridge.sensors.custom import CustomSensorHost
from sitl_bridge.simulation import Simulation
from sitl_bridge.system.port_holder import holder_of

LOG_BLOCK = 1024
"""Rows, of which the loop hands over about half at a time: 0.1 s at 20 times real time."""
RECEIVE_BUFFER = 8192
SEND_BUFFER = 2 * MAX_STEP_BYTES
"""A step's frames and as much again for the messages of users' own sensors."""
FROZEN_AFTER = 0.25
"""s of frames that lie unread before a flight stack that does not answer counts as frozen: far more than a
busy machine delays a reader, little enough that it catches up at once."""
FAULT_INTERVAL = 0.2
"""s of wall time between looks at the links' fault counters."""
PATIENCE_WITH_MISSION = 5.0
"""s of wall time without a new limit from a mission after which time goes on, at real time: far more than a
busy machine takes from a program that works, well below the 20 s after which missions give a vehicle up."""
LOST_REPORTS = 0.1
"""s of wall time without a new limit from a mission whose limit is in the past: it has not received the last
reports, and what is not on its way by now is lost."""
NEXT_REPORTS = 100_000
"""us that time goes on then, for the vehicles to report again."""
OnStall = Literal["continue", "wait", "leave", "abort"]


class Recorder(Protocol):
    """Takes log rows as they come."""

    def write(self, rows: NDArray[np.void]) -> None:
        """Append rows ((k,) ROW); called on the loop's thread while the flight stack computes."""


@dataclass(frozen=True)
class LinkStatus:
    """One vehicle's link."""

    port: int
    connected: bool
    answers: int
    armed: bool
    stalled: bool
    lockstep: bool = False
    """Every frame is answered before the next goes out."""
    held: bool = False
    """The flight stack does not read its link: time waits for it."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """What it sent wrong so far, by the kinds of ``hil.faults.FAULTS``."""

    @property
    def bad_frames(self) -> int:
        """Frames with a wrong checksum, of other messages or of MAVLink 1."""
        return sum(self.faults.get(kind, 0) for kind in ("bad_checksums", "unknown", "mavlink1"))


@dataclass(frozen=True)
class Status:
    """A snapshot of the server."""

    time: float
    """s of simulated time since the start."""
    steps: int
    real_time_factor: float
    """Over the last second or so of wall time."""
    paused: bool
    links: tuple[LinkStatus, ...]
    position: NDArray[np.float64]
    """(n, 3) m NED."""
    velocity: NDArray[np.float64]
    """(n, 3) m/s NED."""
    battery: NDArray[np.float64]
    """(n, 3) voltage V, current A, share of charge left."""


@dataclass(order=True)
class _Event:
    time: int
    order: int
    action: Callable[[], None] = field(compare=False)


def unread_by_peer(connection: socket.socket) -> int | None:
    """Bytes that the peer's socket on this machine has received and not read; None where it cannot be seen.

    Tells a flight stack that is frozen from one that reads and has nothing to say (Linux, /proc/net/tcp).
    """
    try:
        here, there = connection.getsockname()[1], connection.getpeername()[1]
        lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        columns = line.split()
        if columns[1].endswith(f":{there:04X}") and columns[2].endswith(f":{here:04X}"):
            return int(columns[4].split(":")[1], 16)
    return None


class TimeLimit:
    """What one mission asks of simulated time: how far it may run, and how fast; see ``limit_time``.

    Several missions have one each; the least of them counts.  Safe from any thread.
    """

    def __init__(self, server: LockstepServer) -> None:
        self._server = server
        self.until: int | None = None
        self.held_since = math.inf
        """s of the monotonic clock when time came to ``until``; inf before."""
        self.behind = False
        """It was in the past when it was given."""
        self.given = 0.0
        """s of the monotonic clock."""
        self.fastest = math.inf
        self.overdue = False
        """Its ``until`` was reached and not moved for PATIENCE_WITH_MISSION: time goes on at real time."""

    @property
    def speed(self) -> float:
        """Greatest speed factor that it allows now."""
        return min(self.fastest, 1.0) if self.overdue else self.fastest

    def run_until(self, time_us: int | None) -> None:
        """Let time run to ``time_us`` and wait there for a later limit, so that a mission can keep up.

        Without one for PATIENCE_WITH_MISSION of wall time, time goes on at real time until one comes.

        Args:
            time_us: us of simulated time, on the flight stacks' clock; None for no limit.
        """
        self._server._set_limit(self, time_us)

    def at_most(self, speed: float) -> None:
        """Run at most ``speed`` times real time from the next step on; ``math.inf`` for no limit."""
        self.fastest = speed
        self._server._set_pace()

    def release(self) -> None:
        """No limit any more; safe to call twice."""
        self._server._drop_limit(self)


class LockstepServer:
    """Serves the vehicles of a simulation to flight stacks on the simulator link, in lockstep.

    Time begins when every vehicle's flight stack has connected, or on ``begin``.  One that goes away is not
    waited for: its motors are stopped, as dead ESC signals would, and a new one may connect, for which time
    goes on where it is.  PX4 itself never reconnects; while nobody is connected, time stands still.

    When answers stop, ``patience`` passes and then it depends.  A flight stack that reads its link (its rate
    loop has stopped, say for want of a gyroscope) gets frames at real time, so that its time-outs run and it
    can recover; its last commands stay.  One that does not even read (stopped by a signal or a debugger)
    has no time that could run: simulated time waits for it, however long.  One that the others ``leave``
    behind keeps its last commands, and its frames are kept for it as long as its socket has room (some
    megabytes, a minute and more); when it answers again, time waits while it works through them.

    Args:
        simulation: its vehicles; vehicle i is served on ``ports[i]``.
        ports: TCP ports, 4560 + i by default.
        host: address to listen on.
        speed: simulated over wall time; ``math.inf`` runs as fast as the flight stack answers.
        patience: s of wall time to wait for an answer before a flight stack counts as stalled.
        on_stall: ``continue`` goes on at real time with the last commands where the flight stack still
            reads, and waits where it is frozen; ``wait`` always waits; ``leave`` lets the others fly on as
            fast as they do without waiting for it, while there are any; ``abort`` stops the run.
        recorder: takes the truth log.
        custom: the users' own sensors, sampled between steps.
        notify: takes messages for the user.
        errors: takes errors of the recorder, of custom sensors and of actions; the run goes on without what
            failed.  By default they are only reported through ``notify``.

    Raises:
        UserError: when a port is taken.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        ports: Sequence[int] | None = None,
        host: str = "127.0.0.1",
        speed: float = 1.0,
        patience: float = 1.0,
        on_stall: OnStall = "continue",
        recorder: Recorder | None = None,
        custom: Sequence[CustomSensorHost] = (),
        notify: Callable[[str], None] = lambda _message: None,
        errors: ErrorLog | None = None,
    ) -> None:
        n = len(simulation)
        self.simulation = simulation
        self.ports = tuple(ports) if ports is not None else tuple(FIRST_PORT + i for i in range(n))
        if len(self.ports) != n:
            raise ValueError(f"{n} vehicles need {n} ports, not {len(self.ports)}")
        self.recorder = recorder
        self.custom = tuple(custom)
        self.notify = notify
        self.errors = ErrorLog(notify) if errors is None else errors
        self.on_stall = on_stall
        self.failure: BaseException | None = None
        self._links = np.zeros(n, LINK)
        self._links["fd"] = -1
        self._loop = np.zeros(1, kernel.LOOP)
        self._loop[0]["time"] = simulation.time
        self._loop[0]["step"] = simulation.step
        self._loop[0]["substeps"] = simulation.substeps
        self._loop[0]["patience"] = round(patience * 1e9)
        self._loop[0]["silence"] = simulation.step * 1000
        self._slots = np.array([sensor_slots(row) for row in simulation.sensors])
        self._payloads = np.zeros((n, 1), PAYLOADS)
        self._raw = self._payloads.view(np.uint8).reshape(n, PAYLOADS.itemsize)
        self._outs = np.zeros((n, SEND_BUFFER), np.uint8)
        self._polls = np.zeros(n, POLL)
        self._buffers = np.zeros((n, RECEIVE_BUFFER), np.uint8)
        self._payload = np.zeros(255, np.uint8)
        self._scratch = np.zeros(1, np.float32)
        self._scratch_raw = self._scratch.view(np.uint8)
        self._clock = np.zeros(2, np.int64)
        self._log = np.zeros(max(LOG_BLOCK, 2 * n) // n * n, ROW)
        self._events: list[_Event] = []
        self._order = itertools.count()
        self._calls: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = False
        self._paused = False
        self._step_until = 0
        self._limits: list[TimeLimit] = []
        self._begun = False
        self._rate = (time.monotonic(), simulation.time, 0.0)
        self._encoder = mavlink.MAVLink(None, srcSystem=SYSTEM_ID, srcComponent=COMPONENT_ID)
        self._faults = FaultCounts(n)
        self._faults_due = 0.0
        self._told_stalled: dict[int, int] = {}  # vehicle: its answers when its stall was told
        self._connections: list[socket.socket | None] = [None] * n
        self._listeners: list[socket.socket] = []
        self._thread: threading.Thread | None = None
        self.set_speed(speed)
        try:
            for port in self.ports:
                self._listeners.append(self._listen(host, port))
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _listen(host: str, port: int) -> socket.socket:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(4)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE:
                raise UserError(
                    f"port {port} on {host} is taken by {holder_of(port)}; stop it, or choose another with"
                    " --instance"
                ) from error
            raise UserError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
        return listener

    def prepare(self) -> None:
        """Compile the loop, or load it from the cache, before a flight stack waits for it."""
        self._run(int(self._loop[0]["time"]))  # no step is due: it returns at once

    # --- control, from any thread

    def start(self) -> None:
        """Begin to serve, on a thread of its own."""
        self._thread = threading.Thread(target=self._serve, name="lockstep", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, flush the log, close every socket; safe to call twice."""
        self._stop = True
        self._interrupt()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for connection in self._connections:
            if connection is not None:
                connection.close()
        for listener in self._listeners:
            listener.close()
        for host in self.custom:
            host.close()
        self._connections = [None] * len(self.ports)
        self._listeners = []

    def __enter__(self) -> LockstepServer:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def begin(self) -> None:
        """Let time begin without the flight stacks that have not connected; they join when they do.

        A vehicle without one stands with its motors stopped.
        """

        def begin() -> None:
            self._begun = True

        self.call(begin)

    @property
    def running(self) -> bool:
        """False once the loop has ended, by ``close``, by a failure or by ``on_stall`` abort."""
        return self._thread is not None and self._thread.is_alive()

    def set_speed(self, speed: float) -> None:
        """Simulated over wall time from now on; ``math.inf`` as fast as it goes.

        Raises:
            ValueError: for a finite speed outside SLOWEST_PACE to FASTEST_PACE.
        """
        if not (SLOWEST_PACE <= speed <= FASTEST_PACE or speed == math.inf):
            raise ValueError(f"a speed factor is {SLOWEST_PACE:g} to {FASTEST_PACE:g} or inf, not {speed}")
        self.speed = speed
        self._set_pace()

    def pause(self) -> None:
        """Hold simulated time after the present step."""
        with self._lock:
            self._paused = True
            self._step_until = 0
        self._interrupt()

    def resume(self) -> None:
        """Let time run on."""
        with self._lock:
            self._paused = False
        self._loop[0]["due"] = time.monotonic_ns()
        self._interrupt()

    def step(self, count: int = 1) -> None:
        """Pause, and take ``count`` steps more than were asked for so far.

        Raises:
            ValueError: for a count below 1.
        """
        if count < 1:
            raise ValueError(f"a number of steps is at least 1, not {count}")
        with self._lock:
            begin = self._step_until if self._paused else 0
            self._paused = True
            self._step_until = max(begin, int(self._loop[0]["time"])) + count * self.simulation.step
        self._interrupt()

    def limit_time(self) -> TimeLimit:
        """A limit on simulated time, for one mission; without effect until it is used."""
        limit = TimeLimit(self)
        with self._lock:
            self._limits.append(limit)
        return limit

    def _drop_limit(self, limit: TimeLimit) -> None:
        with self._lock:
            if limit in self._limits:
                self._limits.remove(limit)
        self._set_pace()
        self._wake.set()

    def _set_limit(self, limit: TimeLimit, until: int | None) -> None:
        with self._lock:
            before, limit.until, limit.held_since = limit.until, until, math.inf
            limit.behind = until is not None and until < int(self._loop[0]["time"])
            limit.given = time.monotonic()
            was_overdue, limit.overdue = limit.overdue, False
        if was_overdue:
            self._set_pace()
        if until is not None and (before is None or until < before):
            self._interrupt()  # the loop may be on its way beyond it
        else:
            self._wake.set()  # a loop that runs takes a later limit up by itself

    def _set_pace(self) -> None:
        """Let the loop keep the least of the speed that was chosen and those that missions allow."""
        with self._lock:
            speed = min([self.speed, *(limit.speed for limit in self._limits)])
            pace = 0 if math.isinf(speed) else max(round(self.simulation.step * 1000 / speed), 1)
            loop = self._loop[0]
            if pace != loop["pace"]:
                loop["due"] = time.monotonic_ns()
                loop["pace"] = pace

    def call(self, action: Callable[[], None]) -> None:
        """Run ``action`` on the loop's thread between two steps, as soon as possible."""
        with self._lock:
            self._calls.append(action)
        self._interrupt()

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Run ``action`` between two steps, ``seconds`` of simulated time after the start."""
        due = self.simulation.start + round(seconds * 1e6)
        with self._lock:
            heapq.heappush(self._events, _Event(due, next(self._order), action))
        self._interrupt()

    def status(self) -> Status:
        """What is going on, without stopping it; the figures may be a few steps apart."""
        simulation, states = self.simulation, self.simulation.states
        capacity = simulation.vehicles["battery_capacity"]
        left = np.ones(len(states))
        np.divide(states["battery_charge"], capacity, out=left, where=np.isfinite(capacity))
        links = tuple(
            LinkStatus(
                port=port,
                connected=int(link["fd"]) >= 0,
                answers=int(link["answers"]),
                armed=bool(int(link["mode"]) & kernel.ARMED),
                stalled=bool(link["stalled"]),
                lockstep=bool(link["settled"]),
                held=bool(link["held"]),
                faults=self._faults.of(i, link),
            )
            for i, (port, link) in enumerate(zip(self.ports, self._links, strict=True))
        )
        return Status(
            time=(int(self._loop[0]["time"]) - simulation.start) * 1e-6,
            steps=int(self._loop[0]["steps"]),
            real_time_factor=self._rate[2],
            paused=self._paused,
            links=links,
            position=states["position"].copy(),
            velocity=states["velocity"].copy(),
            battery=np.stack([states["battery_voltage"], states["battery_current"], left], axis=1),
        )

    def time_for(self, vehicle: int) -> int | None:
        """Us of simulated time since the start; None while no flight stack is connected to the vehicle."""
        if self._links["fd"][vehicle] < 0:
            return None
        return int(self._loop[0]["time"]) - self.simulation.start

    # --- the loop's thread

    def _interrupt(self) -> None:
        self._loop[0]["request"] = 1
        self._wake.set()

    def _serve(self) -> None:
        try:
            while not self._stop:
                self._turn()
        except BaseException as error:  # noqa: BLE001  (kept for the owner, who raises it where it is seen)
            self.failure = error
        finally:
            self._faults_due = 0.0
            self._report_faults()
            self._flush()

    def _turn(self) -> None:
        """One round: look after everything rare, then let the compiled loop run."""
        self._loop[0]["request"] = 0
        self._accept()
        self._run_due()
        target = self._target()
        if target is None:
            self._look_for_lost()
            self._wake.wait(0.02)
            self._wake.clear()
            return
        reason = self._run(target)
        self.simulation.time = int(self._loop[0]["time"])
        self._measure()
        self._report_faults()
        if reason == kernel.LOST:
            self._drop_lost()
        elif reason == kernel.STALLED:
            self._stall()
        elif reason == kernel.DIVERGED:
            raise self.simulation.divergence(int(self._loop[0]["diverged"]), self.simulation.time)
        self._look_at_readers()
        if reason == kernel.LOG_FULL:
            self._flush()

    def _target(self) -> int | None:
        """Simulated time (us) up to which the loop may run now; None while there is nothing to do."""
        loop = self._loop[0]
        connected = self._links["fd"] >= 0
        self._begun = self._begun or bool(connected.all())
        if not (self._begun and connected.any()):
            return None
        now = int(loop["time"])
        due = [host.due for host in self.custom]
        with self._lock:
            due += [event.time for event in self._events[:1]]
            until = self._step_until if self._paused else self._limit_now(now)
            overdue = any(limit.overdue for limit in self._limits)
        if overdue:
            self._set_pace()
        # What is due now, and could not be done because an answer is under way, is done before the next
        # step whenever that answer comes: simulated time decides, not the wall clock.
        target = max(min(due, default=1 << 62), now)
        if until is None:
            return target
        if until > now:
            return min(target, until)
        return now if loop["waiting"] else None

    def _limit_now(self, now: int) -> int | None:
        """How far missions let time run; None without such a limit.  ``_lock`` is held."""
        wall = time.monotonic()
        for limit in self._limits:
            if limit.until is None or now < limit.until:
                continue
            if limit.behind and wall - limit.given > LOST_REPORTS:
                limit.until, limit.given = now + NEXT_REPORTS, wall
                continue
            limit.held_since = min(limit.held_since, wall)
            limit.overdue = wall - limit.held_since > PATIENCE_WITH_MISSION
        return min((x.until for x in self._limits if x.until is not None and not x.overdue), default=None)

    def _run(self, target: int) -> int:
        s = self.simulation
        return kernel.run(
            self._loop,
            s.vehicles,
            s.states,
            s.controls,
            s.armed,
            s.world.environment,
            s.world.wind,
            s.wind_states,
            s.world.wind_series,
            s.sensors,
            s.sensor_states,
            *s.neighbourhood,
            self._links,
            self._slots,
            self._payloads,
            self._raw,
            self._outs,
            self._polls,
            self._buffers,
            self._payload,
            self._scratch,
            self._scratch_raw,
            self._clock,
            self._log,
            target,
        )

    def _run_due(self) -> None:
        """Run what was asked for between steps: calls at once, events when their time has come."""
        now = int(self._loop[0]["time"])
        with self._lock:
            actions, self._calls = self._calls, []
            while self._events and self._events[0].time <= now:
                actions.append(heapq.heappop(self._events).action)
        for action in actions:
            with self.errors.guard("an action between two steps"):
                action()
        if not self._loop[0]["waiting"]:
            self._sample_custom(now)

    def _sample_custom(self, now: int) -> None:
        """Sample the users' own sensors that are due and send what they have to say."""
        for host in self.custom:
            if host.due > now:
                continue
            name = self.simulation.names[host.vehicle]
            with self.errors.guard(f"sampling of {host.specification.name} of vehicle {name}"):
                messages = host.run(self.simulation.states[host.vehicle], now)
                if self._connections[host.vehicle] is None:
                    continue
                for message in messages:
                    self._queue(host.vehicle, message)

    def _queue(self, vehicle: int, message: mavlink.MAVLink_message) -> None:
        """Put a message before the frames of the next step; without room it is lost, as on a full port."""
        link = self._links[vehicle]
        self._encoder.seq = int(link["sequence"]) & 0xFF
        packed = message.pack(self._encoder)
        end = int(link["out_end"]) + len(packed)
        if end <= SEND_BUFFER - MAX_STEP_BYTES:
            self._outs[vehicle, end - len(packed) : end] = np.frombuffer(packed, np.uint8)
            link["out_end"] = end
            link["sequence"] += 1

    def _accept(self) -> None:
        for i, listener in enumerate(self._listeners):
            try:
                connection, address = listener.accept()
            except BlockingIOError:
                continue
            if self._connections[i] is not None:
                self._look_for_lost()
            if self._connections[i] is not None:
                connection.close()
                self.notify(f"port {self.ports[i]}: refused a second client from {address[0]}:{address[1]}")
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Reads wait only where the loop asks for it, and then no longer than this.
            connection.setblocking(True)
            limit = struct.pack("@ll", 0, kernel.CALL_TIME // 1000)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._connections[i] = connection
            self._links[i] = np.zeros((), LINK)
            self._links[i]["fd"] = connection.fileno()
            self._links[i]["wait_start"] = time.monotonic_ns()
            self._links[i]["answered"] = 2
            self._loop[0]["due"] = time.monotonic_ns()
            missing = [str(self.ports[k]) for k, fd in enumerate(self._links["fd"]) if fd < 0]
            wait = "" if self._begun or not missing else f"; waiting for {', '.join(missing)}"
            self.notify(f"port {self.ports[i]}: a flight stack connected{wait}")

    def _look_for_lost(self) -> None:
        """Notice connections that ended while the loop does not run."""
        for link, connection in zip(self._links, self._connections, strict=True):
            if connection is None:
                continue
            try:
                ended = connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                continue
            except OSError:
                ended = True
            link["lost"] = int(ended)
        self._drop_lost()

    def _drop_lost(self) -> None:
        for i, link in enumerate(self._links):
            connection = self._connections[i]
            if link["lost"] and connection is not None:
                self._report_faults_of(i)
                self._faults.end_connection(i, link)
                connection.close()
                self._connections[i] = None
                self._told_stalled.pop(i, None)
                self._links[i] = np.zeros((), LINK)
                link["fd"], link["answered"] = -1, 1
                self.notify(
                    f"port {self.ports[i]}: the flight stack closed the connection; PX4 never reopens it, so"
                    " that process is gone.  A new one may connect"
                )

    def _stall(self) -> None:
        """A flight stack is overdue: wait on, go on without it, or give up."""
        now = time.monotonic_ns()
        patience = int(self._loop[0]["patience"])
        for i, link in enumerate(self._links):
            if link["fd"] < 0 or link["answered"] or now - link["wait_start"] < patience:
                continue
            link["wait_start"] = now
            seconds = patience * 1e-9
            if self.on_stall == "abort":
                self._stop = True
                self.failure = UserError(
                    f"port {self.ports[i]}: no answer for {seconds:g} s (--on-stall abort)"
                )
                return
            if self.on_stall == "leave" and self._others_fly(i):
                link["settled"], link["stalled"], link["held"], link["left"] = 0, 1, 0, 1
                link["streak"], link["answered"] = 0, 2
                self._tell_stalled(i, f"does not answer for {seconds:g} s; the others fly on without it")
                continue
            frozen = self._unread(i) > 0 or link["out_end"] > 0
            if frozen or self.on_stall == "wait":
                link["held"] = int(frozen)
                what = "does not read its link" if frozen else "does not answer"
                self._tell_stalled(i, f"{what} for {seconds:g} s; time stands still until it does")
            else:
                link["settled"], link["stalled"], link["held"] = 0, 1, 0
                self._tell_stalled(
                    i,
                    f"does not answer for {seconds:g} s; going on at real time with its last commands until"
                    " answers come back",
                )

    def _others_fly(self, vehicle: int) -> bool:
        """Whether another vehicle's flight stack is in lockstep, so that there is somebody to keep time."""
        others = (self._links["fd"] >= 0) & (self._links["settled"] == 1)
        others[vehicle] = False
        return bool(others.any())

    def _tell_stalled(self, vehicle: int, what: str) -> None:
        """Say so once a stall, however often its condition changes."""
        if vehicle not in self._told_stalled:
            self._told_stalled[vehicle] = int(self._links[vehicle]["answers"])
            self.notify(f"port {self.ports[vehicle]}: the flight stack {what}")

    def _unread(self, vehicle: int) -> int:
        """Bytes sent that the flight stack has not read, as far as that can be seen from here.

        On another host only what its socket has no room for shows, so a stop is noticed later there.
        """
        connection = self._connections[vehicle]
        if connection is None:
            return 0
        queued = fcntl.ioctl(connection, termios.TIOCOUTQ, struct.pack("i", 0))
        return int(struct.unpack("i", queued)[0]) + (unread_by_peer(connection) or 0)

    def _look_at_readers(self) -> None:
        """Outside lockstep, let time wait for a flight stack that stops reading, and go on when it reads."""
        for i, link in enumerate(self._links):
            if link["fd"] < 0 or link["settled"] or not link["sent_frames"]:
                continue
            if link["left"]:
                if self._others_fly(i):
                    continue
                link["left"] = 0  # nobody else keeps time any more
            unread = self._unread(i)
            if link["held"]:
                link["held"] = int(unread > 0)
                continue
            bytes_a_second = link["sent_bytes"] / link["sent_frames"] * 1e6 / self.simulation.step
            if unread > FROZEN_AFTER * bytes_a_second:
                link["held"] = 1

    def _measure(self) -> None:
        """Real-time factor over about a second, and the end of stalls."""
        wall, simulated, _ = self._rate
        now, time_us = time.monotonic(), int(self._loop[0]["time"])
        if now - wall >= 1.0:
            self._rate = (now, time_us, (time_us - simulated) * 1e-6 / (now - wall))
        for i, answers in tuple(self._told_stalled.items()):
            link = self._links[i]
            if link["settled"] and int(link["answers"]) > answers:
                del self._told_stalled[i]
                self.notify(f"port {self.ports[i]}: answers are back, in lockstep again")

    def _report_faults(self) -> None:
        """Report what flight stacks sent wrong, every FAULT_INTERVAL."""
        now = time.monotonic()
        if now < self._faults_due:
            return
        self._faults_due = now + FAULT_INTERVAL
        for i in range(len(self.ports)):
            self._report_faults_of(i)

    def _report_faults_of(self, vehicle: int) -> None:
        for sentence in self._faults.news(vehicle, self._links[vehicle]):
            self.notify(f"port {self.ports[vehicle]}: the flight stack {sentence}")

    def _flush(self) -> None:
        rows = int(self._loop[0]["rows"])
        self._loop[0]["rows"] = 0
        if rows and self.recorder is not None:
            with self.errors.guard("recording of the ground truth"):
                self.recorder.write(self._log[:rows])

    def sensor_values(self, vehicle: int, kind: int, instance: int = 0) -> NDArray[np.float64] | None:
        """(16,) last sample of a vehicle's sensor (see sensors/records.py); None where it has none."""
        sensors: Any = self.simulation.sensors[vehicle]
        for i, sensor in enumerate(sensors):
            if sensor["kind"] == kind and sensor["instance"] == instance:
                values: NDArray[np.float64] = self.simulation.sensor_states[vehicle, i]["values"].copy()
                return values
        return None
