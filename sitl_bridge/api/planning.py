"""Paths around obstacles, and the maps on which they are planned."""

from sitl_bridge.api.path_planning import PlannedPath, plan_path
from sitl_bridge.api.replanning import Replanner
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.session.missions.live_map import LiveMap

__all__ = ["LiveMap", "OccupancyMap", "PlannedPath", "Replanner", "plan_path"]
