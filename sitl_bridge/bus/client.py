"""The MQTT client of a bus: a process of its own between a broker and the program that runs the simulation.

A process and not a thread, so that no message, however many come, takes the interpreter of the simulation;
and a nicer one, so that it gets the processor after everybody else.  What it is told and asked over the link
with its program is in link.py; the other side is bus.py.
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
from typing import Any

import aiomqtt

from sitl_bridge.bus import sampling
from sitl_bridge.bus.address import PASSWORD
from sitl_bridge.bus.broker import be_nice, start_broker
from sitl_bridge.bus.client_link import (
    FROM_BRIDGE,
    Ask,
    Connected,
    Happened,
    Link,
    Look,
    Note,
    Orders,
    Results,
    Sent,
    SentOrder,
    Settings,
    Stop,
)
from sitl_bridge.bus.command_queue import CommandQueue, Order
from sitl_bridge.bus.messages import Event, Message, Reply, Status, VehicleHealth, WorldState
from sitl_bridge.bus.topics import Topics
from sitl_bridge.system.child_process import ChildProcess

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

REFUSED = (4, 5, 134, 135)
"""Codes with which brokers refuse users: of MQTT 3.1.1 (3.2.2.3) and 5 (3.2.2.2)."""

_LOG = logging.getLogger("sitl_bridge.bus")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False


class Client:
    """Keeps connected to the broker, publishes what is seen, and takes commands, until it is told to stop.

    Args:
        settings: of the run and its broker.
        link: to the program that runs the simulation.
    """

    def __init__(self, settings: Settings, link: Link) -> None:
        self.address, self.port = settings.address, settings.port
        self.topics = Topics(settings.run, settings.vehicles)
        self._settings, self._link = settings, link
        self.desk = CommandQueue(self.topics, self._hand_on, self._time)
        self._outbox: deque[tuple[str, Message]] = deque(maxlen=WAITING_OUT)
        self._health: list[VehicleHealth] | None = None
        self._broker: ChildProcess | None = None
        self._look: Look | None = None
        self._asked = False
        self._fresh = asyncio.Event()
        self._stop = asyncio.Event()
        self._is_connected = False

    def _time(self) -> float:
        """s of simulated time, at the last look."""
        return 0.0 if self._look is None else self._look.time

    # --- the link

    def _hand_on(self, orders: list[Order]) -> None:
        self._link.send(Orders([SentOrder.of(order) for order in orders]))

    async def run(self) -> None:
        """Work until told to stop."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._hear, args=(loop,), name="link", daemon=True).start()
        try:
            await self._keep_connected()
        finally:
            if self._broker is not None:
                self._broker.stop()

    def _hear(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the link at once, whatever the loop does: who writes to it waits for nobody."""
        while True:
            try:
                said = self._link.receive()
            except (EOFError, OSError):
                # The simulation's program is gone.  Its last will is the broker's to tell.
                os._exit(1)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._take, said)

    def _take(self, said: Sent) -> None:
        match said:
            case Look():
                self._look, self._asked = said, False
                self._fresh.set()
            case Results(results):
                for reply in self.desk.settle([sent.result() for sent in results]):
                    self._enqueue(reply)
                    if reply.accepted and reply.vehicle is not None:
                        event = Event(time=reply.time, kind="command", text=reply.command)
                        self._outbox.append((self.topics.event(reply.vehicle), event))
            case Happened(topic, event):
                self._outbox.append((topic, event))
            case Stop():
                self._stop.set()

    def _notify(self, line: str) -> None:
        self._link.send(Note(line))

    def _tell_connected(self, connected: bool) -> None:
        self._is_connected = connected
        self._link.send(Connected(connected))

    async def _seen(self) -> Look:
        """A new look at the simulation."""
        if not self._asked:
            self._asked = True
            self._fresh.clear()
            self._link.send(Ask(self.desk.counts))
        await self._fresh.wait()
        assert self._look is not None
        return self._look

    # --- the broker

    async def _keep_connected(self) -> None:
        wait, told = FIRST_WAIT, False
        while not self._stop.is_set():
            self._see_to_broker()
            try:
                async with self._client() as client:
                    wait, told = FIRST_WAIT, False
                    await self._converse(client)
            except (aiomqtt.MqttError, OSError) as error:
                if self._is_connected or not (told or self._starting()):
                    where, why = self._settings.url, self._why(error)
                    self._notify(f"bus: no connection to {where}: {why}; trying again")
                    told = True
            self._tell_connected(False)
            await self._rest(wait)
            wait = min(2.0 * wait, LONGEST_WAIT)

    def _starting(self) -> bool:
        """The embedded broker takes a second to listen, which is no news."""
        return self.address.embedded and self._broker is not None and self._broker.poll() is None

    def _see_to_broker(self) -> None:
        """Start the embedded broker, and start it again when it has ended."""
        if not self.address.embedded or (self._broker is not None and self._broker.poll() is None):
            return
        if self._broker is not None:
            self._notify(f"bus: {self._broker.ended()}; starting it again")
            self._broker.stop()
        self._broker = start_broker(self.port, self._settings.directory / "broker", self.address.password)

    def _why(self, error: Exception) -> str:
        """Why there is no connection, in words that say what to do."""
        text = str(error)
        if isinstance(error, aiomqtt.MqttCodeError) and getattr(error.rc, "value", error.rc) in REFUSED:
            who = self.address.user or "a client without a name"
            return f"the broker does not let {who} in ({text}); see to USER in its URL and to {PASSWORD}"
        if found := re.search(r"certificate verify failed: (.*?)(?: \(_ssl|$)", text):
            return f"certificate verify failed: {found[1]}; see to the broker's certificate, or to ca=FILE"
        return text

    def _client(self) -> aiomqtt.Client:
        offline = Status(online=False, vehicles=self.topics.vehicles)
        return aiomqtt.Client(
            self.address.host,
            self.port,
            username=self.address.user_name,
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
        self._tell_connected(True)
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
            self.desk.turn()
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
            look = await self._seen()
            await self._publish(client, self.topics.clock, sampling.clock(look))
            for name, state in zip(self.topics.vehicles, sampling.states(look), strict=True):
                await self._publish(client, self.topics.state(name), state)
            await self._publish_health(client, sampling.health(look), always=slow)
            seen = sampling.world(look)
            if world is None or seen != world.model_copy(update={"time": seen.time}):
                world = seen
                await self._publish(client, self.topics.world, world)
            if slow:
                await self._publish_status(client, online=True)
            # However slow the broker, the rest of the program gets its turn.
            await asyncio.sleep(max(due - loop.time(), TURN))

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


def main() -> None:
    """Be the client at the other end of the link whose file descriptor is given."""
    be_nice()
    link = Link(socket.socket(fileno=int(sys.argv[1])), FROM_BRIDGE)
    settings = link.receive()
    assert isinstance(settings, Settings)

    async def run() -> None:
        await Client(settings, link).run()

    asyncio.run(run())


if __name__ == "__main__":
    main()
