"""Flight stack settings that follow from the sensors that see the scene, for PX4 and the built-in stack.

What only PX4 needs is in link/px4/perception_parameters.py and link/px4/estimator_parameters.py.
"""

from __future__ import annotations

import math

from sitl_bridge.core.dynamics.proximity import hull
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.marker_detector import MarkerDetectorSpecification
from sitl_bridge.core.sensors.perception.obstacle_map import RangingSpecification, reports_obstacles
from sitl_bridge.core.sensors.perception.view import SeeingSpecification
from sitl_bridge.core.sensors.perception.visual_odometry import VisualOdometrySpecification
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.control_effectiveness import Parameters

STOPPING_MARGIN = 1.0
"""m between the vehicle's hull and an obstacle at which collision prevention stops it (derived: several times
what it overshoots by, under half a metre from 5 m/s)."""
TRACKING_DELAY = 0.4
"""s, CP_DELAY's default: of the position controller."""
LONGEST_DELAY = 1.0
"""s, greatest CP_DELAY."""
STATIONARY, UNTURNED = 1, 0
"""LTEST_MODE and LTEST_SENS_ROT: the marker stands, and the picture's top is ahead."""
EXTERNAL_POSITION_AND_VELOCITY, EXTERNAL_POSITION, EXTERNAL_HORIZONTAL_POSITION = 1 | 2 | 4, 1 | 2, 1
"""EKF2_EV_CTRL: horizontal position 1, vertical position 2, velocity 4."""
LIDAR_POSITION = {"small-gicp": EXTERNAL_POSITION, "kiss-icp": EXTERNAL_HORIZONTAL_POSITION}
"""By estimator.  Point-to-point ICP sticks to a lidar's rings: with 16, its height was 2 m behind after
a climb of 2.7 m."""


def reach(airframe: Airframe) -> float:
    """Radius in m of the vehicle seen from above."""
    shape = hull(airframe.vehicle())
    spheres = shape["sphere"][: int(shape["sphere_count"])]
    return float(max(math.hypot(x, y) + radius for x, y, _, radius in spheres.tolist()))


def collision_prevention(airframe: Airframe) -> Parameters:
    """CP_DIST and CP_DELAY, where a sensor reports obstacles."""
    sensors = [s for s in airframe.seeing_sensors() if isinstance(s, RangingSpecification)]
    late = [s.latency + 0.5 * s.exposure for s in sensors if reports_obstacles(s)]
    if not late:
        return {}
    return {
        "CP_DIST": round(reach(airframe) + STOPPING_MARGIN, 2),
        "CP_DELAY": round(min(TRACKING_DELAY + max(late), LONGEST_DELAY), 2),
    }


def landing_target(airframe: Airframe) -> Parameters:
    """LTEST_*, where a sensor reports a landing marker."""
    found: Parameters = {}
    for sensor in airframe.seeing_sensors():
        if isinstance(sensor, MarkerDetectorSpecification):
            found |= {"LTEST_MODE": STATIONARY, "LTEST_SENS_ROT": UNTURNED}
            found |= {f"LTEST_SENS_POS_{axis}": v for axis, v in zip("XYZ", sensor.position, strict=True)}
    return found


def odometry(airframe: Airframe) -> tuple[SeeingSpecification, int] | None:
    """The sensor that sends ODOMETRY and what is fused of it (EKF2_EV_CTRL); None without one."""
    found: tuple[SeeingSpecification, int] | None = None
    for sensor in airframe.seeing_sensors():
        if isinstance(sensor, VisualOdometrySpecification):
            found = sensor, EXTERNAL_POSITION_AND_VELOCITY
        elif isinstance(sensor, LidarSpecification) and sensor.odometry is not None:
            found = sensor, LIDAR_POSITION[sensor.odometry]
    return found
