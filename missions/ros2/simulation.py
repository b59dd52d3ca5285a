#!/usr/bin/env python3
"""Offers services of simulation_interfaces for a run with --ros2: pause, play, step, reset, vehicles' states.

``simulation.py [COMMAND...]``, such as ``simulation.py sitl-bridge start --ros2``: a reset ends this run and
starts it anew, as a real flight stack cannot be reset; without one, a run beside it is not reset.  Wind and
faults are no part of these interfaces: they are /set_wind and /VEHICLE/command.
"""

import json
import math
import signal
import subprocess
import threading
import time

import rclpy
from nav_msgs.msg import Odometry
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rclpy.utilities import remove_ros_args
from rosgraph_msgs.msg import Clock
from simulation_interfaces.msg import Result, SimulationState, SimulatorFeatures
from simulation_interfaces.srv import (
    GetEntities,
    GetEntityState,
    GetSimulationState,
    GetSimulatorFeatures,
    ResetSimulation,
    SetEntityState,
    SetSimulationState,
    StepSimulation,
)
from std_msgs.msg import Bool, String

COMMAND = remove_ros_args()[1:]  # of a run
LONGEST, BEGIN = 10.0, 120.0  # s of wall time for an answer, and for a start
FEATURES = (
    "ENTITY_STATE_GETTING", "ENTITY_STATE_SETTING", "SIMULATION_STATE_GETTING", "SIMULATION_STATE_SETTING",
    "SIMULATION_STATE_PAUSE", "STEP_SIMULATION_SINGLE", "STEP_SIMULATION_MULTIPLE",
    *(["SIMULATION_RESET"] if COMMAND else []),
)  # fmt: skip
rclpy.init()
node, group = rclpy.create_node("simulation"), ReentrantCallbackGroup()
asked, reasons, odometry, publishers = {}, {}, {}, {}
run = {"paused": None, "now": 0, "step": math.inf}  # ns; None before it is known
runs = []


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


def tick(message):
    """Note the time, and how long a step is."""
    now = message.clock.sec * 10**9 + message.clock.nanosec
    if now > run["now"] > 0:
        run["step"] = min(run["step"], now - run["now"])
    run["now"] = now


def wait(done, longest=LONGEST):
    """Wait for a state, which arrives after the answer."""
    end = time.monotonic() + longest
    while not done() and time.monotonic() < end:
        time.sleep(0.01)


def get_features(_request, response):
    """What is offered."""
    response.features.features = [getattr(SimulatorFeatures, name) for name in FEATURES]
    return response


def get_state(_request, response):
    """Paused or playing."""
    response.state.state = SimulationState.STATE_PAUSED if run["paused"] else SimulationState.STATE_PLAYING
    response.result.result = Result.RESULT_OK
    return response


def set_state(request, response):
    """Pause or play."""
    kinds = {SimulationState.STATE_PAUSED: "pause", SimulationState.STATE_PLAYING: "resume"}
    if (kind := kinds.get(request.state.state)) is None:
        reason = "a run can be paused and resumed; stop it where it was started"
        response.result = Result(result=Result.RESULT_FEATURE_UNSUPPORTED, error_message=reason)
    elif run["paused"] == (kind == "pause"):
        response.result.result = SetSimulationState.Response.ALREADY_IN_TARGET_STATE
    else:
        response.result = command("/simulation/command", kind=kind)
        wait(lambda: run["paused"] == (kind == "pause"))
    return response


def step(request, response):
    """Let some steps pass."""
    if not run["paused"]:
        reason = "pause the simulation first"
        response.result = Result(result=Result.RESULT_OPERATION_FAILED, error_message=reason)
    else:
        end = run["now"] + request.steps * run["step"]
        response.result = command("/simulation/command", kind="step", count=request.steps)
        wait(lambda: run["now"] >= end or response.result.result != Result.RESULT_OK)
    return response


def begin_run():
    """Begin the run; Ctrl-C in a terminal is for this node alone, which passes it on."""
    runs.append(subprocess.Popen(COMMAND, start_new_session=True))


def end_run():
    """End the run."""
    runs[-1].send_signal(signal.SIGINT)
    runs[-1].wait()


def has_begun():
    """Whether the vehicles move and take commands."""
    known = all(message.header.frame_id for message in odometry.values())
    return (
        run["paused"] is False and known and all(one.get_subscription_count() for one in publishers.values())
    )


def reset(request, response):
    """End the run and begin it anew, with its time."""
    if not runs or request.scope not in (request.SCOPE_DEFAULT, request.SCOPE_ALL):
        reason = "all is reset, of a run that this node has begun: simulation.py COMMAND..."
        response.result = Result(result=Result.RESULT_FEATURE_UNSUPPORTED, error_message=reason)
        return response
    end_run()
    run["paused"] = None
    odometry.update({name: Odometry() for name in odometry})
    begin_run()
    wait(lambda: has_begun() or runs[-1].poll() is not None, BEGIN)
    response.result.result = Result.RESULT_OK if has_begun() else Result.RESULT_OPERATION_FAILED
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
node.create_subscription(Clock, "/clock", tick, 10, callback_group=group)
kept = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
node.create_subscription(
    Bool, "/simulation/paused", lambda m: run.update(paused=m.data), kept, callback_group=group
)
node.create_timer(1.0, find_vehicles, callback_group=group)
SERVICES = {
    "get_simulator_features": (GetSimulatorFeatures, get_features),
    "get_simulation_state": (GetSimulationState, get_state),
    "set_simulation_state": (SetSimulationState, set_state),
    "step_simulation": (StepSimulation, step),
    "reset_simulation": (ResetSimulation, reset),
    "get_entities": (GetEntities, get_entities),
    "get_entity_state": (GetEntityState, get_entity),
    "set_entity_state": (SetEntityState, set_entity),
}
for name, (kind, serve) in SERVICES.items():
    node.create_service(kind, name, serve, callback_group=group)
executor = MultiThreadedExecutor(4)
executor.add_node(node)
if COMMAND:
    begin_run()
try:
    executor.spin()
except (KeyboardInterrupt, ExternalShutdownException):
    pass
finally:
    if runs:
        end_run()
