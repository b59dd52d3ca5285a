#!/usr/bin/env python3
"""Fly a square by offboard setpoints that move along its sides.

Position setpoints with velocity feed-forward, computed for the vehicle's own time: the vehicle follows them
closely at any simulation speed.
"""

import argparse
import itertools
import math
import sys
from collections.abc import Callable

from mavsdk.plugins.offboard import PositionNedYaw, VelocityNedYaw

from sitl_bridge.api.mavsdk import OffboardControl, Vehicle, command_line, positive, run

Setpoint = tuple[PositionNedYaw, VelocityNedYaw]


def smooth(share: float) -> tuple[float, float]:
    """Position and speed of a rest-to-rest motion at a share 0..1 of its time, both relative to the whole.

    The quintic 10 s^3 - 15 s^4 + 6 s^5 has no velocity and no acceleration at both ends; its greatest speed
    is 1.875 times the mean.
    """
    s = min(max(share, 0.0), 1.0)
    return s**3 * (10 - 15 * s + 6 * s * s), 30 * s * s * (1 - s) ** 2


def along(begin: PositionNedYaw, end: PositionNedYaw, duration: float) -> Callable[[float], Setpoint]:
    """Setpoint that moves from ``begin`` to ``end`` in ``duration`` s, as a function of time."""
    way_north, way_east = end.north_m - begin.north_m, end.east_m - begin.east_m

    def setpoint_at(time: float) -> Setpoint:
        way, speed = smooth(time / duration)
        return (
            PositionNedYaw(
                begin.north_m + way * way_north, begin.east_m + way * way_east, end.down_m, end.yaw_deg
            ),
            VelocityNedYaw(speed / duration * way_north, speed / duration * way_east, 0.0, end.yaw_deg),
        )

    return setpoint_at


async def square(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    await vehicle.wait_until_armable()
    north, east, ground = vehicle.position
    down, side = ground - options.height, options.side
    corners = [(0.0, 0.0), (side, 0.0), (side, side), (0.0, side), (0.0, 0.0)]
    duration = 1.875 * side / options.speed

    on_the_spot = PositionNedYaw(north, east, ground, vehicle.attitude[2])
    async with OffboardControl(vehicle, on_the_spot) as control:
        await vehicle.arm()
        vehicle.say(f"climbing to {options.height:g} m")
        await control.go_to(PositionNedYaw(north, east, down, 0.0), settle=2.0)

        for number, (begin, end) in enumerate(itertools.pairwise(corners), start=1):
            yaw = math.degrees(math.atan2(end[1] - begin[1], end[0] - begin[0]))
            first = PositionNedYaw(north + begin[0], east + begin[1], down, yaw)
            last = PositionNedYaw(north + end[0], east + end[1], down, yaw)
            vehicle.say(f"side {number} of 4, heading {yaw:.0f} deg")
            await control.hold(first, 3.0)  # turns on the spot
            await control.follow(along(first, last, duration), duration)
            await control.go_to(last)

    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--side", type=positive, default=10.0, help="side of the square in m")
    parser.add_argument("--height", type=positive, default=5.0, help="height above ground in m")
    parser.add_argument("--speed", type=positive, default=3.0, help="greatest speed along a side in m/s")
    sys.exit(run(square, parser))
