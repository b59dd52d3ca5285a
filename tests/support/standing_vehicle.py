"""A mission's Vehicle with a stand-in for MAVSDK, whose reports the test makes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mavsdk.plugins.telemetry import FlightMode, LandedState

from sitl_bridge.session.missions import mavsdk_vehicle
from sitl_bridge.session.missions.mavsdk_vehicle import Vehicle


class Reports:
    """Answers to a vehicle that asks MAVSDK's plug-ins.

    Args:
        answers: how often it says what the state is, before ``answer``; None: always.
    """

    def __init__(self, answers: int | None = None) -> None:
        self.is_armed = True
        self.mode = FlightMode.HOLD
        self.landed = LandedState.IN_AIR
        self._answers = asyncio.Event()
        self._left = answers
        self._answered = asyncio.Event()
        self._attitudes = asyncio.Queue[SimpleNamespace]()

    async def attitude(self, seconds: float) -> None:
        """Report the attitude at a time of the vehicle's clock; returns when the vehicle knows all."""
        self._attitudes.put_nowait(
            SimpleNamespace(roll_deg=0.0, pitch_deg=0.0, yaw_deg=0.0, timestamp_us=round(1e6 * seconds))
        )
        for _ in range(8):
            await asyncio.sleep(0)

    async def subscribe_attitude_euler(self) -> AsyncGenerator[SimpleNamespace]:
        while True:
            yield await self._attitudes.get()

    async def _nothing(self) -> AsyncGenerator[None]:
        await asyncio.Event().wait()
        yield

    subscribe_status_text = subscribe_health_and_arming_checks = _nothing
    subscribe_position = subscribe_position_velocity_ned = _nothing

    async def answer(self, times: int) -> None:
        """Say so often what the state is; returns when it is asked once more."""
        self._left = times
        self._answered.clear()
        self._answers.set()
        await self._answered.wait()

    async def armed(self) -> bool:
        if self._left == 0:
            self._answered.set()
            self._answers.clear()
            await self._answers.wait()
        if self._left is not None:
            self._left -= 1
        return self.is_armed

    async def landed_state(self) -> LandedState:
        return self.landed

    async def flight_mode(self) -> FlightMode:
        return self.mode

    async def health(self) -> None:
        return None


@asynccontextmanager
async def standing_vehicle(
    monkeypatch: pytest.MonkeyPatch, at: float = 100.0, gate: Any = None, answers: int | None = None
) -> AsyncIterator[tuple[Vehicle, Reports]]:
    """A vehicle that is armed and holds its place at a time of its clock, and its reports."""
    for plugin in ("Action", "Events", "MavlinkDirect", "MissionRaw", "Offboard", "Param", "Telemetry"):
        monkeypatch.setattr(mavsdk_vehicle, f"{plugin}Async", lambda reports: reports)
    reports = Reports(answers)
    vehicle = Vehicle(cast("Any", None), reports, 1, "udpin://nowhere")
    vehicle.gate = gate or vehicle.gate
    vehicle.position = (0.0, 0.0, 0.0)
    vehicle.messages.extend(["info: fine", "critical: Motor failure"])
    watching = asyncio.create_task(vehicle.watch())
    await reports.attitude(at)
    try:
        yield vehicle, reports
    finally:
        watching.cancel()
        await asyncio.wait([watching])
