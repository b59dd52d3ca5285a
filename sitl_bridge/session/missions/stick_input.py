"""Sticks for scripts: held until they are moved, and sent at the vehicle's own time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mavsdk.asyncio.plugins.manual_control import ManualControlAsync

from sitl_bridge.session.missions.mavsdk_vehicle import Vehicle

CENTRED = (0.0, 0.0, 0.5, 0.0)
"""Forward, right, throttle and turn, as MAVSDK has them."""


class HeldSticks:
    """Sticks that are sent with every tick of the vehicle's clock."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._vehicle = vehicle
        self.manual = ManualControlAsync(vehicle.system)
        self.held = CENTRED
        self._task = asyncio.create_task(self._hold())

    async def _hold(self) -> None:
        with self._vehicle.streaming():
            while True:
                await self._vehicle.confirmed(self.manual.set_manual_control_input(*self.held))
                await self._vehicle.changed()

    def ahead(self, share: float) -> None:
        """Move the stick forwards, or backwards where ``share`` is negative."""
        self.held = (share, *CENTRED[1:])

    def centre(self) -> None:
        """Let go of the sticks."""
        self.held = CENTRED

    async def release(self) -> None:
        """Send nothing more."""
        self._task.cancel()
        await asyncio.wait([self._task])


@asynccontextmanager
async def position_mode(vehicle: Vehicle, height: float) -> AsyncIterator[HeldSticks]:
    """Take off and hand over to centred sticks in Position mode, until the block ends.

    Args:
        vehicle: on the ground.
        height: m over the ground.
    """
    await vehicle.wait_until_armable()
    await vehicle.arm()
    await vehicle.take_off(height)
    sticks = HeldSticks(vehicle)
    try:
        await vehicle.sleep(1.0)
        await sticks.manual.start_position_control()
        yield sticks
    finally:
        await sticks.release()
