"""Choice of the sensor whose odometry both flight stacks fuse.

What only PX4 needs is in link/px4/airframe_parameters.py and link/px4/estimator_parameters.py.
"""

from __future__ import annotations

from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.view import PerceptionSpecification
from sitl_bridge.core.sensors.perception.visual_odometry import VisualOdometrySpecification
from sitl_bridge.core.vehicle.airframe import Airframe

EXTERNAL_POSITION_AND_VELOCITY, EXTERNAL_POSITION, EXTERNAL_HORIZONTAL_POSITION = 1 | 2 | 4, 1 | 2, 1
"""EKF2_EV_CTRL: horizontal position 1, vertical position 2, velocity 4, heading 8."""
EXTERNAL_HEADING = 8
LIDAR_POSITION = {"small-gicp": EXTERNAL_POSITION, "kiss-icp": EXTERNAL_HORIZONTAL_POSITION}
"""By estimator.  Point-to-point ICP sticks to a lidar's rings: with 16, its height was 2 m behind after
a climb of 2.7 m."""


def odometry(airframe: Airframe) -> tuple[PerceptionSpecification, int] | None:
    """The sensor that sends ODOMETRY and what is fused of it (EKF2_EV_CTRL); None without one."""
    found: tuple[PerceptionSpecification, int] | None = None
    for sensor in airframe.perception_sensors():
        if isinstance(sensor, VisualOdometrySpecification):
            heading = EXTERNAL_HEADING if sensor.world_axes else 0
            found = sensor, EXTERNAL_POSITION_AND_VELOCITY | heading
        elif isinstance(sensor, LidarSpecification) and sensor.odometry is not None:
            found = sensor, LIDAR_POSITION[sensor.odometry]
    return found
