#!/usr/bin/env python3
"""Takes off, flies a curve by twists as a teleoperating node does, and lands: beside a run with --ros2."""

import json

import rclpy
from geometry_msgs.msg import Twist
from rclpy.parameter import Parameter
from std_msgs.msg import Empty, Float64, String

rclpy.init()
node = rclpy.create_node("teleoperate", parameter_overrides=[Parameter("use_sim_time", value=True)])
take_off = node.create_publisher(Float64, "/vehicle_0/take_off", 10)
land = node.create_publisher(Empty, "/vehicle_0/land", 10)
twists = node.create_publisher(Twist, "/vehicle_0/cmd_vel", 10)
curve, accepted, ticks = Twist(), {}, 0
curve.linear.x, curve.angular.z = 2.0, 0.5


def answered(message):
    """Note an accepted command; others are repeated, as a vehicle may not be ready yet."""
    print(message.data, flush=True)
    if (answer := json.loads(message.data))["accepted"]:
        accepted.setdefault(answer["topic"], ticks)


def tick():
    """At 10 Hz: a command once a second until it is accepted; twists from 8 s to 14 s after the take-off."""
    global ticks
    ticks, flown = ticks + 1, ticks - accepted.get(take_off.topic, ticks)
    if ticks % 10 == 0 and (take_off.topic not in accepted or flown > 170):
        land.publish(Empty()) if flown else take_off.publish(Float64(data=3.0))
    if 80 < flown <= 140:
        twists.publish(curve)


node.create_subscription(String, "/answers", answered, 10)
node.create_timer(0.1, tick)
while land.topic not in accepted:
    rclpy.spin_once(node)
