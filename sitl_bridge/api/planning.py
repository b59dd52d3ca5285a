"""Paths around obstacles, and the maps on which they are planned."""

from sitl_bridge.api.path_planning import PlannedPath, plan_path
from sitl_bridge.base.errors import UserError
from sitl_bridge.perception.mapping.clearance import SceneObstacles
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.session.missions.live_map import LiveMap

__all__ = ["LiveMap", "OccupancyMap", "PlannedPath", "SceneObstacles", "plan_path"]


def __getattr__(name: str) -> object:
    """A name of a former version, which tells what replaces it."""
    if name == "Replanner":
        raise UserError(
            "planning.Replanner is gone: call planning.plan_path with map= again when the map has changed"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
