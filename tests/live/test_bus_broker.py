"""A bus on a broker of the user's, with TLS and a password: redelivery, loss of the broker, refusal."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from support.bus_client import Client
from support.tls_broker import PASSWORD, USER, TlsBroker

from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.live.bus.address import BusAddress
from sitl_bridge.live.bus.bus import Bus
from sitl_bridge.live.run.outlet import RunContext

Wait = Callable[..., None]

CONNECT, CONNACK, PUBLISH, PUBACK, DISCONNECT = 0x10, 0x20, 0x32, 0x40, 0xE0
SUBSCRIBE, SUBACK = 0x82, 0x90
"""First bytes of MQTT 3.1.1's packets; PUBLISH with quality of service 1."""
DUPLICATE, RETAIN = 0x08, 0x01
"""Flags of a PUBLISH that is sent again because no acknowledgement came, and that is kept."""


@pytest.fixture
def broker(free_port: Callable[[], int], tmp_path: Path, wait_for: Wait) -> Iterator[TlsBroker]:
    made = TlsBroker(free_port(), tmp_path)
    made.start()
    wait_for(made.listens, "the broker")
    yield made
    made.kill()


@pytest.fixture
def server(
    make_simulation: Callable[..., Simulation], free_port: Callable[[], int]
) -> Iterator[LockstepServer]:
    with LockstepServer(make_simulation("iris"), ports=[free_port()]) as started:
        yield started


def text(word: str) -> bytes:
    return len(word.encode()).to_bytes(2, "big") + word.encode()


def packet(first: int, body: bytes = b"") -> bytes:
    """A packet with its length in digits to the base 128 (MQTT 3.1.1, 2.2.3)."""
    length, digits = len(body), []
    while True:
        length, digit = divmod(length, 128)
        digits.append(digit | (0x80 if length else 0))
        if not length:
            return bytes([first, *digits]) + body


def answer(stream: BinaryIO, kind: int) -> bytes:
    """The body of the next packet of a kind; amqtt sends retained messages to all, subscribed or not."""
    while first := stream.read(1):
        length, shift = 0, 0
        while True:
            digit = stream.read(1)[0]
            length |= (digit & 0x7F) << shift
            shift += 7
            if digit < 0x80:
                break
        body = stream.read(length)
        if first[0] == kind:
            return body
    pytest.fail("the broker closed the connection")


@contextlib.contextmanager
def published_and_repeated(broker: TlsBroker, topic: str, payload: bytes) -> Iterator[None]:
    """Publish as a client does whose acknowledgement got lost: the same packet again, marked as duplicate.

    Within the block the client stays connected: amqtt drops what a client has just published when it leaves.
    """
    login = text("MQTT") + b"\x04\xc2\x00\x3c" + text("repeater") + text(USER) + text(PASSWORD)
    body = text(topic) + (7).to_bytes(2, "big") + payload
    trust = ssl.create_default_context(cafile=str(broker.certificate))
    with (
        socket.create_connection(("127.0.0.1", broker.port), timeout=60.0) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as client,
        client.makefile("rb") as stream,
    ):
        client.sendall(packet(CONNECT, login))
        assert answer(stream, CONNACK) == b"\x00\x00", "the broker lets it in"
        for first in (PUBLISH, PUBLISH | DUPLICATE):
            client.sendall(packet(first, body))
            assert answer(stream, PUBACK) == b"\x00\x07"
        yield
        client.sendall(packet(DISCONNECT))


def test_commands_are_executed_once_over_tls_redelivery_and_a_broker_that_dies(
    broker: TlsBroker, server: LockstepServer, wait_for: Wait, tmp_path: Path
) -> None:
    address = BusAddress.parse(
        f"mqtts://{USER}@127.0.0.1:{broker.port}?run=run&ca={broker.certificate}", PASSWORD
    )
    said: list[str] = []
    with Bus(RunContext(server, tmp_path, notify=said.append), address) as bus:
        wait_for(bus.connected.is_set, "the bus to reach the broker")
        client = Client(broker.port, user=USER, password=PASSWORD, ca=str(broker.certificate))
        wait_for(lambda: client.last("vehicle/0/state"), "the state")

        def order(speed: float) -> dict[str, object]:
            wind = {"steady": {"speed": speed, "direction": 180.0}}
            return {"version": 1, "request_id": "wind", "wind": wind}

        replies = client.heard["sitl/run/reply/wind"]
        with published_and_repeated(broker, "sitl/run/command/wind", json.dumps(order(4.0)).encode()):
            wait_for(
                lambda: replies and (bus.counts.executed, bus.counts.duplicates) == (1, 1),
                "the answer, and the repetition",
            )
        assert replies[0]["accepted"]
        assert not replies[0]["duplicate"]

        broker.kill()
        wait_for(lambda: not bus.connected.is_set(), "the bus to notice")
        broker.start()
        wait_for(bus.connected.is_set, "the bus to come back")
        wait_for(client.client.is_connected, "the client to come back")
        client.heard.clear()
        wait_for(lambda: client.last("vehicle/0/state"), "the state over the new connection")
        again = client.ask(wait_for, "command/wind", **order(9.0))
        assert (again.accepted, again.duplicate) == (True, True)
        assert bus.counts.executed == 1
        assert server.simulation.world.wind[0]["steady"][0] == pytest.approx(4.0)
        client.close()
        wait_for(lambda: len(said) == 3, "the bus to say so")
    assert bus.failure is None
    assert said[0].startswith("bus at mqtts:")
    assert said[1].startswith("bus: no connection to mqtts:")
    assert said[2].startswith("bus: connected to mqtts:")
    assert len(said) == 3


def test_a_broker_whose_certificate_nobody_vouches_for_is_refused_with_what_to_do(
    broker: TlsBroker, server: LockstepServer, wait_for: Wait, tmp_path: Path
) -> None:
    notes: list[str] = []
    address = BusAddress.parse(f"mqtts://{USER}@127.0.0.1:{broker.port}?run=run", PASSWORD)
    with Bus(RunContext(server, tmp_path, notify=notes.append), address) as bus:
        refused = "certificate verify failed: self-signed certificate; check the broker's certificate"
        wait_for(lambda: any(refused in note for note in notes), "the refusal")
        assert not bus.connected.is_set()
    assert not any(PASSWORD in note for note in notes)


def close_at_once(listener: socket.socket, closed: list[int], *, early: bool) -> None:
    """Grant what each client asks for, and close its connection, until the listener is closed; ``early``: at
    its login."""
    while True:
        try:
            plain, _ = listener.accept()
        except OSError:
            return
        with plain, plain.makefile("rb") as stream:
            answer(stream, CONNECT)
            plain.sendall(packet(CONNACK, b"\0\0"))
            if early:
                closed.append(1)
                continue
            wanted = answer(stream, SUBSCRIBE)
            number, topics, at = wanted[:2], 0, 2
            while at < len(wanted):
                at += 3 + int.from_bytes(wanted[at : at + 2], "big")
                topics += 1
            plain.sendall(packet(SUBACK, number + bytes([1] * topics)))
            status = answer(stream, PUBLISH | RETAIN)
            end = 2 + int.from_bytes(status[:2], "big")
            plain.sendall(packet(PUBACK, status[end : end + 2]))
        closed.append(1)


@pytest.mark.parametrize("early", [False, True])
def test_a_broker_that_accepts_every_connection_and_closes_it_is_told_once(
    early: bool, server: LockstepServer, wait_for: Wait, tmp_path: Path
) -> None:
    """As a broker does at once where its rules forbid what is published, or a message is too large."""
    said: list[str] = []
    closed: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"mqtt://127.0.0.1:{listener.getsockname()[1]}"
        serving = threading.Thread(target=close_at_once, args=(listener, closed), kwargs={"early": early})
        serving.start()
        with Bus(RunContext(server, tmp_path, notify=said.append), BusAddress.parse(url)):
            wait_for(lambda: len(closed) >= 4, "the fourth connection")
        listener.shutdown(socket.SHUT_RDWR)
        serving.join()
    assert [line for line in said if "connection" in line] == [
        f"bus: no connection to {url}: the broker closed the connection; trying again"
    ]
