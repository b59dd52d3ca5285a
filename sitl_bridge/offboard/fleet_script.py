"""What missions share that fly several vehicles: which there are, the connections, Ctrl-C and the exit code.

A mission is one coroutine that is given the vehicles' members and the parsed options; it connects to those
that it wants with ``connected``.
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
from typing import Any, TypeAlias

from sitl_bridge.errors import UserError
from sitl_bridge.offboard.connection import connect
from sitl_bridge.offboard.mavsdk_vehicle import Vehicle
from sitl_bridge.offboard.mission_script import FLEET_VARIABLE, command_line, leave_safely, run_coroutine

Position = tuple[float, float, float]


@dataclass(frozen=True)
class FleetVehicle:
    """A vehicle as the bridge lists it for a script that flies the whole fleet: name, address and place.

    It is not connected yet.  A ``vehicle.VehicleSpecification`` is what the scenario file asked for.

    Attributes:
        name: as in the scenario.
        url: where it is heard.
        system: its MAVLink system id; None where it is the only one heard there.
        position: m NED, where it stands at the start; the origin of its own local frame.
        yaw: deg.
        airframe: its name.
    """

    name: str
    url: str
    system: int | None
    position: Position
    yaw: float
    airframe: str


FleetMission: TypeAlias = Callable[[tuple[FleetVehicle, ...], argparse.Namespace], Awaitable[None]]


def read_members(file: Path) -> tuple[FleetVehicle, ...]:
    """Members of a fleet, from the fleet.json of its run.

    Raises:
        UserError: when it is not such a file.
    """
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))["vehicles"]
        return tuple(FleetVehicle(**(row | {"position": tuple(row["position"])})) for row in rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: is no list of a fleet's vehicles: {error}") from error


def fleet_command_line(description: str | None) -> argparse.ArgumentParser:
    """Parser with the options all missions of fleets have; a mission adds its own."""
    parser = command_line(description, "--url")
    parser.add_argument(
        "--fleet",
        type=Path,
        default=os.environ.get(FLEET_VARIABLE) or None,
        metavar="FILE",
        help=f"fleet.json of the run; one vehicle, at --url, without (${FLEET_VARIABLE} sets the default)",
    )
    return parser


@asynccontextmanager
async def connected(member: FleetVehicle, limit: float) -> AsyncIterator[Vehicle]:
    """A vehicle of the fleet, which says its name before its words; left safely when the block fails.

    Raises:
        UserError: when it is not heard.
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
    """Parse the command line and fly the mission; exit codes as of ``script.run``."""
    options = parser.parse_args(arguments)

    async def fly() -> None:
        alone = FleetVehicle("vehicle", options.url, options.system, (0.0, 0.0, 0.0), 0.0, "")
        await mission((alone,) if options.fleet is None else read_members(options.fleet), options)

    return run_coroutine(fly)


async def all_of(work: dict[str, Awaitable[Any]]) -> dict[str, BaseException]:
    """Wait until each vehicle's work is done or has failed, none stopping another.

    Returns:
        what failed, by the vehicle's name.
    """
    results = await asyncio.gather(*work.values(), return_exceptions=True)
    return {name: r for name, r in zip(work, results, strict=True) if isinstance(r, BaseException)}
