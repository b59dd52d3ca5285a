"""A bus with its embedded broker, the short of it; test_bus.py has the rest."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from support.bus_client import Client
from support.paths import MISSIONS

from sitl_bridge.api.flights import flight_settings
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.live.bus.address import BusAddress
from sitl_bridge.live.bus.bus import Bus
from sitl_bridge.live.bus.client import REFUSED
from sitl_bridge.live.outlets import BusSettings
from sitl_bridge.live.run.messages import PUBLISHED
from sitl_bridge.live.run.outlet import RunContext
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions


def answer_to_login(port: int, *login: str) -> int:
    """Return code of a broker's CONNACK (MQTT 3.1.1, 3.2.2.3) to a CONNECT with a user and a password."""
    words = b"".join(len(word).to_bytes(2, "big") + word.encode() for word in ("stranger", *login))
    body = b"\x00\x04MQTT\x04" + bytes([0xC2 if login else 0x02]) + b"\x00\x0a" + words
    with socket.create_connection(("127.0.0.1", port), timeout=30.0) as client:
        client.sendall(bytes([0x10, len(body)]) + body)
        answer = client.recv(4)
    return answer[3]


def test_a_flight_whose_broker_has_no_port_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    options = FlightOptions(autopilot="builtin", runs=tmp_path / "runs")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        address = BusAddress.parse(f"embedded:{holder.getsockname()[1]}")
        settings = flight_settings(MISSIONS / "square.plan", options)
        settings = replace(settings, outlets=(BusSettings(address),))
        with pytest.raises(UserError, match=f"--bus: port {address.port} of .* is in use by"):
            Session(settings)
    assert not (tmp_path / "runs").exists()


@pytest.mark.timeout(120)
def test_state_commands_refusals_and_duplicates_over_the_embedded_broker(
    make_simulation: Callable[..., Simulation],
    free_port: Callable[[], int],
    wait_for: Callable[..., None],
    tmp_path: Path,
) -> None:
    before = set(psutil.Process().children(recursive=True))
    address = BusAddress.parse(f"embedded:{free_port()}?run=run", "a word")
    with (
        LockstepServer(make_simulation("iris"), ports=[free_port()]) as server,
        Bus(RunContext(server, tmp_path), address) as bus,
    ):
        wait_for(bus.connected.is_set, "the broker")
        for login in ((), ("sitl", "another"), ("ann", "a word")):
            assert answer_to_login(bus.address.port, *login) in REFUSED
        client = Client(bus.address.port, user="sitl", password="a word")
        wait_for(lambda: client.last("vehicle/0/state"), "the state")
        gust = {"steady": {"speed": 4.0, "direction": 180.0}}
        client.do(wait_for, "command/wind", request_id="wind", wind=gust)
        assert server.simulation.world.wind[0]["steady"][0] == pytest.approx(4.0)
        wait_for(lambda: client.last("world")["steady_wind"][0] == pytest.approx(4.0), "the wind")
        again = client.ask(wait_for, "command/wind", request_id="wind", wind={"steady": {"speed": 9.0}})
        assert (again.accepted, again.duplicate) == (True, True)
        assert server.simulation.world.wind[0]["steady"][0] == pytest.approx(4.0)
        refused = client.ask(wait_for, "vehicle/0/command/motor_loss", motor=8)
        assert (refused.accepted, refused.reason) == (False, "the vehicle has motors 1 to 4, not 8")
        client.do(wait_for, "vehicle/0/command/motor_loss", motor=3)
        wait_for(lambda: client.heard["sitl/run/vehicle/0/event"], "the event")
        assert set(client.messages()) == set(PUBLISHED)
        client.close()
        for process in psutil.Process().children(recursive=True):
            words = [*process.cmdline(), *process.environ().values()]
            assert not any("a word" in word for word in words)
    assert bus.failure is None
    assert set(psutil.Process().children(recursive=True)) <= before
