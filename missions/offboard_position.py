#!/usr/bin/env python3
"""Take off and visit points by offboard position setpoints.

Shows offboard control at its simplest: say where to be, wait until the vehicle is there.
"""

import argparse
import sys

from mavsdk.plugins.offboard import PositionNedYaw

from sitl_bridge.api.mavsdk import OffboardControl, Vehicle, command_line, positive, run

# m north, m east, m up, deg yaw; relative to the vehicle's position on the ground
POINTS = [
    (0.0, 0.0, 5.0, 0.0),
    (6.0, 0.0, 5.0, 0.0),
    (6.0, 6.0, 8.0, 90.0),
    (0.0, 6.0, 5.0, 180.0),
    (0.0, 0.0, 5.0, 0.0),
]


async def visit(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    await vehicle.wait_until_armable()
    north, east, down = vehicle.position

    # Offboard mode takes off by itself: the first point is above the vehicle.
    on_the_spot = PositionNedYaw(north, east, down, vehicle.attitude[2])
    async with OffboardControl(vehicle, on_the_spot) as control:
        await vehicle.arm()
        for point_north, point_east, up, yaw in POINTS:
            vehicle.say(f"flying to {point_north:g} m north, {point_east:g} m east, {up:g} m up")
            point = PositionNedYaw(north + point_north, east + point_east, down - up, yaw)
            await control.go_to(point, tolerance=options.tolerance, settle=2.0)

    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument(
        "--tolerance", type=positive, default=0.5, help="distance in m at which a point is reached"
    )
    sys.exit(run(visit, parser))
