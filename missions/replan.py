#!/usr/bin/env python3
"""Fly to a goal through an unknown world: plan on the map that the lidar builds, and plan anew when blocked.

sitl-bridge fly missions/replan.yaml
"""

import argparse
import asyncio
import sys

from mavsdk.plugins.offboard import PositionNedYaw, VelocityNedYaw

import sitl_bridge as sb
from sitl_bridge.api.mavsdk import OffboardControl, Vehicle, command_line, positive, run

LOOK = 0.2
"""s of the vehicle's time between looks at the map."""


async def fly(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    live = sb.planning.LiveMap()
    await vehicle.wait_until_armable()
    await vehicle.arm()
    await vehicle.take_off(options.height)
    start = vehicle.position
    replanner = sb.planning.Replanner(
        start,
        options.goal,
        bounds=(options.bounds[:3], options.bounds[3:]),
        airframe=options.airframe,
        margin=options.margin,
        speed=options.speed,
        say=vehicle.say,
    )

    def setpoint(_seconds: float) -> tuple[PositionNedYaw, VelocityNedYaw]:
        moment = replanner.at(vehicle.time)
        position, velocity = moment.position.tolist(), moment.velocity.tolist()
        return PositionNedYaw(*position, 0.0), VelocityNedYaw(*velocity, 0.0)

    async with OffboardControl(vehicle, PositionNedYaw(*start, 0.0)) as control:
        end = vehicle.time + options.limit
        while replanner.phase != "arrived":
            if vehicle.time > end:
                vehicle.fail(f"has not arrived after {options.limit:g} s; it is {replanner.phase}")
            if (seen := live.newer()) is not None:
                # On a thread: setpoints go on while it plans.
                await asyncio.to_thread(replanner.update, vehicle.time, seen)
            await control.follow(setpoint, LOOK)
        await control.go_to(PositionNedYaw(*options.goal, 0.0))
    vehicle.say(f"{replanner.plans} paths were planned")
    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--airframe", default="iris_mapper", help="gives the radius")
    parser.add_argument("--height", type=positive, default=5.0, help="m over the ground")
    parser.add_argument("--goal", type=float, nargs=3, default=[46.0, 0.0, -5.0], help="m north, east, down")
    parser.add_argument(
        "--bounds",
        type=float,
        nargs=6,
        default=[-6.0, -18.0, -8.0, 52.0, 18.0, -3.5],
        help="m, least and greatest north, east, down",
    )
    parser.add_argument("--margin", type=positive, default=1.5, help="m from obstacles beyond the radius")
    parser.add_argument("--speed", type=positive, default=2.0, help="m/s, at most")
    parser.add_argument("--limit", type=positive, default=240.0, help="s for the way")
    sys.exit(run(fly, parser))
