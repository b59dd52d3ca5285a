"""The MQTT client of a bus: a separate process between a broker and the simulation's program.

A process instead of a thread, so that messages take no time from the simulation's interpreter.  Its priority
is low.  It talks to its program over client_link.py; the other side is bus.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import sys
import threading
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import asdict

import aiomqtt

from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.base.system.launch import lower_priority
from sitl_bridge.live.bus.address import PASSWORD
from sitl_bridge.live.bus.broker import start_broker
from sitl_bridge.live.bus.client_settings import ClientSettings
from sitl_bridge.live.run import sampling
from sitl_bridge.live.run.client_link import (
    FROM_BRIDGE,
    Connected,
    Orders,
    PipeEnd,
    Results,
    Sent,
    Settings,
    SimulationSnapshot,
    SnapshotRequest,
    Stop,
    UserNotice,
)
from sitl_bridge.live.run.command_queue import CommandQueue, Order
from sitl_bridge.live.run.messages import BusMessage, Clock, Event, Reply, Status, VehicleHealth, WorldState
from sitl_bridge.live.run.topics import Topics

POLL_INTERVAL = 0.02
"""Interval between checks for commands, answers and events, s of wall time."""
REPEAT_INTERVAL = 1.0
"""Interval of messages that are also sent without a change, s of wall time: health, world and status."""
MAX_STATE_RATE = 250.0
"""Limit of state messages a second of all vehicles: 25 vehicles have their full rate, more have less."""
FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
"""Shortest and longest wait before a reconnection, s of wall time; the wait doubles with each failure."""
LASTING = 1.0
"""Time after which a connection is no failure, s of wall time; a broker may close each at once."""
KEEP_ALIVE = 10
"""Silence after which the broker publishes the last will, and after which the client disconnects, s."""
MAX_UNREAD = 200
"""Limit of unread messages from the broker; further messages are lost."""
MAX_UNSENT = 1000
"""Limit of unsent answers and events, for instance without a broker; the oldest are lost."""
TIMEOUT = 5.0
"""Time in which the broker must accept a message, s of wall time."""
FAREWELL_TIMEOUT = 2.0
"""Time in which the broker must accept the farewell, s of wall time."""

REFUSED = (4, 5, 134, 135)
"""Codes for a rejected login in MQTT 3.1.1 (3.2.2.3) and 5 (3.2.2.2)."""
CLOSED = (4, 7)
"""Paho's errors, MQTT_ERR_NO_CONN and MQTT_ERR_CONN_LOST, of what is sent on a connection that was closed.
They are integers; reasons of a broker are not."""

_LOG = logging.getLogger("sitl_bridge.live.bus")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False


class Client:
    """Stays connected to the broker, publishes snapshots and receives commands, until stopped.

    Args:
        link: to the simulation's program.
    """

    def __init__(self, settings: ClientSettings, link: PipeEnd) -> None:
        self.address = settings.address
        self.topics = Topics(settings.run, settings.vehicles)
        self._settings, self._link = settings, link
        self.queue = CommandQueue(self.topics, self._hand_on, self._time)
        self._outbox: deque[tuple[str, BusMessage]] = deque(maxlen=MAX_UNSENT)
        self._health: list[VehicleHealth] | None = None
        self._broker: ChildProcess | None = None
        self._snapshot: SimulationSnapshot | None = None
        self._contacts = 0
        """Contacts with objects that were published."""
        self._snapshot_requested = False
        self._fresh = asyncio.Event()
        self._stop = asyncio.Event()
        self._is_connected = False
        self._last_heartbeat, self._reconnect_wait = False, FIRST_WAIT
        """Whether the user was told of a failure, and s of wall time."""

    def _time(self) -> float:
        """Simulated time of the last snapshot, s."""
        return 0.0 if self._snapshot is None else self._snapshot.time

    # --- the link

    def _hand_on(self, orders: list[Order]) -> None:
        self._link.send(Orders(orders))

    async def run(self) -> None:
        """Run until stopped."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read_link, args=(loop,), name="link", daemon=True).start()
        try:
            await self._keep_connected()
        finally:
            if self._broker is not None:
                self._broker.stop()

    def _read_link(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the link at once, independent of the event loop, so that its sender never waits."""
        while True:
            try:
                message = self._link.receive()
            except (EOFError, OSError):
                # The simulation's program has ended.  The broker publishes its last will.
                os._exit(1)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._process, message)

    def _process(self, message: Sent) -> None:
        match message:
            case SimulationSnapshot():
                self._snapshot, self._snapshot_requested = message, False
                self._fresh.set()
            case Results(results):
                for reply in self.queue.settle(results):
                    self._enqueue(reply)
                    if reply.accepted and reply.vehicle is not None:
                        event = Event(time=reply.time, kind="command", text=reply.command)
                        self._outbox.append((self.topics.event(reply.vehicle), event))
            case Stop():
                self._stop.set()

    def _notify(self, line: str) -> None:
        self._link.send(UserNotice(line))

    def _send_connected(self, connected: bool) -> None:
        self._is_connected = connected
        self._link.send(Connected(connected))

    async def _next_snapshot(self) -> SimulationSnapshot:
        if not self._snapshot_requested:
            self._snapshot_requested = True
            self._fresh.clear()
            self._link.send(SnapshotRequest(self.queue.counts))
        await self._fresh.wait()
        assert self._snapshot is not None
        return self._snapshot

    # --- the broker

    async def _keep_connected(self) -> None:
        while not self._stop.is_set():
            self._ensure_broker()
            try:
                async with self._client() as client:
                    await self._run_connection(client)
            except (aiomqtt.MqttError, OSError) as error:
                if not self._last_heartbeat and (self._is_connected or not self._broker_may_be_starting()):
                    where, why = self.address, self._failure_reason(error)
                    self._notify(f"bus: no connection to {where}: {why}; trying again")
                    self._last_heartbeat = True
            self._send_connected(False)
            await self._wait(self._reconnect_wait)
            self._reconnect_wait = min(2.0 * self._reconnect_wait, LONGEST_WAIT)

    def _broker_may_be_starting(self) -> bool:
        """Whether the embedded broker may still be starting, which takes about a second."""
        return self.address.embedded and self._broker is not None and self._broker.poll() is None

    def _ensure_broker(self) -> None:
        """Start the embedded broker, and restart it after it ended."""
        if not self.address.embedded or (self._broker is not None and self._broker.poll() is None):
            return
        if self._broker is not None:
            self._notify(f"bus: {self._broker.describe_end()}; starting it again")
            self._broker.stop()
        self._broker = start_broker(
            self.address.port, self._settings.directory / "broker", self.address.password
        )

    def _failure_reason(self, error: Exception) -> str:
        """Return the reason of a failed connection, with a remedy."""
        text = str(error)
        code = error.rc if isinstance(error, aiomqtt.MqttCodeError) else None
        if not isinstance(code, int) and getattr(code, "value", None) in REFUSED:
            who = self.address.user or "a client without a name"
            return f"the broker rejected {who} ({text}); check USER in its URL and {PASSWORD}"
        if found := re.search(r"certificate verify failed: (.*?)(?: \(_ssl|$)", text):
            return f"certificate verify failed: {found[1]}; check the broker's certificate, or use ca=FILE"
        closed = "during message iteration" in text or (isinstance(code, int) and code in CLOSED)
        return "the broker closed the connection" if closed else text

    def _client(self) -> aiomqtt.Client:
        offline = Status(online=False, vehicles=self.topics.vehicles)
        return aiomqtt.Client(
            self.address.host,
            self.address.port,
            username=self.address.user_name,
            password=self.address.password,
            tls_context=self.address.tls_context(),
            will=aiomqtt.Will(self.topics.status, offline.model_dump_json(), qos=1, retain=True),
            keepalive=KEEP_ALIVE,
            timeout=TIMEOUT,
            clean_session=True,  # commands sent while the bus is disconnected are not executed later
            max_queued_incoming_messages=MAX_UNREAD,
            logger=_LOG,
        )

    async def _wait(self, seconds: float) -> None:
        """Wait, or return early when the bus is closed."""
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return

    async def _run_connection(self, client: aiomqtt.Client) -> None:
        await client.subscribe([(topic, 1) for topic in self.topics.commands])
        await self._publish_status(client, online=True)
        self._send_connected(True)
        stop = asyncio.create_task(self._stop.wait())
        parts = (self._listen, self._move, self._send, self._report, self._note_lasting)
        work = {asyncio.create_task(part(client)) for part in parts}
        try:
            done, _ = await asyncio.wait({stop, *work}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()
        finally:
            await _end({stop, *work})
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._clear_retained(client), FAREWELL_TIMEOUT)

    async def _note_lasting(self, _client: aiomqtt.Client) -> None:
        """Forget the failures before, once the connection lasts."""
        await asyncio.sleep(LASTING)
        if self._last_heartbeat:
            self._notify(f"bus: connected to {self.address}")
        self._last_heartbeat, self._reconnect_wait = False, FIRST_WAIT
        await self._stop.wait()

    async def _listen(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            payload = message.payload if isinstance(message.payload, bytes) else b""
            reply = self.queue.receive(str(message.topic), payload, retained=message.retain)
            if reply is not None:
                self._enqueue(reply)

    async def _move(self, _client: aiomqtt.Client) -> None:
        """Pass commands to the simulation, independent of the broker."""
        while True:
            self.queue.poll()
            await asyncio.sleep(POLL_INTERVAL)

    async def _send(self, client: aiomqtt.Client) -> None:
        """Send answers and events, each after the broker has accepted the previous one."""
        while True:
            while self._outbox:
                topic, message = self._outbox[0]
                await client.publish(topic, message.model_dump_json(), qos=1)
                # Remove it only now: if the connection ends, it is sent over the next one.
                if self._outbox and self._outbox[0][1] is message:
                    self._outbox.popleft()
            await asyncio.sleep(POLL_INTERVAL)

    def _enqueue(self, reply: Reply) -> None:
        self._outbox.append((self.topics.reply(reply.request_id), reply))

    async def _report(self, client: aiomqtt.Client) -> None:
        """Publish snapshots: the motion often, the rest on a change or every second."""
        loop = asyncio.get_running_loop()
        vehicles = len(self.topics.vehicles)
        period = 1.0 / min(self.address.rate, MAX_STATE_RATE / vehicles)
        slow_due = loop.time()
        world: WorldState | None = None
        while True:
            due = loop.time() + period
            slow = loop.time() >= slow_due
            if slow:
                slow_due = loop.time() + REPEAT_INTERVAL
            snapshot = await self._next_snapshot()
            clock = Clock(time=snapshot.time, **snapshot.clock)
            await self._publish(client, self.topics.clock, clock)
            for name, state in zip(self.topics.vehicles, sampling.states(snapshot), strict=True):
                await self._publish(client, self.topics.state(name), state)
            await self._publish_health(client, sampling.health(snapshot), always=slow)
            for vehicle, event in sampling.contacts(snapshot, self._contacts):
                self._outbox.append((self.topics.event(self.topics.vehicles[vehicle]), event))
            self._contacts = len(snapshot.contacts)
            seen = WorldState(time=snapshot.time, **snapshot.world)
            if world is None or seen != world.model_copy(update={"time": seen.time}):
                world = seen
                await self._publish(client, self.topics.world, world)
            if slow:
                await self._publish_status(client, online=True)
            # Yield to the other tasks even with a slow broker.
            await asyncio.sleep(max(due - loop.time(), POLL_INTERVAL))

    async def _publish_health(
        self, client: aiomqtt.Client, seen: list[VehicleHealth], *, always: bool
    ) -> None:
        before: Sequence[VehicleHealth | None] = self._health or [None] * len(seen)
        self._health = seen
        for name, old, new in zip(self.topics.vehicles, before, seen, strict=True):
            if old is not None:
                self._outbox.extend((self.topics.event(name), event) for event in sampling.changes(old, new))
            if always or sampling.differs(old, new):
                await self._publish(client, self.topics.health(name), new)

    @staticmethod
    async def _publish(client: aiomqtt.Client, topic: str, message: BusMessage) -> None:
        await client.publish(topic, message.model_dump_json(), qos=0, retain=True)

    async def _publish_status(self, client: aiomqtt.Client, *, online: bool) -> None:
        status = Status(online=online, vehicles=self.topics.vehicles, **asdict(self.queue.counts))
        await client.publish(self.topics.status, status.model_dump_json(), qos=1, retain=True)

    async def _clear_retained(self, client: aiomqtt.Client) -> None:
        """Remove the run's retained messages from a foreign broker, except its offline status."""
        for topic in self.topics.retained_topics():
            await client.publish(topic, b"", qos=0, retain=True)
        if self.address.embedded:
            await client.subscribe(self.topics.status)
        await self._publish_status(client, online=False)
        if self.address.embedded:
            # The embedded broker is stopped next; when the messages return to this client, other clients have
            # them.
            async for message in client.messages:
                if isinstance(message.payload, bytes) and b'"online":false' in message.payload:
                    return


async def _end(tasks: Collection[asyncio.Task[object]]) -> None:
    """Cancel tasks until all have ended.

    One cancellation may be lost: ``asyncio.wait_for`` swallows it if it arrives at the moment the awaited
    task completes (Python 3.11, cpython issue 86296).
    """
    pending: set[asyncio.Task[object]] = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.2)
    await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    """Run the client on the link with the given file descriptor."""
    lower_priority()
    link = PipeEnd(socket.socket(fileno=int(sys.argv[1])), FROM_BRIDGE)
    received = link.receive()
    assert isinstance(received, Settings)
    settings = ClientSettings.from_message(received)

    async def run() -> None:
        await Client(settings, link).run()

    asyncio.run(run())


if __name__ == "__main__":
    main()
