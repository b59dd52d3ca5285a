#!/usr/bin/env python3
"""Fly over hills by the sticks at a height over the terrain, by a range finder, and land there.

sitl-bridge fly missions/follow_terrain.yaml --px4 ~/PX4-Autopilot
"""

import argparse
import sys

from mavsdk.asyncio.plugins.param import ParamError

from sitl_bridge.api.mavsdk import Vehicle, command_line, position_mode, positive, run

TERRAIN_FOLLOWING, DIRECT_VELOCITY = 1, 0
"""MPC_ALT_MODE and MPC_POS_MODE: Position mode keeps the height over the ground where sticks are velocities.
With MPC_POS_MODE 4, where they are accelerations, the height setpoint is smoothed and does not follow it."""


async def fly(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    try:
        await vehicle.param.set_param_int("MPC_ALT_MODE", TERRAIN_FOLLOWING)
        await vehicle.param.set_param_int("MPC_POS_MODE", DIRECT_VELOCITY)
    except ParamError:
        vehicle.fail("this flight stack does not follow the terrain; fly it with PX4")
    await vehicle.param.set_param_float("MPC_VEL_MANUAL", options.speed)
    async with position_mode(vehicle, options.height) as sticks:
        await vehicle.sleep(3.0)
        vehicle.say(f"flying ahead for {options.way:g} m, {options.height:g} m over the terrain")
        begin = vehicle.position
        sticks.ahead(1.0)
        limit = 3.0 * options.way / options.speed + 20.0
        await vehicle.wait(
            f"{options.way:g} m of way", lambda: vehicle.position[0] - begin[0] >= options.way, limit
        )
        sticks.centre()
        await vehicle.sleep(4.0)
        vehicle.say(f"stands {begin[2] - vehicle.position[2]:+.1f} m from the height at which it began")
        await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--height", type=positive, default=5.0, help="m over the ground")
    parser.add_argument("--speed", type=positive, default=3.0, help="m/s")
    parser.add_argument("--way", type=positive, default=80.0, help="m north")
    sys.exit(run(fly, parser))
