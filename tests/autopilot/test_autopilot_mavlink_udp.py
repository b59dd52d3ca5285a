"""The MAVLink services over UDP: ports, peers that come and go, and the real MAVSDK."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from mavsdk.plugins.mission_raw import MissionItem as RawItem
from pymavlink.dialects.v20 import common as mavlink
from support.mavlink_vehicle import ZURICH, ObedientCommander, source
from support.paths import MISSIONS

from sitl_bridge.autopilot.mavlink.endpoint import Endpoint
from sitl_bridge.autopilot.mavlink.services import Link, Services
from sitl_bridge.base.errors import UserError
from sitl_bridge.link.hil.ports import STACK_PORTS, remote_ports
from sitl_bridge.link.px4.vehicle_status import BatterySample
from sitl_bridge.plan.plan_file import load_plan
from sitl_bridge.plan.plan_upload import MissionItem, mission_items, rally_items
from sitl_bridge.session.missions.connection import connect
from sitl_bridge.session.missions.mavsdk_vehicle import Vehicle
from sitl_bridge.session.monitor import Monitor

INSTANCE = 91
SECOND = 1_000_000


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(Services(source(INSTANCE + 1)), INSTANCE) as opened:
        yield opened


class Peer:
    """A socket that speaks MAVLink."""

    def __init__(self, port: int = 0) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.sender = mavlink.MAVLink(None, srcSystem=255, srcComponent=190)
        self.parser = mavlink.MAVLink(None)
        self.parser.robust_parsing = True

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, message: Any, port: int) -> None:
        self.socket.sendto(message.pack(self.sender), ("127.0.0.1", port))
        self.sender.seq = (self.sender.seq + 1) % 256

    def datagrams(self) -> list[bytes]:
        got = []
        while True:
            try:
                got.append(self.socket.recv(65535))
            except BlockingIOError:
                return got

    def heard(self) -> list[Any]:
        return [m for data in self.datagrams() for m in self.parser.parse_buffer(data) or []]


def kinds(messages: list[Any]) -> set[str]:
    return {message.get_type() for message in messages}


HEARTBEAT = mavlink.MAVLink_heartbeat_message(6, 8, 0, 0, 4, 3)

linux = pytest.mark.skipif("sys.platform != 'linux'", reason="only Linux tells that nobody listens")


def test_ports_are_px4s() -> None:
    def numbers(instance: int) -> list[tuple[int, int]]:
        return [(STACK_PORTS[name] + instance, port) for name, port in remote_ports(instance).items()]

    assert numbers(0) == [(18570, 14550), (14580, 14540), (14280, 14030)]
    assert numbers(9) == [(18579, 14550), (14589, 14549), (14289, 14039)]
    assert numbers(10) == [(18580, 14550), (14590, 15550), (14290, 14040)]


def test_a_listener_that_never_speaks_hears_all_as_from_px4(endpoint: Endpoint) -> None:
    with Peer(14030 + INSTANCE) as listener:
        endpoint.poll(0, 0)
        endpoint.poll(SECOND, SECOND)
        assert {"HEARTBEAT", "ATTITUDE", "SYS_STATUS", "LOCAL_POSITION_NED"} <= kinds(listener.heard())


@linux
def test_while_nobody_listens_only_a_heartbeat_is_tried_once_a_second() -> None:
    with Endpoint(Services(source(INSTANCE + 1)), INSTANCE) as endpoint:
        listen_come_and_go(endpoint)


def listen_come_and_go(endpoint: Endpoint) -> None:
    for now in range(0, 3 * SECOND, 50_000):
        endpoint.poll(now, now)
    assert not endpoint.services.links
    with Peer(14030 + INSTANCE) as listener:
        endpoint.poll(3 * SECOND, 3 * SECOND)
        assert len(endpoint.services.links) == 1
        endpoint.poll(3 * SECOND + 50_000, 3 * SECOND + 50_000)
        assert "ATTITUDE" in kinds(listener.heard())
    for now in range(4 * SECOND, 5 * SECOND, 50_000):
        endpoint.poll(now, now)
    assert not endpoint.services.links  # it has gone


@linux
def test_who_listens_when_time_begins_hears_of_the_first_tick_however_long_the_stack_has_waited(
    endpoint: Endpoint,
) -> None:
    for wall in range(0, 2 * SECOND, 70_000):
        endpoint.poll(0, wall, ticked=False)
    with Peer(14030 + INSTANCE) as listener:
        for now in range(0, 100_000, 50_000):
            endpoint.poll(now, 2 * SECOND + now // 60)
        assert "ATTITUDE" in kinds(listener.heard())


def test_whoever_sends_to_a_local_port_becomes_a_peer_and_is_answered_alone(endpoint: Endpoint) -> None:
    with Peer() as one, Peer() as two:
        for peer in (one, two):
            peer.send(HEARTBEAT, 18570 + INSTANCE)
        endpoint.poll(0, 0)
        assert "ATTITUDE" in kinds(one.heard())
        assert "ATTITUDE" in kinds(two.heard())
        one.send(
            mavlink.MAVLink_command_long_message(INSTANCE + 1, 1, 512, 0, 148, *(0,) * 6), 18570 + INSTANCE
        )
        endpoint.receive(1000, 1000)
        assert kinds(one.heard()) == {"COMMAND_ACK", "AUTOPILOT_VERSION"}
        assert not two.heard()


def test_peers_that_come_and_go_do_not_pile_up(endpoint: Endpoint) -> None:
    peers = [Peer() for _ in range(20)]
    for k, peer in enumerate(peers):
        peer.send(HEARTBEAT, 18570 + INSTANCE)
        endpoint.poll(k * 1000, k * 1000)
    assert len(endpoint.services.links) <= 9  # eight, and QGroundControl's own port
    assert peers[-1].heard()
    for peer in peers:
        peer.socket.close()
    for k in range(3):
        endpoint.poll(SECOND + k * 50_000, SECOND + k * 50_000)


def test_garbage_and_floods_do_not_hold_up_the_vehicle(endpoint: Endpoint) -> None:
    with Peer() as peer:
        for size in (0, 1, 5, 300, 20_000):
            peer.socket.sendto(bytes([0xFD]) * size, ("127.0.0.1", 18570 + INSTANCE))
        peer.send(HEARTBEAT, 18570 + INSTANCE)
        endpoint.poll(0, 0)
        assert "HEARTBEAT" in kinds(peer.heard())


def test_messages_of_a_moment_share_datagrams_without_gaps_in_their_numbers(endpoint: Endpoint) -> None:
    with Peer() as peer:
        peer.send(HEARTBEAT, 14580 + INSTANCE)
        sequence: list[int] = []
        for now in range(0, 2 * SECOND, 50_000):
            endpoint.poll(now, now // 100)  # a hundred times real time
            datagrams = peer.datagrams()
            assert len(datagrams) <= 3
            for data in datagrams:
                assert len(data) <= 1400
                at = 0
                while at < len(data):
                    sequence.append(data[at + 4])
                    at += 12 + data[at + 1]
        assert len(sequence) > 300
        assert all((b - a) % 256 == 1 for a, b in itertools.pairwise(sequence))


def test_a_taken_port_is_told_and_leaves_nothing_open(endpoint: Endpoint) -> None:
    services = Services(source(INSTANCE + 1))
    with pytest.raises(UserError, match=f"UDP port {18570 + INSTANCE} .*--instance"):
        Endpoint(services, INSTANCE)
    endpoint.close()
    Endpoint(services, INSTANCE).close()


def test_the_monitor_feeds_the_battery_and_reads_the_vehicle(endpoint: Endpoint) -> None:
    commander = cast(ObedientCommander, endpoint.services.source.commander)
    monitor = Monitor(INSTANCE, battery=lambda: BatterySample(5, 11.1, 12.0, 0.45, 100.0, 3))
    commander.arming_problems = ("Low battery",)
    commander.unhealthy = mavlink.MAV_SYS_STATUS_SENSOR_BATTERY
    monitor.open()
    try:
        for k in range(200):
            endpoint.poll(k * 50_000, k * 50_000)
            monitor.poll()
            if monitor.status().landed and commander.battery_state.remaining < 0.5:
                break
            time.sleep(0.01)
        assert commander.battery_state.voltage == pytest.approx(11.1, abs=0.01)
        assert commander.battery_state.remaining == pytest.approx(0.45)
        assert monitor.status().mode == "Hold"
        assert monitor.status().landed == "in air"
        assert monitor.status().waits_for == ("battery to become healthy",)
    finally:
        monitor.stop()


def test_a_message_whose_handler_fails_costs_one_text(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: object, _message: Any, _now: int, _wall: int) -> list[Any]:
        raise KeyError("param_type")

    monkeypatch.setattr(Link, "handle", fail)
    with Peer() as peer:
        for count in range(2):
            peer.send(mavlink.MAVLink_param_request_list_message(INSTANCE + 1, 1), 18570 + INSTANCE)
            endpoint.poll(count * SECOND, count * SECOND)
        texts = [m.text for m in peer.heard() if m.get_type() == "STATUSTEXT"]
    assert "".join(texts) == ("Message PARAM_REQUEST_LIST (21) could not be handled (KeyError: 'param_type')")


# ------------------------------------------------------------------ MAVSDK


@contextmanager
def flying(services: Services, speed: float) -> Iterator[None]:
    """Poll an endpoint from a thread, simulated time running ``speed`` times as fast as the wall's."""
    done = threading.Event()
    failure: list[BaseException] = []

    def run() -> None:
        begin = time.monotonic()
        try:
            with Endpoint(services, INSTANCE) as endpoint:
                while not done.wait(0.05 / max(speed, 5.0)):
                    wall = int((time.monotonic() - begin) * SECOND)
                    endpoint.poll(int(wall * speed), wall)
        except BaseException as error:
            failure.append(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        assert not failure


def raw(items: list[MissionItem]) -> list[RawItem]:
    """As MAVSDK sends them."""
    fields = ("seq", "frame", "command", "current", "autocontinue", "param1", "param2", "param3", "param4")
    return [
        RawItem(**{name: getattr(m, name) for name in (*fields, "x", "y", "z", "mission_type")})
        for m in (item.message((1, 1)) for item in items)
    ]


@pytest.mark.parametrize("speed", [5.0, 50.0])
def test_mavsdk_connects_and_finds_everything_it_asks_for(speed: float) -> None:
    services = Services(source(INSTANCE + 1))
    commander = cast(ObedientCommander, services.source.commander)
    commander.arming_problems = ("Home position not set",)

    async def use(vehicle: Vehicle) -> None:
        assert vehicle.system_id == INSTANCE + 1
        commander.send_text(mavlink.MAV_SEVERITY_CRITICAL, "Preflight Fail: Home position not set")
        async with asyncio.timeout(20.0):
            while not vehicle.failed_checks:
                await vehicle.changed()
        assert vehicle.failed_checks == ("Home position not set",)
        commander.arming_problems = ()
        await vehicle.wait_until_armable()
        assert vehicle.position == (3.0, 4.0, -10.0)
        assert vehicle.global_position[0] == pytest.approx(ZURICH[0] + 2.7e-5, abs=1e-6)
        assert await vehicle.param.get_param_float("MPC_THR_HOVER") == 0.5
        await vehicle.action.set_return_to_launch_altitude(25.0)
        assert commander.parameters.get("RTL_RETURN_ALT") == 25.0
        found = await vehicle.param.get_all_params()
        assert len(found.int_params) + len(found.float_params) == len(commander.parameters.infos)
        plan = load_plan(MISSIONS / "survey.plan")
        await vehicle.mission_raw.upload_rally_points(raw(rally_items(plan)))
        await vehicle.mission_raw.upload_mission(raw(mission_items(plan)))
        assert len(commander.flight.items) == len(plan.items)
        assert len(commander.plans.rally) == len(plan.rally_points)
        down = await vehicle.mission_raw.download_mission()
        assert [item.command for item in down] == [item.command for item in plan.items]
        await vehicle.arm()
        assert commander.armed
        await vehicle.mission_raw.start_mission()

    async def run() -> None:
        # MAVSDK speaks first: instances above 9 share the port it would listen on.
        async with connect(f"udpout://127.0.0.1:{14580 + INSTANCE}") as vehicle:
            await use(vehicle)

    with flying(services, speed):
        asyncio.run(run())
