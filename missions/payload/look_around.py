#!/usr/bin/env python3
"""Take photos from above with a camera on a gimbal: straight down, and to all sides."""

import argparse
import asyncio
import sys
from typing import Any

from mavsdk.asyncio.plugins.camera import CameraAsync
from mavsdk.asyncio.plugins.gimbal import GimbalAsync
from mavsdk.plugins.gimbal import ControlMode, GimbalMode, SendMode

from sitl_bridge.api.mavsdk import Vehicle, command_line, in_real_time, positive, run

LIMIT = 30.0
"""s of wall time within which the camera and the gimbal are found."""


async def first(stream: Any, entries: str) -> Any:
    """The first entry of the first list that is not empty."""
    async for found in stream:
        if getattr(found, entries):
            return getattr(found, entries)[0]
    raise RuntimeError("MAVSDK ended the list")


async def look_around(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    camera = in_real_time(CameraAsync(vehicle.system), vehicle.gate)
    gimbal = in_real_time(GimbalAsync(vehicle.system), vehicle.gate)
    async with vehicle.gate.request_on_board():
        seen = await asyncio.wait_for(first(camera.subscribe_camera_list(), "cameras"), LIMIT)
        vehicle.say(f"camera {seen.component_id}: {seen.vendor_name} {seen.model_name}")
        carrier = await asyncio.wait_for(first(gimbal.subscribe_gimbal_list(), "gimbals"), LIMIT)
        vehicle.say(f"gimbal {carrier.gimbal_id}, managed by component {carrier.gimbal_manager_component_id}")
        await gimbal.take_control(carrier.gimbal_id, ControlMode.PRIMARY)

    await vehicle.wait_until_armable()
    await vehicle.arm()
    await vehicle.take_off(options.height)

    async def photo(pitch: float, yaw: float, mode: GimbalMode) -> None:
        async with vehicle.gate.request_on_board():
            await gimbal.set_angles(carrier.gimbal_id, 0.0, pitch, yaw, mode, SendMode.ONCE)
        await vehicle.sleep(4.0)
        async with vehicle.gate.request_on_board():
            await camera.take_photo(seen.component_id)
        await vehicle.sleep(0.5)
        vehicle.say(f"photo at pitch {pitch:g} deg, yaw {yaw:g} deg, {mode.name.lower()}")

    await photo(-90.0, 0.0, GimbalMode.YAW_FOLLOW)
    for yaw in (0.0, 90.0, 180.0, -90.0):
        await photo(-20.0, yaw, GimbalMode.YAW_LOCK)
    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--height", type=positive, default=10.0, help="m over the ground")
    sys.exit(run(look_around, parser))
