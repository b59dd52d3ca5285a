#!/usr/bin/env python3
"""Fly legs by offboard velocity setpoints and check that PX4 reaches each velocity.

Velocities are ramped as a pilot would push the stick, and each leg ends at rest.
"""

import argparse
import math
import sys

from mavsdk.plugins.offboard import VelocityNedYaw

from sitl_bridge.api.mavsdk import OffboardControl, Vehicle, command_line, positive, run

# direction north, east, down; deg yaw.  The legs end at their start.
LEGS = [(1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 90.0), (-1.0, 0.0, -0.3, 180.0), (0.0, -1.0, 0.3, 270.0)]

RAMP = 2.0  # s


async def leg(
    vehicle: Vehicle,
    control: OffboardControl,
    wanted: tuple[float, ...],
    yaw: float,
    options: argparse.Namespace,
) -> None:
    """Fly one leg: ramp up to the velocity, hold it, stop."""
    vehicle.say(f"{wanted[0]:g} m/s north, {wanted[1]:g} m/s east, {-wanted[2]:g} m/s up")

    def ramp(time: float) -> VelocityNedYaw:
        share = min(time / RAMP, 1.0)
        return VelocityNedYaw(*(share * speed for speed in wanted), yaw)

    def off() -> float:
        return math.dist(vehicle.velocity, wanted)

    await control.follow(ramp, RAMP + options.seconds)
    await control.wait(
        f"the velocity to come within {options.tolerance:g} m/s of the setpoint",
        lambda: off() < options.tolerance,
        limit=10.0,
        state=lambda: f"the error is {off():.2f} m/s",
    )
    vehicle.say(f"velocity reached within {off():.2f} m/s")
    await control.hold(VelocityNedYaw(0.0, 0.0, 0.0, yaw), 4.0)


async def legs(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    await vehicle.wait_until_armable()
    await vehicle.arm()
    await vehicle.take_off(options.height)

    standing = VelocityNedYaw(0.0, 0.0, 0.0, vehicle.attitude[2])
    async with OffboardControl(vehicle, standing) as control:
        for *direction, yaw in LEGS:
            wanted = tuple(options.speed * share for share in direction)
            await leg(vehicle, control, wanted, yaw, options)

    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--height", type=positive, default=10.0, help="height above ground in m")
    parser.add_argument("--speed", type=positive, default=3.0, help="speed of the legs in m/s")
    parser.add_argument("--seconds", type=positive, default=5.0, help="s at full speed on each leg")
    parser.add_argument("--tolerance", type=positive, default=0.75, help="greatest velocity error in m/s")
    sys.exit(run(legs, parser))
