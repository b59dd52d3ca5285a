#!/usr/bin/env python3
"""Excite every motion from which `sitl-bridge identify` estimates an airframe.

Doublets in roll, pitch and yaw show the moments of inertia, steps of thrust and climbs the thrust and the
motors' time constants, and a fast square the drag and the wind.  For real vehicles: fly it high, in an open
field, with a pilot who can take over, and log motor commands and inertial samples at their full rates
(SDLOG_PROFILE with bit 4).
"""

import argparse
import math
import sys
from collections.abc import Callable

from mavsdk.plugins.offboard import Attitude, PositionNedYaw, VelocityNedYaw

from sitl_bridge.api.mavsdk import OffboardControl, Vehicle, command_line, positive, run

PULSES = (0.5, 0.25)  # s, each doublet's two halves
REST = 0.8  # s, level flight after a doublet
YAW_STEP = 40.0  # deg
THRUST_STEP = 0.2  # of the hover thrust
THRUST_PULSE = 0.4  # s
CLIMB = 2.0  # m/s
SIDE_TIME = 6.0  # s


def doublet(hover: float, yaw: float, axis: str, size: float, pulse: float) -> Callable[[float], Attitude]:
    """A step to each side, then level, as a function of time."""

    def setpoint_at(time: float) -> Attitude:
        value = size if time < pulse else -size if time < 2.0 * pulse else 0.0
        roll = value if axis == "roll" else 0.0
        pitch = value if axis == "pitch" else 0.0
        turn = value if axis == "yaw" else 0.0
        thrust = hover * (1.0 + value) if axis == "thrust" else hover
        return Attitude(roll, pitch, yaw + turn, thrust)

    return setpoint_at


async def excite_attitude(
    vehicle: Vehicle, control: OffboardControl, options: argparse.Namespace, hover: float
) -> None:
    """Doublets about every axis; between them PX4 flies back to the place."""
    north, east, down = vehicle.position
    yaw = vehicle.attitude[2]
    sizes = {"roll": options.tilt, "pitch": options.tilt, "yaw": YAW_STEP, "thrust": THRUST_STEP}
    for axis, size in sizes.items():
        vehicle.say(f"doublets in {axis}")
        for pulse in PULSES:
            length = THRUST_PULSE if axis == "thrust" else 2.0 * pulse if axis == "yaw" else pulse
            for sign in (1.0, -1.0):
                await control.follow(doublet(hover, yaw, axis, sign * size, length), 2.0 * length + REST)
            await control.go_to(PositionNedYaw(north, east, down, yaw), tolerance=1.0, settle=0.5)


async def excite_velocity(vehicle: Vehicle, control: OffboardControl, options: argparse.Namespace) -> None:
    """Climbs and descents, and a square at two headings, by steps of the velocity."""
    vehicle.say("climbs")
    yaw = vehicle.attitude[2]
    for down in (-CLIMB, CLIMB, -CLIMB, CLIMB):
        await control.hold(VelocityNedYaw(0.0, 0.0, down, yaw), 2.0)
    speed = options.speed
    for heading in (yaw, yaw + 45.0):
        vehicle.say(f"square at {speed:g} m/s, heading {heading % 360.0:.0f} deg")
        for side in range(4):
            angle = math.radians(heading + 90.0 * side)
            velocity = VelocityNedYaw(speed * math.cos(angle), speed * math.sin(angle), 0.0, heading)
            await control.hold(velocity, options.side_time)
    await control.hold(VelocityNedYaw(0.0, 0.0, 0.0, yaw), 4.0)


async def identification(vehicle: Vehicle, options: argparse.Namespace) -> None:
    """Fly the mission."""
    await vehicle.wait_until_armable()
    hover = await vehicle.param.get_param_float("MPC_THR_HOVER")
    await vehicle.arm()
    await vehicle.take_off(options.height)
    north, east, down = vehicle.position
    yaw = vehicle.attitude[2]
    async with OffboardControl(vehicle, PositionNedYaw(north, east, down, yaw)) as control:
        for _ in range(options.rounds):
            await excite_attitude(vehicle, control, options, hover)
            await excite_velocity(vehicle, control, options)
    await vehicle.land()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--height", type=positive, default=20.0, help="height above ground in m")
    parser.add_argument("--tilt", type=positive, default=15.0, help="roll and pitch of the doublets in deg")
    parser.add_argument("--speed", type=positive, default=7.0, help="speed of the square in m/s")
    parser.add_argument("--side-time", type=positive, default=SIDE_TIME, help="s on each side of the square")
    parser.add_argument("--rounds", type=int, default=1, choices=range(1, 11), help="how often all is flown")
    sys.exit(run(identification, parser))
