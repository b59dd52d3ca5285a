"""Common parts of mission scripts for several vehicles: command line, connections, Ctrl-C and exit code.

A mission is a coroutine that gets the list of vehicles and the parsed options; it connects to vehicles with
``connected``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sitl_bridge.base.errors import UserError
from sitl_bridge.session.missions.connection import CONNECTIONS, TOO_MANY, connect
from sitl_bridge.session.missions.environment import FLEET_VARIABLE
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError, Vehicle
from sitl_bridge.session.missions.mission_script import command_line, leave_safely, run_coroutine

Position = tuple[float, float, float]


@dataclass(frozen=True)
class FleetVehicle:
    """An entry of fleet.json, which describes the vehicles to a script that flies all of them.

    The vehicle is not connected yet.
    """

    name: str  # as in the scenario
    url: str  # its MAVSDK connection URL
    system: int | None  # its MAVLink system id; None if it is the only vehicle at that URL
    position: Position  # m NED of its starting position, the origin of its own local frame
    yaw: float  # deg
    airframe: str  # its name


FleetMission: TypeAlias = Callable[[tuple[FleetVehicle, ...], argparse.Namespace], Awaitable[None]]


def read_members(file: Path) -> tuple[FleetVehicle, ...]:
    """Read the vehicles of a fleet from the fleet.json of its run.

    Raises:
        UserError: if it is not such a file.
    """
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))["vehicles"]
        return tuple(FleetVehicle(**(row | {"position": tuple(row["position"])})) for row in rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: is not a fleet.json of a run: {error}") from error


def fleet_command_line(description: str | None) -> argparse.ArgumentParser:
    """Parser with the options of all missions for fleets; a mission adds its own."""
    parser = command_line(description, "--url")
    parser.add_argument(
        "--fleet",
        type=Path,
        default=os.environ.get(FLEET_VARIABLE) or None,
        metavar="FILE",
        help=f"fleet.json of the run; without it, one vehicle at --url (default: ${FLEET_VARIABLE})",
    )
    return parser


@asynccontextmanager
async def connected(member: FleetVehicle, limit: float) -> AsyncIterator[Vehicle]:
    """Connect to a vehicle of the fleet; its log lines begin with its name.  It holds if the block fails.

    Raises:
        UserError: if it is not found.
    """
    async with connect(member.url, limit, member.system) as vehicle:
        vehicle.prefix = f"{member.name}: "
        try:
            yield vehicle
        except BaseException:
            await leave_safely(vehicle)
            raise


def run_fleet(
    mission: FleetMission, parser: argparse.ArgumentParser, arguments: list[str] | None = None
) -> int:
    """Parse the command line and fly the mission; exit codes are those of ``mission_script.run``."""
    options = parser.parse_args(arguments)

    async def fly() -> None:
        alone = FleetVehicle("vehicle", options.url, options.system, (0.0, 0.0, 0.0), 0.0, "")
        members = (alone,) if options.fleet is None else read_members(options.fleet)
        if len(members) > CONNECTIONS:
            raise MissionFailedError(f"{len(members)} vehicles: {TOO_MANY}")
        await mission(members, options)

    return run_coroutine(fly)


async def all_of(work: dict[str, Awaitable[object]]) -> dict[str, BaseException]:
    """Wait until the work of every vehicle is done or has failed; a failure does not stop the others.

    Returns:
        failures by the vehicle's name.
    """
    results = await asyncio.gather(*work.values(), return_exceptions=True)
    return {name: r for name, r in zip(work, results, strict=True) if isinstance(r, BaseException)}
