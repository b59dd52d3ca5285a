"""A vehicle with a flight stack as an environment for reinforcement learning, after Gymnasium, and tasks."""

from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.environments.stack import StackEnvironment
from sitl_bridge.lab.environments.tasks import HoldPosition, ReachWaypoint, Task, TrackFigure

__all__ = ["HoldPosition", "ReachWaypoint", "StackEnvironment", "Task", "TrackFigure"]

_REMOVED = ("Environment", "FleetEnvironment", "Randomisation", "VectorEnvironment")


def __getattr__(name: str) -> object:
    """Names of former versions, which tell what replaces them."""
    if name in _REMOVED:
        raise UserError(
            f"learning.{name} is gone: learning.StackEnvironment trains on PX4 or the built-in stack, and"
            " simulators on a GPU, such as crazyflow, train on thousands of vehicles"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
