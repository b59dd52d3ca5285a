#!/usr/bin/env python3
"""Fly legs by offboard velocity setpoints and check that PX4 reaches each velocity.

Velocities are ramped as a pilot would push the stick, and each leg ends at rest.
"""

import argparse
import math
import sys

from mavsdk.plugins.offboard import VelocityNedYaw

from sitl_bridge.flight.offboard import OffboardControl
from sitl_bridge.flight.script import command_line, positive, run
from sitl_bridge.flight.vehicle import Vehicle

# direction north, east, down; deg yaw.  The legs lead back to where they began.
LEGS = [(1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 90.0), (-1.0, 0.0, -0.3, 180.0), (0.0, -1.0, 0.3, 270.0)]

RAMP = 2.0  # s


async def legs(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    await vehicle.wait_until_armable()
    await vehicle.arm()
    await vehicle.take_off(options.height)

    standing = VelocityNedYaw(0.0, 0.0, 0.0, vehicle.attitude[2])
    async with OffboardControl(vehicle, standing) as control:
        for direction_north, direction_east, direction_down, yaw in LEGS:
            wanted = tuple(options.speed * d for d in (direction_north, direction_east, direction_down))
            vehicle.say(f"{wanted[0]:g} m/s north, {wanted[1]:g} m/s east, {-wanted[2]:g} m/s up")

            def ramp(time: float, wanted: tuple[float, ...] = wanted, yaw: float = yaw) -> VelocityNedYaw:
                share = min(time / RAMP, 1.0)
                return VelocityNedYaw(*(share * speed for speed in wanted), yaw)

            await control.follow(ramp, RAMP + options.seconds)
            error = math.dist(vehicle.velocity, wanted)
            vehicle.say(f"velocity reached within {error:.2f} m/s")
            if error > options.tolerance:
                vehicle.fail(
                    f"after {RAMP + options.seconds:g} s the velocity is {error:.2f} m/s off its setpoint "
                    f"(allowed: {options.tolerance:g} m/s)"
                )
            await control.hold(VelocityNedYaw(0.0, 0.0, 0.0, yaw), 4.0)

    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--height", type=positive, default=10.0, help="m over the ground")
    parser.add_argument("--speed", type=positive, default=3.0, help="m/s")
    parser.add_argument("--seconds", type=positive, default=5.0, help="s at full speed on each leg")
    parser.add_argument("--tolerance", type=positive, default=0.75, help="m/s a velocity may be off")
    sys.exit(run(legs, parser))
