"""The bus itself: a thread with an event loop of its own between a running simulation and an MQTT broker.

What is said is in messages.py, what commands do in steering.py, how they are taken in desk.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import aiomqtt

from sitl_bridge.bus import sampling
from sitl_bridge.bus.address import BusAddress
from sitl_bridge.bus.broker import free_port, require_free, start_broker
from sitl_bridge.bus.desk import Desk
from sitl_bridge.bus.messages import Event, Message, Reply, Status, VehicleHealth, WorldState
from sitl_bridge.bus.source import Source
from sitl_bridge.bus.steering import OnFormation
from sitl_bridge.bus.topics import Topics
from sitl_bridge.child_process import ChildProcess

TURN = 0.02
"""s of wall time between looks at commands, answers and events."""
SLOW = 1.0
"""s of wall time between messages that also come when nothing changes: health, world and status."""
MOST_STATES = 250.0
"""State messages a second of all vehicles together: 25 vehicles have their full rate, more have less."""
FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
"""s of wall time between attempts to reach the broker; the wait doubles with each that fails."""
KEEP_ALIVE = 10
"""s of silence after which the broker takes the bus for dead, and sends its last will; and the reverse."""
WAITING_IN = 200
"""Messages from the broker that wait to be read; what comes beyond is lost."""
WAITING_OUT = 1000
"""Answers and events that wait to be sent, while the broker is away above all; the oldest are lost."""
TIMEOUT = 5.0
"""s of wall time in which the broker must take a message."""
GOODBYE = 2.0
"""s of wall time in which the broker must take the farewell."""

_LOG = logging.getLogger("sitl_bridge.bus")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False


class Bus:
    """Publishes a running simulation and takes commands for it, until it is closed.

    It only looks at the simulation while that runs, and hands commands to it between two steps; what the
    broker does, or that there is none, the simulation never notices.

    Args:
        source: what runs the simulation.
        address: of the broker.
        run: name of the run in topics, where the address has none; what a topic cannot hold becomes '_'.
        directory: where the embedded broker keeps its log.
        on_formation: takes formation targets, on the bus's thread; None refuses them.
        notify: takes messages for the user, from the bus's thread.

    Raises:
        UserError: for a name that cannot be in a topic, or an embedded broker's port that is taken.
    """

    def __init__(
        self,
        source: Source,
        address: BusAddress,
        *,
        run: str,
        directory: Path,
        on_formation: OnFormation | None = None,
        notify: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._source = source
        self.address = address
        self.port = address.port
        self._directory = directory
        self._notify = notify
        name = address.run or re.sub(r"[^A-Za-z0-9_.-]", "_", run)[:64]
        self.topics = Topics(name, source.simulation.names)
        self.desk = Desk(source, self.topics, on_formation)
        self._outbox: deque[tuple[str, Message]] = deque(maxlen=WAITING_OUT)
        self._health: list[VehicleHealth] | None = None
        self._broker: ChildProcess | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self.connected = threading.Event()
        self.failure: BaseException | None = None
        if address.embedded:
            if not self.port:
                self.port = free_port()
            require_free(self.port)

    @property
    def url(self) -> str:
        """Where clients find the broker, without a password."""
        return str(BusAddress(**{**self.address.__dict__, "port": self.port, "user": None}))

    # --- from any thread

    def start(self) -> None:
        """Begin; returns before the broker is reached."""
        if self.address.embedded:
            self._broker = start_broker(self.port, self._directory)
        self._notify(f"bus at {self.url}, topics {self.topics.root}/#")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, args=(self._loop,), name="bus", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Say farewell, stop everything; safe to call twice."""
        thread, self._thread = self._thread, None
        if thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join()
            self._loop.close()
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    def tell(self, vehicle: str, text: str) -> None:
        """Publish words about a vehicle as an event."""
        event = Event(time=self._source.status().time, kind="text", text=text)
        self._outbox.append((self.topics.event(vehicle), event))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    # --- the bus's thread

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(self._keep_connected())
            loop.run_until_complete(loop.shutdown_default_executor())
        except BaseException as error:  # noqa: BLE001  (told, and kept for the owner; the simulation goes on)
            self.failure = error
            self._notify(f"the bus stopped: {error!r}")
        finally:
            self.connected.clear()

    async def _keep_connected(self) -> None:
        wait, told = FIRST_WAIT, False
        while not self._stop.is_set():
            self._see_to_broker()
            try:
                async with self._client() as client:
                    wait, told = FIRST_WAIT, False
                    await self._converse(client)
            except (aiomqtt.MqttError, OSError) as error:
                if self.connected.is_set() or not (told or self._starting()):
                    self._notify(f"bus: no connection to {self.url}: {error}; trying again")
                    told = True
            self.connected.clear()
            await self._rest(wait)
            wait = min(2.0 * wait, LONGEST_WAIT)

    def _starting(self) -> bool:
        """The embedded broker takes a second to listen, which is no news."""
        return self.address.embedded and self._broker is not None and self._broker.poll() is None

    def _see_to_broker(self) -> None:
        """Start the embedded broker again when it has ended."""
        broker = self._broker
        if broker is None or broker.poll() is None:
            return
        self._notify(f"bus: {broker.ended()}; starting it again")
        broker.stop()
        self._broker = start_broker(self.port, self._directory)

    def _client(self) -> aiomqtt.Client:
        offline = Status(online=False, vehicles=self.topics.vehicles)
        return aiomqtt.Client(
            self.address.host,
            self.port,
            username=self.address.user,
            password=self.address.password,
            tls_context=self.address.tls_context(),
            will=aiomqtt.Will(self.topics.status, offline.model_dump_json(), qos=1, retain=True),
            keepalive=KEEP_ALIVE,
            timeout=TIMEOUT,
            clean_session=True,  # a command that comes while the bus is away is not executed later
            max_queued_incoming_messages=WAITING_IN,
            logger=_LOG,
        )

    async def _rest(self, seconds: float) -> None:
        """Wait, or less when the bus is closed."""
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return

    async def _converse(self, client: aiomqtt.Client) -> None:
        """Everything while a connection lasts.

        Raises:
            MqttError: when it ends, but by ``close``.
        """
        await client.subscribe([(topic, 1) for topic in self.topics.commands])
        await self._publish_status(client, online=True)
        self.connected.set()
        stop = asyncio.create_task(self._stop.wait())
        parts = (self._listen, self._move, self._send, self._report)
        work = {asyncio.create_task(part(client)) for part in parts}
        try:
            done, _ = await asyncio.wait({stop, *work}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()
        finally:
            await _end({stop, *work})
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._farewell(client), GOODBYE)

    async def _listen(self, client: aiomqtt.Client) -> None:
        """Take commands."""
        async for message in client.messages:
            payload = message.payload if isinstance(message.payload, bytes) else b""
            reply = self.desk.receive(str(message.topic), payload, retained=message.retain)
            if reply is not None:
                self._enqueue(reply)

    async def _move(self, _client: aiomqtt.Client) -> None:
        """Hand commands on to the simulation, whatever the broker does meanwhile."""
        while True:
            for reply in self.desk.turn():
                self._enqueue(reply)
                if reply.accepted and reply.vehicle is not None:
                    event = Event(time=reply.time, kind="command", text=reply.command)
                    self._outbox.append((self.topics.event(reply.vehicle), event))
            await asyncio.sleep(TURN)

    async def _send(self, client: aiomqtt.Client) -> None:
        """Send answers and events, each when the broker has the one before."""
        while True:
            while self._outbox:
                topic, message = self._outbox[0]
                await client.publish(topic, message.model_dump_json(), qos=1)
                # Only now: what the connection's end prevents is sent over the next one.
                if self._outbox and self._outbox[0][1] is message:
                    self._outbox.popleft()
            await asyncio.sleep(TURN)

    def _enqueue(self, reply: Reply) -> None:
        self._outbox.append((self.topics.reply(reply.request_id), reply))

    async def _report(self, client: aiomqtt.Client) -> None:
        """Publish what is seen, the motion often, the rest when it changes or every second."""
        loop = asyncio.get_running_loop()
        vehicles = len(self.topics.vehicles)
        period = 1.0 / min(self.address.rate, MOST_STATES / vehicles)
        slow_due = loop.time()
        world: WorldState | None = None
        while True:
            due = loop.time() + period
            slow = loop.time() >= slow_due
            if slow:
                slow_due = loop.time() + SLOW
            await self._publish(client, self.topics.clock, sampling.clock(self._source))
            for name, state in zip(self.topics.vehicles, sampling.states(self._source), strict=True):
                await self._publish(client, self.topics.state(name), state)
            await self._publish_health(client, always=slow)
            seen = sampling.world(self._source)
            if world is None or seen != world.model_copy(update={"time": seen.time}):
                world = seen
                await self._publish(client, self.topics.world, world)
            if slow:
                await self._publish_status(client, online=True)
            # However slow the broker, the rest of the program gets its turn.
            await asyncio.sleep(max(due - loop.time(), TURN))

    async def _publish_health(self, client: aiomqtt.Client, *, always: bool) -> None:
        seen = sampling.health(self._source)
        before: Sequence[VehicleHealth | None] = self._health or [None] * len(seen)
        self._health = seen
        for name, old, new in zip(self.topics.vehicles, before, seen, strict=True):
            if old is not None:
                self._outbox.extend((self.topics.event(name), event) for event in sampling.changes(old, new))
            if always or sampling.differs(old, new):
                await self._publish(client, self.topics.health(name), new)

    @staticmethod
    async def _publish(client: aiomqtt.Client, topic: str, message: Message) -> None:
        """A retained message of which only the newest counts; waits while the broker does not take it."""
        await client.publish(topic, message.model_dump_json(), qos=0, retain=True)

    async def _publish_status(self, client: aiomqtt.Client, *, online: bool) -> None:
        status = Status(online=online, vehicles=self.topics.vehicles, **asdict(self.desk.counts))
        await client.publish(self.topics.status, status.model_dump_json(), qos=1, retain=True)

    async def _farewell(self, client: aiomqtt.Client) -> None:
        """Leave a foreign broker nothing of the run but that it is over."""
        for topic in self.topics.retained():
            await client.publish(topic, b"", qos=0, retain=True)
        if self.address.embedded:
            await client.subscribe(self.topics.status)
        await self._publish_status(client, online=False)
        if self.address.embedded:
            # The broker is stopped next; what comes back to us it has told the others too.
            async for message in client.messages:
                if isinstance(message.payload, bytes) and b'"online":false' in message.payload:
                    return


async def _end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks until all have ended.

    Once is not enough: ``asyncio.wait_for`` swallows a cancellation that comes in the moment in which what it
    waits for is done (Python 3.11, cpython issue 86296), and the task goes on.
    """
    pending: set[asyncio.Task[Any]] = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.2)
    await asyncio.gather(*tasks, return_exceptions=True)
