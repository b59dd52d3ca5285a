#!/usr/bin/env python3
"""Fly manoeuvres that are difficult for an estimator: turns on the spot, climbs, descents, fast legs.

What PX4's estimator made of it is in its log; ``sitl-bridge fly`` judges that by PX4's own checks.
"""

import argparse
import itertools
import math
import sys

from mavsdk.plugins.telemetry import FlightMode

from sitl_bridge.api.mavsdk import Vehicle, command_line, goto, positive, run

METRES_PER_DEGREE = math.radians(1.0) * 6_371_000.0  # of PX4's sphere
LEGS = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))  # north, east; back to where they begin
TURNS = (120.0, 240.0, 0.0)  # deg, a full turn in three parts, none of them ambiguous


class Course:
    """Flies from point to point, in m from the position at arming."""

    def __init__(self, vehicle: Vehicle) -> None:
        self.vehicle = vehicle
        self.home = vehicle.global_position
        self.begun = vehicle.position
        self.north = self.east = self.yaw = 0.0

    async def go(self, north: float, east: float, height: float, yaw: float, limit: float) -> float:
        """Fly to a point and a heading; returns the greatest horizontal speed in m/s.

        Raises:
            MissionFailedError: when the vehicle is not there after ``limit`` s.
        """
        vehicle, latitude = self.vehicle, self.home[0]
        await goto(
            vehicle,
            latitude + north / METRES_PER_DEGREE,
            self.home[1] + east / METRES_PER_DEGREE / math.cos(math.radians(latitude)),
            self.home[2] + height,
            yaw,
        )
        self.north, self.east, self.yaw = north, east, yaw
        fastest = 0.0

        def there() -> bool:
            nonlocal fastest
            fastest = max(fastest, math.hypot(*vehicle.velocity[:2]))
            off = math.dist(vehicle.position[:2], self._target())
            turned = abs(math.remainder(vehicle.attitude[2] - yaw, 360.0))
            still = math.hypot(*vehicle.velocity) < 0.5
            return off < 1.0 and abs(vehicle.height - height) < 0.7 and turned < 5.0 and still

        await vehicle.wait(
            f"the vehicle {north:.0f} m north, {east:.0f} m east, {height:.0f} m high, heading {yaw:.0f} deg",
            there,
            limit,
            modes={FlightMode.HOLD},
            must_stay_armed=True,
        )
        return fastest

    def _target(self) -> tuple[float, float]:
        return self.begun[0] + self.north, self.begun[1] + self.east


async def check(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    await vehicle.wait_until_armable()
    await vehicle.arm()
    course = Course(vehicle)
    await vehicle.take_off(options.height)
    await vehicle.action.set_current_speed(options.speed)
    begun, low, high = vehicle.time, options.height, options.height + options.climb

    for number in itertools.count(1):
        for yaw in TURNS:
            await course.go(0.0, 0.0, low, yaw, 60.0)
        await course.go(0.0, 0.0, high, 0.0, 60.0)
        await course.go(0.0, 0.0, low, 0.0, 90.0)
        fastest = []
        for north, east in LEGS:
            end_north, end_east = course.north + north * options.side, course.east + east * options.side
            yaw = math.degrees(math.atan2(east, north))
            fastest.append(await course.go(end_north, end_east, low, yaw, 90.0))
        vehicle.say(f"round {number}: turned, climbed {options.climb:g} m, up to {max(fastest):.1f} m/s")
        if min(fastest) < 0.9 * options.speed:
            vehicle.fail(f"a leg was flown at only {min(fastest):.1f} m/s of {options.speed:g} m/s")
        if vehicle.time - begun >= options.seconds:
            break
    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--height", type=positive, default=10.0, help="height above ground in m")
    parser.add_argument("--climb", type=positive, default=15.0, help="height of the climbs in m")
    parser.add_argument("--side", type=positive, default=80.0, help="side in m of the square of fast legs")
    parser.add_argument("--speed", type=positive, default=8.0, help="speed on the legs in m/s")
    parser.add_argument("--seconds", type=positive, default=300.0, help="least duration in s of vehicle time")
    sys.exit(run(check, parser))
