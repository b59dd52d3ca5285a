"""Connecting to one vehicle over MAVSDK."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mavsdk.asyncio import ComponentType, Configuration, Mavsdk, MavsdkConnectionError
from mavsdk.logging import LogLevel, log_subscribe

from sitl_bridge.mission_link.time_gate import time_gate
from sitl_bridge.offboard.mavsdk_vehicle import SETPOINT_RATE, MissionFailedError, Vehicle

URL_FORMS = (
    "udpin://HOST:PORT, udpout://HOST:PORT, tcpin://HOST:PORT, tcpout://HOST:PORT or serial://DEVICE:BAUD"
)

UNHEEDED = ("MAVLink:", "Dropping subscription callbacks")
"""Beginnings of MAVSDK's log lines that are dropped, status texts among them: Vehicle prints those itself."""


def keep_mavsdk_quiet() -> None:
    """Send MAVSDK's own log lines of level warning and above to stderr, repeated ones once; drop the rest.

    A subscriber that falls behind gets the newest values only, which is all that is used here: MAVSDK's
    complaint about it is dropped, too.
    """
    last = ""

    def on_log(level: Any, message: str, _file: str | None, _line: int) -> bool:
        nonlocal last
        if level >= LogLevel.WARN and not message.startswith(UNHEEDED) and message != last:
            last = message
            print(f"mavsdk {level.name.lower()}: {message}", file=sys.stderr, flush=True)
        return True

    log_subscribe(on_log)


@asynccontextmanager
async def connect(url: str, limit: float = 30.0, system_id: int | None = None) -> AsyncIterator[Vehicle]:
    """Connect to an autopilot heard on ``url`` and yield it, watched.

    Args:
        url: MAVSDK connection URL, e.g. ``udpin://127.0.0.1:14540``.
        limit: s of wall time to wait for the autopilot's first heartbeat.
        system_id: MAVLink system id of the autopilot; None takes the first that is heard.  All simulated
            PX4s from the eleventh on send to one port.

    Raises:
        MissionFailedError: when the URL is wrong or its port taken, or when nothing is heard in time.
    """
    keep_mavsdk_quiet()
    mavsdk = Mavsdk(Configuration.create_with_component_type(ComponentType.GROUND_STATION))
    try:
        # Reports of more than real time would pile up in MAVSDK before there is anybody to take them.
        async with time_gate().request():
            try:
                await mavsdk.add_any_connection(url)
            except MavsdkConnectionError as error:
                raise MissionFailedError(
                    f"cannot open {url}: {error}. It must be one of {URL_FORMS}, "
                    "and no other program may use its port"
                ) from error
            if system_id is None:
                system = await mavsdk.first_autopilot(timeout_s=limit)
            else:
                system = await _find(mavsdk, system_id, limit)
        if system is None:
            which = "an autopilot" if system_id is None else f"the autopilot with system id {system_id}"
            raise MissionFailedError(
                f"waited {limit:.0f} s for {which} on {url} and heard none: is the autopilot running, "
                "and does its offboard link send there (14540 + instance in simulation)?"
            )
        async with watched(Vehicle(mavsdk, system, await system.get_system_id(), url)) as vehicle:
            yield vehicle
    finally:
        log_subscribe(lambda *_: True)  # its complaints about the sockets it closes itself
        mavsdk.destroy()


async def _find(mavsdk: Mavsdk, system_id: int, limit: float) -> Any:
    """The autopilot with a system id, or None when it is not heard within ``limit`` s of wall time."""
    end = asyncio.get_running_loop().time() + limit
    while asyncio.get_running_loop().time() < end:
        for system in await mavsdk.get_systems():
            if await system.has_autopilot() and await system.get_system_id() == system_id:
                return system
        await asyncio.sleep(0.05)
    return None


@asynccontextmanager
async def watched(vehicle: Vehicle) -> AsyncIterator[Vehicle]:
    """Keep a vehicle's attributes at their latest values for the length of a ``with`` block."""
    watcher = asyncio.create_task(vehicle.watch())
    try:
        # Enough for setpoints and checks; PX4's defaults of up to 100 Hz would cost more than all else here.
        async with vehicle.gate.request():
            await vehicle.telemetry.set_rate_attitude_euler(vehicle.attitude_rate)
            await vehicle.telemetry.set_rate_position_velocity_ned(SETPOINT_RATE)
            await vehicle.telemetry.set_rate_position(5.0)
        yield vehicle
        if watcher.done():
            watcher.result()
    finally:
        watcher.cancel()
        await asyncio.wait([watcher])
        vehicle.gate.allow(vehicle, None)
