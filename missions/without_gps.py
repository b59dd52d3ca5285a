#!/usr/bin/env python3
"""Hover, and fly a square, with visual odometry, while GPS is jammed.

sitl-bridge fly missions/without_gps.yaml
"""

import argparse
import itertools
import math
import sys

from mavsdk.plugins.offboard import PositionNedYaw
from mavsdk.plugins.telemetry import FlightMode

from sitl_bridge.api.mavsdk import OffboardControl, Vehicle, command_line, positive, run

GIVEN_UP = 15.0
"""s from jamming until PX4 has given the receiver up (7 s in EKF2) and gone to the place that remains."""


async def fly(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    await vehicle.wait_until_armable()
    await vehicle.arm()
    await vehicle.take_off(options.height)
    vehicle.say(f"waiting until {options.jammed_at:g} s, when GPS is jammed")
    await vehicle.sleep(max(options.jammed_at + GIVEN_UP - vehicle.time, 0.0))
    start = vehicle.position
    vehicle.say(f"hovering for {options.seconds:g} s")
    await vehicle.sleep(options.seconds, modes={FlightMode.HOLD})
    vehicle.say(f"hovered; {math.dist(start, vehicle.position):.2f} m from the start of the hover")
    north, east, down = start
    side = options.side
    corners = [(0.0, 0.0), (side, 0.0), (side, side), (0.0, side), (0.0, 0.0)]
    async with OffboardControl(vehicle, PositionNedYaw(*start, vehicle.attitude[2])) as control:
        for number, (_, (x, y)) in enumerate(itertools.pairwise(corners), start=1):
            vehicle.say(f"side {number} of 4")
            await control.go_to(PositionNedYaw(north + x, east + y, down, 0.0), settle=1.0)
    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--height", type=positive, default=5.0, help="height above ground in m")
    parser.add_argument("--jammed-at", type=positive, default=40.0, help="vehicle time of jamming in s")
    parser.add_argument("--seconds", type=positive, default=60.0, help="s of hovering without GPS")
    parser.add_argument("--side", type=positive, default=10.0, help="side of the square in m")
    sys.exit(run(fly, parser))
