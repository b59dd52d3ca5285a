#!/usr/bin/env python3
"""Arm, take off, fly 20 m north, land: a script of MAVSDK 4 that needs nothing but MAVSDK.

It flies any vehicle that sends to its URL, simulated or real: plain_mavsdk.py [URL]
"""

import asyncio
import math
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from mavsdk.asyncio import ComponentType, Configuration, Mavsdk
from mavsdk.asyncio.plugins.action import ActionAsync
from mavsdk.asyncio.plugins.telemetry import TelemetryAsync

URL = "udpin://0.0.0.0:14540"
HEIGHT = 5.0  # m
NORTH = 20.0  # m
METRES_PER_DEGREE = math.radians(6_371_000.0)


async def first(values: AsyncGenerator[Any, None], fits: Callable[[Any], bool]) -> Any:
    """The first value of a telemetry stream that fits."""
    async with aclosing(values):
        async for value in values:
            if fits(value):
                return value
    raise ConnectionError("the stream of telemetry ended")


async def main(url: str) -> None:
    """Fly."""
    async with Mavsdk(Configuration.create_with_component_type(ComponentType.GROUND_STATION)) as mavsdk:
        await mavsdk.add_any_connection(url)
        system = await mavsdk.first_autopilot(timeout_s=60.0)
        if system is None:
            sys.exit(f"no vehicle sends to {url}")
        action, telemetry = ActionAsync(system), TelemetryAsync(system)

        print("waiting until the vehicle can arm")
        await first(telemetry.subscribe_health_all_ok(), bool)
        home = await first(
            telemetry.subscribe_position(), lambda place: math.isfinite(place.absolute_altitude_m)
        )

        print("arming and taking off")
        await action.set_takeoff_altitude(HEIGHT)
        await asyncio.sleep(1.2)  # PX4's modules read parameters once a second
        await action.arm()
        await action.takeoff()
        await first(telemetry.subscribe_position(), lambda place: place.relative_altitude_m > HEIGHT - 1.0)

        print(f"flying {NORTH:g} m north")
        goal = home.latitude_deg + NORTH / METRES_PER_DEGREE
        await action.goto_location(goal, home.longitude_deg, home.absolute_altitude_m + HEIGHT, 0.0)
        await first(
            telemetry.subscribe_position(),
            lambda place: abs(place.latitude_deg - goal) * METRES_PER_DEGREE < 1.0,
        )

        print("landing")
        await action.land()
        await first(telemetry.subscribe_armed(), lambda armed: not armed)
        print("landed")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else URL))
