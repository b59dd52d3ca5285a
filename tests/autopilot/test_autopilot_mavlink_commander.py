"""The MAVLink services on the real commander: what it refuses, says and arms, as a ground station sees it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pymavlink.dialects.v20 import common as mavlink
from support.mavlink_vehicle import ZURICH, Station, source

from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.commander_data import VehicleFacts
from sitl_bridge.autopilot.mavlink.services import Services
from sitl_bridge.autopilot.parameters import Parameters

STEP = 50_000
SECOND = 1_000_000


class CommandedStation(Station):
    """A station that talks to a vehicle on the ground with the real commander."""

    def __init__(self) -> None:
        vehicle = source()
        vehicle.commander = Commander(VehicleFacts(), Parameters())
        vehicle.estimate["position"] = vehicle.estimate["velocity"] = 0.0
        vehicle.estimate["attitude"] = (1.0, 0.0, 0.0, 0.0)
        super().__init__(Services(vehicle))
        self.vehicle_source = vehicle
        self.now = SECOND
        vehicle.commander.battery(16.4, 1.0, 0.9, self.now)
        self.run(3.0)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * SECOND / STEP)):
            self.now += STEP
            vehicle = self.vehicle_source
            vehicle.estimate["time"] = self.now
            vehicle.commander.update(self.now, vehicle.estimate, vehicle.setpoint)
            for _, messages in self.services.poll(self.now, self.now):
                self.take(messages)

    def result(self, number: int, *params: float) -> int:
        values = (*params, *(math.nan,) * (7 - len(params)))
        message = mavlink.MAVLink_command_long_message(1, 1, number, 0, *values)
        return int(self.ask(message, "COMMAND_ACK", self.now, self.now).result)

    def upload(self, items: list[Any], kind: int = 0) -> int:
        self.heard.clear()
        self.send(mavlink.MAVLink_mission_count_message(1, 1, len(items), kind), self.now, self.now)
        for item in items:
            self.send(item, self.now, self.now)
        return int(self.of("MISSION_ACK")[-1].type)


@pytest.fixture
def station() -> CommandedStation:
    return CommandedStation()


def waypoint(seq: int, command: int = 16, north: float = 0.0) -> Any:
    params = (0.0, 0.0, 0.0, math.nan)
    x, y = round(ZURICH[0] * 1e7 + north * 90), round(ZURICH[1] * 1e7)
    return mavlink.MAVLink_mission_item_int_message(1, 1, seq, 6, command, 0, 1, *params, x, y, 10.0, 0)


def test_a_vehicle_that_knows_where_it_is_can_arm_and_disarm(station: CommandedStation) -> None:
    assert station.of("SYS_STATUS")[-1].onboard_control_sensors_health & 1 << 28
    assert station.result(400, 1.0) == mavlink.MAV_RESULT_ACCEPTED
    station.run(1.1)
    assert station.of("HEARTBEAT")[-1].base_mode & mavlink.MAV_MODE_FLAG_SAFETY_ARMED
    assert station.result(400, 0.0) == mavlink.MAV_RESULT_ACCEPTED


def test_without_an_estimate_arming_is_denied_with_its_reasons_in_words(station: CommandedStation) -> None:
    station.vehicle_source.estimate["valid"] = records.ATTITUDE | records.HEIGHT
    station.run(6.0)
    assert station.result(400, 1.0) in (
        mavlink.MAV_RESULT_TEMPORARILY_REJECTED,
        mavlink.MAV_RESULT_DENIED,
        mavlink.MAV_RESULT_FAILED,
    )
    station.run(0.2)
    assert "position" in " ".join(m.text for m in station.of("STATUSTEXT"))


def test_a_mission_with_an_item_it_cannot_fly_is_refused_with_its_number(station: CommandedStation) -> None:
    items = [waypoint(0, 22), waypoint(1, north=20.0), waypoint(2, 31000)]
    assert station.upload(items) == mavlink.MAV_MISSION_UNSUPPORTED
    station.run(0.2)
    assert "item 2" in "".join(m.text for m in station.of("STATUSTEXT")).lower()
    assert station.upload(items[:2]) == mavlink.MAV_MISSION_ACCEPTED
    station.run(1.1)
    assert station.of("MISSION_CURRENT")[-1].total == 2


def test_an_item_that_is_executed_at_once_is_confirmed_as_the_current_one(station: CommandedStation) -> None:
    speed = mavlink.MAVLink_mission_item_int_message(1, 1, 2, 2, 178, 0, 1, 1.0, 3.0, -1.0, 0.0, 0, 0, 0.0, 0)
    items = [waypoint(0, 22), waypoint(1, north=20.0), speed, waypoint(3, north=40.0)]
    assert station.upload(items) == mavlink.MAV_MISSION_ACCEPTED
    assert station.result(300) == mavlink.MAV_RESULT_ACCEPTED
    station.run(0.2)
    request = mavlink.MAVLink_mission_set_current_message(1, 1, 2)
    assert station.ask(request, "MISSION_CURRENT", station.now, station.now).seq == 2
    station.run(1.1)
    assert station.of("MISSION_CURRENT")[-1].seq == 3


@pytest.mark.parametrize(("field", "result"), [("param1", 6), ("param4", 9), ("z", 12)])
def test_infinite_values_in_items_are_refused(station: CommandedStation, field: str, result: int) -> None:
    items = [waypoint(0, 22), waypoint(1, north=20.0)]
    setattr(items[1], field, math.inf)
    assert station.upload(items) == result
    station.run(0.1)
    assert "item 1" in "".join(m.text for m in station.of("STATUSTEXT"))


def test_unknown_commands_are_unsupported_and_unknown_modes_refused(station: CommandedStation) -> None:
    assert station.result(31000) == mavlink.MAV_RESULT_UNSUPPORTED
    assert station.result(176, 1.0, 77.0) != mavlink.MAV_RESULT_ACCEPTED
    assert station.result(176, 1.0, 4.0, 3.0) == mavlink.MAV_RESULT_ACCEPTED


def test_the_checks_that_fail_are_told_when_asked_for(station: CommandedStation) -> None:
    station.vehicle_source.commander.failures["gps"] = {0: "off"}
    station.run(0.2)
    station.heard.clear()
    assert station.result(401) == mavlink.MAV_RESULT_ACCEPTED
    station.run(0.1)
    assert "Preflight Fail: Gps failure" in [m.text for m in station.of("STATUSTEXT")]


def test_every_command_is_answered_whatever_its_parameters(station: CommandedStation) -> None:
    for number in mavlink.enums["MAV_CMD"]:
        for value in (math.nan, math.inf, -1e30, 0.0, 1.0, 300.0):
            message = mavlink.MAVLink_command_long_message(1, 1, number & 0xFFFF, 0, *(value,) * 7)
            ack = station.ask(message, "COMMAND_ACK", station.now, station.now)
            assert ack is not None, number
            assert ack.result in range(7), number
        station.run(0.05)
