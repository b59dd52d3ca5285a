#!/usr/bin/env python3
"""Tilt in all directions by offboard attitude and thrust setpoints, at constant height.

PX4 holds the attitude it is given; the height is this script's own business: a small controller turns the
height error into thrust, 30 times a second of the vehicle's time.
"""

import argparse
import math
import sys

from mavsdk.plugins.offboard import Attitude

from sitl_bridge.api.mavsdk import OffboardControl, Vehicle, command_line, positive, run

GRAVITY = 9.80665  # m/s^2, standard

# Height controller: acceleration up in m/s^2 from the height error and its rate.  Derived: natural frequency
# w = 0.4 rad/s, damping 1 (gains w^2 and 2 d w), and an integrator five times slower for the error of the
# hover thrust.  It is slow on purpose: it stays stable with a second of delay (2 d w x 1 s = 0.8 rad of
# phase), the delay of a script that is 50 ms late at 20 times real time.
HEIGHT_GAIN, CLIMB_GAIN, INTEGRAL_GAIN = 0.16, 0.8, 0.013
INTEGRAL_LIMIT = 3.0  # m/s^2

SECONDS = 2.0  # at each attitude

# deg roll, deg pitch; each is followed by its opposite, so that the vehicle ends near its start
TILTS = [(8.0, 0.0), (-8.0, 0.0), (-8.0, 0.0), (8.0, 0.0), (0.0, 8.0), (0.0, -8.0), (0.0, -8.0), (0.0, 8.0)]


class HeightKeeper:
    """Thrust that holds the height at any tilt."""

    def __init__(self, vehicle: Vehicle, hover_thrust: float) -> None:
        self.vehicle = vehicle
        self.hover_thrust = hover_thrust
        self.down = vehicle.position[2]
        self.integral = 0.0
        self.last = vehicle.time

    def thrust(self) -> float:
        """Share of the full thrust, 0..1, for the vehicle's present height, climb and tilt."""
        vehicle = self.vehicle
        error = vehicle.position[2] - self.down
        step, self.last = vehicle.time - self.last, vehicle.time
        self.integral += INTEGRAL_GAIN * error * step
        self.integral = max(-INTEGRAL_LIMIT, min(INTEGRAL_LIMIT, self.integral))
        up = HEIGHT_GAIN * error + CLIMB_GAIN * vehicle.velocity[2] + self.integral
        roll, pitch = (math.radians(angle) for angle in vehicle.attitude[:2])
        tilt = max(math.cos(roll) * math.cos(pitch), 0.5)
        return max(0.05, min(0.95, self.hover_thrust * (1.0 + up / GRAVITY) / tilt))


async def hold(
    vehicle: Vehicle,
    control: OffboardControl,
    keeper: HeightKeeper,
    angles: tuple[float, float, float],
    tolerance: float,
) -> None:
    """Hold one attitude (deg roll, pitch, yaw) until the vehicle has it."""
    roll, pitch, yaw = angles
    vehicle.say(f"roll {roll:g} deg, pitch {pitch:g} deg")

    def off() -> float:
        return max(abs(vehicle.attitude[0] - roll), abs(vehicle.attitude[1] - pitch))

    await control.follow(lambda _time: Attitude(roll, pitch, yaw, keeper.thrust()), SECONDS)
    await control.wait(
        f"the attitude to come within {tolerance:g} deg",
        lambda: off() < tolerance,
        limit=10.0,
        state=lambda: f"the error is {off():.1f} deg",
    )


async def tilt(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    await vehicle.wait_until_armable()
    hover_thrust = await vehicle.param.get_param_float("MPC_THR_HOVER")
    await vehicle.arm()
    await vehicle.take_off(options.height)

    keeper = HeightKeeper(vehicle, hover_thrust)
    yaw = vehicle.attitude[2]
    worst = 0.0
    async with OffboardControl(vehicle, Attitude(0.0, 0.0, yaw, hover_thrust)) as control:
        for roll, pitch in [(0.0, 0.0), *TILTS, (0.0, 0.0)]:
            await hold(vehicle, control, keeper, (roll, pitch, yaw), options.tolerance)
            worst = max(worst, abs(vehicle.position[2] - keeper.down))
    vehicle.say(f"height error at most {worst:.2f} m")
    if worst > options.height / 2:
        vehicle.fail(f"the height error was {worst:.2f} m, more than half of {options.height:g} m")

    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--height", type=positive, default=10.0, help="height above ground in m")
    parser.add_argument("--tolerance", type=positive, default=3.0, help="greatest final angle error in deg")
    sys.exit(run(tilt, parser))
