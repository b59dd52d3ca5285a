"""sitl-bridge: a physics-and-sensor server that real PX4 firmware flies against, in lockstep.

The names in ``__all__`` are the public ones, for ``import sitl_bridge as sb``.  Each is loaded when it is
first used, so importing the package loads neither numpy nor numba.
"""

TYPE_CHECKING = False  # of typing, which would be the first slow import of the program

if TYPE_CHECKING:
    from typing import Any

    from sitl_bridge.analysis import report as report
    from sitl_bridge.api import faults as faults
    from sitl_bridge.api import planning as planning
    from sitl_bridge.api import scene_objects
    from sitl_bridge.api.airframe_choice import Airframe as Airframe
    from sitl_bridge.api.flights import FlightResult as FlightResult
    from sitl_bridge.api.flights import fly as fly
    from sitl_bridge.api.link_server import serve as serve
    from sitl_bridge.api.physics import Simulation as Simulation
    from sitl_bridge.api.sitl import Sitl as Sitl
    from sitl_bridge.api.truth_table import TruthTable as TruthTable
    from sitl_bridge.api.world_choice import World as World
    from sitl_bridge.autopilot.control.user_controller import Controller as Controller
    from sitl_bridge.autopilot.control.user_controller import VehicleModel as VehicleModel
    from sitl_bridge.autopilot.control.user_controller import Wrench as Wrench
    from sitl_bridge.base.errors import ConfigurationError as ConfigurationError
    from sitl_bridge.base.errors import UserError as UserError
    from sitl_bridge.core.dynamics.custom_rotor import RotorLaw as RotorLaw
    from sitl_bridge.core.dynamics.proximity import Proximity as Proximity
    from sitl_bridge.core.sensors.custom import CustomSensor as CustomSensor
    from sitl_bridge.core.sensors.custom import Truth as Truth
    from sitl_bridge.core.world.custom_wind import WindField as WindField
    from sitl_bridge.lab import environments
    from sitl_bridge.live.outlets import CustomOutlet as CustomOutlet
    from sitl_bridge.session.stacks import Message as Message

    learning, scene = environments, scene_objects

__version__: str

_HOMES = {
    "Airframe": "api.airframe_choice",
    "ConfigurationError": "base.errors",
    "Controller": "autopilot.control.user_controller",
    "CustomOutlet": "live.outlets",
    "CustomSensor": "core.sensors.custom",
    "FlightResult": "api.flights",
    "Message": "session.stacks",
    "Proximity": "core.dynamics.proximity",
    "RotorLaw": "core.dynamics.custom_rotor",
    "Simulation": "api.physics",
    "Sitl": "api.sitl",
    "Truth": "core.sensors.custom",
    "TruthTable": "api.truth_table",
    "UserError": "base.errors",
    "VehicleModel": "autopilot.control.user_controller",
    "WindField": "core.world.custom_wind",
    "World": "api.world_choice",
    "Wrench": "autopilot.control.user_controller",
    "fly": "api.flights",
    "serve": "api.link_server",
}
"""Module of each public name."""

_MODULES = {
    "faults": "api.faults",
    "learning": "lab.environments",
    "planning": "api.planning",
    "report": "analysis.report",
    "scene": "api.scene_objects",
}
"""Public modules."""

__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> "Any":
    """A public name or the version, looked up when it is first used."""
    from importlib import import_module, metadata

    if name == "__version__":
        return metadata.version("sitl-bridge")
    if name not in _HOMES and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_MODULES.get(name) or _HOMES[name]}")
    except ModuleNotFoundError as error:
        if error.name != "gymnasium":
            raise
        from sitl_bridge.base.errors import UserError

        raise UserError(
            f"{name} needs {error.name}; install it with: pip install 'sitl-bridge[environments]'"
        ) from error
    found = module if name in _MODULES else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted([*globals(), *__all__])
