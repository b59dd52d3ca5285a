"""A node of real ROS 2 (rclpy) that lets vehicles take off to 3 m by topics: ``ros_take_off.py NAME...``.

It ends when all have risen above 2.5 m.
"""

import sys

import rclpy
from nav_msgs.msg import Odometry
from rclpy.qos import qos_profile_sensor_data
from std_msgs.msg import Float64

rclpy.init()
node, heights = rclpy.create_node("take_off"), dict.fromkeys(sys.argv[1:], 0.0)
topics = {name: node.create_publisher(Float64, f"/{name}/take_off", 10) for name in heights}
for vehicle in heights:

    def risen(message, name=vehicle):
        """Note the height."""
        heights[name] = message.pose.pose.position.z

    node.create_subscription(Odometry, f"/{vehicle}/odometry", risen, qos_profile_sensor_data)


def ask():
    """Once a second, as a vehicle may not be ready yet."""
    for name, height in heights.items():
        if height < 1.0:
            topics[name].publish(Float64(data=3.0))


node.create_timer(1.0, ask)
while min(heights.values()) < 2.5:
    rclpy.spin_once(node)
