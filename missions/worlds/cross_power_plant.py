#!/usr/bin/env python3
"""Fly across the power plant by offboard setpoints along a planned path.

Halls block the straight line from the take-off point to the goal.  Fly it in that world:
``sitl-bridge fly missions/worlds/cross_power_plant.py --world missions/worlds/power_plant.yaml``.
"""

import argparse
import math
import sys
from pathlib import Path

from mavsdk.plugins.offboard import PositionNedYaw

import sitl_bridge as sb
from sitl_bridge.api.mavsdk import OffboardControl, Vehicle, command_line, positive, run

WORLD = Path(__file__).resolve().parent / "power_plant.yaml"
START, GOAL = (0.0, 0.0, -5.0), (62.0, 5.0, -6.0)
"""m NED from the world's origin, where the vehicle stands at first."""


async def cross(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    path: sb.planning.PlannedPath = options.path
    await vehicle.wait_until_armable()
    await vehicle.arm()
    await vehicle.take_off(-START[2])

    def setpoint(seconds: float) -> PositionNedYaw:
        moment = path.at(seconds)
        return PositionNedYaw(*(float(x) for x in moment.position), math.degrees(float(moment.yaw)))

    vehicle.say(f"path of {path.length:.0f} m, {path.clearance:.2f} m from obstacles, {path.duration:.0f} s")
    async with OffboardControl(vehicle, setpoint(0.0)) as control:
        await control.go_to(setpoint(0.0), settle=2.0)
        await control.follow(setpoint, path.duration)
        await control.go_to(setpoint(path.duration), settle=2.0)
    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--margin", type=positive, default=2.5, help="m from obstacles beyond the radius")
    parser.add_argument("--speed", type=positive, default=2.5, help="m/s along the path, at most")
    parser.set_defaults(path=None)
    given = parser.parse_args()
    try:
        planned = sb.planning.plan_path(START, GOAL, world=WORLD, margin=given.margin, speed=given.speed)
    except sb.UserError as error:
        sys.exit(f"failed: {error}")
    parser.set_defaults(path=planned)
    sys.exit(run(cross, parser))
