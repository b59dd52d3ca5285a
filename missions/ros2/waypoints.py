#!/usr/bin/env python3
"""Flies a vehicle that has taken off to places in the world, by poses: beside a run with --ros2."""

import math

import rclpy
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from rclpy.qos import qos_profile_sensor_data

PLACES = [(5.0, 0.0, 4.0), (5.0, 5.0, 4.0), (0.0, 0.0, 3.0)]  # m east, north, up
rclpy.init()
node, pose = rclpy.create_node("waypoints"), PoseStamped()
goals = node.create_publisher(PoseStamped, "/vehicle_0/cmd_pose", 10)
pose.header.frame_id, pose.pose.orientation.w = "map", 1.0  # facing east


def flown(message):
    """Go on to the next place when this one is reached."""
    now = message.pose.pose.position
    if PLACES and math.dist((now.x, now.y, now.z), PLACES[0]) < 0.5:
        print("reached", PLACES.pop(0), flush=True)


def ask():
    """Once a second, ask for the next place."""
    if PLACES:
        pose.pose.position.x, pose.pose.position.y, pose.pose.position.z = PLACES[0]
        goals.publish(pose)


node.create_subscription(Odometry, "/vehicle_0/odometry", flown, qos_profile_sensor_data)
node.create_timer(1.0, ask)
while PLACES:
    rclpy.spin_once(node)
