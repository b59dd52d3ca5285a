#!/usr/bin/env python3
"""Fly away, then let PX4 return to its launch point and land there.

Checks how far from the launch point it comes to stand.
"""

import argparse
import math
import sys

from mavsdk.plugins.telemetry import FlightMode

from sitl_bridge.api.mavsdk import Vehicle, command_line, goto, positive, run

METRES_PER_DEGREE = 111_195.0  # of latitude, on PX4's sphere of 6,371,000 m radius


async def go_and_return(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    await vehicle.wait_until_armable()
    await vehicle.arm()
    launch = vehicle.position
    latitude, longitude, altitude = vehicle.global_position
    await vehicle.action.set_return_to_launch_altitude(options.return_height)
    await vehicle.take_off(options.height)

    vehicle.say(f"flying {options.distance:g} m north")
    await goto(
        vehicle, latitude + options.distance / METRES_PER_DEGREE, longitude, altitude + options.height, 0.0
    )
    await vehicle.wait(
        f"the vehicle to be {options.distance:g} m north",
        lambda: abs(vehicle.position[0] - launch[0] - options.distance) < 1.0,
        limit=30.0 + options.distance,
        modes={FlightMode.HOLD},
        must_stay_armed=True,
        state=lambda: f"it is {vehicle.position[0] - launch[0]:.1f} m north",
    )

    vehicle.say(f"returning at {options.return_height:g} m")
    await vehicle.action.return_to_launch()
    await vehicle.wait_until_landed(
        limit=120.0 + options.distance + 2.0 * options.return_height,
        modes={FlightMode.RETURN_TO_LAUNCH, FlightMode.LAND},
    )
    off = math.dist(vehicle.position[:2], launch[:2])
    vehicle.say(f"landed {off:.2f} m from the launch point")
    if off > options.tolerance:
        vehicle.fail(f"it landed {off:.2f} m from the launch point (allowed: {options.tolerance:g} m)")


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--height", type=positive, default=10.0, help="height above ground in m")
    parser.add_argument("--distance", type=positive, default=40.0, help="distance of the leg in m")
    parser.add_argument("--return-height", type=positive, default=20.0, help="m above the launch point")
    parser.add_argument("--tolerance", type=positive, default=2.0, help="greatest landing error in m")
    sys.exit(run(go_and_return, parser))
