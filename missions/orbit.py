#!/usr/bin/env python3
"""Orbit the take-off point in PX4's Orbit mode, facing the centre.

Checks from the vehicle's positions that the circle was flown: its radius and the angle covered.
"""

import argparse
import math
import sys

from sitl_bridge.api.mavsdk import Vehicle, command_line, positive, run
from sitl_bridge.api.mavsdk import orbit as begin_orbit


async def orbit(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    await vehicle.wait_until_armable()
    await vehicle.arm()
    centre_north, centre_east, _ = vehicle.position
    latitude, longitude, altitude = vehicle.global_position
    await vehicle.take_off(options.height)

    vehicle.say(f"orbit of {options.radius:g} m radius at {options.speed:g} m/s")
    await begin_orbit(vehicle, options.radius, options.speed, latitude, longitude, altitude + options.height)

    def offset() -> tuple[float, float]:
        return vehicle.position[0] - centre_north, vehicle.position[1] - centre_east

    await vehicle.wait(
        "the vehicle to reach the circle",
        lambda: abs(math.hypot(*offset()) - options.radius) < 0.5,
        limit=30.0 + options.radius,
        must_stay_armed=True,
        state=lambda: f"it is {math.hypot(*offset()):.1f} m from the centre",
    )

    turned, worst, last = 0.0, 0.0, math.atan2(*reversed(offset()))
    full = 2.0 * math.pi * options.turns

    def circled() -> bool:
        nonlocal turned, worst, last
        angle = math.atan2(*reversed(offset()))
        turned += math.remainder(angle - last, 2.0 * math.pi)
        last = angle
        worst = max(worst, abs(math.hypot(*offset()) - options.radius))
        return bool(abs(turned) >= full)

    await vehicle.wait(
        f"{options.turns:g} turns around the centre",
        circled,
        limit=30.0 + 1.5 * full * options.radius / options.speed,
        must_stay_armed=True,
        state=lambda: f"{math.degrees(turned):.0f} deg have been flown",
    )
    vehicle.say(f"{options.turns:g} turns flown, radius error at most {worst:.2f} m")
    if worst > options.tolerance:
        vehicle.fail(f"the radius error was {worst:.2f} m (allowed: {options.tolerance:g} m)")

    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--height", type=positive, default=8.0, help="height above ground in m")
    parser.add_argument("--radius", type=positive, default=10.0, help="radius of the orbit in m")
    parser.add_argument("--speed", type=positive, default=3.0, help="speed along the orbit in m/s")
    parser.add_argument("--turns", type=positive, default=1.5, help="number of turns around the centre")
    parser.add_argument("--tolerance", type=positive, default=1.5, help="greatest radius error in m")
    sys.exit(run(orbit, parser))
