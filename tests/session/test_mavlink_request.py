"""Messages that MAVSDK has no call for: sent until they are answered, refusals in words."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from sitl_bridge.session.missions import mavlink_request
from sitl_bridge.session.missions.mavlink_request import goto, orbit
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError, Vehicle


class Autopilot:
    """Answers the n-th message, COMMAND_INT, with a result; before that with that of another command.

    Takes no frame but MAV_FRAME_GLOBAL_INT, as PX4 of March 2026.
    """

    def __init__(self, answered: int, result: int = 0) -> None:
        self.answered, self.result = answered, result
        self.received: list[dict[str, Any]] = []
        self.answers: asyncio.Queue[dict[str, int]] = asyncio.Queue()
        self.gate = SimpleNamespace(request=contextlib.AsyncExitStack)
        self.mavlink = self
        self.system_id = 7

    async def send_message(self, message: Any) -> None:
        assert message.message_name == "COMMAND_INT"
        fields = json.loads(message.fields_json)
        self.received.append(fields)
        self.answers.put_nowait({"command": 400, "result": 4})
        if len(self.received) == self.answered:
            result = self.result if fields["frame"] == 5 else 9
            self.answers.put_nowait({"command": fields["command"], "result": result})

    async def subscribe_message(self, name: str) -> AsyncGenerator[Any, None]:
        assert name == "COMMAND_ACK"
        while True:
            yield SimpleNamespace(fields_json=json.dumps(await self.answers.get()))

    def fail(self, text: str) -> NoReturn:
        raise MissionFailedError(text)


def circle(autopilot: Autopilot) -> None:
    asyncio.run(orbit(cast(Vehicle, autopilot), 10.0, 3.0, 47.3977418, 8.5455938, 496.0))


def test_an_orbit_is_sent_in_the_frame_that_every_px4_takes() -> None:
    autopilot = Autopilot(1)
    circle(autopilot)
    (sent,) = autopilot.received
    assert (sent["target_system"], sent["target_component"]) == (7, 1)
    assert (sent["frame"], sent["x"], sent["y"], sent["z"]) == (5, 473977418, 85455938, 496.0)


def test_a_point_is_sent_in_the_frame_that_every_px4_takes() -> None:
    autopilot = Autopilot(1)
    asyncio.run(goto(cast(Vehicle, autopilot), 47.3977418, 8.5455938, 496.0, 90.0))
    (sent,) = autopilot.received
    assert (sent["command"], sent["param2"], sent["param4"]) == (192, 1.0, pytest.approx(math.pi / 2))
    assert (sent["frame"], sent["x"], sent["y"], sent["z"]) == (5, 473977418, 85455938, 496.0)


def test_a_request_is_repeated_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mavlink_request, "INTERVAL", 0.001)
    autopilot = Autopilot(3)
    circle(autopilot)
    assert len(autopilot.received) == 3
    silent = Autopilot(99)
    with pytest.raises(MissionFailedError, match="did not answer 5 requests to orbit"):
        circle(silent)
    assert len(silent.received) == 5


def test_a_refusal_is_named() -> None:
    with pytest.raises(MissionFailedError, match="the autopilot refuses to orbit: denied"):
        circle(Autopilot(1, result=2))
