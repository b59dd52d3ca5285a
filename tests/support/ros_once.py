"""Nodes of real ROS 2 (rclpy) that each send one command, as ``ros2 topic pub --once`` does.

``ros_once.py COUNT`` prints how many were answered.
"""

import json
import sys
import time

import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import String

KEPT = 0.1
"""s of wall time for which ros2topic's publisher stays after its message (verb/pub.py, ``--keep-alive``)."""
ANSWER = 30.0
"""s of wall time in which the last answer must come."""


def send(number):
    """Send a command as soon as a subscription is matched, and leave."""
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node("once", context=context)
    publisher = node.create_publisher(String, "/vehicle_0/command", 10)
    while not publisher.get_subscription_count():
        time.sleep(0.1)
    publisher.publish(String(data=json.dumps({"kind": "nothing", "request_id": str(number)})))
    time.sleep(KEPT)
    node.destroy_node()
    rclpy.shutdown(context=context)


def main():
    """Send the commands and count the answers."""
    sent, answered = {str(number) for number in range(int(sys.argv[1]))}, set()
    rclpy.init()
    node = rclpy.create_node("listener")
    node.create_subscription(
        String, "/answers", lambda message: answered.add(json.loads(message.data)["request_id"]), 100
    )
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not node.count_publishers("/answers"):
        time.sleep(0.1)
    for number in sent:
        send(number)
    end = time.monotonic() + ANSWER
    while answered != sent and time.monotonic() < end:
        executor.spin_once(timeout_sec=0.1)
    print(json.dumps([len(answered)]))


main()
