"""Makes the flight stack's messages of samples of sensors that see the scene.

PX4's simulator link takes some messages (SimulatorMavlink::handle_message); the others come from a companion
computer, over an ordinary MAVLink link.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.marker_detector import MarkerDetectorSpecification
from sitl_bridge.core.sensors.perception.obstacle_map import FARTHEST, SECTORS, RangingSpecification
from sitl_bridge.core.sensors.perception.view import Arrays, PerceptionSpecification
from sitl_bridge.core.sensors.perception.visual_odometry import VisualOdometrySpecification
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.message import MavlinkMessage

LIDAR_POSITION_NOISE, LIDAR_ANGLE_NOISE = 0.03, 0.005
"""m and rad, of a pose by the registration of a turn indoors (measured: 0.01 to 0.03 m)."""
VARIANCES = (0, 6, 11, 15, 18, 20)
"""Places of the variances in the upper triangle of a covariance of 6 x 6."""


def is_reported(specification: PerceptionSpecification) -> bool:
    """Whether the flight stack is sent messages of samples as they are measured, without a ``Processor``."""
    return isinstance(specification, MarkerDetectorSpecification)


def link_messages(specification: PerceptionSpecification, time: int, arrays: Arrays) -> list[MavlinkMessage]:
    """Messages of a sample for the simulator link; arguments as of :func:`companion_messages`."""
    if isinstance(specification, VisualOdometrySpecification):
        return [_visual_odometry(specification, time, arrays)]
    if isinstance(specification, LidarSpecification) and specification.odometry is not None:
        return [_lidar_odometry(time, arrays)]
    if isinstance(specification, MarkerDetectorSpecification) and math.isfinite(float(arrays["distance"])):
        return [_landing_target(specification, time, arrays)]
    return []


def companion_messages(
    specification: PerceptionSpecification, time: int, arrays: Arrays
) -> list[MavlinkMessage]:
    """Messages of a sample for an ordinary MAVLink link.

    Args:
        time: us of simulated time at which the exposure ended.
    """
    if isinstance(specification, RangingSpecification) and "obstacles" in arrays:
        return [_obstacle_distance(specification, time, arrays)]
    return []


def _obstacle_distance(specification: RangingSpecification, time: int, arrays: Arrays) -> MavlinkMessage:
    return mavlink.MAVLink_obstacle_distance_message(
        time_usec=time,
        sensor_type=mavlink.MAV_DISTANCE_SENSOR_LASER,
        distances=arrays["obstacles"].tolist(),
        increment=0,
        min_distance=round(100.0 * specification.minimum),
        max_distance=min(round(100.0 * specification.maximum), FARTHEST - 1),
        increment_f=360.0 / SECTORS,
        angle_offset=0.0,
        frame=mavlink.MAV_FRAME_BODY_FRD,
    )


def _visual_odometry(specification: VisualOdometrySpecification, time: int, arrays: Arrays) -> MavlinkMessage:
    """ODOMETRY; its variances are those of each sample by itself, as most programs give them."""
    angle = math.radians(specification.angle_noise)
    pose, twist = [0.0] * 21, [0.0] * 21
    for k, place in enumerate(VARIANCES):
        pose[place] = (specification.noise if k < 3 else angle) ** 2
        twist[place] = specification.velocity_noise**2 if k < 3 else math.nan
    return _odometry(
        time,
        arrays,
        arrays["velocity"].tolist(),
        (pose, twist),
        int(arrays["reset_counter"]),
        mavlink.MAV_ESTIMATOR_TYPE_VIO,
        mavlink.MAV_FRAME_LOCAL_NED if specification.world_axes else mavlink.MAV_FRAME_LOCAL_FRD,
    )


def _lidar_odometry(time: int, arrays: Arrays) -> MavlinkMessage:
    """ODOMETRY of a position and an attitude; the estimator gives no velocity.

    Its type is vision: PX4 drops estimates of the type lidar (SimulatorMavlink.cpp, handle_message_odometry).
    """
    pose = [0.0] * 21
    for k, place in enumerate(VARIANCES):
        pose[place] = (LIDAR_POSITION_NOISE if k < 3 else LIDAR_ANGLE_NOISE) ** 2
    unknown = [math.nan] * 21
    kind = mavlink.MAV_ESTIMATOR_TYPE_VISION
    return _odometry(time, arrays, (math.nan,) * 3, (pose, unknown), 0, kind)


def _odometry(
    time: int,
    arrays: Arrays,
    velocity: Sequence[float],
    covariances: tuple[list[float], list[float]],
    resets: int,
    kind: int,
    frame: int = mavlink.MAV_FRAME_LOCAL_FRD,
) -> MavlinkMessage:
    return mavlink.MAVLink_odometry_message(
        time,
        frame,
        mavlink.MAV_FRAME_BODY_FRD,
        *arrays["position"].tolist(),
        arrays["attitude"].tolist(),
        *velocity,
        *(math.nan,) * 3,
        pose_covariance=covariances[0],
        velocity_covariance=covariances[1],
        reset_counter=resets,
        estimator_type=kind,
        quality=100,
    )


def _landing_target(specification: MarkerDetectorSpecification, time: int, arrays: Arrays) -> MavlinkMessage:
    distance = float(arrays["distance"])
    size = 2.0 * math.atan2(0.5 * specification.size, distance)
    return mavlink.MAVLink_landing_target_message(
        time,
        specification.instance,
        mavlink.MAV_FRAME_BODY_FRD,
        *arrays["angles"].tolist(),
        distance,
        size,
        size,
    )
