"""A process beside the simulation that shows a run and may command it, and the thread that serves it.

The process has low priority and talks over client_link.py; the simulation never waits for it.  The bus, the
live view and the streams derive from it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.link.hil.run_clock import RunClock
from sitl_bridge.link.hil.time_limits import TimeLimit
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.live.run.client_link import (
    FROM_CLIENT,
    Orders,
    PipeEnd,
    Results,
    RowsRequest,
    Sent,
    SnapshotRequest,
    StackReport,
    Stop,
    UserNotice,
)
from sitl_bridge.live.run.execution import CommandListener, Execution, OnCommand
from sitl_bridge.live.run.snapshot import take_snapshot

POLL_INTERVAL = 0.01
"""Interval between checks of orders in progress, s of wall time."""
IDLE_INTERVAL = 0.5
"""Interval between checks otherwise, s of wall time."""
FAREWELL_TIMEOUT = 6.0
"""Time for the process's farewell, s of wall time; it has low priority on a busy machine."""


@dataclass(frozen=True)
class RunContext:
    """A run that others are shown."""

    source: RunClock  # the simulation
    # of the run, whose run.json is written and whose recording has begun where it is followed
    directory: Path
    # takes each command that was carried out or refused
    listener: CommandListener = lambda _time, _name, _vehicle, _data, _refused: None
    # collects errors that do not end the simulation; None passes them to ``notify`` alone
    errors: ErrorLog | None = None
    # prints messages for the user, from the outlet's thread
    notify: Callable[[str], None] = lambda _line: None
    instances: tuple[int, ...] = ()  # of the vehicles' flight stacks
    hosts: tuple[SensorHost, ...] = ()  # of its sensors that see
    # on_formation, on_flight: execute delegated commands, on the outlet's thread; None refuses them
    on_formation: OnCommand | None = None
    on_flight: OnCommand | None = None
    stacks: Callable[[], list[StackReport]] = list  # the flight stacks' reports, in the order of the vehicles
    # by the vehicle's number and a rate in Hz: its flight stack's ODOMETRY since the last call
    estimates: Callable[[int, float], list[MavlinkMessage]] = lambda _vehicle, _rate: []
    name: str = ""  # of the run in topics; empty for that of its directory
    # makes a limit of simulated time; None where it cannot wait
    limit_time: Callable[[], TimeLimit] | None = None


class Outlet:
    """Serves a process with snapshots and executes its commands, until it is closed.

    Args:
        name: of the process, for messages.
        module: that the process runs; its first argument is the descriptor of its end of the link.
        directory: for its log, in the run directory.
        arguments: of the process, after the descriptor.
    """

    def __init__(
        self, name: str, module: str, run: RunContext, directory: str, arguments: Sequence[str] = ()
    ) -> None:
        self._name, self._module, self._arguments = name, module, arguments
        self._run, self._source, self._notify = run, run.source, run.notify
        self.execution = Execution(
            run.source, run.on_formation, on_flight=run.on_flight, listener=run.listener
        )
        self._directory = run.directory / directory
        self.errors = ErrorLog(run.notify) if run.errors is None else run.errors
        self._client: ChildProcess | None = None
        self.link: PipeEnd | None = None
        self._thread: threading.Thread | None = None
        self._closing = False
        self._rows_requested = False
        self.failure: BaseException | None = None

    # --- from any thread

    def start(self, first: Sequence[Sent] = ()) -> None:
        """Start the process, send it the first messages, and serve it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        here, there = socket.socketpair()
        with there:
            self.link = PipeEnd(here, FROM_CLIENT)
            self._client = ChildProcess(
                self._name,
                [sys.executable, "-m", self._module, str(there.fileno()), *self._arguments],
                self._directory.resolve(),
                os.environ,
                inherited=[there.fileno()],
            )
        for message in first:
            self._send(message)
        self._thread = threading.Thread(target=self.work, name=self._name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let the process take its leave and stop it; safe to call twice, ends within seconds."""
        thread, self._thread = self._thread, None
        client, link = self._client, self.link
        if thread is None or client is None or link is None:
            return
        self._closing = True
        self._send(Stop())
        thread.join(FAREWELL_TIMEOUT)
        client.stop()
        thread.join()
        link.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _send(self, what: Sent) -> None:
        with contextlib.suppress(OSError):  # the thread reports the end of the process
            if self.link is not None:
                self.link.send(what)

    # --- the outlet's thread

    def work(self) -> None:
        """Serve the link until the process ends or the outlet closes."""
        assert self.link is not None
        try:
            while True:
                if self.link.poll(POLL_INTERVAL if self.execution.busy else IDLE_INTERVAL):
                    with self._passing():
                        self.process(self.link.receive())
                with self._passing():
                    results = self.execution.poll()
                    if results:
                        self._send(Results(results))
        except (EOFError, ConnectionError) as error:
            if not self._closing and self._client is not None:
                # Not restarted: only this process knew which commands have been executed.
                self._client.stop()
                self._fail(UserError(f"it sent {error}" if str(error) else self._client.describe_end()))
        except BaseException as error:  # noqa: BLE001  (reported and kept; the simulation goes on)
            self._fail(error)
        finally:
            self._note_end()

    @contextlib.contextmanager
    def _passing(self) -> Iterator[None]:
        """Report an error of one message without ending the connection."""
        try:
            yield
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001  (reported and counted)
            self.errors.add(f"a message of {self._name}", error)

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self.errors.lose(self._name, error)

    def _note_end(self) -> None:
        """Note that the process is served no longer."""

    def process(self, message: Sent) -> None:
        """Answer a message of the process."""
        match message:
            case SnapshotRequest():
                self._send(take_snapshot(self._source))
            case RowsRequest():
                self.request_rows()
            case Orders(orders):
                self.execution.take(orders)
            case UserNotice(line):
                self._notify(line)

    def request_rows(self) -> None:
        """Let the simulation record the steps so far; one request at a time waits for it."""
        if self._rows_requested:
            return
        self._rows_requested = True

        def record() -> None:
            self._rows_requested = False
            self._source.flush_log()

        self._source.call(record)
