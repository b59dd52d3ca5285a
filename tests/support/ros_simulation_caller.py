"""A node of real ROS 2 (rclpy) that pauses, steps and resets a run by simulation_interfaces; prints JSON."""

import json

import rclpy
from geometry_msgs.msg import Point, Pose
from rosgraph_msgs.msg import Clock
from simulation_interfaces.msg import EntityState, SimulationState, SimulatorFeatures
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

STEP = 4_000_000
"""ns."""
rclpy.init()
node, now, back = rclpy.create_node("caller"), [0], []


def tick(message):
    """Note the time, and whether it went back."""
    before, now[0] = now[0], message.clock.sec * 10**9 + message.clock.nanosec
    if now[0] < before:
        back.append(now[0])


node.create_subscription(Clock, "/clock", tick, 200)


def call(kind, name, **fields):
    """A service's answer."""
    client = node.create_client(kind, name)
    assert client.wait_for_service(120.0), name
    answer = client.call_async(kind.Request(**fields))
    rclpy.spin_until_future_complete(node, answer, timeout_sec=60.0)
    assert answer.done(), f"{name}: no answer"
    return answer.result()


def state():
    """State of the simulation, and result."""
    answer = call(GetSimulationState, "/get_simulation_state")
    return [answer.state.state, answer.result.result]


def change(number):
    """Set the state."""
    wanted = SimulationState(state=number)
    return call(SetSimulationState, "/set_simulation_state", state=wanted).result.result


def settle():
    """Take what has arrived while time stands."""
    still = 0
    while still < 20:
        before = now[0]
        rclpy.spin_once(node, timeout_sec=0.1)
        still = still + 1 if now[0] == before else 0


def step(count):
    """Result, and steps that passed."""
    settle()
    begun = now[0]
    result = call(StepSimulation, "/step_simulation", steps=count).result.result
    settle()
    return [result, round((now[0] - begun) / STEP)]


def place():
    """Position of the vehicle, in m east and north."""
    found = call(GetEntityState, "/get_entity_state", entity="vehicle_0").state.pose.position
    return [round(found.x), round(found.y)]


features = call(GetSimulatorFeatures, "/get_simulator_features").features.features
while not call(GetEntities, "/get_entities").entities or not now[0]:
    rclpy.spin_once(node, timeout_sec=0.1)
found = {"features": SimulatorFeatures.SIMULATION_STATE_PAUSE in features, "begun": state()}
found["refused_step"] = call(StepSimulation, "/step_simulation", steps=1).result.result
found["pause"], found["again"] = change(SimulationState.STATE_PAUSED), change(SimulationState.STATE_PAUSED)
found["paused"], found["step"] = state(), step(25)
there = EntityState(pose=Pose(position=Point(x=3.0, y=4.0, z=0.0)))
found["moved"] = call(SetEntityState, "/set_entity_state", entity="vehicle_0", state=there).result.result
found["unknown"] = call(SetEntityState, "/set_entity_state", entity="nobody", state=there).result.result
found["stop"] = change(SimulationState.STATE_STOPPED)
found["resume"], found["resumed"] = change(SimulationState.STATE_PLAYING), state()
found["place"] = place()
part = call(ResetSimulation, "/reset_simulation", scope=ResetSimulation.Request.SCOPE_STATE)
found["part"], found["forward"] = part.result.result, not back
found["reset"] = call(ResetSimulation, "/reset_simulation", scope=0).result.result
found["anew"], found["again_paused"] = place(), change(SimulationState.STATE_PAUSED)
found["back"] = len(back)
print(json.dumps(found))
