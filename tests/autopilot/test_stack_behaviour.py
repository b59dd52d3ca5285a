"""The built-in stack answers and does what the table of PX4 v1.16.0's behaviour says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest
from support.autopilot_point import Point
from support.mavlink_vehicle import source
from support.paths import ROOT
from support.stack_behaviour import AIR, GROUND, Driver, Row, outcome_of

from sitl_bridge.autopilot.mavlink.services import Services
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import Decoder

PAGE = ROOT / "docs/built-in-stack.md"

RATES = {
    mavlink.MAVLINK_MSG_ID_HEARTBEAT: 2.0,
    mavlink.MAVLINK_MSG_ID_SYS_STATUS: 2.0,
    mavlink.MAVLINK_MSG_ID_EXTENDED_SYS_STATE: 2.0,
}
"""Hz; a link with all streams takes most of the time."""


class BuiltInDriver(Driver):
    """Drives the built-in stack's MAVLink services and commander; a kinematic point is the vehicle."""

    def __init__(self) -> None:
        super().__init__(system=1)
        self.point = Point()
        self.point.station = False
        vehicle = dataclasses.replace(
            source(1),
            commander=self.point.commander,
            estimate=self.point.estimate,
            setpoint=self.point.setpoint,
        )
        self._services = Services(vehicle)
        self._key = (18570, ("127.0.0.1", 50000))
        self._services.link(self._key, RATES)
        self._sender = mavlink.MAVLink(None, srcSystem=1, srcComponent=1)
        self._decoder = Decoder()
        self._answers: list[Any] = []

    def send(self, message: Any, system: int = 255, component: int = 190) -> None:
        frame = message.pack(mavlink.MAVLink(None, srcSystem=system, srcComponent=component))
        for arrived in self._decoder.messages(frame):
            self._answers += self._services.handle(self._key, arrived, self.point.now, self.point.now)

    def advance(self) -> Iterable[Any]:
        self.point.step()
        found, self._answers = self._answers, []
        for _key, messages in self._services.poll(self.point.now, self.point.now):
            found += messages
        return [self._decoder.message(message.pack(self._sender)) for message in found]


@pytest.mark.parametrize("row", [*GROUND, *AIR], ids=lambda row: row.name)
def test_the_built_in_stack_behaves_as_the_table_says(row: Row) -> None:
    driver = BuiltInDriver()
    driver.ready()
    assert outcome_of(row, driver) == row.outcome


def test_the_page_counts_the_rows_and_shows_those_that_differ() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Behaviour")[2]
    rows = [*GROUND, *AIR]
    assert f"{len(rows)} rows" in section
    shown = [line for line in section.splitlines() if line.startswith("| ")]
    assert shown[1:] == [row.line() for row in rows if row.px4]
