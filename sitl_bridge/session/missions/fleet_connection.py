"""Connects to n vehicles over one MAVSDK in this process, without a server for each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mavsdk

from sitl_bridge.session.missions.concurrent_work import together
from sitl_bridge.session.missions.connection import URL_FORMS, mavsdk_log, updated
from sitl_bridge.session.missions.mavsdk_fleet import RATE, MavsdkFleet
from sitl_bridge.session.missions.mavsdk_vehicle import (
    SETPOINT_RATE,
    MissionFailedError,
)
from sitl_bridge.session.missions.swarm_vehicle import Say, SwarmVehicle


@contextlib.asynccontextmanager
async def connect_fleet(
    urls: Sequence[str],
    say: Say,
    *,
    systems: Sequence[int] | None = None,
    limit: float = 60.0,
    attitude_rate: float = SETPOINT_RATE,
    rate: float = RATE,
) -> AsyncIterator[MavsdkFleet]:
    """Connect to n autopilots and yield them as a fleet, with their attributes kept up to date.

    Args:
        urls: MAVSDK connection URLs, one for each vehicle in the formation's order; vehicles that share a URL
            repeat it.
        say: receives lines for the user.
        systems: MAVLink system ids of the vehicles.  None opens the URLs one after the other and takes the
            first new autopilot on each.
        limit: s of wall time for finding all of them.
        attitude_rate: Hz of the vehicles' clocks at which they send their attitude.
        rate: Hz of the vehicles' clocks at which they send their positions, and of the fleet's ticks.

    Raises:
        MissionFailedError: if a URL is wrong, its port is taken, or a vehicle is not found in time.
    """
    mavsdk_log.begin()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * len(urls) + 4, "mavsdk"))
    client = mavsdk.Mavsdk(
        mavsdk.Configuration.create_with_component_type(mavsdk.ComponentType.GROUND_STATION)
    )
    try:
        fleet = MavsdkFleet(say, rate)
        found = await _find_all(client, urls, systems, limit)
        async with contextlib.AsyncExitStack() as stack:
            for number, raw in enumerate(found):
                member = SwarmVehicle(raw, raw.get_system_id(), urls[number], number, say, fleet.on_position)
                member.attitude_rate = attitude_rate
                fleet.members.append(member)
                member.subscribe_positions()
                await stack.enter_async_context(updated(member))
            await together(member.set_message_rates(rate) for member in fleet.members)
            yield fleet
    finally:
        mavsdk_log.end()
        client.destroy()


async def _find_all(
    client: mavsdk.Mavsdk, urls: Sequence[str], systems: Sequence[int] | None, limit: float
) -> list[Any]:
    """The autopilots, in the order of the URLs."""
    end = asyncio.get_running_loop().time() + limit
    found: dict[int, Any] = {}  # by system id
    for k, url in enumerate(urls):
        if url not in urls[:k]:
            _open(client, url)
        if systems is not None:
            continue
        new = await _new_system(client, found, None, end)
        if new is None:
            raise MissionFailedError(_not_found(f"vehicle {k}", url, limit))
        found[new.get_system_id()] = new
    for k, system_id in enumerate(systems or ()):
        new = await _new_system(client, found, system_id, end)
        if new is None:
            raise MissionFailedError(_not_found(f"vehicle {k} (system id {system_id})", urls[k], limit))
        found[system_id] = new
    return list(found.values())


def _open(client: mavsdk.Mavsdk, url: str) -> None:
    result = client.add_any_connection(url)
    if result != mavsdk.ConnectionResult.SUCCESS:
        raise MissionFailedError(
            f"cannot open {url}: {result.name.lower().replace('_', ' ')}. It must be one of {URL_FORMS}, "
            "and no other program may use its port"
        )


async def _new_system(
    client: mavsdk.Mavsdk, found: dict[int, Any], system_id: int | None, end: float
) -> Any | None:
    while asyncio.get_running_loop().time() < end:
        for system in client.get_systems():
            number = system.get_system_id()
            if system.has_autopilot() and number not in found and system_id in (None, number):
                return system
        await asyncio.sleep(0.05)
    return None


def _not_found(vehicle: str, url: str, limit: float) -> str:
    return (
        f"{vehicle} was not found on {url} within {limit:.0f} s: is its flight stack running, "
        "and does its offboard link send there?"
    )
