"""Paths around obstacles, and the maps on which they are planned."""

from sitl_bridge.api.path_planning import PlannedPath as PlannedPath
from sitl_bridge.api.path_planning import plan_path as plan_path
from sitl_bridge.perception.mapping.clearance import SceneObstacles as SceneObstacles
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap as OccupancyMap
from sitl_bridge.session.missions.live_map import LiveMap as LiveMap
