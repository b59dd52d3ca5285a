"""sitl-bridge: a physics-and-sensor server that real PX4 firmware flies against, in lockstep.

The names in ``__all__`` are the public ones, for ``import sitl_bridge as sb``.  Each is loaded when it is
first used, so importing the package loads neither numpy nor numba.
"""

TYPE_CHECKING = False  # of typing, which would be the first slow import of the program

if TYPE_CHECKING:
    from typing import Any

    from sitl_bridge.api import faults
    from sitl_bridge.api.airframe_choice import Airframe
    from sitl_bridge.api.flights import FlightResult, fly
    from sitl_bridge.api.link_server import serve
    from sitl_bridge.api.path_planning import PlannedPath, plan_path
    from sitl_bridge.api.physics import Simulation
    from sitl_bridge.api.replanning import Replanner
    from sitl_bridge.api.scene_objects import (
        Box,
        Cylinder,
        HeightMap,
        Marker,
        Mesh,
        Path3D,
        Sphere,
        Texture,
        Voxels,
    )
    from sitl_bridge.api.sitl import Sitl
    from sitl_bridge.api.stacks import Message
    from sitl_bridge.api.truth_table import Recording, TruthTable
    from sitl_bridge.api.world_choice import World
    from sitl_bridge.autopilot.control.user_controller import Controller, Vehicle, Wrench
    from sitl_bridge.base.errors import ConfigurationError, UserError
    from sitl_bridge.core.dynamics.custom_rotor import RotorLaw
    from sitl_bridge.core.dynamics.proximity import Proximity
    from sitl_bridge.core.sensors.custom import CustomSensor, Truth
    from sitl_bridge.core.world.custom_wind import WindField
    from sitl_bridge.core.world.scene_specification import SceneSpecification
    from sitl_bridge.lab.environments.fleet import FleetEnvironment
    from sitl_bridge.lab.environments.randomisation import Randomisation
    from sitl_bridge.lab.environments.single import Environment
    from sitl_bridge.lab.environments.stack import StackEnvironment
    from sitl_bridge.lab.environments.tasks import HoldPosition, ReachWaypoint, Task, TrackFigure
    from sitl_bridge.lab.environments.vector import VectorEnvironment
    from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
    from sitl_bridge.perception.sample_ring import SampleReader, SharedSample

__all__ = [
    "Airframe",
    "Box",
    "ConfigurationError",
    "Controller",
    "CustomSensor",
    "Cylinder",
    "Environment",
    "FleetEnvironment",
    "FlightResult",
    "HeightMap",
    "HoldPosition",
    "Marker",
    "Mesh",
    "Message",
    "OccupancyMap",
    "Path3D",
    "PlannedPath",
    "Proximity",
    "Randomisation",
    "ReachWaypoint",
    "Recording",
    "Replanner",
    "RotorLaw",
    "SampleReader",
    "SceneSpecification",
    "SharedSample",
    "Simulation",
    "Sitl",
    "Sphere",
    "StackEnvironment",
    "Task",
    "Texture",
    "TrackFigure",
    "Truth",
    "TruthTable",
    "UserError",
    "VectorEnvironment",
    "Vehicle",
    "Voxels",
    "WindField",
    "World",
    "Wrench",
    "faults",
    "fly",
    "plan_path",
    "serve",
]

__version__: str

_HOMES = {
    "Airframe": "api.airframe_choice",
    "Box": "api.scene_objects",
    "ConfigurationError": "base.errors",
    "Controller": "autopilot.control.user_controller",
    "CustomSensor": "core.sensors.custom",
    "Cylinder": "api.scene_objects",
    "Environment": "lab.environments.single",
    "FleetEnvironment": "lab.environments.fleet",
    "FlightResult": "api.flights",
    "HeightMap": "api.scene_objects",
    "HoldPosition": "lab.environments.tasks",
    "Marker": "api.scene_objects",
    "Mesh": "api.scene_objects",
    "Message": "api.stacks",
    "OccupancyMap": "perception.mapping.occupancy_map",
    "Path3D": "api.scene_objects",
    "PlannedPath": "api.path_planning",
    "Proximity": "core.dynamics.proximity",
    "Randomisation": "lab.environments.randomisation",
    "ReachWaypoint": "lab.environments.tasks",
    "Recording": "api.truth_table",
    "Replanner": "api.replanning",
    "RotorLaw": "core.dynamics.custom_rotor",
    "SampleReader": "perception.sample_ring",
    "SceneSpecification": "core.world.scene_specification",
    "SharedSample": "perception.sample_ring",
    "Simulation": "api.physics",
    "Sitl": "api.sitl",
    "Sphere": "api.scene_objects",
    "StackEnvironment": "lab.environments.stack",
    "Task": "lab.environments.tasks",
    "Texture": "api.scene_objects",
    "TrackFigure": "lab.environments.tasks",
    "Truth": "core.sensors.custom",
    "TruthTable": "api.truth_table",
    "UserError": "base.errors",
    "VectorEnvironment": "lab.environments.vector",
    "Vehicle": "autopilot.control.user_controller",
    "Voxels": "api.scene_objects",
    "WindField": "core.world.custom_wind",
    "World": "api.world_choice",
    "Wrench": "autopilot.control.user_controller",
    "fly": "api.flights",
    "plan_path": "api.path_planning",
    "serve": "api.link_server",
}
"""Module of each public name."""

_MODULES = {"faults": "api.faults", "report": "analysis.report"}
"""Public modules."""


def __getattr__(name: str) -> "Any":
    """A public name or the version, looked up when it is first used."""
    from importlib import import_module, metadata

    if name == "__version__":
        return metadata.version("sitl-bridge")
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("gymnasium", "pettingzoo"):
            raise
        from sitl_bridge.base.errors import UserError

        raise UserError(
            f"{name} needs {error.name}; install it with: pip install 'sitl-bridge[environments]'"
        ) from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted([*globals(), *__all__])
