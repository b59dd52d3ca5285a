#!/usr/bin/env python3
"""Fly a closed course with the nose ahead, while sensors that see are recorded.

sitl-bridge fly missions/sensor_run.yaml
"""

import argparse
import itertools
import math
import sys
from collections.abc import Callable

from mavsdk.plugins.offboard import PositionNedYaw, VelocityNedYaw

from sitl_bridge.api.mavsdk import OffboardControl, Vehicle, command_line, positive, run

COURSE = [(0.0, 0.0), (0.0, -9.0), (-2.0, -9.0), (-2.0, 9.0), (2.0, 9.0), (2.0, 0.0), (0.0, 0.0)]
"""m north, east of the start."""
TURN_RATE = 40.0
"""deg/s, the greatest of a turn."""

Setpoint = tuple[PositionNedYaw, VelocityNedYaw]


def smooth(share: float) -> tuple[float, float]:
    """Way and speed of a rest-to-rest motion at a share 0..1 of its time, both relative to the whole."""
    s = min(max(share, 0.0), 1.0)
    return s**3 * (10 - 15 * s + 6 * s * s), 30 * s * s * (1 - s) ** 2


def motion(
    begin: PositionNedYaw, end: PositionNedYaw, speed: float
) -> tuple[float, Callable[[float], Setpoint]]:
    """Duration in s of a motion on a straight line or of a turn, and its setpoint as a function of time.

    The greatest speed of the motion is 1.875 times the mean.
    """
    north, east = end.north_m - begin.north_m, end.east_m - begin.east_m
    turn = (end.yaw_deg - begin.yaw_deg + 180.0) % 360.0 - 180.0
    duration = 1.875 * max(math.hypot(north, east) / speed, abs(turn) / TURN_RATE, 0.1)

    def setpoint_at(time: float) -> Setpoint:
        way, rate = smooth(time / duration)
        yaw = begin.yaw_deg + way * turn
        place = PositionNedYaw(begin.north_m + way * north, begin.east_m + way * east, begin.down_m, yaw)
        return place, VelocityNedYaw(rate / duration * north, rate / duration * east, 0.0, yaw)

    return duration, setpoint_at


async def fly(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    await vehicle.wait_until_armable()
    await vehicle.arm()
    await vehicle.take_off(options.height)
    north, east, down = vehicle.position
    here = PositionNedYaw(north, east, down, vehicle.attitude[2])
    async with OffboardControl(vehicle, here) as control:
        for number, ((x, y), (to_x, to_y)) in enumerate(itertools.pairwise(COURSE), start=1):
            vehicle.say(f"leg {number} of {len(COURSE) - 1}")
            ahead = math.degrees(math.atan2(to_y - y, to_x - x))
            turned = PositionNedYaw(here.north_m, here.east_m, down, ahead)
            there = PositionNedYaw(north + to_x, east + to_y, down, ahead)
            for begin, end in ((here, turned), (turned, there)):
                duration, setpoint_at = motion(begin, end, options.speed)
                await control.follow(setpoint_at, duration)
            here = there
    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--height", type=positive, default=2.5, help="m over the ground")
    parser.add_argument("--speed", type=positive, default=1.5, help="m/s at most")
    sys.exit(run(fly, parser))
