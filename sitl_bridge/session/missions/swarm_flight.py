"""Programs that fly several vehicles over one MAVSDK: command line, connection, take-off, landing, result."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mavsdk
import numpy as np
from mavsdk.asyncio import MavsdkError
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.hil.ports import offboard_port
from sitl_bridge.session.missions.concurrent_work import together
from sitl_bridge.session.missions.connection import URL_FORMS, mavsdk_log, updated
from sitl_bridge.session.missions.mavsdk_fleet import RATE, MavsdkFleet
from sitl_bridge.session.missions.mavsdk_vehicle import (
    SETPOINT_RATE,
    MissionFailedError,
)
from sitl_bridge.session.missions.swarm_vehicle import Place, Say, SwarmVehicle
from sitl_bridge.swarm.interface import LANDING_SEPARATION


@contextlib.asynccontextmanager
async def in_the_air(
    fleet: MavsdkFleet,
    places: NDArray[np.float64],
    yaw: float | NDArray[np.float64],
    *,
    origin: Place | None,
    surveyed: bool,
) -> AsyncIterator[None]:
    """Take off before the block and land after it.  After an error, vehicles in the air hold their position.

    Args:
        fleet: on the ground.
        places: (n, 3) m NED to which they climb.
        yaw: rad, one for all or (n,).
        origin: of ``places``, deg and m AMSL; None computes it from the vehicles' positions.
        surveyed: whether the vehicles stand exactly below ``places``.
    """
    await fleet.ready()
    await fleet.find_origins(places, origin, surveyed=surveyed)
    try:
        await fleet.take_off(places, yaw)
        yield
    except (asyncio.CancelledError, UserError, MavsdkError):
        fleet.say("vehicles in the air hold their position")
        await asyncio.shield(fleet.hold())
        raise
    await fleet.land()


async def until_landed(flight: Coroutine[Any, Any, Any], flown: Sequence[Any]) -> str:
    """Fly, and return why vehicles did not land after the flight; empty if all did.

    Args:
        flight: of all vehicles, with their landing.
        flown: holds the result once there is one.

    Raises:
        MissionFailedError: if the flight failed before there was a result.
    """
    try:
        await flight
    except MissionFailedError as error:
        if not flown:
            raise
        return str(error)
    return ""


def finish(
    output: Path | None,
    kind: str,
    write: Callable[[Path], None],
    *,
    succeeded: bool,
    verdict: str,
    landing: str = "",
) -> None:
    """Write the result of a flight, and raise an error if it has failed.

    Args:
        output: parent of the result's directory; None writes nothing.
        kind: of flight; the name of the directory.
        write: writes the result into a directory.
        succeeded: whether the flight succeeded.
        verdict: result in one line.
        landing: vehicles that did not land after the flight, with the reasons; empty if all did.

    Raises:
        MissionFailedError: with the verdict if the flight has failed, or with ``landing``.
    """
    if output is not None:
        write(output / kind)
        print(f"written to {output / kind}", flush=True)
    failures = [text for text in ("" if succeeded else verdict, landing) if text]
    if failures:
        raise MissionFailedError("; ".join(failures))


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


def instance_url(instance: int) -> str:
    """Connection URL of a simulated instance."""
    return f"udpin://127.0.0.1:{offboard_port(instance)}"


def swarm_command_line(description: str, file: str) -> argparse.ArgumentParser:
    """Parser with the common options; see :func:`parse`.

    Args:
        description: of the program.
        file: help text of FILE.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("file", type=Path, metavar="FILE", help=file)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", action="append", help="connection URL of a vehicle; once for each, in order")
    where.add_argument(
        "--instances",
        type=_range,
        metavar="A..B",
        help="instances of simulated flight stacks on this machine",
    )
    parser.add_argument(
        "--system", action="append", type=int, metavar="ID", help="MAVLink system id; once for each --url"
    )
    parser.add_argument(
        "--origin", type=_place, metavar="LAT,LON,ALT", help="the plan's origin, deg and m above sea level"
    )
    parser.add_argument(
        "--surveyed", action="store_true", help="the vehicles stand exactly at their planned positions"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="write result and picture below DIR")
    return parser


def parse(parser: argparse.ArgumentParser, arguments: list[str] | None) -> argparse.Namespace:
    """Options with the ``url`` and, if known, the ``system`` of each vehicle; exits if they are wrong."""
    options = parser.parse_args(arguments)
    if options.instances is not None:
        options.url = [instance_url(i) for i in options.instances]
        options.system = options.system or [i + 1 for i in options.instances]
    if options.system is not None and len(options.system) != len(options.url):
        parser.error(
            f"give --system {len(options.url)} times, once for each vehicle, not {len(options.system)} times"
        )
    return options


def clear_to_land(position: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    """Whether the horizontal distances between all vehicles are at least LANDING_SEPARATION."""
    distance = np.linalg.norm(position[:, None, :2] - position[None, :, :2], axis=2)
    np.fill_diagonal(distance, np.inf)
    return bool(distance.min() >= LANDING_SEPARATION)


def _range(text: str) -> list[int]:
    first, dots, last = text.partition("..")
    try:
        numbers = list(range(int(first), int(last if dots else first) + 1))
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 0 or numbers[-1] > 254:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of instances such as 0..8")
    return numbers


def _place(text: str) -> Place:
    try:
        latitude, longitude, altitude = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not LAT,LON,ALT") from None
    return latitude, longitude, altitude
