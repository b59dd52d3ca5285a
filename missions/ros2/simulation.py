#!/usr/bin/env python3
"""Offers services of simulation_interfaces (pause, play, steps, states of vehicles) beside a run with --ros2.

Wind and faults are no part of these interfaces: they are /set_wind and /VEHICLE/command.  A run begins anew
by starting it anew, because a real flight stack cannot be reset.
"""

import json
import math
import threading
import time

import rclpy
from nav_msgs.msg import Odometry
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import MultiThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from simulation_interfaces.msg import Result, SimulationState, SimulatorFeatures
from simulation_interfaces.srv import (
    GetEntities,
    GetEntityState,
    GetSimulationState,
    GetSimulatorFeatures,
    SetEntityState,
    SetSimulationState,
    StepSimulation,
)
from std_msgs.msg import String

QUIET, LONGEST = 0.5, 10.0  # s without /clock of a run that stands, s that an answer takes
FEATURES = (
    "ENTITY_STATE_GETTING", "ENTITY_STATE_SETTING", "SIMULATION_STATE_GETTING", "SIMULATION_STATE_SETTING",
    "SIMULATION_STATE_PAUSE", "STEP_SIMULATION_SINGLE", "STEP_SIMULATION_MULTIPLE",
)  # fmt: skip
rclpy.init()
node, group = rclpy.create_node("simulation"), ReentrantCallbackGroup()
asked, reasons, odometry, publishers, ticked = {}, {}, {}, {}, [0.0]


def take_answer(message):
    """Wake the one who waits for it."""
    answer = json.loads(message.data)
    if answer["request_id"] in asked:
        reasons[answer["request_id"]] = answer["reason"]
        asked[answer["request_id"]].set()


def find_vehicles():
    """Follow the odometry of every vehicle."""
    for topic, _ in node.get_topic_names_and_types():
        name = topic.removesuffix("/odometry")[1:]
        if topic.endswith("/odometry") and "/" not in name and name not in odometry:
            odometry[name] = Odometry()
            node.create_subscription(
                Odometry, topic, lambda m, n=name: odometry.update({n: m}), qos_profile_sensor_data
            )
    for topic in ["/simulation/command", *(f"/{name}/command" for name in odometry)]:
        if topic not in publishers:
            publishers[topic] = node.create_publisher(String, topic, 10)


def command(topic, **fields):
    """Send a command of the bus, and wait for its result."""
    number = f"simulation-{len(asked)}"
    asked[number] = threading.Event()
    publishers[topic].publish(String(data=json.dumps({**fields, "request_id": number})))
    if not asked[number].wait(LONGEST):
        return Result(result=Result.RESULT_OPERATION_FAILED, error_message=f"no answer on {topic}")
    refused = reasons[number]
    return Result(
        result=Result.RESULT_OPERATION_FAILED if refused else Result.RESULT_OK, error_message=refused
    )


def stands():
    """Whether simulated time stands."""
    return time.monotonic() - ticked[0] > QUIET


def wait(done):
    """Wait for a state, which arrives after the answer."""
    end = time.monotonic() + LONGEST
    while not done() and time.monotonic() < end:
        time.sleep(0.01)


def get_features(_request, response):
    """What is offered."""
    response.features.features = [getattr(SimulatorFeatures, name) for name in FEATURES]
    return response


def get_state(_request, response):
    """Paused or playing."""
    response.state.state = SimulationState.STATE_PAUSED if stands() else SimulationState.STATE_PLAYING
    response.result.result = Result.RESULT_OK
    return response


def set_state(request, response):
    """Pause or play."""
    kinds = {SimulationState.STATE_PAUSED: "pause", SimulationState.STATE_PLAYING: "resume"}
    if (kind := kinds.get(request.state.state)) is None:
        reason = "a run can be paused and resumed; stop it where it was started"
        response.result = Result(result=Result.RESULT_FEATURE_UNSUPPORTED, error_message=reason)
    elif stands() == (kind == "pause"):
        response.result.result = SetSimulationState.Response.ALREADY_IN_TARGET_STATE
    else:
        response.result = command("/simulation/command", kind=kind)
        wait(lambda: stands() == (kind == "pause"))
    return response


def step(request, response):
    """Let some steps pass."""
    if not stands():
        reason = "pause the simulation first"
        response.result = Result(result=Result.RESULT_OPERATION_FAILED, error_message=reason)
    else:
        begun = ticked[0]
        response.result = command("/simulation/command", kind="step", count=request.steps)
        wait(lambda: ticked[0] > begun and stands())
    return response


def get_entities(_request, response):
    """The vehicles."""
    response.entities, response.result.result = sorted(odometry), Result.RESULT_OK
    return response


def get_entity(request, response):
    """A vehicle's true motion; its velocities are in the body, as in its odometry."""
    if (known := odometry.get(request.entity)) is None:
        response.result.result = Result.RESULT_NOT_FOUND
    else:
        response.result.result, response.state.header = Result.RESULT_OK, known.header
        response.state.pose, response.state.twist = known.pose.pose, known.twist.twist
    return response


def set_entity(request, response):
    """Move a vehicle, level; its flight stack is not told."""
    place, turn = request.state.pose.position, request.state.pose.orientation
    yaw = math.atan2(2.0 * (turn.w * turn.z + turn.x * turn.y), 1.0 - 2.0 * (turn.y**2 + turn.z**2))
    if request.entity not in odometry:
        response.result.result = Result.RESULT_NOT_FOUND
    else:
        where = {"position": [place.y, place.x, -place.z], "yaw": 90.0 - math.degrees(yaw)}
        response.result = command(f"/{request.entity}/command", kind="teleport", **where)
    return response


node.create_subscription(String, "/answers", take_answer, 10, callback_group=group)
node.create_subscription(
    Clock,
    "/clock",
    lambda _m: ticked.__setitem__(0, time.monotonic()),
    qos_profile_sensor_data,
    callback_group=group,
)
node.create_timer(1.0, find_vehicles, callback_group=group)
SERVICES = {
    "get_simulator_features": (GetSimulatorFeatures, get_features),
    "get_simulation_state": (GetSimulationState, get_state),
    "set_simulation_state": (SetSimulationState, set_state),
    "step_simulation": (StepSimulation, step),
    "get_entities": (GetEntities, get_entities),
    "get_entity_state": (GetEntityState, get_entity),
    "set_entity_state": (SetEntityState, set_entity),
}
for name, (kind, serve) in SERVICES.items():
    node.create_service(kind, name, serve, callback_group=group)
executor = MultiThreadedExecutor(4)
executor.add_node(node)
executor.spin()
