"""A node of real ROS 2 (rclpy) that calls services std_srvs/Trigger: ``ros_caller.py NAME...``.

Run by the Python that has rclpy.  It prints a line of JSON for each answer; ``NAME!`` is called again, once a
second, until it succeeds.
"""

import json
import sys
import time

import rclpy
from std_srvs.srv import Trigger

rclpy.init()
node = rclpy.create_node("caller")
for name in sys.argv[1:]:
    client = node.create_client(Trigger, name.rstrip("!"))
    assert client.wait_for_service(60.0), name
    while True:
        answer = client.call_async(Trigger.Request())
        rclpy.spin_until_future_complete(node, answer, timeout_sec=30.0)
        assert answer.done(), f"{name}: no answer"
        result = answer.result()
        print(json.dumps([name.rstrip("!"), result.success, result.message]), flush=True)
        if result.success or not name.endswith("!"):
            break
        time.sleep(1.0)
