#!/usr/bin/env python3
"""Approach a wall with the sticks, in Position mode, at several speeds: the vehicle stops in front of it.

    sitl-bridge fly missions/stick_approach.py --px4 ~/PX4-Autopilot --airframe iris_scanner
        --world missions/worlds/wall.yaml -- --speeds 1 3 5

The airframe needs a sensor with ``obstacle_distance``.  The wall is to be north of the vehicle.
"""

import argparse
import sys

from mavsdk.asyncio.plugins.param import ParamError

from sitl_bridge.api.mavsdk import HeldSticks, Vehicle, command_line, position_mode, positive, run

STANDS, FOR = 0.1, 2.0
"""m/s below which the vehicle has stopped, and s for which it must be slower."""
LEAST_FULL_SPEED = 3.0
"""m/s of the full stick: least MPC_VEL_MANUAL."""
LIMIT = 120.0
"""Time limit of an approach in s."""


async def stands(vehicle: Vehicle) -> None:
    """Wait until the vehicle has stopped."""
    since = vehicle.time
    end = vehicle.time + LIMIT
    while vehicle.time - since < FOR:
        await vehicle.changed()
        if max(abs(v) for v in vehicle.velocity[:2]) > STANDS:
            since = vehicle.time
        if vehicle.time > end:
            vehicle.fail(f"it has not stopped {LIMIT:g} s after the stick was moved")


def stick_for(share: float) -> float:
    """Stick for a share of the full speed: PX4 makes 0.4 s + 0.6 s^3 of a stick s (MPC_XY_MAN_EXPO 0.6)."""
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if 0.4 * middle + 0.6 * middle**3 < share else (low, middle)
    return high


async def approach(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    try:
        await vehicle.param.set_param_float("MPC_VEL_MANUAL", LEAST_FULL_SPEED)
        await vehicle.param.set_param_float(
            "CP_GUIDE_ANG", 0.0
        )  # otherwise it flies along the wall and around it
    except ParamError:
        vehicle.fail("this flight stack has no collision prevention; fly it with PX4")
    async with position_mode(vehicle, options.height) as sticks:
        for speed in options.speeds:
            await go_to(vehicle, sticks, options.wall - options.run_up - 6.0 * speed)
            await stands(vehicle)
            full = max(speed, LEAST_FULL_SPEED)
            await vehicle.param.set_param_float("MPC_VEL_MANUAL", full)
            sticks.ahead(stick_for(speed / full))
            await vehicle.sleep(2.0)
            await stands(vehicle)
            vehicle.say(f"from {speed:g} m/s it stopped {options.wall - vehicle.position[0]:.2f} m off")
        sticks.centre()
        await vehicle.sleep(1.0)
        await vehicle.land()


async def go_to(vehicle: Vehicle, sticks: HeldSticks, north: float) -> None:
    """Fly forward or backward to a distance from the start, and centre the sticks."""
    sign = 1.0 if vehicle.position[0] < north else -1.0
    sticks.ahead(0.7 * sign)
    await vehicle.wait(f"{north:g} m north", lambda: sign * (vehicle.position[0] - north) >= 0.0, LIMIT)
    sticks.centre()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--speeds", type=positive, nargs="+", default=[1.0, 3.0, 5.0], help="speeds in m/s")
    parser.add_argument("--height", type=positive, default=3.0, help="height above ground in m")
    parser.add_argument("--wall", type=positive, default=30.0, help="distance of the wall, north, in m")
    parser.add_argument(
        "--run-up", type=positive, default=6.0, help="run-up in m, in addition to 6 s of flight"
    )
    sys.exit(run(approach, parser))
