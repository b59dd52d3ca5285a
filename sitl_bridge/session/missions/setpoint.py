"""Setpoints of a swarm in the form of MAVSDK's offboard plug-in, for one vehicle at a time."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from mavsdk.plugins.offboard import AccelerationNed, PositionNedYaw, VelocityNedYaw
from numpy.typing import NDArray

from sitl_bridge.swarm.interface import Setpoints

Array: TypeAlias = NDArray[np.float64]
Target: TypeAlias = Any
"""Arguments of one of MAVSDK's setters: a tuple, or a single one."""


def offboard_target(setpoints: Setpoints, vehicle: int, origin: Array) -> Target:
    """MAVSDK's setpoint for one vehicle.

    Args:
        setpoints: of the fleet, from the common origin.
        vehicle: its row.
        origin: (3,) m NED of the vehicle's own local origin from the common one.

    Returns:
        (PositionNedYaw, VelocityNedYaw, AccelerationNed) for set_position_velocity_acceleration_ned; without
        the last if there is no acceleration; VelocityNedYaw for set_velocity_ned if there is no position;
        None if there is no velocity either.
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
