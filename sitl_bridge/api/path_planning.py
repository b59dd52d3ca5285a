"""Paths around the obstacles of a world or a map, as trajectories within a vehicle's limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sitl_bridge.api.airframe_choice import AirframeChoice, airframe_of
from sitl_bridge.api.world_choice import WorldChoice, world_of
from sitl_bridge.dynamics.scene_contact import vehicle_reach
from sitl_bridge.errors import UserError
from sitl_bridge.mapping.clearance import MapObstacles, Obstacles, SceneObstacles
from sitl_bridge.mapping.occupancy_map import OccupancyMap
from sitl_bridge.mapping.path_planner import PathPlanner
from sitl_bridge.swarm.formation.trajectory import Moment, Trajectory, path_through

Floats = NDArray[np.float64]
_CHECK_PERIOD = 0.05
"""s between checked points of a trajectory."""
ROUNDING = 2.0
"""m that a trajectory may be away from the straight lines between waypoints."""
_DIVISIONS = 5
"""Times that legs with too little clearance are halved before the vehicle stops at every waypoint."""


@dataclass(frozen=True)
class PlannedPath:
    """A path and the trajectory along it.

    Attributes:
        waypoints: (k, 3) m NED, from start to goal; straight lines between them keep the clearance.
        trajectory: through the waypoints, at rest at both ends.
        clearance: m, least distance of the trajectory from an obstacle; no more than four times the clearance
            that was asked for.
    """

    waypoints: Floats
    trajectory: Trajectory
    clearance: float

    @property
    def duration(self) -> float:
        """Time of the flight, s."""
        return self.trajectory.duration

    @property
    def length(self) -> float:
        """Length of the straight lines between waypoints, m."""
        return float(np.linalg.norm(np.diff(self.waypoints, axis=0), axis=1).sum())

    def at(self, seconds: ArrayLike) -> Moment:
        """Position, velocity, acceleration and yaw at times in s from the start of the path."""
        return self.trajectory.at(np.asarray(seconds, float))


def plan_path(
    start: ArrayLike,
    goal: ArrayLike,
    *,
    world: WorldChoice = None,
    map: OccupancyMap | None = None,
    airframe: AirframeChoice = "iris",
    margin: float = 0.5,
    speed: float = 3.0,
    vertical_speed: float = 1.2,
    acceleration: float = 2.0,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    cell: float | None = None,
    unknown_is_free: bool = False,
    method: Literal["a_star", "rrt_star", "bit_star"] = "a_star",
    seed: int = 0,
) -> PlannedPath:
    """Plan a path around obstacles, and a trajectory along it.

    Straight lines between the waypoints keep the vehicle's radius and the margin from every obstacle; the
    trajectory, which rounds the corners, keeps the radius and at least half of the margin.

    Args:
        start: (3,) m NED, in the air.
        goal: likewise.
        world: whose scene is kept away from; moving objects stand where they begin.
        map: kept away from instead of a scene.
        airframe: gives the radius: the sphere that holds contact points and rotors.
        margin: m beyond the radius; it must hold the error of the vehicle's position, about 2.5 m with GPS.
        speed: m/s, largest.
        vertical_speed: m/s, largest, up and down; PX4 descends at 1.5 m/s at most by default.
        acceleration: m/s^2, largest.
        bounds: least and greatest corner, m NED, of the box that the path stays in; None for the box of all
            obstacles, start and goal, and 10 m around.
        cell: m, edge of a cell of A*; None for one that suits the size of the box.
        unknown_is_free: whether the path may cross unknown cells of a map.
        method: ``a_star`` on a grid, or OMPL's ``rrt_star`` or ``bit_star`` (extra ``planning``).
        seed: of OMPL's random numbers.

    Raises:
        UserError: where start or goal is outside of the bounds or too near to an obstacle, where there is no
            path, and where OMPL is missing.
    """
    if not 0.0 <= margin < 1e4:
        raise UserError(f"plan_path: a margin of {margin:g} m; give 0 or more")
    if not 0.0 < vertical_speed < 1e4:
        raise UserError(f"plan_path: a vertical speed of {vertical_speed:g} m/s; it must be above 0")
    radius = float(vehicle_reach(airframe_of(airframe).record))
    obstacles = _obstacles(world, map, unknown_is_free)
    planner = PathPlanner(obstacles, radius + margin, bounds=bounds, cell=cell)
    waypoints = _waypoints(planner, start, goal, method, seed)
    limits = {"speed": speed, "acceleration": acceleration}
    stretch = np.array([1.0, 1.0, max(1.0, speed / vertical_speed)])
    least = radius + 0.5 * margin
    trajectory, clearance = _trajectory(planner, waypoints, least, stretch, **limits)
    return PlannedPath(waypoints, trajectory, clearance)


def _waypoints(planner: PathPlanner, start: ArrayLike, goal: ArrayLike, method: str, seed: int) -> Floats:
    if method == "a_star":
        return planner.plan(start, goal)
    if method in ("rrt_star", "bit_star"):
        from sitl_bridge.mapping.ompl_planner import plan_by_ompl  # an extra

        return plan_by_ompl(planner, start, goal, method, seed)
    raise UserError(f"plan_path: method {method!r}; choose 'a_star', 'rrt_star' or 'bit_star'")


def _obstacles(world: WorldChoice, map: OccupancyMap | None, unknown_is_free: bool) -> Obstacles:
    if map is None:
        return SceneObstacles(world_of(world).build().scene)
    if world is not None:
        raise UserError("plan_path: give a world or a map, not both")
    return MapObstacles(map, unknown_is_free=unknown_is_free)


def _trajectory(
    planner: PathPlanner, waypoints: Floats, least: float, stretch: Floats, **limits: Any
) -> tuple[Trajectory, float]:
    """Return a trajectory through waypoints that keeps a clearance, and its least clearance.

    A curve leaves the straight lines.  Legs beside which it comes too close, or goes too far from the lines,
    are halved, which draws the curve to them; where that does not suffice, the vehicle stops at every
    waypoint and flies straight lines.
    """
    points = waypoints
    for _ in range(_DIVISIONS + 1):
        path = _through(points, stretch, **limits)
        places, clearance = _clearances(planner, path)
        bad = (clearance < least) | (_from_legs(waypoints, places).min(axis=1) > ROUNDING)
        if not bad.any():
            return path, float(clearance.min())
        points = _halved(points, places[bad])
    holds = [0.0, *[0.1] * (len(waypoints) - 2), 0.0]
    path = _through(waypoints, stretch, holds=holds, **limits)
    return path, float(_clearances(planner, path)[1].min())


def _through(points: Floats, stretch: Floats, **limits: Any) -> Trajectory:
    """Return the trajectory through waypoints whose motion, times ``stretch`` (3,), keeps the limits."""
    path = path_through(points * stretch, **limits)
    return Trajectory(
        path.time, path.position / stretch, path.velocity / stretch, path.acceleration / stretch, path.yaw
    )


def _clearances(planner: PathPlanner, path: Trajectory) -> tuple[Floats, Floats]:
    """Return places (n, 3) along a trajectory, and their clearances (n,); 0 out of bounds."""
    time = np.linspace(0.0, path.duration, max(2, int(path.duration / _CHECK_PERIOD)))
    places = path.at(time).position
    clearance = planner.obstacles.clearance(places, 4.0 * planner.needed)
    return places, np.where(planner.is_within_bounds(places), clearance, 0.0)


def _from_legs(points: Floats, places: Floats) -> Floats:
    """Return distances (n, k - 1) of places (n, 3) from the legs of a polyline (k, 3)."""
    first, way = points[:-1], np.diff(points, axis=0)
    length = np.maximum(np.sum(way**2, axis=1), 1e-12)
    along = np.clip(np.einsum("pij,ij->pi", places[:, None] - first, way) / length, 0.0, 1.0)
    away = first + along[..., None] * way - places[:, None]
    return np.asarray(np.linalg.norm(away, axis=2))


def _halved(points: Floats, places: Floats) -> Floats:
    """Return the polyline with the middle of every leg that is the nearest to one of some places."""
    legs = np.unique(_from_legs(points, places).argmin(axis=1))
    return np.insert(points, legs + 1, 0.5 * (points[legs] + points[legs + 1]), axis=0)
