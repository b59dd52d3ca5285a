#!/usr/bin/env python3
"""Prints what sensors see, once a second: ``look.py TOPIC...`` of images, clouds and laser scans."""

import contextlib
import time

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.qos import qos_profile_sensor_data
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import Image, LaserScan, PointCloud2

rclpy.init()
node, counts = rclpy.create_node("look"), {}


def take(topic, message):
    """Count it, and print the first one of a second."""
    counts[topic] = counts.get(topic, 0) + 1
    if time.monotonic() < counts.get((topic, "next"), 0.0):
        return
    counts[topic, "next"] = time.monotonic() + 1.0
    if isinstance(message, LaserScan):
        seen = f"nearest {min(message.ranges):.2f} m"
    else:
        seen = f"{message.width} x {message.height}, mean {np.mean(np.asarray(message.data)):.0f}"
    print(topic, counts[topic], seen, flush=True)


for topic in remove_ros_args()[1:]:
    kind = {"scan": LaserScan, "points": PointCloud2}.get(topic.rpartition("/")[2], Image)
    node.create_subscription(kind, topic, lambda m, t=topic: take(t, m), qos_profile_sensor_data)
with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
    rclpy.spin(node)
