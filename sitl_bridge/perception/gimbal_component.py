"""A gimbal as a MAVLink component: device of gimbal protocol v2, and manager where the flight stack has none.

PX4 has a manager of its own (MNT_MODE_IN 4, MNT_MODE_OUT 2), which asks for GIMBAL_DEVICE_INFORMATION and
sends GIMBAL_DEVICE_SET_ATTITUDE.  While that message arrives, the flight stack is the manager.
"""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.rotations import (
    matrix_from_euler,
    matrix_from_quaternion,
    quaternion_from_matrix,
    wrap_angle,
)
from sitl_bridge.core.sensors.perception.gimbal import Angles, Gimbal, heading_of
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.perception.mavlink_component import (
    ACCEPTED,
    DENIED,
    MavlinkComponent,
    Parameters,
    from_autopilot,
    whole,
)
from sitl_bridge.perception.pose_estimate import PoseEstimate

COMPONENTS = (154, 171, 172, 173, 174, 175)
"""MAV_COMP_ID_GIMBAL and GIMBAL2 to GIMBAL6."""
STATUS_PERIOD = 100_000
"""us of simulated time between GIMBAL_DEVICE_ATTITUDE_STATUS."""
MANAGER_PERIOD = 200_000
"""us of simulated time between GIMBAL_MANAGER_STATUS."""
STACK_MANAGES = 2_000_000
"""us since GIMBAL_DEVICE_SET_ATTITUDE for which the flight stack counts as the manager."""
YAW_LOCK: int = mavlink.GIMBAL_DEVICE_FLAGS_YAW_LOCK
NEUTRAL: int = mavlink.GIMBAL_DEVICE_FLAGS_NEUTRAL | mavlink.GIMBAL_DEVICE_FLAGS_RETRACT
IN_EARTH: int = mavlink.GIMBAL_DEVICE_FLAGS_YAW_IN_EARTH_FRAME
IN_VEHICLE: int = mavlink.GIMBAL_DEVICE_FLAGS_YAW_IN_VEHICLE_FRAME
LEVEL: int = mavlink.GIMBAL_DEVICE_FLAGS_ROLL_LOCK | mavlink.GIMBAL_DEVICE_FLAGS_PITCH_LOCK
ROI_COMMANDS = (mavlink.MAV_CMD_DO_SET_ROI_LOCATION, mavlink.MAV_CMD_DO_SET_ROI_NONE)
NOTHING: Angles = (math.nan, math.nan, math.nan)


SINGULAR = 1e-3
"""Cosine of the pitch below which roll and yaw turn about one axis, within the precision of a message."""


def _angles(q: list[float]) -> Angles:
    """Roll, pitch, yaw in rad of a quaternion w, x, y, z; nan where it is not given.

    The roll is within a quarter turn, so that the pitch goes on beyond straight down.
    """
    if not all(math.isfinite(v) for v in q) or not any(q):
        return NOTHING
    unit = np.array([q]) / np.linalg.norm(q)
    r = matrix_from_quaternion(unit)[0]
    pitch = math.asin(min(max(-float(r[2, 0]), -1.0), 1.0))
    if math.hypot(r[2, 1], r[2, 2]) < SINGULAR:
        return 0.0, pitch, math.atan2(-r[0, 1], r[1, 1])
    roll, yaw = math.atan2(r[2, 1], r[2, 2]), math.atan2(r[1, 0], r[0, 0])
    if abs(roll) > math.pi / 2:
        return wrap_angle(roll + math.pi), wrap_angle(math.pi - pitch), wrap_angle(yaw + math.pi)
    return roll, pitch, yaw


class GimbalComponent(MavlinkComponent):
    """The protocol of one gimbal.

    Args:
        system: MAVLink id of the vehicle.
        instance: of the camera that it carries.
        gimbal: what it moves.
        estimate: where the vehicle is, to look at a place.
    """

    def __init__(self, system: int, instance: int, gimbal: Gimbal, estimate: PoseEstimate) -> None:
        super().__init__(system, COMPONENTS[instance], mavlink.MAV_TYPE_GIMBAL)
        self._gimbal = gimbal
        self._estimate = estimate
        self._heading = 0.0
        self._owner = (0, 0)
        """System and component in primary control."""
        self._place: tuple[float, float, float] | None = None
        """deg, deg, m above mean sea level that it looks at."""
        self._managed = -STACK_MANAGES
        """us of the last setpoint of the flight stack's manager."""
        self._status_due = self._manager_due = 0
        self.replies |= {
            mavlink.MAVLINK_MSG_ID_GIMBAL_DEVICE_INFORMATION: lambda _p, now: self._information(now),
            mavlink.MAVLINK_MSG_ID_GIMBAL_MANAGER_INFORMATION: lambda _p, now: self._manager(now),
        }
        self.handlers |= {
            mavlink.MAV_CMD_DO_GIMBAL_MANAGER_CONFIGURE: self._configure,
            mavlink.MAV_CMD_DO_GIMBAL_MANAGER_PITCHYAW: self._pitch_yaw,
            mavlink.MAV_CMD_DO_SET_ROI_LOCATION: self._look_at,
            mavlink.MAV_CMD_DO_SET_ROI_NONE: self._look_at_nothing,
        }

    def is_managed(self, now: int) -> bool:
        """Whether the flight stack is the manager."""
        return now - self._managed < STACK_MANAGES

    # ---------------------------------------------------------------- time

    def advance(self, now: int, seconds: float, body: Floats) -> None:
        """Turn the gimbal, and send what is due.

        Args:
            now: us of simulated time.
            seconds: since the last call.
            body: (3, 3) vehicle's axes to NED.
        """
        self.update(now)
        self._heading = heading_of(body)
        if self._place is not None:
            self._follow_place(now)
        self._gimbal.advance(seconds)
        if now >= self._status_due:
            self._status_due = now + STATUS_PERIOD
            self.outbox.append(self._attitude(now, body))
        if now >= self._manager_due and not self.is_managed(now):
            self._manager_due = now + MANAGER_PERIOD
            self.outbox.append(
                mavlink.MAVLink_gimbal_manager_status_message(
                    now // 1000, self._flags(), self.component, *self._owner, 0, 0
                )
            )

    def _follow_place(self, now: int) -> None:
        pose = self._estimate.at(now)
        if pose is None or self._place is None:
            return
        latitude, longitude, altitude = pose.place
        here = Projection.from_degrees(latitude, longitude, altitude)
        north, east, down = here.position(self._place)
        pitch = -math.atan2(down, math.hypot(north, east))
        self._gimbal.point((0.0, pitch, math.atan2(east, north)), NOTHING, True, self._heading)

    # ---------------------------------------------------------------- what arrives

    def handle(self, message: MavlinkMessage, now: int) -> None:
        """Process a message."""
        kind = message.get_type()
        if kind == "GIMBAL_DEVICE_SET_ATTITUDE":
            # PX4 sends to all components until it knows the gimbal's id.
            if message.target_system in (0, self.system) and message.target_component in (0, self.component):
                self._managed = now
                self._place = None
                self._set(message.flags, _angles(message.q), _rates(message))
        elif kind in ("GIMBAL_MANAGER_SET_PITCHYAW", "GIMBAL_MANAGER_SET_ATTITUDE"):
            if message.target_component == self.component and self._controls(message):
                self._place = None
                if kind.endswith("PITCHYAW"):
                    rates = (math.nan, message.pitch_rate, message.yaw_rate)
                    self._set(message.flags, (0.0, message.pitch, message.yaw), rates)
                else:
                    self._set(message.flags, _angles(message.q), _rates(message))
        elif not (
            kind in ("COMMAND_LONG", "COMMAND_INT")
            and message.command in ROI_COMMANDS
            and self.is_managed(now)
        ):
            super().handle(message, now)

    def _set(self, flags: int, angles: Angles, rates: Angles) -> None:
        gimbal = self._gimbal
        if flags & NEUTRAL:
            gimbal.point(gimbal.neutral, NOTHING, False, self._heading)
            return
        locked = bool(flags & YAW_LOCK)
        roll, pitch, yaw = angles
        # The frame of the yaw may differ from the lock; without a flag it goes with the lock.
        in_earth = bool(flags & IN_EARTH) or (locked and not flags & IN_VEHICLE)
        if in_earth != locked:
            yaw += self._heading if locked else -self._heading
        gimbal.point((roll, pitch, yaw), rates, locked, self._heading)

    def _controls(self, message: MavlinkMessage) -> bool:
        return (message.get_srcSystem(), message.get_srcComponent()) == self._owner or from_autopilot(message)

    def _configure(self, parameters: Parameters, message: MavlinkMessage, _now: int) -> int:
        sender = (message.get_srcSystem(), message.get_srcComponent())
        found = list(self._owner)
        for k in range(2):
            value = min(whole(parameters[k]), 255)
            if value >= 0:
                found[k] = value
            elif value == -2:
                found[k] = sender[k]
            elif value == -3 and self._owner == sender:
                found[k] = 0
        self._owner = (found[0], found[1])
        return ACCEPTED

    def _pitch_yaw(self, parameters: Parameters, message: MavlinkMessage, _now: int) -> int:
        if not self._controls(message):
            return DENIED
        self._place = None
        pitch, yaw, pitch_rate, yaw_rate = (math.radians(v) for v in parameters[:4])
        flags = max(whole(parameters[4]), 0)
        self._set(flags, (0.0, pitch, yaw), (math.nan, pitch_rate, yaw_rate))
        return ACCEPTED

    def _look_at(self, parameters: Parameters, _message: MavlinkMessage, _now: int) -> int:
        latitude, longitude, altitude = parameters[4:7]
        if not (abs(latitude) <= 90.0 and abs(longitude) <= 180.0 and math.isfinite(altitude)):
            return DENIED
        self._place = (latitude, longitude, altitude)
        return ACCEPTED

    def _look_at_nothing(self, _parameters: Parameters, _message: MavlinkMessage, _now: int) -> int:
        self._place = None
        self._gimbal.point(self._gimbal.neutral, NOTHING, False, self._heading)
        return ACCEPTED

    # ---------------------------------------------------------------- messages

    def _flags(self) -> int:
        return LEVEL | (YAW_LOCK | IN_EARTH if self._gimbal.locked else IN_VEHICLE)

    def _attitude(self, now: int, body: Floats) -> MavlinkMessage:
        pose = self._gimbal.pose(body)
        if not self._gimbal.locked:
            pose = matrix_from_euler(0.0, 0.0, -heading_of(body)) @ pose
        return mavlink.MAVLink_gimbal_device_attitude_status_message(
            0, 0, now // 1000, self._flags(), quaternion_from_matrix(pose).tolist(), *NOTHING, 0
        )

    def _capabilities(self) -> int:
        flags = (
            mavlink.GIMBAL_DEVICE_CAP_FLAGS_HAS_NEUTRAL
            | mavlink.GIMBAL_DEVICE_CAP_FLAGS_HAS_ROLL_AXIS
            | mavlink.GIMBAL_DEVICE_CAP_FLAGS_HAS_ROLL_LOCK
            | mavlink.GIMBAL_DEVICE_CAP_FLAGS_HAS_PITCH_AXIS
            | mavlink.GIMBAL_DEVICE_CAP_FLAGS_HAS_PITCH_LOCK
        )
        if self._gimbal.specification.yaw is not None:
            flags |= (
                mavlink.GIMBAL_DEVICE_CAP_FLAGS_HAS_YAW_AXIS
                | mavlink.GIMBAL_DEVICE_CAP_FLAGS_HAS_YAW_FOLLOW
                | mavlink.GIMBAL_DEVICE_CAP_FLAGS_HAS_YAW_LOCK
            )
        return int(flags)

    def _limits(self) -> list[float]:
        limits = self._gimbal.specification
        return [
            math.radians(v) for ends in (limits.roll, limits.pitch, limits.yaw or (0.0, 0.0)) for v in ends
        ]

    def _information(self, now: int) -> MavlinkMessage:
        return mavlink.MAVLink_gimbal_device_information_message(
            now // 1000, b"sitl-bridge", b"gimbal", b"", 1, 1, 1, self._capabilities(), 0, *self._limits()
        )

    def _manager(self, now: int) -> MavlinkMessage | None:
        if self.is_managed(now):
            return None
        point = mavlink.GIMBAL_MANAGER_CAP_FLAGS_CAN_POINT_LOCATION_GLOBAL
        return mavlink.MAVLink_gimbal_manager_information_message(
            now // 1000, self._capabilities() | point, self.component, *self._limits()
        )


def _rates(message: MavlinkMessage) -> Angles:
    return message.angular_velocity_x, message.angular_velocity_y, message.angular_velocity_z
