"""The bus without a broker: messages, addresses of brokers, and the command queue."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from sitl_bridge.api.fleet_clock import FleetClock
from sitl_bridge.autopilot.stack import StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.world import World
from sitl_bridge.link.hil.run_clock import RunClock
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.live.bus.address import PASSWORD, BusAddress
from sitl_bridge.live.outlets import BusSettings, parse_outlets
from sitl_bridge.live.run import sampling
from sitl_bridge.live.run.command_queue import BATCH, BURST, RATE, CommandQueue, commands_for
from sitl_bridge.live.run.execution import DELEGATED_TIMEOUT, EXECUTION_TIMEOUT, Execution, OnCommand
from sitl_bridge.live.run.messages import RUN_COMMANDS, Reply
from sitl_bridge.live.run.snapshot import take_snapshot
from sitl_bridge.live.run.topics import Topics

PAUSE = b'{"version": 1, "request_id": "%s"}'


def test_a_broker_is_addressed_by_url() -> None:
    assert BusAddress.parse("embedded").port == 0
    assert BusAddress.parse("embedded:1999?rate=2").rate == 2.0
    address = BusAddress.parse("mqtt://ann@broker.local?run=show", "p@ss")
    assert (address.host, address.port, address.user, address.password, address.run) == (
        "broker.local",
        1883,
        "ann",
        "p@ss",
        "show",
    )
    assert BusAddress.parse("mqtts://[::1]").port == 8883
    assert BusAddress.parse("mqtts://[::1]").tls_context() is not None
    assert "p@ss" not in f"{address} {address!r}"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("http://host", "mqtt"),
        ("mqtt://", "mqtt"),
        ("mqtt://host:99999", "65535"),
        ("mqtt://host/topic", "follow"),
        ("mqtt://host?qos=1", "ca, password_file, rate, run"),
        ("mqtt://ann:hushhush@host", "environment variable SITL_BRIDGE_BUS_PASSWORD"),
        ("mqtt://host?password_file=/no/such", "/no/such: cannot be read"),
        ("mqtt://host?password_file=/dev/zero", "not a file"),
        ("mqtt://host?rate=0", "0.1"),
        ("mqtt://host?ca=/x.pem", "mqtts"),
        ("mqtts://host?ca=/no/such.pem", "/no/such.pem"),
        ("mqtt://host?run=a/b", "a/b"),
    ],
)
def test_a_faulty_address_is_refused_without_its_password(text: str, what: str) -> None:
    with pytest.raises(UserError, match=what.replace("?", r"\?")) as caught:
        BusAddress.parse(text, "hushhush")
    assert "hushhush" not in str(caught.value)


def test_a_password_comes_from_a_file_that_only_its_owner_may_read(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("p@ss word\nnot this\n")
    file.chmod(0o600)
    assert BusAddress.parse(f"mqtts://ann@host?password_file={file}", "other").password == "p@ss word"
    for content, mode, what in (("p@ss", 0o640, "chmod 600"), ("", 0o600, "first line is empty")):
        file.write_text(content)
        file.chmod(mode)
        with pytest.raises(UserError, match=what) as caught:
            BusAddress.parse(f"mqtts://ann@host?password_file={file}")
        assert "p@ss" not in str(caught.value)


def test_a_password_leaves_the_environment_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for text in (None, "mqtts://ann@host"):
        monkeypatch.setenv(PASSWORD, "hushhush")
        outlets = parse_outlets({"bus": text})
        assert PASSWORD not in os.environ
    (bus,) = outlets
    assert isinstance(bus, BusSettings)
    assert bus.address.password == "hushhush"


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("embedded", False),
        ("mqtt://localhost", False),
        ("mqtt://127.0.0.1", False),
        ("mqtt://[::1]", False),
        ("mqtts://broker.example", False),
        ("mqtt://broker.example", True),
        ("mqtt://192.0.2.7", True),
    ],
)
def test_an_unencrypted_way_to_another_host_is_warned_of(text: str, warned: bool) -> None:
    assert ("unencrypted" in BusAddress.parse(text).warning) == warned


class Office:
    """A command queue and its executor, without the processes between them."""

    def __init__(
        self,
        source: RunClock,
        topics: Topics,
        now: Callable[[], float],
        on_formation: OnCommand | None = None,
    ) -> None:
        self.execution = Execution(source, on_formation, now)
        self.queue = CommandQueue(topics, self.execution.take, lambda: source.status().seconds, now)

    def poll(self) -> list[Reply]:
        replies = self.queue.settle(self.execution.poll())
        self.queue.poll()
        return replies


class Desked:
    """A command queue over a server that does not run, so that a test decides when it takes a batch."""

    def __init__(self, server: LockstepServer) -> None:
        self.time = 1000.0
        self.server = server
        self.office = Office(server, Topics("run", ("0",)), lambda: self.time, self._on_formation)
        self.queue = self.office.queue
        self.formation: Future[None] = Future()
        self.waiting: list[Callable[[], None]] = []
        server.call = self.waiting.append  # type: ignore[method-assign, assignment]

    def _on_formation(self, _kind: str, _data: Mapping[str, Any], _vehicle: int | None) -> Future[None]:
        return self.formation

    def send(self, request: int) -> object:
        return self.queue.receive("sitl/run/command/pause", PAUSE % str(request).encode())


@pytest.fixture
def desked(make_simulation: Callable[..., Simulation], free_port: Callable[[], int]) -> Desked:
    server = LockstepServer(make_simulation("iris"), ports=[free_port()])
    server.close()
    return Desked(server)


def test_a_flood_is_handed_on_in_small_batches_at_a_bounded_rate(desked: Desked) -> None:
    for k in range(1000):
        desked.send(k)
        desked.office.poll()
        desked.time += 0.001
    assert len(desked.waiting) == 1
    executed = 0
    while desked.waiting:
        desked.waiting.pop()()
        replies = desked.office.poll()
        assert len(replies) <= BATCH
        executed += len(replies)
    assert executed == desked.queue.counts.executed
    assert executed <= BURST + RATE + 1
    assert desked.queue.counts.refused == 1000 - executed
    assert desked.queue.counts.unanswered >= 1000 - 2 * (BURST + RATE + 1)


def test_what_the_simulation_does_not_take_is_withdrawn_for_good(desked: Desked) -> None:
    desked.send(1)
    assert desked.office.poll() == []
    desked.send(1)
    assert desked.queue.counts.duplicates == 1
    desked.time += EXECUTION_TIMEOUT
    (reply,) = desked.office.poll()
    assert not reply.accepted
    desked.waiting.pop()()
    assert not desked.server.status().paused
    # It was not executed, so the same request may come again.
    desked.send(1)
    desked.office.poll()
    desked.waiting.pop()()
    (reply,) = desked.office.poll()
    assert reply.accepted
    assert desked.server.status().paused


def test_a_formation_that_does_not_answer_holds_up_nobody_and_is_not_asked_twice(desked: Desked) -> None:
    cube = b'{"version": 1, "request_id": "cube", "pattern": "cube"}'
    assert desked.queue.receive("sitl/run/command/formation", cube) is None
    assert desked.office.poll() == []
    desked.send(1)
    desked.office.poll()
    desked.waiting.pop()()
    (reply,) = desked.office.poll()
    assert reply.command == "pause"
    desked.time += DELEGATED_TIMEOUT + 1.0
    (reply,) = desked.office.poll()
    assert (reply.command, reply.accepted) == ("formation", False)
    assert "no answer within" in reply.reason
    again = desked.queue.receive("sitl/run/command/formation", cube)
    assert again == reply.model_copy(update={"duplicate": True})


def test_a_retained_command_is_ignored(desked: Desked) -> None:
    assert desked.queue.receive("sitl/run/command/pause", PAUSE % b"1", retained=True) is None
    assert desked.office.poll() == []
    assert not desked.waiting
    assert desked.queue.counts.retained == 1


def test_numbers_that_are_none_are_null(desked: Desked) -> None:
    desked.server.simulation.states[0]["position"] = np.nan
    (state,) = sampling.states(take_snapshot(desked.server))
    assert state.position == (None, None, None)
    assert json.loads(state.model_dump_json())["latitude"] is None
    assert math.isfinite(state.time)


def test_names_that_are_no_level_of_a_topic_are_refused() -> None:
    with pytest.raises(UserError, match="a/b"):
        Topics("run", ("a/b",))
    with pytest.raises(UserError, match="same name"):
        Topics("run", ("0", "0"))


def test_an_in_process_fleet_is_steered_like_a_server(iris: Airframe) -> None:
    with StackFleet(
        World(), [StackVehicle(iris, name="a"), StackVehicle(iris, name="b", position=(0.0, 5.0, 0.0))]
    ) as fleet:
        run = FleetClock(fleet)
        office = Office(run, Topics("run", fleet.simulation.names), time.monotonic)

        def send(topic: str, request: str, **values: object) -> None:
            body = json.dumps({"version": 1, "request_id": request} | values).encode()
            assert office.queue.receive(f"sitl/run/{topic}", body) is None
            assert office.poll() == []

        send("vehicle/b/command/motor_loss", "lost", motor=2)
        run.advance(3)
        (reply,) = office.poll()
        assert (reply.accepted, reply.vehicle, reply.time) == (True, "b", 0.0)
        assert fleet.simulation.states["rotor_health"][:, 1].tolist() == [1.0, 0.0]
        assert take_snapshot(run).clock["steps"] == 3
        assert take_snapshot(run).time == pytest.approx(fleet.time * 1e-6)
        send("command/step", "step", count=2)
        owner = threading.Thread(target=run.advance, args=(4,))
        owner.start()
        while run.status().steps < 5:
            time.sleep(0.001)
        assert run.status().paused
        assert run.status().steps == 5
        run.resume()
        owner.join()
        assert run.status().steps == 7
        assert [health.connected for health in sampling.health(take_snapshot(run))] == [True, True]


@pytest.mark.parametrize("speed", [0, 1e-300, 1e-9, 1e7, 1e308])
def test_a_pace_that_would_stop_or_overflow_time_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="than or equal to"):
        RUN_COMMANDS["pace"].model_validate({"version": 1, "request_id": "a", "speed": speed})


@pytest.mark.parametrize("steady", [{"speed": 1e308}, {"speed": 200}, {"speed": 5, "upward": -1e9}])
def test_a_wind_that_never_blew_is_refused(steady: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="than or equal to"):
        RUN_COMMANDS["wind"].model_validate({"version": 1, "request_id": "a", "wind": {"steady": steady}})


def test_no_vehicle_is_moved_with_a_speed_at_which_its_motion_diverges() -> None:
    at = {"version": 1, "request_id": "a", "position": [0.0, 0.0, -5.0]}
    teleport = commands_for("iris")["teleport"]
    assert teleport.model_validate(at | {"velocity": [0.0, 1000.0, 0.0]})
    with pytest.raises(ValidationError, match="1000"):
        teleport.model_validate(at | {"velocity": [0.0, 1e9, 0.0]})


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("goto", {"position": [1e300, 0.0, 0.0]}), ("velocity", {"velocity": [0.0, 0.0, -1e300]})],
)
def test_no_motion_is_commanded_that_mavlink_cannot_carry(kind: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="100000"):
        commands_for("iris")[kind].model_validate({"version": 1, "request_id": "a"} | fields)
    with pytest.raises(ValidationError, match="100000"):
        RUN_COMMANDS["formation"].model_validate(
            {"version": 1, "request_id": "a", "offsets": [[0.0, 0.0, 0.0], [0.0, 1e155, 0.0]]}
        )


def test_the_bounds_of_pace_and_wind_are_in_their_schemas() -> None:
    assert '"minimum": 0.01' in json.dumps(RUN_COMMANDS["pace"].model_json_schema())
    assert '"maximum": 150.0' in json.dumps(RUN_COMMANDS["wind"].model_json_schema())


def test_a_speed_that_is_refused_leaves_the_one_that_is_reported(
    make_simulation: Callable[..., Simulation], free_port: Callable[[], int]
) -> None:
    server = LockstepServer(make_simulation("iris"), ports=[free_port()], speed=3.0)
    try:
        for speed in (1e-300, 0.0, math.nan, 1e300):
            with pytest.raises(ValueError, match=r"the speed must be 0\.01 to 1e"):
                server.set_speed(speed)
        assert server.speed == 3.0
    finally:
        server.close()
