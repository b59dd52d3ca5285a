"""A formation's setpoints as MAVSDK's offboard plug-in takes them, one vehicle at a time.

States come from each vehicle's telemetry and the place of its local origin in the common frame; setpoints are
sent once a tick of the vehicles' clock.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from mavsdk.plugins.offboard import AccelerationNed, PositionNedYaw, VelocityNedYaw
from numpy.typing import NDArray

from sitl_bridge.swarm.interface import Setpoints

Array: TypeAlias = NDArray[np.float64]
Target: TypeAlias = Any
"""What one of MAVSDK's setters takes: a tuple of its arguments, or the one."""


def offboard_target(setpoints: Setpoints, vehicle: int, origin: Array) -> Target:
    """What to hand to MAVSDK for one vehicle.

    Args:
        setpoints: of the fleet, from the common origin.
        vehicle: its row.
        origin: (3,) m NED of the vehicle's own local origin from the common one.

    Returns:
        (PositionNedYaw, VelocityNedYaw, AccelerationNed) for set_position_velocity_acceleration_ned; the last
        is left out where no acceleration is given; VelocityNedYaw alone for set_velocity_ned where no
        position is given; None where nothing is.
    """
    position = (setpoints.position[vehicle] - origin).tolist()
    velocity = setpoints.velocity[vehicle].tolist()
    acceleration = setpoints.acceleration[vehicle].tolist()
    yaw = math.degrees(float(setpoints.yaw[vehicle]))
    if math.isnan(velocity[0]) and math.isnan(position[0]):
        return None
    if math.isnan(position[0]):
        return VelocityNedYaw(*velocity, yaw)
    feed = VelocityNedYaw(*(0.0 if math.isnan(v) else v for v in velocity), yaw)
    if math.isnan(acceleration[0]):
        return PositionNedYaw(*position, yaw), feed
    return PositionNedYaw(*position, yaw), feed, AccelerationNed(*acceleration)
