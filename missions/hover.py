#!/usr/bin/env python3
"""Take off, hover on the spot for a while, land.

The smallest complete mission: every step waits for the vehicle to have done the one before.
"""

import argparse
import math
import sys

from mavsdk.plugins.telemetry import FlightMode

from sitl_bridge.api.mavsdk import Vehicle, command_line, positive, run


async def hover(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    await vehicle.wait_until_armable()
    await vehicle.arm()
    await vehicle.take_off(options.height)

    start = vehicle.position
    vehicle.say(f"hovering for {options.seconds:g} s")
    await vehicle.sleep(options.seconds, modes={FlightMode.HOLD})
    vehicle.say(f"hovered; {math.dist(start, vehicle.position):.2f} m from the start of the hover")

    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--height", type=positive, default=5.0, help="height above ground in m")
    parser.add_argument("--seconds", type=positive, default=30.0, help="s of vehicle time")
    sys.exit(run(hover, parser))
