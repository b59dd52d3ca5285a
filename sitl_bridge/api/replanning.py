"""Flight to a goal through a world that is known by an occupancy map alone, which grows and changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.api.airframe_choice import AirframeChoice, airframe_of
from sitl_bridge.api.path_planning import Floats, PlannedPath, margin_of, plan_path
from sitl_bridge.dynamics.scene_contact import vehicle_reach
from sitl_bridge.errors import UserError
from sitl_bridge.mapping.clearance import MapObstacles
from sitl_bridge.mapping.moving_cells import MovingCells
from sitl_bridge.mapping.occupancy_map import OccupancyMap
from sitl_bridge.swarm.formation.trajectory import Moment, Trajectory, path_through

CHECK_PERIOD = 0.1
"""s between checked points of a path."""
AHEAD = 4.0
"""s beyond the time to brake within which a path is checked."""
REACH = 5.0
"""m beyond the bounds from which objects may move into them."""
RETRY = 0.5
"""s between two attempts to find a path."""
RETREAT = 6.0
"""m within which a place to retreat to is sought."""
RETREAT_TIME = 1.5
"""s for which what moves may come nearer while the vehicle waits."""
RETREAT_STEP = 0.5
"""m between the places that are tried."""

Phase = Literal["waiting", "flying", "braking", "retreating", "arrived"]


class Replanner:
    """Plans a path through the known and the unknown, brakes where it becomes blocked, and plans anew.

    It does no input and no output: give it the maps, and fly what ``at`` returns.  Unknown cells count as
    free, so the sensors must see further than the vehicle needs to stop.  Where free cells become occupied,
    something moves: the vehicle keeps clear of where that can be ``AHEAD`` seconds on.  What
    comes too near makes the vehicle retreat.

    Args:
        start: (3,) m NED where the vehicle hovers.
        goal: (3,) m NED.
        bounds: least and greatest corner, m NED, of the box that paths stay in.
        airframe: gives the radius and the default margin.
        margin: as of ``plan_path``.
        speed: m/s, largest.
        vertical_speed: m/s, largest, up and down.
        acceleration: m/s^2, largest, also when it brakes.
        obstacle_speed: m/s, largest, of what moves.
        say: takes a line at every change of plan.

    Attributes:
        phase: waiting, flying, braking, retreating or arrived.
        plans: number of paths planned so far.
        path: the last one; None before the first.

    Raises:
        UserError: for figures that make no sense.
    """

    def __init__(
        self,
        start: ArrayLike,
        goal: ArrayLike,
        *,
        bounds: tuple[ArrayLike, ArrayLike],
        airframe: AirframeChoice = "iris",
        margin: float | None = None,
        speed: float = 2.0,
        vertical_speed: float = 1.0,
        acceleration: float = 1.5,
        obstacle_speed: float = 1.0,
        say: Callable[[str], None] = lambda _line: None,
    ) -> None:
        vehicle = airframe_of(airframe)
        self.goal = np.asarray(goal, float)
        self.phase: Phase = "waiting"
        self.plans = 0
        self.path: PlannedPath | None = None
        self._airframe, self._say = vehicle, say
        self._margin = margin_of(vehicle, margin, None)
        self._radius = float(vehicle_reach(vehicle.record))
        self._bounds = np.asarray(bounds[0], float), np.asarray(bounds[1], float)
        if self._bounds[0].shape != (3,) or self._bounds[1].shape != (3,):
            raise UserError("bounds: give the least and the greatest north, east and down, in m")
        self._vertical_speed = vertical_speed
        self._speed, self._acceleration = speed, acceleration
        self._moving = MovingCells(obstacle_speed)
        self._motion = _standing(np.asarray(start, float))
        self._begun = 0.0
        self._braked: float | None = None
        """Time at which it began to brake."""
        self._retry = -math.inf
        self._why = ""

    @property
    def least(self) -> float:
        """m from the vehicle's centre to obstacles; one that is nearer blocks a path."""
        return self._radius + 0.5 * self._margin

    def at(self, time: float) -> Moment:
        """Return where the vehicle is to be at a time in s, on the clock of ``update``."""
        along, rate, change = self._clock(time)
        moment = self._motion.at(along)
        velocity = moment.velocity * rate
        acceleration = moment.acceleration * rate**2 + moment.velocity * change
        return Moment(moment.position, velocity, acceleration, moment.yaw, moment.yaw_rate * rate)

    def update(self, time: float, seen: OccupancyMap) -> None:
        """Look at a new map, and change the plan where it has to be.

        Args:
            time: s, rising from call to call.
            seen: the map up to now.
        """
        self._settle(time)
        low, high = self._bounds
        self._moving.update(time, seen.within(low - REACH, high + REACH))
        if self.phase in ("flying", "retreating"):
            why = self._blocked(self._motion, time - self._begun, seen)
            if why:
                self._say(f"{why}: braking")
                self._braked, self.phase, self._retry = time, "braking", -math.inf
        elif self.phase in ("waiting", "arrived"):
            place = self.at(time).position
            room = self._room(seen)
            clearance = float(_clearances(seen, place[None], room)[0])
            soon = self._moving.clearances(place[None], np.array([RETREAT_TIME]))
            clearance = min(clearance, float(soon[0]))
            # The clearances of a map are lower bounds, which change by a cell where an obstacle is noisy.
            too_near = clearance < self.least - seen.cell
            due = self.phase == "waiting" and time >= self._retry
            if too_near or (due and clearance < self._radius + self._margin):
                self._retreat(time, place, clearance, seen)
            elif due:
                self._plan(time, place, seen)

    def _room(self, seen: OccupancyMap) -> float:
        """m from obstacles that a path can begin with."""
        return self._radius + self._margin + seen.cell

    # ------------------------------------------------------------------ motion

    def _clock(self, time: float) -> tuple[float, float, float]:
        """Return the time along the motion, its rate and the rate's change, which falls to 0 in a braking."""
        if self._braked is None or time <= self._braked:
            return time - self._begun, 1.0, 0.0
        length = self._braking_time()
        gone = min(time - self._braked, length)
        along = self._braked - self._begun + gone - 0.5 * gone**2 / length
        standing = gone >= length
        return along, 0.0 if standing else 1.0 - gone / length, 0.0 if standing else -1.0 / length

    def _braking_time(self) -> float:
        assert self._braked is not None
        velocity = self._motion.at(self._braked - self._begun).velocity
        return max(float(np.linalg.norm(velocity)) / self._acceleration, 0.2)

    def _set(self, time: float, motion: Trajectory, phase: Phase) -> None:
        self._motion, self._begun, self._braked, self.phase = motion, time, None, phase

    def _settle(self, time: float) -> None:
        """End what has come to its end."""
        if self._braked is not None:
            over = time >= self._braked + self._braking_time()
        else:
            over = time >= self._begun + self._motion.duration
        if over and self.phase in ("braking", "retreating"):
            self._set(time, _standing(self.at(time).position), "waiting")
        elif over and self.phase == "flying":
            self._set(time, _standing(self.goal), "arrived")
            self._say("arrived at the goal")

    def _blocked(self, motion: Trajectory, first: float, seen: OccupancyMap) -> str:
        """Return why a motion is blocked next, from a time in s along it; empty where it is not."""
        last = min(motion.duration, first + AHEAD + self._speed / self._acceleration)
        times = np.linspace(first, last, max(2, math.ceil((last - first) / CHECK_PERIOD)))
        places = motion.at(times).position
        clearance = _clearances(seen, places, 2.0 * self.least)
        moving = self._moving.clearances(places, np.minimum(times - first, AHEAD))
        allowed = self.least - seen.cell
        if self.phase == "retreating":
            # It begins too near.
            allowed = min(allowed, float(clearance[0]) - seen.cell)
            moving = moving[-1:]
        if clearance.min() < allowed:
            return f"the way comes {max(float(clearance.min()), 0.0):.2f} m near an obstacle"
        if moving.min() < allowed:
            return "something moves towards the way"
        return ""

    def _plan(self, time: float, place: Floats, seen: OccupancyMap) -> None:
        low, high = self._bounds
        room = 1.5 * self._room(seen)
        try:
            path = plan_path(
                place,
                self.goal,
                map=seen.within(low - room, high + room),
                airframe=self._airframe,
                margin=self._margin,
                bounds=self._bounds,
                unknown_is_free=True,
                speed=self._speed,
                vertical_speed=self._vertical_speed,
                acceleration=self._acceleration,
            )
        except UserError as error:
            self._wait(time, str(error))
            return
        if why := self._blocked(path.trajectory, 0.0, seen):
            self._wait(time, why)
            return
        self.path, self._why = path, ""
        self.plans += 1
        self._set(time, path.trajectory, "flying")
        self._say(
            f"path {self.plans}: {path.length:.0f} m in {path.duration:.0f} s, {path.clearance:.2f} m from"
            " obstacles"
        )

    def _wait(self, time: float, why: str) -> None:
        if why != self._why:
            self._why = why
            self._say(f"waiting: {why}")
        self._retry = time + RETRY

    def _retreat(self, time: float, place: Floats, clearance: float, seen: OccupancyMap) -> None:
        """Begin a straight way to the nearest place with room, where there is one."""
        offsets = np.arange(-RETREAT, RETREAT + 0.5 * RETREAT_STEP, RETREAT_STEP)
        grid = np.stack(np.meshgrid(offsets, offsets, np.array([-1.0, 0.0, 1.0]), indexing="ij"), axis=-1)
        places = place + grid.reshape(-1, 3)
        low, high = self._bounds
        places = places[((places >= low) & (places <= high)).all(axis=1)]
        room = self._room(seen)
        if len(places):
            soon = self._moving.clearances(places, np.full(len(places), RETREAT_TIME))
            places = places[np.minimum(_clearances(seen, places, room), soon) >= room]
        for end in places[np.argsort(np.linalg.norm(places - place, axis=1), kind="stable")]:
            way = place + (end - place) * np.linspace(0.0, 1.0, 30)[:, None]
            here = float(_clearances(seen, place[None], room)[0])
            if _clearances(seen, way, room).min() >= here - 0.5 * seen.cell:
                away = float(np.linalg.norm(end - place))
                self._say(f"{clearance:.2f} m from an obstacle: retreating {away:.1f} m")
                points = np.stack([place, end])
                motion = path_through(points, speed=self._speed, acceleration=self._acceleration, yaw=0.0)
                self._set(time, motion, "retreating")
                return
        self._wait(time, "an obstacle is near, and there is no room to retreat to")


def _clearances(seen: OccupancyMap, places: Floats, limit: float) -> Floats:
    """Return clearances (n,) in m of places (n, 3), ``limit`` where there is more; unknown cells are free."""
    reach = limit + 2.0 * seen.cell
    near = seen.within(places.min(axis=0) - reach, places.max(axis=0) + reach)
    if not near.log_odds.size:
        return np.full(len(places), limit)
    return MapObstacles(near, unknown_is_free=True).clearance(places, limit)


def _standing(place: Floats) -> Trajectory:
    """Return the motion of a vehicle that stays at a place."""
    rows = np.stack([place, place])
    return Trajectory(np.array([0.0, 1e-3]), rows, np.zeros((2, 3)), np.zeros((2, 3)), np.zeros(2))
