"""Vehicles behind MAVSDK as one fleet: n of them in this process, over one MAVSDK, without a server each.

How vehicles are found and how their own origins are brought to a common one is here, and their way into the
air and back; what they fly there is a formation's.  Times are those of the vehicles' clocks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mavsdk
from mavsdk.logging import log_subscribe

from sitl_bridge.offboard.concurrent_work import together
from sitl_bridge.offboard.connection import URL_FORMS, keep_mavsdk_quiet, watched
from sitl_bridge.offboard.mavsdk_fleet import RATE, MavsdkFleet
from sitl_bridge.offboard.mavsdk_vehicle import (
    SETPOINT_RATE,
    MissionFailedError,
)
from sitl_bridge.offboard.swarm_vehicle import Say, SwarmVehicle

# ---------------------------------------------------------------- connecting


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
    """Connect to n autopilots and yield them as a fleet, watched.

    Args:
        urls: MAVSDK connection URLs, one a vehicle in the formation's order; several vehicles may be heard
            on one, which then comes several times.
        say: takes lines for the user.
        systems: MAVLink system ids of the vehicles.  None opens the URLs one after the other and takes the
            first autopilot that is new on each.
        limit: s of wall time for all to be heard.
        attitude_rate: Hz of the vehicles' clock at which they tell their attitude; their positions come at
            ``rate``.
        rate: Hz of the vehicles' clocks, of their reports and the fleet's ticks.

    Raises:
        MissionFailedError: when a URL is wrong or its port taken, or a vehicle is not heard in time.
    """
    keep_mavsdk_quiet()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * len(urls) + 4, "mavsdk"))
    one = mavsdk.Mavsdk(mavsdk.Configuration.create_with_component_type(mavsdk.ComponentType.GROUND_STATION))
    try:
        fleet = MavsdkFleet(say, rate)
        found = await _find_all(one, urls, systems, limit)
        async with contextlib.AsyncExitStack() as stack:
            for number, raw in enumerate(found):
                member = SwarmVehicle(raw, raw.get_system_id(), urls[number], number, say, fleet.hear)
                member.attitude_rate = attitude_rate
                fleet.members.append(member)
                member.listen()
                await stack.enter_async_context(watched(member))
            await together(member.quieten(rate) for member in fleet.members)
            yield fleet
    finally:
        log_subscribe(lambda *_: True)  # its complaints about the sockets it closes itself
        one.destroy()


async def _find_all(
    one: mavsdk.Mavsdk, urls: Sequence[str], systems: Sequence[int] | None, limit: float
) -> list[Any]:
    """The autopilots, in the order of the URLs."""
    end = asyncio.get_running_loop().time() + limit
    found: dict[int, Any] = {}  # by system id
    for k, url in enumerate(urls):
        if url not in urls[:k]:
            _open(one, url)
        if systems is not None:
            continue
        new = await _new_system(one, found, None, end)
        if new is None:
            raise MissionFailedError(_unheard(f"vehicle {k}", url, limit))
        found[new.get_system_id()] = new
    for k, system_id in enumerate(systems or ()):
        new = await _new_system(one, found, system_id, end)
        if new is None:
            raise MissionFailedError(_unheard(f"vehicle {k} (system id {system_id})", urls[k], limit))
        found[system_id] = new
    return list(found.values())


def _open(one: mavsdk.Mavsdk, url: str) -> None:
    result = one.add_any_connection(url)
    if result != mavsdk.ConnectionResult.SUCCESS:
        raise MissionFailedError(
            f"cannot open {url}: {result.name.lower().replace('_', ' ')}. It must be one of {URL_FORMS}, "
            "and no other program may use its port"
        )


async def _new_system(
    one: mavsdk.Mavsdk, found: dict[int, Any], system_id: int | None, end: float
) -> Any | None:
    while asyncio.get_running_loop().time() < end:
        for system in one.get_systems():
            number = system.get_system_id()
            if system.has_autopilot() and number not in found and system_id in (None, number):
                return system
        await asyncio.sleep(0.05)
    return None


def _unheard(who: str, url: str, limit: float) -> str:
    return (
        f"waited {limit:.0f} s for {who} on {url} and heard nothing: does its flight stack run, "
        "and does its offboard link send there?"
    )


# ---------------------------------------------------------------- waiting for many
