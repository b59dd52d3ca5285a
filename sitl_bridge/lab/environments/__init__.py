"""Environments for reinforcement learning, after Gymnasium and PettingZoo, and their tasks."""

from sitl_bridge.lab.environments.batch import Randomisation
from sitl_bridge.lab.environments.fleet import FleetEnvironment
from sitl_bridge.lab.environments.stack import StackEnvironment
from sitl_bridge.lab.environments.tasks import HoldPosition, ReachWaypoint, Task, TrackFigure
from sitl_bridge.lab.environments.vector import Environment, VectorEnvironment

__all__ = [
    "Environment",
    "FleetEnvironment",
    "HoldPosition",
    "Randomisation",
    "ReachWaypoint",
    "StackEnvironment",
    "Task",
    "TrackFigure",
    "VectorEnvironment",
]
