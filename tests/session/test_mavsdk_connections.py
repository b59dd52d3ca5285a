"""MAVSDK overwrites memory with more than 16 connections in a program: they are refused before."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

import pytest

from sitl_bridge.session.missions import connection
from sitl_bridge.session.missions.connection import CONNECTIONS, TOO_MANY, connect
from sitl_bridge.session.missions.fleet_script import FleetVehicle, fleet_command_line, run_fleet
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError


def test_a_script_for_more_vehicles_than_mavsdk_can_hold_fails_before_it_connects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flown: list[int] = []

    async def fly(members: tuple[FleetVehicle, ...], _options: argparse.Namespace) -> None:
        flown.append(len(members))

    def code(count: int) -> int:
        rows = [
            {"name": str(i), "url": "", "system": i + 1, "position": [0, 0, 0], "yaw": 0, "airframe": "iris"}
            for i in range(count)
        ]
        (tmp_path / "fleet.json").write_text(json.dumps({"vehicles": rows}))
        return run_fleet(fly, fleet_command_line(None), ["--fleet", str(tmp_path / "fleet.json")])

    assert code(CONNECTIONS) == 0
    assert code(CONNECTIONS + 1) == 1
    assert flown == [CONNECTIONS]
    assert f"mission failed: 17 vehicles: {TOO_MANY}" in capsys.readouterr().err


def test_one_more_connection_than_mavsdk_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def another() -> None:
        async with connect("udpin://127.0.0.1:14540", 0.1):
            pass

    monkeypatch.setattr(connection, "_held", set(range(CONNECTIONS)))
    with pytest.raises(MissionFailedError, match="MAVSDK holds 16 connections in one program"):
        asyncio.run(another())
