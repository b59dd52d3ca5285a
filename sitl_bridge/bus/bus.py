"""The bus in the simulation's program: it starts the MQTT client process and serves it from a thread.

Messages are in messages.py, the queue of commands in command_queue.py, their execution in execution.py; the
client process is client.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from sitl_bridge.bus.address import BusAddress
from sitl_bridge.bus.broker import free_port, require_free
from sitl_bridge.bus.client_link import (
    FROM_CLIENT,
    Connected,
    EventNotice,
    Orders,
    PipeEnd,
    Results,
    Sent,
    SentResult,
    Settings,
    SnapshotRequest,
    Stop,
    UserNotice,
)
from sitl_bridge.bus.command_queue import Counts
from sitl_bridge.bus.execution import CommandWitness, Execution
from sitl_bridge.bus.messages import Event
from sitl_bridge.bus.run_source import RunSource
from sitl_bridge.bus.simulation_commands import OnFormation
from sitl_bridge.bus.snapshot import take_snapshot
from sitl_bridge.bus.topics import Topics
from sitl_bridge.error_log import ErrorLog
from sitl_bridge.errors import UserError
from sitl_bridge.system.child_process import ChildProcess

POLL_INTERVAL = 0.01
"""Interval between checks of orders in progress, s of wall time."""
IDLE_INTERVAL = 0.5
"""Interval between checks otherwise, s of wall time."""
FAREWELL_TIMEOUT = 6.0
"""Time for the client's farewell, s of wall time; it has low priority on a busy machine."""


class Bus:
    """Publishes a running simulation and executes commands for it, until it is closed.

    It reads the simulation while it runs and passes commands to it between two steps.  A slow or missing
    broker does not affect the simulation.

    Args:
        source: the running simulation.
        address: of the broker.
        run: name of the run in topics, unless the address gives one; invalid characters become '_'.
        directory: for the logs of the client and the embedded broker.
        on_formation: executes formation commands, on the bus's thread; None refuses them.
        notify: prints messages for the user, from the bus's thread.
        witness: takes each command that was carried out or refused.
        errors: collects errors of the bus that do not end the simulation.  By default they are only passed to
            ``notify``.

    Raises:
        UserError: for a name that is invalid in a topic, or if the embedded broker's port is in use.
    """

    def __init__(
        self,
        source: RunSource,
        address: BusAddress,
        *,
        run: str,
        directory: Path,
        on_formation: OnFormation | None = None,
        notify: Callable[[str], None] = lambda _line: None,
        witness: CommandWitness = lambda _time, _name, _vehicle, _data, _refused: None,
        errors: ErrorLog | None = None,
    ) -> None:
        self._errors = ErrorLog(notify) if errors is None else errors
        self._source = source
        self.address = address
        self.port = address.port
        self._directory = directory
        self._notify = notify
        name = address.run or re.sub(r"[^A-Za-z0-9_.-]", "_", run)[:64]
        self.topics = Topics(name, source.simulation.names)
        self.counts = Counts()
        self._execution = Execution(source, on_formation, witness=witness)
        self._client: ChildProcess | None = None
        self._link: PipeEnd | None = None
        self._thread: threading.Thread | None = None
        self._closing = False
        self.connected = threading.Event()
        self.failure: BaseException | None = None
        if address.embedded:
            if not self.port:
                self.port = free_port()
            require_free(self.port)

    @property
    def url(self) -> str:
        """URL of the broker for clients, without a password."""
        return str(BusAddress(**{**self.address.__dict__, "port": self.port, "user": None}))

    # --- from any thread

    def start(self) -> None:
        """Start the bus; return before the broker is connected."""
        self._directory.mkdir(parents=True, exist_ok=True)
        here, there = socket.socketpair()
        with there:
            self._link = PipeEnd(here, FROM_CLIENT)
            self._client = ChildProcess(
                "the bus",
                [sys.executable, "-m", "sitl_bridge.bus.client", str(there.fileno())],
                self._directory.resolve(),
                os.environ,
                inherited=[there.fileno()],
            )
        self._notify(f"bus at {self.url}, topics {self.topics.root}/#")
        if self.address.warning:
            self._notify(self.address.warning)
        run = self.topics.root.removeprefix("sitl/")
        vehicles, directory = self.topics.vehicles, self._directory.resolve()
        self._send(Settings(self.address, self.port, self.url, run, vehicles, directory))
        self._thread = threading.Thread(target=self._work, name="bus", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Publish the end of the run and stop; safe to call twice, ends within seconds whatever the broker
        does."""
        thread, self._thread = self._thread, None
        client, link = self._client, self._link
        if thread is None or client is None or link is None:
            return
        self._closing = True
        self._send(Stop())
        thread.join(FAREWELL_TIMEOUT)
        client.stop()
        thread.join()
        link.close()

    def publish_text(self, vehicle: str, text: str) -> None:
        """Publish a text about a vehicle as an event."""
        event = Event(time=self._source.status().time, kind="text", text=text)
        self._send(EventNotice(self.topics.event(vehicle), event))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _send(self, what: Sent) -> None:
        with contextlib.suppress(OSError):  # the thread reports the end of the client
            if self._link is not None:
                self._link.send(what)

    # --- the bus's thread

    def _work(self) -> None:
        assert self._link is not None
        try:
            while True:
                if self._link.poll(POLL_INTERVAL if self._execution.busy else IDLE_INTERVAL):
                    with self._passing():
                        self._process(self._link.receive())
                with self._passing():
                    results = self._execution.poll()
                    if results:
                        self._send(Results([SentResult.of(result) for result in results]))
        except (EOFError, ConnectionError) as error:
            if not self._closing and self._client is not None:
                # Not restarted: only this client knew which commands have been executed.
                self._client.stop()
                self._fail(UserError(f"it sent {error}" if str(error) else self._client.ended()))
        except BaseException as error:  # noqa: BLE001  (reported and kept; the simulation goes on)
            self._fail(error)
        finally:
            self.connected.clear()

    @contextlib.contextmanager
    def _passing(self) -> Iterator[None]:
        """Report an error of one message without ending the connection."""
        try:
            yield
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001  (reported and counted)
            self._errors.add("a message of the bus", error)

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self._errors.add("the bus, without which the simulation goes on,", error)

    def _process(self, message: Sent) -> None:
        match message:
            case SnapshotRequest(counts):
                self.counts = counts
                self._send(take_snapshot(self._source))
            case Orders(orders):
                self._execution.take([sent.order() for sent in orders])
            case Connected(connected):
                (self.connected.set if connected else self.connected.clear)()
            case UserNotice(line):
                self._notify(line)
