#!/usr/bin/env python3
"""Offers a vehicle's commands as services (std_srvs/Trigger): ``services.py [VEHICLE]``, beside a run."""

import contextlib
import json
import time
from functools import partial

import rclpy
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException
from rclpy.task import Future
from rclpy.utilities import remove_ros_args
from std_msgs.msg import String
from std_srvs.srv import Trigger

KINDS = {"arm": {}, "disarm": {"kind": "arm", "armed": False}, "take_off": {"kind": "takeoff"}, "land": {}}
rclpy.init()
node, vehicle, asked = rclpy.create_node("services"), (remove_ros_args()[1:] or ["vehicle_0"])[0], {}
group = ReentrantCallbackGroup()  # answers arrive while a service waits for one
command = node.create_publisher(String, f"/{vehicle}/command", 10)


async def serve(name, _request, response):
    """Pass a command on, and wait for what became of it."""
    number = f"{name}-{len(asked)}"
    asked[number] = Future()
    command.publish(String(data=json.dumps({"kind": name, **KINDS[name], "request_id": number})))
    answer = await asked[number]
    response.success, response.message = answer["accepted"], answer["reason"]
    return response


def take(message):
    """Hand an answer to the service that waits for it."""
    answer = json.loads(message.data)
    if answer["topic"] == command.topic and answer["request_id"] in asked:
        asked[answer["request_id"]].set_result(answer)


node.create_subscription(String, "/answers", take, 10, callback_group=group)
while not command.get_subscription_count():
    rclpy.spin_once(node, timeout_sec=0.1)
time.sleep(1.0)  # until the run has found this node, too
for name in KINDS:
    node.create_service(Trigger, f"/{vehicle}/{name}", partial(serve, name), callback_group=group)
with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
    rclpy.spin(node)
