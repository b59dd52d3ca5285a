"""Take off with all vehicles of a fleet at once, hold, land; lost vehicles do not stop the others.

Flown by a scenario, such as missions/fleet_hover.yaml.
"""

from __future__ import annotations

import argparse
import sys

from sitl_bridge.api.mavsdk import (
    FleetVehicle,
    MissionFailedError,
    all_of,
    connected,
    fleet_command_line,
    positive,
    run_fleet,
)


async def hover(member: FleetVehicle, options: argparse.Namespace) -> None:
    """Fly one vehicle."""
    async with connected(member, options.connect_limit) as vehicle:
        await vehicle.wait_until_armable()
        await vehicle.arm()
        await vehicle.take_off(options.height)
        await vehicle.sleep(options.seconds)
        await vehicle.land()
        vehicle.say("landed")


async def fly(members: tuple[FleetVehicle, ...], options: argparse.Namespace) -> None:
    """Fly all vehicles at once."""
    failed = await all_of({member.name: hover(member, options) for member in members})
    for name, error in failed.items():
        print(f"{name}: failed: {error}", flush=True)
    done = len(members) - len(failed)
    if done < (options.need or len(members)):
        raise MissionFailedError(
            f"{done} of {len(members)} vehicles completed the mission, but not {', '.join(failed)}"
        )


if __name__ == "__main__":
    parser = fleet_command_line(__doc__)
    parser.add_argument("--height", type=positive, default=5.0, help="height above ground in m")
    parser.add_argument("--seconds", type=positive, default=15.0, help="s of vehicle time to hold")
    parser.add_argument("--need", type=int, help="vehicles that must complete the mission (default: all)")
    sys.exit(run_fleet(fly, parser))
