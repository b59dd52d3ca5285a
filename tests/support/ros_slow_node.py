"""A slow node of real ROS 2 (rclpy), ``/slow``, of one thread, with queues five deep.

``ros_slow_node.py COUNT`` takes as many messages of /clock, and those of an IMU, and prints how many of
either it missed, as JSON.
"""

import json
import sys
import time

import rclpy
from rclpy.qos import qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu

STEP = 4_000_000
"""ns between two messages."""
SLEEP = 0.002
"""s that a message takes."""


def main():
    """Take the messages and report."""
    count, missed, last = int(sys.argv[1]), {"clock": 0, "imu": 0}, {}
    taken = dict.fromkeys(missed, 0)

    def take(name, stamp):
        time.sleep(SLEEP)
        now = stamp.sec * 1_000_000_000 + stamp.nanosec
        missed[name] += round((now - last.get(name, now - STEP)) / STEP) - 1
        last[name] = now
        taken[name] += 1

    rclpy.init()
    node = rclpy.create_node("slow")
    node.create_subscription(Clock, "/clock", lambda m: take("clock", m.clock), qos_profile_sensor_data)
    node.create_subscription(
        Imu, "/vehicle_0/imu", lambda m: take("imu", m.header.stamp), qos_profile_sensor_data
    )
    while taken["clock"] < count:
        rclpy.spin_once(node)
    print(json.dumps({"taken": taken, "missed": missed}))


main()
