#!/usr/bin/env python3
"""Flies PX4 in Offboard by its own topics (px4_msgs): ``px4_offboard.py [NAMESPACE]``, beside an agent.

It climbs to 5 m, prints what it held and lands.  Stamps are PX4's time, that of its last message: at other
speeds than 1 that is simulated time, which this program then follows.
"""

import math

import rclpy
from px4_msgs.msg import (
    OffboardControlMode,
    TrajectorySetpoint,
    VehicleCommand,
    VehicleLocalPosition,
    VehicleStatus,
)
from rclpy.qos import qos_profile_sensor_data
from rclpy.utilities import remove_ros_args

HEIGHT, HOLD, STEP = 5.0, 10.0, 0.05  # m, s and s of PX4's time
rclpy.init()
node, names = rclpy.create_node("px4_offboard"), (remove_ros_args()[1:] or [""])[0]
status, seen, last, heights = VehicleStatus(), set(), [0.0, 0.0], []


def publisher(kind, name):
    """A topic into PX4."""
    return node.create_publisher(kind, f"{names}/fmu/in/{name}", 10)


modes = publisher(OffboardControlMode, "offboard_control_mode")
setpoints = publisher(TrajectorySetpoint, "trajectory_setpoint")
commands = publisher(VehicleCommand, "vehicle_command")


def command(time, number, *values):
    """Send a MAV_CMD."""
    fields = {f"param{i}": float(value) for i, value in enumerate(values, 1)}
    target = {"target_system": status.system_id, "target_component": 1, "source_system": 1}
    commands.publish(VehicleCommand(timestamp=time, command=number, from_external=True, **target, **fields))


def take_status(message):
    """Note PX4's modes as they change."""
    global status
    if (message.nav_state, message.arming_state) != (status.nav_state, status.arming_state):
        print(
            "mode", message.nav_state, "armed", message.arming_state == message.ARMING_STATE_ARMED, flush=True
        )
    status = message


def fly(message):
    """At each 50 ms of PX4's time a set-point; once a second what is still missing."""
    time = message.timestamp * 1e-6
    if time - last[0] < STEP:
        return
    last[0] = time
    modes.publish(OffboardControlMode(timestamp=message.timestamp, position=True))
    nan = [math.nan] * 3
    place = TrajectorySetpoint(timestamp=message.timestamp, position=[0.0, 0.0, -HEIGHT], yaw=0.0)
    place.velocity, place.acceleration, place.jerk, place.yawspeed = nan, nan, nan, math.nan
    setpoints.publish(place)
    if abs(message.z + HEIGHT) < 0.5 or heights:
        heights.append(-message.z)
    flying = status.nav_state == VehicleStatus.NAVIGATION_STATE_OFFBOARD
    if time - last[1] < 1.0 or status.system_id == 0:
        return
    last[1] = time
    if len(heights) * STEP > HOLD:
        command(message.timestamp, VehicleCommand.VEHICLE_CMD_NAV_LAND)
    elif not flying:
        command(message.timestamp, VehicleCommand.VEHICLE_CMD_DO_SET_MODE, 1, 6)
    elif status.arming_state != VehicleStatus.ARMING_STATE_ARMED:
        command(message.timestamp, VehicleCommand.VEHICLE_CMD_COMPONENT_ARM_DISARM, 1)


for end in ("vehicle_status", "vehicle_status_v1"):  # the name since v1.16
    node.create_subscription(VehicleStatus, f"{names}/fmu/out/{end}", take_status, qos_profile_sensor_data)
node.create_subscription(
    VehicleLocalPosition, f"{names}/fmu/out/vehicle_local_position", fly, qos_profile_sensor_data
)
while not (heights and status.nav_state == VehicleStatus.NAVIGATION_STATE_AUTO_LAND):
    rclpy.spin_once(node)
held = heights[len(heights) // 2 :]
print(f"held {sum(held) / len(held):.2f} m of {HEIGHT:g} m", flush=True)
