"""Commands over the link, and what is done with a flight stack's answers."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pymavlink.dialects.v20 import common as mavlink

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.px4.vehicle_status import VehicleMessage
from sitl_bridge.plan.plan import Plan
from sitl_bridge.session import linked
from sitl_bridge.session.linked import SETPOINTS_BEFORE, LinkedVehicles
from sitl_bridge.session.monitor import Monitor
from sitl_bridge.session.stacks import CHUNK, STEP, Target

NOT_YET, ACCEPTED = mavlink.MAV_RESULT_TEMPORARILY_REJECTED, mavlink.MAV_RESULT_ACCEPTED


class AnsweringMonitor(SimpleNamespace):
    """The monitor of a flight stack that answers commands with given results, one after another."""

    def __init__(self, answers: Sequence[int]) -> None:
        super().__init__(system_id=1, acknowledged={}, answers=list(answers), asked=[], mode="")
        self.messages, self.texts = list[VehicleMessage](), list[VehicleMessage]()

    def take_mode(self, name: str) -> None:
        self.mode = name

    def status(self) -> SimpleNamespace:
        return SimpleNamespace(mode=self.mode)

    def keep(self, *numbers: int) -> None:
        del numbers

    def send_with_ping(self, messages: Sequence[Any]) -> None:
        for message in messages:
            if message.get_type() == "COMMAND_LONG":
                self.asked.append(message.command)
                self.acknowledged[message.command] = self.answers.pop(0)
                self.messages += self.texts

    def wait_for_answer(self, what: str) -> None:
        del what

    def poll(self) -> None:
        return


class Vehicles(LinkedVehicles):
    """Vehicles, one for each sequence of answers, whose time passes at once."""

    time, place = 0, (0.0, 0.0)

    def __init__(self, *answers: Sequence[int]) -> None:
        names = [str(i) for i in range(len(answers))]
        self.monitors = [AnsweringMonitor(each) for each in answers]
        self.monitor, links = self.monitors[0], cast("list[Monitor]", self.monitors)
        super().__init__(names, ["iris"] * len(names), [(0.0, 0.0, 0.0)] * len(names), links)

    @property
    def now(self) -> int:
        return self.time

    def pass_time(self, steps: int) -> None:
        self.time += 4000 * steps

    def is_armed(self, vehicle: int) -> bool:
        return vehicle < 0

    def on_ground(self, vehicle: int) -> bool:
        return vehicle >= 0

    def reports(self, vehicle: int) -> bool:
        return vehicle >= 0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "STORED", 0.0)


def test_a_mode_that_is_refused_for_the_moment_is_asked_for_again() -> None:
    vehicle = Vehicles([NOT_YET, NOT_YET, ACCEPTED])
    vehicle.set_mode([0], "Mission")
    assert vehicle.monitor.asked == [mavlink.MAV_CMD_DO_SET_MODE] * 3


def test_a_mode_that_is_refused_time_and_again_and_another_command_at_once_are_refusals() -> None:
    vehicle = Vehicles([NOT_YET] * 3)
    with pytest.raises(UserError, match=r"vehicle 0 \(iris\) refuses to switch to Mission: temporarily rej"):
        vehicle.set_mode([0], "Mission")
    assert len(vehicle.monitor.asked) == 3
    vehicle = Vehicles([NOT_YET])
    vehicle.monitor.texts = [VehicleMessage(0.0, 6, "Data link regained")]
    with pytest.raises(UserError, match="refuses to arm: temporarily rejected"):
        vehicle.command([0], "arm", mavlink.MAV_CMD_COMPONENT_ARM_DISARM, (1.0,))
    assert vehicle.monitor.asked == [mavlink.MAV_CMD_COMPONENT_ARM_DISARM]


def test_vehicles_are_commanded_together_and_only_those_that_have_to_are_asked_again() -> None:
    vehicles = Vehicles([ACCEPTED], [NOT_YET, ACCEPTED], [ACCEPTED])
    vehicles.targets = [Target(yaw=0.0)] * 3
    vehicles.set_mode(range(3), "Offboard")
    assert [len(monitor.asked) for monitor in vehicles.monitors] == [1, 2, 1]
    assert vehicles.now == (SETPOINTS_BEFORE + 2 * CHUNK) * STEP, "as long as for one"


def test_a_mode_is_told_at_once_if_the_flight_stack_has_agreed() -> None:
    vehicle = Vehicles([ACCEPTED, mavlink.MAV_RESULT_DENIED])
    vehicle.set_mode([0], "Offboard")
    assert vehicle.mode(0) == "Offboard"
    with pytest.raises(UserError, match="refuses to switch to Mission"):
        vehicle.set_mode([0], "Mission")
    assert vehicle.mode(0) == "Offboard"


@pytest.mark.parametrize("steps", [100, 1000])
def test_a_busy_machine_is_no_silence_of_the_storage_of_plans(
    monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    vehicle, seconds = Vehicles([]), iter(range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds) * 0.3)  # as at load 15
    monkeypatch.setattr(linked, "WALL_LOOK", 0.0)
    posted: list[tuple[int, int]] = []
    vehicle.monitor.post = lambda messages: posted.append((messages[0].mission_type, vehicle.now))
    vehicle.monitor.prompt = True

    def take(number: int) -> object:
        if number != linked.ACK or not posted or vehicle.now < posted[-1][1] + steps * STEP:
            return None
        return mavlink.MAVLink_mission_ack_message(255, 190, mavlink.MAV_MISSION_ACCEPTED, posted[-1][0])

    vehicle.monitor.take = take
    plan = Plan("a.plan", (math.nan, math.nan, math.nan), ())
    if steps == 100:
        vehicle.upload(0, plan)
        assert [kind for kind, _ in posted] == [
            mavlink.MAV_MISSION_TYPE_FENCE,
            mavlink.MAV_MISSION_TYPE_RALLY,
        ]
    else:
        with pytest.raises(UserError, match="does not answer to the upload of the plan's geofence"):
            vehicle.upload(0, plan)
