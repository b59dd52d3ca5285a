"""The stream for Foxglove, with a client of its protocol that decodes by other people's definitions."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcap.records import Schema
from mcap_ros2.decoder import DecoderFactory
from support.recorded_climb import Climb
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.main import with_values
from sitl_bridge.live.outlets import FoxgloveSettings
from sitl_bridge.live.run.client_link import FROM_CLIENT, PipeEnd, RowsRequest, Stop, UserNotice
from sitl_bridge.live.view.foxglove_stream import FoxgloveStream

pytestmark = pytest.mark.timeout(300)
TIMEOUT = 20.0


class Client:
    """A client of the protocol, written from its specification."""

    def __init__(self, port: int, subprotocol: str = "foxglove.sdk.v1") -> None:
        self.connection: ClientConnection = connect(
            f"ws://127.0.0.1:{port}", subprotocols=[Subprotocol(subprotocol)], compression=None
        )
        self.info = self.text()
        self.channels = {channel["topic"]: channel for channel in self.text()["channels"]}
        self.time = -1
        self._topics: dict[int, str] = {}

    def text(self) -> Any:
        while isinstance(message := self.connection.recv(TIMEOUT), bytes):
            pass
        return json.loads(message)

    def send(self, **message: Any) -> None:
        self.connection.send(json.dumps(message))

    def subscribe(self, *topics: str) -> None:
        wanted = []
        for topic in topics:
            number = 100 + len(self._topics)
            self._topics[number] = topic
            wanted.append({"id": number, "channelId": self.channels[topic]["id"]})
        self.send(op="subscribe", subscriptions=wanted)

    def data(self) -> tuple[str, int, bytes]:
        """The next message: its topic, its time in ns and its bytes."""
        while True:
            message = self.connection.recv(TIMEOUT)
            assert isinstance(message, bytes), message
            if message[0] == 2:
                (self.time,) = struct.unpack("<Q", message[1:])
                continue
            opcode, number, time = struct.unpack("<BIQ", message[:13])
            assert opcode == 1
            return self._topics[number], time, message[13:]

    def decoded(self, topic: str, data: bytes) -> Any:
        channel = self.channels[topic]
        assert (channel["encoding"], channel["schemaEncoding"]) == ("cdr", "ros2msg")
        schema = Schema(id=1, name=channel["schemaName"], encoding="ros2msg", data=channel["schema"].encode())
        decoder = DecoderFactory().decoder_for("cdr", schema)
        assert decoder is not None
        return decoder(data)


class Streamed:
    """A run that is streamed, and the simulation's side of the link, which records at a request."""

    def __init__(self, climb: Climb, port: int) -> None:
        self.climb, self.port = climb, port
        here, there = socket.socketpair()
        self._socket, self._link = here, PipeEnd(here, FROM_CLIENT)
        self.lines: list[str] = []
        self.ready = threading.Event()
        self.requests = 0
        stream = FoxgloveStream(there.detach(), "127.0.0.1", port, climb.path, on_end=lambda: None)
        self._threads = [
            threading.Thread(target=self._serve),
            threading.Thread(target=stream.run),
        ]
        for thread in self._threads:
            thread.start()
        assert self.ready.wait(TIMEOUT)

    def _serve(self) -> None:
        while True:
            try:
                message = self._link.receive()
            except (EOFError, OSError):
                return
            if isinstance(message, RowsRequest):
                self.requests += 1
                self.climb.advance(20)
            elif isinstance(message, UserNotice):
                self.lines.append(message.line)
                self.ready.set()

    def stop(self) -> None:
        if self._threads:
            self._link.send(Stop())
            self._threads[1].join(TIMEOUT)
            self._socket.shutdown(socket.SHUT_RDWR)
            self._threads[0].join(TIMEOUT)
            self._link.close()
        self._threads = []


SAMPLED = ("imu", "magnetic_field", "pressure", "fix")


@pytest.fixture
def streamed(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Streamed]:
    with Climb(tmp_path) as climb:
        stream = Streamed(climb, free_port())
        yield stream
        stream.stop()


def test_a_client_reads_the_flight_while_it_goes_on(streamed: Streamed) -> None:
    client = Client(streamed.port)
    assert streamed.lines == [f"stream for Foxglove at ws://127.0.0.1:{streamed.port}"]
    assert client.info["op"] == "serverInfo"
    assert client.info["capabilities"] == ["time"]
    imu, odometry = "/vehicle_0/imu", "/vehicle_1/odometry"
    client.subscribe(imu, odometry, "/tf")
    found: dict[str, list[tuple[int, Any]]] = {imu: [], odometry: [], "/tf": []}
    while len(found[odometry]) < 60 or len(found[imu]) < 100:
        topic, time, data = client.data()
        found[topic].append((time, client.decoded(topic, data)))
    assert {message.transforms[0].child_frame_id for _, message in found["/tf"]} == {
        "vehicle_0/base_link",
        "vehicle_1/base_link",
    }
    steps = [b - a for (a, _), (b, _) in zip(found[imu], found[imu][1:], strict=False)]
    assert set(steps) == {4_000_000}  # every sample at 250 Hz, none lost and none twice
    time, message = found[odometry][-1]
    assert message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec == time
    assert message.child_frame_id == "vehicle_1/base_link"
    assert message.pose.pose.position.z > found[odometry][0][1].pose.pose.position.z + 0.1
    assert found[imu][0][1].linear_acceleration.z == pytest.approx(9.81, abs=0.5)  # noise: 0.1
    assert client.time > 0
    client.connection.close()


def test_nothing_is_sent_or_requested_without_a_subscription(streamed: Streamed) -> None:
    client = Client(streamed.port)
    client.subscribe("/vehicle_0/odometry")
    client.data()
    client.send(op="unsubscribe", subscriptionIds=[100])
    client.send(op="subscribe", subscriptions=[{"id": 7, "channelId": 10_000}])
    while isinstance(message := client.connection.recv(TIMEOUT), bytes):
        pass
    assert "10000" in json.loads(message)["message"]
    with contextlib.suppress(TimeoutError):
        while True:
            client.connection.recv(2.0)  # what was on its way
    requests = streamed.requests
    with pytest.raises(TimeoutError):
        client.connection.recv(1.0)
    assert streamed.requests == requests
    client.connection.close()


def test_the_markers_are_sent_to_every_new_subscriber(streamed: Streamed) -> None:
    for _ in range(2):
        client = Client(streamed.port)
        client.subscribe("/markers")
        _, time, data = client.data()
        assert time == streamed.climb.simulation.start * 1000
        markers = client.decoded("/markers", data).markers
        assert [marker.ns for marker in markers] == ["object hut", "vehicle_0 plan", "vehicle_0 fence"]
        client.connection.close()


def test_the_schemas_are_those_of_an_exported_file(streamed: Streamed) -> None:
    client = Client(streamed.port)
    assert set(client.channels) == {
        "/markers",
        "/tf",
        *(
            f"/vehicle_{k}/{leaf}"
            for k in (0, 1)
            for leaf in (
                "odometry",
                "wind",
                "motor_commands",
                "rotors",
                "imu",
                "magnetic_field",
                "pressure",
                "fix",
                "fix_velocity",
            )
        ),
    } | {topic for topic in client.channels if topic.endswith("range")}
    assert client.channels["/vehicle_0/fix"]["schemaName"] == "sensor_msgs/msg/NavSatFix"
    client.connection.close()


@pytest.mark.parametrize(
    "request_", ["no json", "[]", '{"op": "subscribe", "subscriptions": [{"id": 1}]}', b"\1\0\0\0\0"]
)
def test_a_wrong_message_is_answered_and_the_connection_goes_on(
    streamed: Streamed, request_: str | bytes
) -> None:
    client = Client(streamed.port)
    client.connection.send(request_)
    status = client.text()
    assert (status["op"], status["level"]) == ("status", 2)
    client.subscribe("/tf")
    assert client.data()[0] == "/tf"
    client.connection.close()


def test_a_client_of_another_protocol_is_refused(streamed: Streamed) -> None:
    with pytest.raises(InvalidStatus, match="400"):
        Client(streamed.port, "mqtt")


def test_the_end_of_the_run_closes_the_connection(streamed: Streamed) -> None:
    client = Client(streamed.port)
    streamed.stop()
    with pytest.raises(ConnectionClosed):
        client.text()


@pytest.mark.parametrize("text", ["", "host:", ":8765", "x", "host:80"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--stream"):
        FoxgloveSettings.parse(text)


def test_the_address_may_be_left_out() -> None:
    assert with_values(["fly", "--stream", "a.plan"]) == ["fly", "--stream=8765", "a.plan"]
    assert with_values(["fly", "--stream", "0.0.0.0:9000", "a.plan"])[2] == "0.0.0.0:9000"
    assert FoxgloveSettings.parse("9000") == FoxgloveSettings("127.0.0.1", 9000)
    assert FoxgloveSettings.parse("0.0.0.0:9000") == FoxgloveSettings("0.0.0.0", 9000)


def test_what_keeps_the_stream_from_starting_is_reported_before(
    monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        with pytest.raises(UserError, match=r"port .* is in use by"):
            FoxgloveSettings("127.0.0.1", holder.getsockname()[1]).check()
    with pytest.raises(UserError, match=r"the stream cannot listen on 192\.0\.2\.1"):
        FoxgloveSettings("192.0.2.1", free_port()).check()
    monkeypatch.setitem(sys.modules, "foxglove.websocket", None)
    with pytest.raises(UserError, match=r"pip install 'sitl-bridge\[view\]'"):
        FoxgloveSettings("127.0.0.1", free_port()).check()
