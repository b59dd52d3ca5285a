"""Real PX4 v1.16.0 answers and does what the table says that the built-in stack is held to."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.stack_behaviour import AIR, GROUND, STEP, Driver, Row, outcome_of

from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.link.hil.ports import FIRST_PORT
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import Decoder
from sitl_bridge.link.px4.airframe_parameters import parameters_for
from sitl_bridge.link.px4.find import find_px4
from sitl_bridge.link.px4.px4_process import Px4Process

pytestmark = pytest.mark.px4
INSTANCE = 13
VERSION = "1.16.0"
"""The PX4 that the built-in stack follows."""
GROUND_STATION, LOCAL = 14550, 18570 + INSTANCE


class Px4Driver(Driver):
    """Steps the simulated time of a real PX4 and speaks MAVLink on its ground station link."""

    def __init__(self, server: LockstepServer) -> None:
        super().__init__(system=INSTANCE + 1)
        self._server = server
        self._limit = server.limit_time()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", GROUND_STATION))
        self._socket.setblocking(False)
        self._senders: dict[tuple[int, int], Any] = {}
        self._decoder = Decoder()
        self._time = server.status().seconds

    def close(self) -> None:
        self._limit.release()
        self._socket.close()

    def send(self, message: Any, system: int = 255, component: int = 190) -> None:
        sender = self._senders.setdefault(
            (system, component), mavlink.MAVLink(None, srcSystem=system, srcComponent=component)
        )
        self._socket.sendto(message.pack(sender), ("127.0.0.1", LOCAL))
        sender.seq = (sender.seq + 1) % 256

    def advance(self) -> Iterable[Any]:
        self._time += STEP
        self._limit.run_until(self._server.simulation.start + round(self._time * 1e6))
        end = time.monotonic() + 30.0
        while self._server.status().seconds < self._time - STEP / 4.0:  # it stops at the last whole step
            assert time.monotonic() < end, "PX4 does not answer"
            time.sleep(0.001)
        found: list[Any] = []
        while True:
            try:
                datagram = self._socket.recv(65535)
            except BlockingIOError:
                return [m for m in found if m.get_srcSystem() == self.system and m.get_srcComponent() == 1]
            found += self._decoder.messages(datagram)


@pytest.fixture
def driver(
    make_simulation: Callable[..., Simulation], tmp_path: Path, wait_for: Callable[..., None]
) -> Iterator[Px4Driver]:
    build = find_px4()
    if VERSION not in build.version:
        pytest.skip(f"the table is of PX4 v{VERSION}, this is {build.version}")
    server = LockstepServer(make_simulation("iris"), ports=[FIRST_PORT + INSTANCE], speed=math.inf)
    server.prepare()
    parameters = parameters_for(load_airframe("iris"))
    with server, Px4Process(build, INSTANCE, tmp_path / "run", parameters):
        wait_for(lambda: server.status().links[0].connected, "PX4 to connect")
        made = Px4Driver(server)
        try:
            made.ready()
            yield made
        finally:
            made.close()


def test_px4_answers_on_the_ground_as_the_table_says(driver: Px4Driver) -> None:
    found = {}
    for row in GROUND:
        driver.battery = 0.9
        driver.command(mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 0.0)
        driver.set_mode(4, 3)
        driver.run(2.5)
        outcome = outcome_of(row, driver)
        if outcome != (row.px4 or row.outcome):
            found[row.name] = outcome
    assert found == {}


@pytest.mark.parametrize("row", AIR, ids=lambda row: row.name)
def test_px4_does_in_the_air_as_the_table_says(row: Row, driver: Px4Driver) -> None:
    assert outcome_of(row, driver) == (row.px4 or row.outcome)
