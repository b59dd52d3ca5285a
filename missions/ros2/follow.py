#!/usr/bin/env python3
"""One vehicle follows another by pose topics, as in XTDrone's formations: ``follow.py [LEADER [FOLLOWER]]``.

Beside a run of two vehicles that fly, with --ros2; it ends when the follower has stood in its slot for 5 s.
"""

import math

import rclpy
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from rclpy.qos import qos_profile_sensor_data
from rclpy.utilities import remove_ros_args

SLOT = (-3.0, -3.0, 1.0)  # m east, north, up of the leader
given = remove_ros_args()[1:]
leader, follower = [*given, *["vehicle_0", "vehicle_1"][len(given) :]]
rclpy.init()
node, goal, kept = rclpy.create_node("follow"), PoseStamped(), [0]
goals = node.create_publisher(PoseStamped, f"/{follower}/cmd_pose", 10)


def lead(message):
    """Note the slot."""
    goal.header.frame_id, goal.pose.orientation = "map", message.pose.pose.orientation
    for axis, offset in zip("xyz", SLOT, strict=True):
        setattr(goal.pose.position, axis, getattr(message.pose.pose.position, axis) + offset)


def follow(message):
    """Count how long it stands there."""
    now, slot = message.pose.pose.position, goal.pose.position
    near = math.dist((now.x, now.y, now.z), (slot.x, slot.y, slot.z)) < 1.0  # GPS errs by as much
    kept[0] = kept[0] + 1 if near else 0


node.create_subscription(Odometry, f"/{leader}/odometry", lead, qos_profile_sensor_data)
node.create_subscription(Odometry, f"/{follower}/odometry", follow, qos_profile_sensor_data)
node.create_timer(0.5, lambda: goal.header.frame_id and goals.publish(goal))
while kept[0] < 250:
    rclpy.spin_once(node)
print("followed", leader, flush=True)
