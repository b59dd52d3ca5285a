"""A server of Foxglove's WebSocket protocol: channels, subscriptions, and messages to those who subscribed.

Protocol: https://github.com/foxglove/ws-protocol/blob/main/docs/spec.md, subprotocol foxglove.websocket.v1.
Foxglove's newer SDK names it foxglove.sdk.v1; the messages that are used here are the same.  Clients only
read: nothing that they send reaches the simulation.  Slow clients lose messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

SUBPROTOCOLS = (Subprotocol("foxglove.websocket.v1"), Subprotocol("foxglove.sdk.v1"))
MESSAGE_DATA, TIME = 1, 2
"""Opcodes of binary messages of the server."""
WARNING, ERROR = 1, 2
"""Levels of a status."""
BACKLOG = 1 << 24
"""Bytes that wait for a client: seconds of a fast run; beyond them the oldest messages are dropped."""
LARGEST_REQUEST = 1 << 20
"""Bytes of a client's message."""
GOING_AWAY = 1001
"""Code of a WebSocket whose server ends (RFC 6455, section 7.4.1)."""


@dataclass(frozen=True)
class Channel:
    """A topic that clients may subscribe to.

    Attributes:
        topic: its name.
        schema_name, schema_encoding, schema: of the messages.
        encoding: of the messages.
        kept: messages (ns of simulated time, data) that every new subscriber is sent at once.
    """

    topic: str
    schema_name: str
    schema: str
    schema_encoding: str = "ros2msg"
    encoding: str = "cdr"
    kept: tuple[tuple[int, bytes], ...] = ()


class _Client:
    """A connection: its subscriptions, and the messages that wait for it."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.subscriptions: dict[int, int] = {}
        """Subscription id by channel."""
        self._waiting: deque[bytes | str] = deque()
        self._size = 0
        self._filled = asyncio.Event()
        self.dropped = 0

    def put(self, message: bytes | str) -> None:
        """Let a message wait; drops the oldest data if too many do."""
        while self._waiting and self._size + len(message) > BACKLOG:
            if not self.dropped:
                text = "this connection is too slow for the stream: messages are left out"
                self._append(status(WARNING, text))
            self._size -= len(self._waiting.popleft())
            self.dropped += 1
        self._append(message)
        self._filled.set()

    def _append(self, message: bytes | str) -> None:
        self._waiting.append(message)
        self._size += len(message)

    async def send_waiting(self) -> None:
        """Send until the connection ends."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._waiting:
                message = self._waiting.popleft()
                self._size -= len(message)
                await self.connection.send(message)


def status(level: int, text: str) -> str:
    """A status message."""
    return json.dumps({"op": "status", "level": level, "message": text})


class FoxgloveServer:
    """Serves channels to any number of clients; used on one event loop.

    Args:
        host, port: to listen on.
        name: of the server, shown by clients.
        session: changes with every run, so that clients forget what they were shown.
        channels: all that there are; the position is the channel's id.

    Raises:
        OSError: on entering, if the port cannot be opened.
    """

    def __init__(self, host: str, port: int, *, name: str, session: str, channels: Sequence[Channel]) -> None:
        self._host, self._port = host, port
        self._channels = tuple(channels)
        self._ids = {channel.topic: k for k, channel in enumerate(self._channels)}
        self._info = json.dumps(
            {"op": "serverInfo", "name": name, "capabilities": ["time"], "sessionId": session}
        )
        self._clients: set[_Client] = set()
        self._server: Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve,
            self._host,
            self._port,
            subprotocols=SUBPROTOCOLS,
            max_size=LARGEST_REQUEST,
            compression=None,  # costs more than it saves on one machine
        )
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        closing = [client.connection.close(GOING_AWAY, "the run has ended") for client in self._clients]
        await asyncio.gather(*closing)
        self._server.close()
        await self._server.wait_closed()

    @property
    def topics(self) -> set[str]:
        """Topics that somebody subscribed to."""
        return {self._channels[k].topic for client in self._clients for k in client.subscriptions}

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self._clients)

    def publish(self, topic: str, messages: Iterable[tuple[int, bytes]]) -> None:
        """Send messages (ns of simulated time, data) of a channel to those who subscribed."""
        channel = self._ids[topic]
        for client in self._clients:
            subscription = client.subscriptions.get(channel)
            if subscription is not None:
                for time, data in messages:
                    client.put(_message(subscription, time, data))

    def publish_time(self, time: int) -> None:
        """Tell all clients the simulated time in ns."""
        for client in self._clients:
            client.put(struct.pack("<BQ", TIME, time))

    async def _serve(self, connection: ServerConnection) -> None:
        client = _Client(connection)
        client.put(self._info)
        client.put(json.dumps({"op": "advertise", "channels": list(self._advertised())}))
        self._clients.add(client)
        sender = asyncio.create_task(client.send_waiting())
        try:
            async for request in connection:
                fault = self._take(client, request)
                if fault is not None:
                    client.put(status(ERROR, fault))
        except ConnectionClosed:
            pass
        finally:
            self._clients.discard(client)
            sender.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionClosed):
                await sender

    def _advertised(self) -> Iterable[dict[str, Any]]:
        for k, channel in enumerate(self._channels):
            yield {
                "id": k,
                "topic": channel.topic,
                "encoding": channel.encoding,
                "schemaName": channel.schema_name,
                "schema": channel.schema,
                "schemaEncoding": channel.schema_encoding,
            }

    def _take(self, client: _Client, request: bytes | str) -> str | None:
        """Act on a client's message; returns what is wrong with it."""
        if isinstance(request, bytes):
            return "this server takes no data from clients"
        try:
            message = json.loads(request)
            match message["op"]:
                case "subscribe":
                    wanted = [(int(s["id"]), int(s["channelId"])) for s in message["subscriptions"]]
                    return self._subscribe(client, wanted)
                case "unsubscribe":
                    ended = {int(k) for k in message["subscriptionIds"]}
                    kept = {c: s for c, s in client.subscriptions.items() if s not in ended}
                    client.subscriptions = kept
                    return None
                case other:
                    return f"this server does not support {str(other)[:40]!r}"
        except (ValueError, KeyError, TypeError, RecursionError):
            return "not a message of the Foxglove WebSocket protocol"

    def _subscribe(self, client: _Client, wanted: list[tuple[int, int]]) -> str | None:
        for subscription, channel in wanted:
            if not 0 <= channel < len(self._channels):
                return f"there is no channel {channel}"
            if not 0 <= subscription < 1 << 32 or subscription in client.subscriptions.values():
                return f"subscription id {subscription} is in use or is no unsigned 32-bit number"
            if channel in client.subscriptions:
                return f"channel {channel} has a subscription already"
            client.subscriptions[channel] = subscription
            for time, data in self._channels[channel].kept:
                client.put(_message(subscription, time, data))
        return None


def _message(subscription: int, time: int, data: bytes) -> bytes:
    return struct.pack("<BIQ", MESSAGE_DATA, subscription, time) + data
