"""Work for several vehicles at once: what the failure of one means for the others."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from mavsdk import MavsdkError

from sitl_bridge.session.missions.concurrent_work import each
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError

REFUSED = MavsdkError("land(): command denied")


def members(count: int) -> list[Any]:
    return [SimpleNamespace(number=i) for i in range(count)]


def test_vehicles_that_refuse_do_not_keep_the_others_from_landing() -> None:
    landed: list[int] = []

    async def land(member: Any) -> None:
        if member.number == 0:
            raise REFUSED
        if member.number == 2:
            raise MissionFailedError("it did not land within 60 s")
        await asyncio.sleep(0.01)
        landed.append(member.number)

    with pytest.raises(MissionFailedError) as failure:
        asyncio.run(each(members(4), land))
    assert landed == [1, 3]
    assert str(failure.value) == "vehicle 0: land(): command denied; vehicle 2: it did not land within 60 s"


def test_a_defect_in_the_work_itself_is_not_taken_for_a_vehicles_failure() -> None:
    async def work(_member: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(each(members(1), work))
