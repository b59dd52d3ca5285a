"""Paths around obstacles, and the maps on which they are planned."""

from sitl_bridge.api.path_planning import PlannedPath, plan_path
from sitl_bridge.api.replanning import Replanner
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap

__all__ = ["OccupancyMap", "PlannedPath", "Replanner", "plan_path"]
