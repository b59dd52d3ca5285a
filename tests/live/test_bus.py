"""The bus between a running lockstep and a broker: round trips, commands, floods, brokers that die."""

from __future__ import annotations

import gc
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from support.bus_client import Client
from support.paths import ROOT
from support.peer import Peer
from support.tls_broker import PASSWORD, USER, TlsBroker

from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.live.bus.address import BusAddress
from sitl_bridge.live.bus.broker import start_broker
from sitl_bridge.live.bus.bus import Bus
from sitl_bridge.live.run.command_queue import BURST
from sitl_bridge.live.run.execution import OnCommand
from sitl_bridge.live.run.messages import PUBLISHED
from sitl_bridge.live.run.outlet import RunContext

# Brokers, floods and a lockstep at full speed share one interpreter: this takes minutes.
pytestmark = pytest.mark.slow

Make = Callable[..., Simulation]
Wait = Callable[..., None]


def processes(module: str) -> list[psutil.Process]:
    """Of this program, by the beginning of the module they run."""
    family = psutil.Process().children(recursive=True)
    return [p for p in family if any(word.startswith(module) for word in p.cmdline())]


@pytest.fixture
def peers() -> list[Peer]:
    """Those that fly the vehicles of ``lockstep``."""
    return []


@pytest.fixture
def lockstep(
    make_simulation: Make, free_port: Callable[[], int], peers: list[Peer]
) -> Iterator[LockstepServer]:
    """Two vehicles in lockstep with obedient peers; no step of it is lost, whatever a test does."""
    simulation = make_simulation("iris", "iris")
    ports = [free_port(), free_port()]
    server = LockstepServer(simulation, ports=ports, speed=math.inf)
    server.prepare()  # no command waits while the loop is compiled
    with server:
        peers += [Peer(port) for port in ports]
        yield server
        for peer in peers:
            peer.close()
    assert server.failure is None
    for peer in peers:
        assert np.all(np.diff(peer.times) == simulation.step)


@pytest.fixture
def notes() -> list[str]:
    """What buses say to their user."""
    return []


@pytest.fixture
def start_bus(
    lockstep: LockstepServer, tmp_path: Path, wait_for: Wait, notes: list[str]
) -> Iterator[Callable[..., tuple[Bus, Client]]]:
    """Starts a bus with its broker and a client of it; nothing of them is left at the end."""
    before = set(threading.enumerate())
    opened: list[Bus | Client] = []

    def start(
        text: str = "embedded?run=run", on_formation: OnCommand | None = None, **options: str
    ) -> tuple[Bus, Client]:
        run = RunContext(lockstep, tmp_path, notify=notes.append, on_formation=on_formation, name="other")
        bus = Bus(run, BusAddress.parse(text, options.get("password")))
        opened.append(bus)
        bus.start()
        wait_for(bus.connected.is_set, "the bus to reach its broker")
        client = Client(bus.address.port, **options)
        opened.append(client)
        wait_for(lambda: client.heard["sitl/run/vehicle/1/state"], "the state of a vehicle")
        return bus, client

    yield start
    for thing in opened:
        thing.close()
        assert not isinstance(thing, Bus) or thing.failure is None
    wait_for(lambda: set(threading.enumerate()) <= before, "threads to end")
    assert not [
        p for p in psutil.Process().children(recursive=True) if "sitl_bridge.live.bus.broker" in p.cmdline()
    ]


def test_what_is_published_is_of_the_documented_messages_and_true(
    lockstep: LockstepServer, start_bus: Callable[..., tuple[Bus, Client]], wait_for: Wait
) -> None:
    bus, client = start_bus()
    client.send("sitl/run/vehicle/1/command/motor_loss", request_id="lost", motor=3)
    wait_for(lambda: client.heard["sitl/run/vehicle/1/event"], "an event")
    wait_for(lambda: client.answer("lost"), "the answer")
    lost = client.answer("lost")
    assert lost is not None
    assert lost.accepted, lost.reason
    wait_for(lambda: client.heard["sitl/run/vehicle/1/health"][-1]["rotor_health"][2] == 0.0, "the loss")
    assert set(client.messages()) == set(PUBLISHED)
    state = client.heard["sitl/run/vehicle/1/state"][-1]
    assert state["position"][1] == pytest.approx(5.0, abs=0.5)
    assert state["latitude"] == pytest.approx(47.397742, abs=1e-4)
    assert lockstep.simulation.states[1]["rotor_health"][2] == 0.0
    assert lockstep.simulation.states[0]["rotor_health"][2] == 1.0
    late = Client(bus.address.port)
    wait_for(lambda: len(late.retained) == 7, "status, clock, world and 2 x 2 of vehicles, retained")
    late.close()
    bus.close()
    wait_for(lambda: client.heard["sitl/run/status"][-1]["online"] is False, "the farewell")


def test_every_command_does_what_it_says(
    lockstep: LockstepServer, start_bus: Callable[..., tuple[Bus, Client]], wait_for: Wait
) -> None:
    targets: list[tuple[str, Mapping[str, Any], int | None]] = []

    def take(kind: str, data: Mapping[str, Any], vehicle: int | None) -> Future[None]:
        targets.append((kind, data, vehicle))
        answer: Future[None] = Future()
        answer.set_result(None)
        return answer

    _, client = start_bus(on_formation=take)
    run, vehicle = "command", "vehicle/0/command"

    def do(topic: str, **values: Any) -> None:
        client.do(wait_for, topic, **values)

    simulation = lockstep.simulation
    do(f"{run}/wind", wind={"steady": {"speed": 4.0, "direction": 180.0}})
    assert simulation.world.wind[0]["steady"].tolist() == pytest.approx([4.0, 0.0, 0.0])
    wait_for(lambda: client.heard["sitl/run/world"][-1]["steady_wind"][0] == pytest.approx(4.0), "the wind")
    do(f"{run}/pace", speed=2.5)
    assert lockstep.speed == 2.5
    do(f"{run}/pause")
    wait_for(lambda: client.heard["sitl/run/clock"][-1]["paused"], "the pause")
    steps = lockstep.status().steps
    do(f"{run}/step", count=7)
    wait_for(lambda: lockstep.status().steps == steps + 7, "seven steps")
    do(f"{vehicle}/sensor_fault", sensor="magnetometer", fault="stuck")
    do(f"{vehicle}/gps_jamming", level=0.5)
    do(f"{vehicle}/teleport", position=[100.0, -20.0, -30.0], velocity=[1.0, 0.0, 0.0], yaw=90.0)
    state = simulation.states[0]
    assert state["position"][:2].tolist() == [100.0, -20.0]
    assert -30.6 < state["position"][2] < -30.0
    assert state["attitude"].tolist() == pytest.approx([math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)])
    health = client.heard["sitl/run/vehicle/0/health"]
    wait_for(lambda: {f["fault"] for f in health[-1]["faults"]} == {"stuck", "jammed"}, "both faults")
    do(f"{vehicle}/sensor_fault", sensor="magnetometer", ends=True)
    do(f"{vehicle}/gps_jamming", ends=True)
    wait_for(lambda: health[-1]["faults"] == [], "no fault")
    do(f"{run}/resume")
    do(f"{run}/pace", speed="max")
    wait_for(lambda: lockstep.status().steps > steps + 1000, "time to run on")
    do(f"{run}/formation", pattern="cube", spacing=4.0)
    do(f"{vehicle}/abort", action="hold")
    assert [(kind, vehicle) for kind, _, vehicle in targets] == [("formation", None), ("abort", 0)]


def test_what_cannot_be_done_is_refused_with_a_reason(
    lockstep: LockstepServer, start_bus: Callable[..., tuple[Bus, Client]], wait_for: Wait
) -> None:
    _, client = start_bus()
    faulty: dict[str, tuple[str, dict[str, Any], str]] = {
        "wind": ("sitl/run/command/wind", {"wind": {"steady": {"speed": -1.0}}}, "wind.steady.speed"),
        "file": ("sitl/run/command/wind", {"wind": {"series": {"file": "/etc/passwd"}}}, "--world"),
        "pace": ("sitl/run/command/pace", {"speed": 0}, "greater than or equal to 0.01"),
        "step": ("sitl/run/command/step", {"count": 1, "pace": 3}, "pace"),
        "kind": ("sitl/run/command/fly", {}, "commands: wind, pace"),
        "who": ("sitl/run/vehicle/9/command/motor_loss", {"motor": 1}, "no vehicle '9'"),
        "rotor": ("sitl/run/vehicle/0/command/motor_loss", {"motor": 8}, "motors 1 to 4"),
        "sensor": ("sitl/run/vehicle/0/command/sensor_fault", {"sensor": "nose", "fault": "off"}, "imu 0"),
        "place": ("sitl/run/vehicle/0/command/teleport", {"position": [0.0, 5.0, 0.0]}, "vehicle 1 is only"),
        "under": ("sitl/run/vehicle/0/command/teleport", {"position": [0.0, 0.0, 9.0]}, "position.2"),
        "formation": ("sitl/run/command/formation", {"pattern": "v"}, "nothing in this run"),
        "version": ("sitl/run/command/pause", {"version": 2}, "version"),
    }  # fmt: skip
    for request, (topic, values, _) in faulty.items():
        client.send(topic, **({"request_id": request} | values))
    client.client.publish("sitl/run/command/pause", b"\xff{not json", qos=1)
    wait_for(lambda: client.answer("unidentified"), "the last answer")
    for request, (_, _, reason) in faulty.items():
        wait_for(lambda request=request: client.answer(request), f"the answer to {request}")
        reply = client.answer(request)
        assert reply is not None
        assert not reply.accepted
        assert reason in reply.reason
    assert not lockstep.status().paused
    assert lockstep.simulation.world.wind[0]["steady"].tolist() == [0.0, 0.0, 0.0]


def test_no_command_is_executed_twice(
    tmp_path: Path, lockstep: LockstepServer, start_bus: Callable[..., tuple[Bus, Client]], wait_for: Wait
) -> None:
    bus, client = start_bus()
    client.send("sitl/run/command/pause", request_id="pause")
    wait_for(lambda: client.answer("pause"), "the pause")
    wait_for(lambda: lockstep.status().paused, "the pause")
    steps = lockstep.status().steps
    client.send("sitl/run/command/step", request_id="once", count=5)
    wait_for(lambda: client.answer("once"), "the first answer")
    for _ in range(3):
        client.send("sitl/run/command/step", request_id="once", count=5)
    wait_for(lambda: len(client.heard["sitl/run/reply/once"]) == 4, "an answer to each")
    assert [m["duplicate"] for m in client.heard["sitl/run/reply/once"]] == [False, True, True, True]
    assert all(m["accepted"] for m in client.heard["sitl/run/reply/once"])
    assert lockstep.status().steps == steps + 5
    # A retained command is executed when it is sent, and never by a bus that comes later.
    client.send("sitl/run/command/step", request_id="kept", count=5, retain=True)
    wait_for(lambda: client.answer("kept"), "the answer to the retained one")
    address = BusAddress.parse(f"mqtt://127.0.0.1:{bus.address.port}?run=run")
    with Bus(RunContext(lockstep, tmp_path / "second"), address) as second:
        wait_for(second.connected.is_set, "a second bus")
        wait_for(lambda: second.counts.retained >= 1, "the retained command")
        client.send("sitl/run/command/resume", request_id="resume")
        wait_for(lambda: second.counts.executed == 1, "a fresh one")
    wait_for(lambda: lockstep.status().steps > steps + 10, "time to run on")
    assert second.counts.executed == 1


def test_the_lockstep_runs_on_without_a_broker_and_the_bus_comes_back(
    lockstep: LockstepServer,
    start_bus: Callable[..., tuple[Bus, Client]],
    wait_for: Wait,
    notes: list[str],
    free_port: Callable[[], int],
    tmp_path: Path,
) -> None:
    port = free_port()
    broker = start_broker(port, tmp_path)
    bus, client = start_bus(f"mqtt://127.0.0.1:{port}?run=run")
    client.send("sitl/run/command/wind", request_id="before", wind={"steady": {"speed": 3.0}})
    wait_for(lambda: client.answer("before"), "an answer")
    os.kill(broker.pid, signal.SIGKILL)
    broker.stop()
    wait_for(lambda: not bus.connected.is_set(), "the bus to notice")
    steps = lockstep.status().steps
    wait_for(lambda: lockstep.status().steps > steps + 2000, "2000 steps without a broker")
    client.heard.clear()
    with start_broker(port, tmp_path):
        wait_for(bus.connected.is_set, "the bus to come back")
        wait_for(lambda: client.heard["sitl/run/vehicle/1/state"], "its state")
        wait_for(lambda: client.heard["sitl/run/status"], "its status")
        client.send("sitl/run/command/wind", request_id="before", wind={"steady": {"speed": 9.0}})
        wait_for(lambda: client.answer("before"), "an answer over the new connection")
        assert client.heard["sitl/run/reply/before"][-1]["duplicate"]
        assert -lockstep.simulation.world.wind[0]["steady"][0] == 3.0
        assert [line for line in notes if "no connection" in line]
        client.close()
        bus.close()


def test_an_embedded_broker_that_dies_is_started_again(
    lockstep: LockstepServer, start_bus: Callable[..., tuple[Bus, Client]], wait_for: Wait, notes: list[str]
) -> None:
    bus, client = start_bus()
    (broker,) = (
        p for p in psutil.Process().children(recursive=True) if "sitl_bridge.live.bus.broker" in p.cmdline()
    )
    steps = lockstep.status().steps
    broker.kill()
    wait_for(lambda: not bus.connected.is_set(), "the bus to notice")
    client.heard.clear()
    wait_for(lambda: client.heard["sitl/run/vehicle/1/state"], "states over the new broker")
    client.send("sitl/run/command/pause", request_id="after")
    wait_for(lambda: client.answer("after"), "an answer over the new broker")
    assert lockstep.status().steps > steps
    assert [line for line in notes if "ended by SIGKILL" in line]


def test_a_flood_of_commands_neither_loses_nor_blocks_a_step(
    lockstep: LockstepServer, start_bus: Callable[..., tuple[Bus, Client]], wait_for: Wait
) -> None:
    bus, client = start_bus()
    flood_program = ROOT / "tests" / "support" / "flood.py"
    seen: list[tuple[int, int]] = []
    flood = subprocess.Popen([sys.executable, flood_program, str(bus.address.port), "run", "3000"])
    while flood.poll() is None:
        seen.append((bus.counts.read, lockstep.status().steps))
        time.sleep(0.05)
    assert flood.returncode == 0
    taken, steps = np.array(seen).T
    # In each fifth of the commands that came, steps were taken; that none was lost, the fixture sees.
    fifths = np.interp(np.linspace(taken[0], taken[-1], 6), taken, steps)
    assert taken[-1] > 500
    assert np.all(np.diff(fifths) > 0)
    assert BURST <= bus.counts.executed < bus.counts.refused

    def accepted() -> bool:
        """Sent again with the same id until it is taken, as a client would."""
        client.send("sitl/run/vehicle/0/command/motor_loss", request_id="afterwards", motor=1, thrust=0.5)
        time.sleep(0.2)
        reply = client.answer("afterwards")
        return reply is not None and reply.accepted

    wait_for(accepted, "a command to be taken after the flood")


def test_a_run_that_is_killed_is_told_by_its_last_will(
    wait_for: Wait, free_port: Callable[[], int], tmp_path: Path
) -> None:
    port = free_port()
    with start_broker(port, tmp_path):
        command = ["-m", "sitl_bridge.cli.main", "serve", "--instance", "77", "--runs-dir", str(tmp_path)]
        environment = os.environ | {
            "SITL_BRIDGE_BUS": f"mqtt://ann@127.0.0.1:{port}?run=run",
            "SITL_BRIDGE_BUS_PASSWORD": "hushhush",
        }
        with (tmp_path / "out").open("w") as out:
            run = subprocess.Popen([sys.executable, *command], env=environment, stdout=out, stderr=out)
        try:
            wait_for(lambda: _listens(port), "the broker")
            client = Client(port)
            status = client.heard["sitl/run/status"]
            wait_for(lambda: status and status[-1]["online"], "the run to be online", 200.0)
        finally:
            run.kill()
            run.wait()
        wait_for(lambda: not status[-1]["online"], "the last will")
        client.close()
    assert "hushhush" not in "".join(
        path.read_text() for path in (tmp_path / "out", *tmp_path.glob("*/run.json"))
    )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def tls_broker(
    request: pytest.FixtureRequest, tmp_path: Path, free_port: Callable[[], int], wait_for: Wait
) -> Iterator[TlsBroker]:
    """A broker that wants TLS and a password; its certificate is fresh or an old one."""
    broker = TlsBroker(free_port(), tmp_path, expired=getattr(request, "param", "fresh") == "old")
    broker.start()
    wait_for(broker.listens, "the broker")
    yield broker
    broker.kill()


def test_a_command_and_the_farewell_with_password_and_tls(
    start_bus: Callable[..., tuple[Bus, Client]], wait_for: Wait, tls_broker: TlsBroker
) -> None:
    bus, client = start_bus(
        f"mqtts://{USER}@127.0.0.1:{tls_broker.port}?run=run&ca={tls_broker.certificate}",
        user=USER,
        password=PASSWORD,
        ca=str(tls_broker.certificate),
    )
    client.send(
        "sitl/run/vehicle/0/command/sensor_fault", request_id="gps", sensor="gps", fault="off", retain=True
    )
    wait_for(lambda: client.answer("gps"), "an answer")
    reply = client.answer("gps")
    assert reply is not None
    assert reply.accepted
    health = client.heard["sitl/run/vehicle/0/health"]
    wait_for(lambda: health[-1]["faults"] == [{"sensor": "gps", "instance": 0, "fault": "off"}], "the fault")
    bus.close()
    wait_for(lambda: client.heard["sitl/run/vehicle/0/state"][-1] is None, "the retained state to be removed")
    wait_for(lambda: not client.heard["sitl/run/status"][-1]["online"], "the farewell")


@pytest.mark.parametrize(
    ("tls_broker", "password", "ca", "what"),
    [
        ("fresh", "wrong", True, f"rejected {USER}"),
        ("fresh", PASSWORD, False, "certificate verify failed: self-signed certificate;"),
        ("old", PASSWORD, True, "certificate verify failed: certificate has expired;"),
    ],
    indirect=["tls_broker"],
)
def test_a_broker_that_refuses_is_told_and_the_lockstep_goes_on(
    tmp_path: Path,
    lockstep: LockstepServer,
    wait_for: Wait,
    tls_broker: TlsBroker,
    password: str,
    ca: bool,
    what: str,
    notes: list[str],
) -> None:
    before = set(threading.enumerate())
    trusted = f"&ca={tls_broker.certificate}" if ca else ""
    address = BusAddress.parse(f"mqtts://{USER}@127.0.0.1:{tls_broker.port}?run=run{trusted}", password)
    with Bus(RunContext(lockstep, tmp_path, notify=notes.append), address) as bus:
        wait_for(lambda: any(what in line for line in notes), "the refusal")
        steps = lockstep.status().steps
        wait_for(lambda: lockstep.status().steps > steps + 500, "500 steps")
        assert not bus.connected.is_set()
    assert bus.failure is None
    assert len([line for line in notes if "no connection" in line]) == 1
    assert not any(PASSWORD in line or "wrong" in line for line in notes)
    gc.collect()  # a socket left open is told here
    wait_for(lambda: set(threading.enumerate()) <= before, "threads to end")
