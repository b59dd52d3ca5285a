"""Whole flights with the bus, as a user starts them, seen and steered by an MQTT client."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.bus_client import Client
from support.paths import MISSIONS

from sitl_bridge.live.bus.broker import start_broker
from sitl_bridge.live.run.messages import PUBLISHED
from sitl_bridge.session.missions.mavsdk_vehicle import SILENCE_LIMIT

# Flights wait for whoever else uses the machine.
pytestmark = pytest.mark.timeout(1200)

Wait = Callable[..., None]

INSTANCE = 84
"""Of the first flight stack, beyond those that other tests use."""
SQUARE = MISSIONS / "square.plan"
END = 400.0
"""s of wall time for a flight, on a busy machine."""
FOUR = """
formation:
  count: 4
  start: {pattern: grid, spacing: 3}
  leader: {speed: 2, acceleration: 1, waypoints: [{position: [0, 0, -10], hold: 300}]}
  patterns: [{at: 250, pattern: column, spacing: 4}]
  limits: {separation: 1, speed: 5, acceleration: 3, height: [3, 30]}
"""


@dataclass
class Program:
    """``sitl-bridge`` running, and a client of its bus."""

    process: subprocess.Popen[bytes]
    client: Client
    log: Path

    def words(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


@contextlib.contextmanager
def running(arguments: Sequence[str], bus: str, port: int, place: Path, wait_for: Wait) -> Iterator[Program]:
    """Run it with a bus on a broker's port; at the end it is gone, and nothing of it is left."""
    log = place / "out"
    command = [sys.executable, "-m", "sitl_bridge.cli.main", *arguments]
    common = ["--instance", str(INSTANCE), "--bus", bus, "--runs-dir", str(place / "runs")]
    with log.open("w") as out:
        process = subprocess.Popen([*command, *common], stdout=out, stderr=out, start_new_session=True)
    try:
        wait_for(lambda: listens(port) or process.poll() is not None, "the broker", END)
        assert process.poll() is None, log.read_text()
        client = Client(port)
        try:
            wait_for(lambda: client.last("status").get("online"), "the run", END)
            yield Program(process, client, log)
        finally:
            client.close()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(60.0)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def fly(mission: Path, *more: str, stack: str = "builtin", speed: str = "1") -> list[str]:
    return ["fly", str(mission), "--autopilot", stack, "--speed", speed, "--headless", *more]


@pytest.mark.slow
def test_a_flight_is_seen_whole_and_steered(
    tmp_path: Path, free_port: Callable[[], int], wait_for: Wait
) -> None:
    port = free_port()
    with running(fly(SQUARE), f"embedded:{port}?run=run", port, tmp_path, wait_for) as program:
        client = program.client
        client.do(wait_for, "vehicle/0/command/teleport", position=[0.2, 0.1, 0.0])
        wait_for(lambda: 0.15 < client.last("vehicle/0/state")["position"][0] < 0.25, "0.2 m")
        client.do(wait_for, "command/pace", speed=4)
        wait_for(lambda: client.last("clock")["speed"] == 4.0, "the pace")
        wait_for(lambda: client.height() > 5.0, "the climb", END)
        northerly = {"steady": {"speed": 3.0, "direction": 0.0}}
        client.do(wait_for, "command/wind", request_id="wind", wind=northerly)
        wait_for(lambda: client.last("vehicle/0/state")["wind"][0] == pytest.approx(-3.0), "the wind")
        client.do(wait_for, "command/pause")
        wait_for(lambda: client.last("clock")["paused"], "the pause")
        wait_for(lambda: len({c["steps"] for c in client.heard["sitl/run/clock"][-3:]}) == 1, "stillness")
        steps = client.last("clock")["steps"]
        client.do(wait_for, "command/step", count=10)
        wait_for(lambda: client.last("clock")["steps"] == steps + 10, "ten steps")
        assert client.ask(wait_for, "command/step", request_id="wind", count=10).duplicate
        time.sleep(SILENCE_LIMIT + 3.0)  # the mission is not to take the vehicle for lost
        client.do(wait_for, "command/resume")
        client.do(wait_for, "vehicle/0/command/sensor_fault", sensor="magnetometer", fault="off")
        wait_for(lambda: client.last("vehicle/0/health")["faults"], "the fault")
        client.do(wait_for, "vehicle/0/command/sensor_fault", sensor="magnetometer", ends=True)
        refused = client.ask(wait_for, "vehicle/0/command/motor_loss", motor=8)
        assert "motors 1 to 4" in refused.reason
        refused = client.ask(wait_for, "command/formation", pattern="cube")
        assert "this run has no formation" in refused.reason
        client.close()
        client = program.client = Client(port)
        again = client.ask(wait_for, "command/wind", request_id="wind", wind={"steady": {"speed": 9.0}})
        assert again.duplicate
        assert client.last("world")["steady_wind"][0] == pytest.approx(-3.0)
        client.do(wait_for, "command/pace", speed="max")
        wait_for(lambda: not client.last("status")["online"], "the end", END)
        assert program.process.wait(60.0) == 0, program.words()
        assert set(client.messages()) == set(PUBLISHED)
        kinds = [event["kind"] for event in client.heard["sitl/run/vehicle/0/event"]]
        assert "disarmed" in kinds


@pytest.mark.slow
def test_a_flight_goes_on_without_its_broker_and_the_bus_comes_back(
    tmp_path: Path, free_port: Callable[[], int], wait_for: Wait
) -> None:
    port = free_port()
    broker = start_broker(port, tmp_path / "broker")
    bus = f"mqtt://127.0.0.1:{port}?run=run"
    with running(fly(SQUARE, speed="3"), bus, port, tmp_path, wait_for) as program:
        client = program.client
        wait_for(lambda: client.height() > 3.0, "the climb", END)
        os.kill(broker.pid, signal.SIGKILL)
        broker.stop()
        before = client.last("clock")["time"]
        time.sleep(2.0)
        client.heard.clear()
        with start_broker(port, tmp_path / "broker"):
            wait_for(lambda: listens(port), "the broker")
            late = Client(port)
            topics = {"status", "clock", "world", "vehicle/0/state", "vehicle/0/health"}
            wait_for(lambda: all(late.last(topic) for topic in topics), "all that is retained")
            assert late.last("clock")["time"] > before + 1.0
            assert late.last("status")["online"]
            late.do(wait_for, "command/pace", speed="max")
            wait_for(lambda: not late.last("status")["online"], "the end", END)
            assert program.process.wait(60.0) == 0, program.words()
            late.close()
            client.close()
    assert program.words().count("no connection") == 1
    assert program.words().count("bus: connected to") == 1


@pytest.mark.slow
def test_a_formation_in_flight_takes_orders(
    tmp_path: Path, free_port: Callable[[], int], wait_for: Wait
) -> None:
    port = free_port()
    scenario = tmp_path / "four.yaml"
    scenario.write_text(FOUR)
    bus = f"embedded:{port}?run=run"
    with running(fly(scenario, speed="3"), bus, port, tmp_path, wait_for) as program:
        _order(program.client, wait_for)
        wait_for(lambda: not program.client.last("status")["online"], "the end", END)
        assert program.process.wait(60.0) == 0, program.words()


def _order(client: Client, wait_for: Wait) -> None:
    def width(*vehicles: int) -> float:
        """m between the easternmost and the westernmost; the formation heads north."""
        east = [client.last(f"vehicle/{i}/state")["position"][1] for i in vehicles]
        return float(np.ptp(east))

    early = client.ask(wait_for, "command/formation", pattern="v")
    assert "has not started yet" in early.reason

    def accepted() -> bool:
        time.sleep(0.5)
        return client.ask(wait_for, "command/formation", pattern="v", spacing=6.0).accepted

    wait_for(accepted, "the start", END)
    # Ranks of a V are spacing/sqrt(2) m apart, also to the sides: one to the left, two to the right.
    wide = 3.0 * 6.0 / np.sqrt(2.0)
    wait_for(lambda: width(0, 1, 2, 3) == pytest.approx(wide, abs=0.7), "the V", END)
    client.do(wait_for, "command/pause")
    time.sleep(SILENCE_LIMIT + 3.0)
    client.do(wait_for, "command/resume")
    client.do(wait_for, "command/formation", scale=1.3)
    wait_for(lambda: width(0, 1, 2, 3) == pytest.approx(1.3 * wide, abs=0.7), "the wider V", END)
    for values, reason in (
        ({"scale": 0.05}, "m apart"),
        ({"pattern": "cube", "spacing": 60.0}, "height"),
        ({"offsets": [[0.0, 0.0, 0.0]]}, "1 slots for 4"),
    ):
        refused = client.ask(wait_for, "command/formation", **values)
        assert not refused.accepted
        assert reason in refused.reason
    elsewhere = client.ask(wait_for, "vehicle/2/command/goto", position=[0.0, 20.0, -10.0])
    assert "the formation or avoidance steers the vehicle" in elsewhere.reason
    client.do(wait_for, "vehicle/2/command/abort", action="land")
    wait_for(lambda: client.last("vehicle/2/health")["armed"] is False, "its landing", END)
    assert "has left" in client.ask(wait_for, "vehicle/2/command/abort", action="land").reason
    client.do(wait_for, "command/formation", offsets=[[0.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, -5.0, 0.0]])
    wait_for(lambda: width(0, 1, 3) == pytest.approx(10.0, abs=0.7), "the line", END)
    client.do(wait_for, "command/land")
    assert "lands" in client.ask(wait_for, "command/formation", pattern="v").reason


@pytest.mark.px4
def test_real_px4_is_seen_and_flies_through_wind_and_a_loss_of_gps(
    tmp_path: Path, free_port: Callable[[], int], wait_for: Wait
) -> None:
    port = free_port()
    bus = f"embedded:{port}?run=run"
    with running(fly(SQUARE, stack="px4", speed="2"), bus, port, tmp_path, wait_for) as program:
        client = program.client
        wait_for(lambda: client.height() > 5.0, "the climb", END)
        client.do(wait_for, "command/wind", wind={"steady": {"speed": 4.0, "direction": 90.0}})
        wait_for(lambda: client.last("vehicle/0/state")["wind"][1] == pytest.approx(-4.0), "the wind")
        # PX4 carries on for EKF2_NOAID_TOUT, 5 s, without a fix.
        client.do(wait_for, "command/pace", speed=1)
        lost = client.do(wait_for, "vehicle/0/command/sensor_fault", sensor="gps", fault="off").time
        wait_for(lambda: client.last("vehicle/0/health")["faults"], "the fault")
        wait_for(lambda: client.last("clock")["time"] > lost + 1.5, "1.5 s")
        client.do(wait_for, "vehicle/0/command/sensor_fault", sensor="gps", ends=True)
        wait_for(lambda: not client.last("vehicle/0/health")["faults"], "no fault")
        client.do(wait_for, "command/pace", speed="max")
        wait_for(lambda: not client.last("status")["online"], "the end", END)
        assert program.process.wait(60.0) == 0, program.words()
        assert set(client.messages()) == set(PUBLISHED)
