"""The lockstep server: the thread that runs the compiled loop, its pace and its control from other threads.

What happens within a step is in loop.py; the flight stacks' connections are in links.py.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.array_at import handles_of
from sitl_bridge.base.kernels.compiled import prepare_all, require_compiled
from sitl_bridge.base.system.launch import process_in_real_time, schedule_as_batch
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil import loop as kernel
from sitl_bridge.link.hil.link_sockets import LinkSockets
from sitl_bridge.link.hil.link_state import OnStall
from sitl_bridge.link.hil.link_status import LinkStatus
from sitl_bridge.link.hil.links import Links
from sitl_bridge.link.hil.ports import FIRST_PORT
from sitl_bridge.link.hil.run_clock import RunClock, TimedActions
from sitl_bridge.link.hil.time_limits import TimeLimit, TimeLimits
from sitl_bridge.record.truth_log import StepRecorder

IDLE_WAIT = 0.02
"""s of wall time between checks of the sockets while simulated time stands still."""


class LockstepServer(RunClock):
    """Serves the vehicles of a simulation to flight stacks on the simulator link, in lockstep.

    ``link/hil/__init__.py`` gives the lockstep as pseudocode, with the handling of every fault.

    Args:
        simulation: its vehicles; vehicle i is served on ``ports[i]``.
        ports: TCP ports, 4560 + i by default.
        speed: simulated over wall time; ``math.inf`` for as fast as the flight stacks answer.
        timeout: s of wall time to wait for an answer before it counts as overdue.
        on_stall: what to do then.  ``continue``: go on at real time with the flight stack's last commands if
            it still reads its link, wait if it is frozen.  ``wait``: always wait.  ``leave``: continue with
            the other vehicles at their own speed, while any is in lockstep.  ``abort``: end the run.
        recorder: records truth, commands, frames and wall time of every step.
        hosts: of sensors that are sampled between steps: custom sensors and perception sensors.
        note_stall: receives the vehicle, and True when its flight stack stops answering, False when it is in
            lockstep again or gone; on the lockstep thread.
        real_time: whether a flight stack runs by a clock of its own, so that time may neither wait nor run at
            another speed; the lockstep thread then runs before other programs, where that is allowed.
        prompt: vehicles whose flight stacks answer every frame from the first on, as the built-in one does;
            time waits for them from the start, so that a flight does not depend on how soon they answer.
        errors: receives errors of the recorder, of custom sensors and of actions; the run continues without
            them.  By default they are only reported through ``notify``.

    Attributes:
        on_restart: called after a vehicle was put back to its start for a new flight stack.
        loop: LOOP, the state of the compiled loop; the lockstep thread's while it runs.
        arrays: the memory of the links, likewise.
        limits: of simulated time, by those who ask time to wait for them.

    Raises:
        UserError: if a port is taken.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        ports: Sequence[int] | None = None,
        host: str = "127.0.0.1",
        speed: float = 1.0,
        timeout: float = 1.0,
        on_stall: OnStall = "continue",
        recorder: StepRecorder | None = None,
        hosts: Sequence[SensorHost] = (),
        notify: Callable[[str], None] = lambda _message: None,
        note_stall: Callable[[int, bool], None] = lambda _vehicle, _begins: None,
        errors: ErrorLog | None = None,
        prompt: Collection[int] = (),
        real_time: bool = False,
    ) -> None:
        require_compiled()
        super().__init__(simulation)
        n = len(simulation)
        self.ports = tuple(ports) if ports is not None else tuple(FIRST_PORT + i for i in range(n))
        if len(self.ports) != n:
            raise ValueError(f"{n} vehicles need {n} ports, not {len(self.ports)}")
        self.recorder = recorder
        self.on_restart: Callable[[int], None] = lambda _vehicle: None
        self.hosts = tuple(hosts)
        self.errors = ErrorLog(notify) if errors is None else errors
        self.failure: BaseException | None = None
        self._loop_array = np.zeros(1, kernel.LOOP)
        self.loop: Any = self._loop_array[0]
        self.loop["time"], self.loop["step"] = simulation.time, simulation.step
        self.loop["substeps"] = simulation.substeps
        self.loop["timeout"] = round(timeout * 1e9)
        self.loop["unanswered_wait"] = simulation.step * 1000
        self.arrays = kernel.LinkArrays.of(simulation)
        self._link_handles = handles_of(self.arrays)
        self._say = notify
        self._real_time = real_time
        self._thread: threading.Thread | None = None
        self._stop = self._begun = False
        self._after_answers = TimedActions()
        self.limits = TimeLimits(
            lambda: self.now,
            self._set_pace,
            self._time_limit_changed,
            self._say,
            bind=not self._real_time,
        )
        self.set_speed(speed)
        self.links = Links(
            self.arrays,
            self._open_sockets(host),
            self.ports,
            on_stall=on_stall,
            timeout=int(self.loop["timeout"]),
            step=simulation.step,
            notify=notify,
            restart=self._restart,
            note_stall=note_stall,
            prompt=prompt,
        )

    def _restart(self, vehicle: int) -> None:
        """Put a vehicle back to its start, for a flight stack that follows one which has gone."""
        self.simulation.restart_vehicle(vehicle)
        self.on_restart(vehicle)

    def _open_sockets(self, host: str) -> LinkSockets:
        try:
            return LinkSockets(host, self.ports, kernel.CALL_TIME // 1000)
        except BaseException:
            for sensor in self.hosts:
                sensor.close()
            raise

    def prepare(self) -> None:
        """Compile the loop, or load it from the cache, before a flight stack waits for it."""
        self.run_to(self.now)  # no step is due: it returns at once
        if self._real_time:
            prepare_all()

    # --- control, from any thread

    def start(self) -> None:
        """Start serving, on a separate thread."""
        self._thread = threading.Thread(target=self._serve, name="lockstep", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, flush the log, close every socket; safe to call twice."""
        self._stop = True
        self._interrupt()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.links.sockets.close()
        for host in self.hosts:
            host.close()

    def __enter__(self) -> LockstepServer:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def begin(self) -> None:
        """Let time begin without the flight stacks that have not connected; they join when they do.

        A vehicle without a flight stack stands with its motors stopped.
        """

        def begin() -> None:
            self._begun = True

        self.call(begin)

    @property
    def running(self) -> bool:
        """False once the loop has ended: by ``close``, by a failure or by ``on_stall`` abort."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def thread_id(self) -> int | None:
        """The kernel's id of the lockstep thread; None before ``start``."""
        return None if self._thread is None else self._thread.native_id

    @property
    def now(self) -> int:
        """us of simulated time."""
        return int(self.loop["time"])

    def _require_control(self, what: str) -> None:
        if self._real_time:
            raise UserError(f"{what}: the flight stack runs by its own clock, at real time")

    def _restart_pace(self) -> None:
        self.loop["due"] = time.monotonic_ns()
        self._set_pace()

    def limit_time(self) -> TimeLimit:
        """A limit on simulated time, for one mission; without effect until it is set."""
        return self.limits.add()

    @property
    def stands(self) -> bool:
        """Whether time stands because it is told to, or for programs that are no part of the run."""
        end = self._pause_end()
        return (end is not None and self.now >= end) or self.limits.await_others(self.now)

    def _time_limit_changed(self, sooner: bool) -> None:
        if sooner:
            self._interrupt()  # the loop may be running beyond it
        else:
            self._wake.set()  # a running loop reads a later limit by itself

    def _set_pace(self) -> None:
        """Set the loop to the least of the chosen speed and those that missions allow."""
        with self._lock:
            speed = min(self.speed, self.limits.fastest())
            pace = 0 if math.isinf(speed) else max(round(self.simulation.step * 1000 / speed), 1)
            if pace != self.loop["pace"]:
                self.loop["due"] = time.monotonic_ns()
                self.loop["pace"] = pace

    def at(self, elapsed: int, action: Callable[[], None]) -> None:
        """Run ``action`` between two steps, ``elapsed`` us of simulated time after the start."""
        self._add(self._actions, elapsed, action)

    def at_answers(self, elapsed: int, action: Callable[[], None]) -> None:
        """As ``at``, when the flight stacks have answered the step before: what it sends them is next."""
        self._add(self._after_answers, elapsed, action)

    def _add(self, actions: TimedActions, elapsed: int, action: Callable[[], None]) -> None:
        actions.add(action, self.simulation.start + elapsed)
        self._interrupt()

    def _links(self) -> tuple[LinkStatus, ...]:
        return self.links.status()

    def time_for(self, vehicle: int) -> int | None:
        """Us of simulated time since the start; None while no flight stack is connected to the vehicle."""
        if not self.links.connected[vehicle]:
            return None
        return self.now - self.simulation.start

    def sensor_values(self, vehicle: int, kind: int) -> Floats | None:
        """(16,) last sample of the first sensor of a kind, as its specification has it; None without one."""
        (fitted,) = np.nonzero(self.simulation.sensors[vehicle]["kind"] == kind)
        if not len(fitted):
            return None
        return np.array(self.simulation.sensor_states[vehicle, fitted[0]]["values"])

    # --- the lockstep thread

    def _interrupt(self) -> None:
        """Make the loop return after the present step, or earlier if it waits."""
        self.loop["request"] = 1
        self._wake.set()

    def _serve(self) -> None:
        if not self._real_time:
            schedule_as_batch()
        try:
            with process_in_real_time() if self._real_time else contextlib.nullcontext():
                while not self._stop:
                    self.serve_once()
        except BaseException as error:  # noqa: BLE001  (stored for the owner, which raises it)
            self.failure = error
        finally:
            self.links.report_faults(now=True)
            self.flush_log()

    def serve_once(self) -> None:
        """Do everything rare, then let the compiled loop run."""
        self.loop["request"] = 0
        if self.links.accept(self._begun):
            self.loop["due"] = time.monotonic_ns()
        self.run_due_actions()
        last = self._last_time_now()
        if last is None:
            self.links.drop_ended()
            self._wake.wait(IDLE_WAIT)
            self._wake.clear()
            return
        reason = self.run_to(last)
        self.simulation.time = self.now
        self._measure_rate()
        self.links.report_recovered()
        self.links.report_faults()
        if reason == kernel.CLOSED:
            self.links.drop_closed()
        elif reason == kernel.OVERDUE:
            self.links.decide_overdue()
        elif reason == kernel.DIVERGED:
            raise self.simulation.divergence(int(self.loop["diverged"]), self.simulation.time)
        self.links.check_readers()
        if reason == kernel.LOG_FULL:
            self.flush_log()

    def _last_time_now(self) -> int | None:
        """Simulated time (us) up to which the loop may run now; None if there is nothing to do."""
        connected = self.links.connected
        self._begun = self._begun or bool(connected.all())
        if not (self._begun and connected.any()):
            return None
        now = self.now
        until = self._pause_end()
        limit = self.limits.until(now) if until is None else until
        events = (self._actions.next_time(), self._after_answers.next_time())
        due = [host.due for host in self.hosts] + [event for event in events if event is not None]
        # Actions that are due now but must wait for an answer are executed before the next step, whenever
        # that answer arrives: simulated time decides, not the wall clock.
        last = max(min(due, default=1 << 62), now)
        if self.loop["waiting"] and self.links.overdue:
            return now  # so that the end of a stall during which time stood still is noted there
        if limit is None:
            return last
        if limit > now:
            return min(last, limit)
        return now if self.loop["waiting"] else None

    def run_to(self, last: int) -> int:
        """Run the compiled loop up to a time in us, on this thread; returns why it ended."""
        return kernel.run(self._loop_array, self.simulation.handles, self._link_handles, last)

    def run_due_actions(self) -> None:
        """Run the actions that are due, and the sensors that run between steps."""
        now = self.now
        self._run(self._actions.take_due(now))
        if not self.loop["waiting"]:
            self._run_sensors(now)
            self._run(self._after_answers.take_due(now))

    def _run(self, actions: Sequence[Callable[[], None]]) -> None:
        for action in actions:
            with self.errors.guard("an action between two steps"):
                action()

    def _run_sensors(self, now: int) -> None:
        for host in self.hosts:
            if host.due > now:
                continue
            name = self.simulation.names[host.vehicle]
            with self.errors.guard(f"sampling of {host.name} of vehicle {name}"):
                for message in host.run(self.simulation.states[host.vehicle], now):
                    self.links.put(host.vehicle, message, host.label)

    def flush_log(self) -> None:
        """Hand the rows so far to the recorder; on the lockstep thread alone."""
        arrays, loop = self.arrays, self.loop
        rows, steps, size = int(loop["rows"]), int(loop["step_rows"]), int(loop["recorded_bytes"])
        loop["rows"] = loop["step_rows"] = loop["recorded_bytes"] = 0
        if rows and self.recorder is not None:
            with self.errors.guard("recording of the flight"):
                self.recorder.write(arrays.log[:rows], arrays.frames[:size], arrays.steps[:steps])
