"""Beginning and end of a flight of several vehicles, the same for formations and avoidance."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from mavsdk.asyncio import MavsdkError

from sitl_bridge.base.errors import UserError
from sitl_bridge.session.missions.mavsdk_fleet import MavsdkFleet
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError
from sitl_bridge.session.missions.swarm_flight import finish, in_the_air


class Fleet:
    """Notes what it is asked to do; fails at ``failing``."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.calls: list[str] = []

    def say(self, line: str) -> None:
        self.calls.append(line)

    def __getattr__(self, name: str) -> Any:
        async def call(*_arguments: Any, **_options: Any) -> None:
            self.calls.append(name)
            if name == self.failing:
                raise UserError(name)

        return call


def flown(fleet: Fleet, error: BaseException | None = None) -> list[str]:
    async def fly() -> None:
        places = np.zeros((2, 3))
        async with in_the_air(cast("MavsdkFleet", fleet), places, 0.0, origin=None, surveyed=True):
            fleet.calls.append("flight")
            if error is not None:
                raise error

    asyncio.run(fly())
    return fleet.calls


def test_vehicles_take_off_fly_and_land() -> None:
    assert flown(Fleet()) == ["ready", "find_origins", "take_off", "flight", "land"]


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        ("take_off", None),
        ("", MissionFailedError("lost")),
        ("", MavsdkError("lost")),
        ("", asyncio.CancelledError()),
    ],
)
def test_vehicles_in_the_air_hold_when_anything_fails(failing: str, error: BaseException | None) -> None:
    fleet = Fleet(failing)
    with pytest.raises(UserError if error is None else type(error)):
        flown(fleet, error)
    assert fleet.calls[-2:] == ["vehicles in the air hold their position", "hold"]


def test_vehicles_that_land_go_on_when_one_does_not() -> None:
    fleet = Fleet("land")
    with pytest.raises(UserError):
        flown(fleet)
    assert fleet.calls[-1] == "land"


@pytest.mark.parametrize("failing", ["ready", "find_origins"])
def test_vehicles_on_the_ground_are_left_alone(failing: str) -> None:
    fleet = Fleet(failing)
    with pytest.raises(UserError):
        flown(fleet)
    assert fleet.calls[-1] == failing


def test_a_result_is_kept_before_a_failure_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[Path] = []
    with pytest.raises(MissionFailedError, match=r"0\.4 m apart"):
        finish(tmp_path, "avoidance", written.append, succeeded=False, verdict="0.4 m apart")
    assert written == [tmp_path / "avoidance"]
    assert capsys.readouterr().out == f"written to {tmp_path / 'avoidance'}\n"
    finish(None, "formation", written.append, succeeded=True, verdict="")
    assert len(written) == 1


def test_a_vehicle_that_does_not_land_is_reported_after_the_result_is_written(tmp_path: Path) -> None:
    written: list[Path] = []
    with pytest.raises(MissionFailedError, match=r"^vehicle 7: command denied$"):
        finish(
            tmp_path,
            "formation",
            written.append,
            succeeded=True,
            verdict="0.1 m",
            landing="vehicle 7: command denied",
        )
    assert written == [tmp_path / "formation"]
