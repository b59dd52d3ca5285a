"""Paths around the obstacles of a world or a map, as trajectories within a vehicle's limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.api.airframe_choice import AirframeChoice, airframe_of
from sitl_bridge.api.world_choice import WorldChoice, world_of
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.scene_contact import vehicle_reach
from sitl_bridge.core.sensors.gps import GpsSpecification
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.perception.mapping.clearance import MapObstacles, Obstacles, SceneObstacles
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.perception.mapping.path_planner import PathPlanner, plan_by_ompl
from sitl_bridge.swarm.formation.trajectory import Moment, Trajectory, path_through

_CHECK_PERIOD = 0.05
"""s between checked points of a trajectory."""
LAG = 0.5
"""m that a vehicle is behind a moving setpoint, or beside it in a curve; a part of the default margin."""
ROUNDING = 2.0
"""m that a trajectory may be away from the straight lines between waypoints."""
_DIVISIONS = 5
"""Times that legs with too little clearance are halved before the vehicle stops at every waypoint."""


class Limits(TypedDict):
    """Largest values of a motion: m/s and m/s^2."""

    speed: float
    acceleration: float


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
    margin: float | None = None,
    position_error: float | None = None,
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
        margin: m beyond the radius; None for the position error and 0.5 m of lag.
        position_error: m, greatest error of the vehicle's own position; None for ``gps_error``.
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
    vehicle = airframe_of(airframe)
    margin = margin_of(vehicle, margin, position_error)
    if not 0.0 < vertical_speed < 1e4:
        raise UserError(f"plan_path: a vertical speed of {vertical_speed:g} m/s; it must be above 0")
    radius = float(vehicle_reach(vehicle.record))
    obstacles = _obstacles(world, map, unknown_is_free)
    planner = PathPlanner(obstacles, radius + margin, bounds=bounds, cell=cell)
    waypoints = _waypoints(planner, start, goal, method, seed)
    stretch = np.array([1.0, 1.0, max(1.0, speed / vertical_speed)])
    least = radius + 0.5 * margin
    trajectory, clearance = flyable_trajectory(
        planner, waypoints, least, stretch, speed=speed, acceleration=acceleration
    )
    return PlannedPath(waypoints, trajectory, clearance)


def gps_error(airframe: Airframe) -> float:
    """Return the error in m of a position by satellite receiver; 0 without one.

    It is three deviations of the difference between two readings: the local origin has the error of the
    first, the position that of the last.
    """
    receivers = [s for s in airframe.sensors if isinstance(s, GpsSpecification)]
    errors = []
    for receiver in receivers:
        noise = receiver.pack()["noise"][3:6]
        variance = float(np.sum(receiver.position_deviation() ** 2 + noise**2))
        errors.append(3.0 * math.sqrt(2.0 * variance))
    return min(errors, default=0.0)


def margin_of(airframe: Airframe, margin: float | None, position_error: float | None) -> float:
    """Return the margin in m of a path: the one given, or that for a position error.

    Raises:
        UserError: for both, and for figures below 0.
    """
    if margin is not None and position_error is not None:
        raise UserError("plan_path: give a margin or a position error, not both")
    name, value = ("margin", margin) if margin is not None else ("position error", position_error)
    if value is not None and not 0.0 <= value < 1e4:
        raise UserError(f"plan_path: a {name} of {value:g} m; give 0 or more")
    if margin is not None:
        return margin
    return LAG + (gps_error(airframe) if position_error is None else position_error)


def _waypoints(planner: PathPlanner, start: ArrayLike, goal: ArrayLike, method: str, seed: int) -> Floats:
    if method == "a_star":
        return planner.plan(start, goal)
    if method in ("rrt_star", "bit_star"):
        return plan_by_ompl(planner, start, goal, method, seed)
    raise UserError(f"plan_path: method {method!r}; choose 'a_star', 'rrt_star' or 'bit_star'")


def _obstacles(world: WorldChoice, map: OccupancyMap | None, unknown_is_free: bool) -> Obstacles:
    if map is None:
        return SceneObstacles(world_of(world).build().scene)
    if world is not None:
        raise UserError("plan_path: give a world or a map, not both")
    return MapObstacles(map, unknown_is_free=unknown_is_free)


def flyable_trajectory(
    planner: PathPlanner, waypoints: Floats, least: float, stretch: Floats, **limits: Unpack[Limits]
) -> tuple[Trajectory, float]:
    """Return a trajectory through waypoints that keeps a clearance, and its least clearance.

    A curve leaves the straight lines.  Legs beside which it comes too close, or goes too far from the lines,
    are halved, which draws the curve to them.  Where that does not suffice, or takes longer, the vehicle
    stops at every waypoint and flies straight lines.

    Raises:
        UserError: where neither keeps the clearance and the bounds.
    """
    holds = [0.0, *[0.1] * (len(waypoints) - 2), 0.0]
    straight = _through(waypoints, stretch, holds, **limits)
    points = waypoints
    for _ in range(_DIVISIONS + 1):
        path = _through(points, stretch, **limits)
        if path.duration > straight.duration:
            break
        places, clearance = _clearances(planner, path)
        bad = (clearance < least) | (distances_from_legs(waypoints, places).min(axis=1) > ROUNDING)
        if not bad.any():
            return path, float(clearance.min())
        points = _halve_legs(points, places[bad])
    clearance = _clearances(planner, straight)[1]
    if clearance.min() < least:
        raise UserError(
            f"there is no trajectory through the {len(waypoints)} waypoints that keeps {least:.2f} m from"
            f" obstacles and stays in the bounds, only {clearance.min():.2f} m; use a larger margin or bounds"
        )
    return straight, float(clearance.min())


def _through(
    points: Floats, stretch: Floats, holds: Sequence[float] | None = None, **limits: Unpack[Limits]
) -> Trajectory:
    """Return the trajectory through waypoints whose motion, times ``stretch`` (3,), keeps the limits."""
    path = path_through(points * stretch, holds=holds, **limits)
    return Trajectory(
        path.time, path.position / stretch, path.velocity / stretch, path.acceleration / stretch, path.yaw
    )


def _clearances(planner: PathPlanner, path: Trajectory) -> tuple[Floats, Floats]:
    """Return places (n, 3) along a trajectory, and their clearances (n,); 0 out of bounds."""
    time = np.linspace(0.0, path.duration, max(2, int(path.duration / _CHECK_PERIOD)))
    places = path.at(time).position
    clearance = planner.obstacles.clearance(places, 4.0 * planner.needed)
    return places, np.where(planner.is_within_bounds(places), clearance, 0.0)


def distances_from_legs(points: Floats, places: Floats) -> Floats:
    """Return distances (n, k - 1) of places (n, 3) from the legs of a polyline (k, 3)."""
    first, way = points[:-1], np.diff(points, axis=0)
    length = np.maximum(np.sum(way**2, axis=1), 1e-12)
    along = np.clip(np.einsum("pij,ij->pi", places[:, None] - first, way) / length, 0.0, 1.0)
    away = first + along[..., None] * way - places[:, None]
    return np.asarray(np.linalg.norm(away, axis=2))


def _halve_legs(points: Floats, places: Floats) -> Floats:
    """Return the polyline with the middle of every leg that is the nearest to one of some places."""
    legs = np.unique(distances_from_legs(points, places).argmin(axis=1))
    return np.insert(points, legs + 1, 0.5 * (points[legs] + points[legs + 1]), axis=0)
