"""Flight to a goal through a world that is known by an occupancy map alone, which grows and changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.api.airframe_choice import AirframeChoice, airframe_of
from sitl_bridge.api.path_planning import PlannedPath, margin_of, plan_path
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.scene_contact import vehicle_reach
from sitl_bridge.perception.mapping.clearance import MapObstacles
from sitl_bridge.perception.mapping.moving_cells import MovingCells
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.swarm.formation.trajectory import Moment, Trajectory, path_through

CHECK_PERIOD = 0.15
"""s between checked points of a path."""
AHEAD = 5.0
"""s beyond the time to brake for which a path is checked."""
PACES = 1.0, 0.6, 0.3
"""Shares of the full speed that are tried, the fastest first; the last resort is to brake to a stand."""
HYSTERESIS = 0.4
"""m of clearance beyond the needed one before the pace rises again."""
URGENT = 1.0
"""s beyond the time to brake within which a static obstacle is believed at once, not at the second map."""
PATIENCE = 4.0
"""s for which the vehicle waits on a path before it seeks another."""
SWEPT = 3.0
"""s of the way of moving objects that new paths stay out of."""
STALE = 1.5
"""s without a new map after which the vehicle brakes."""
REACH = 5.0
"""m beyond the bounds from which objects may move into them."""
RETRY = 0.5
"""s between two attempts to find a path."""
RETREAT = 6.0
"""m within which a place to retreat to is sought."""
RETREAT_TIMES = 4.0, 1.5
"""s for which a place to retreat to is clear of what moves; the second where there is none for the first."""
RETREAT_STEP = 0.5
"""m between the places that are tried."""
LOOK_AHEAD = 1.5
"""s along a trajectory whose greatest speed sets how long a change of pace takes."""
SHORTEST = 0.2
"""s that a change of pace takes at least."""

Phase = Literal["waiting", "flying", "braking", "retreating", "arrived"]


@dataclass(frozen=True)
class PacedMotion:
    """A trajectory that is flown at a share of its speed, which changes linearly to a new share."""

    trajectory: Trajectory  # of the full speed
    begun: float  # s, time at which the change begins
    along: float = 0.0  # s along the trajectory at that time
    rate: float = 1.0  # share of the full speed at that time
    target: float = 1.0  # share after the change
    change_time: float = SHORTEST  # s that the change takes

    def clock(self, time: float) -> tuple[float, float, float]:
        """Return s along the trajectory at a time in s, the pace, and the pace's change in 1/s."""
        gone = max(time - self.begun, 0.0)
        slope = (self.target - self.rate) / self.change_time
        if gone < self.change_time:
            return self.along + self.rate * gone + 0.5 * slope * gone**2, self.rate + slope * gone, slope
        changed = self.along + 0.5 * (self.rate + self.target) * self.change_time
        return changed + self.target * (gone - self.change_time), self.target, 0.0

    def at(self, time: float) -> Moment:
        """Return where the vehicle is to be at a time in s."""
        along, rate, change = self.clock(time)
        moment = self.trajectory.at(np.float64(along))
        velocity = moment.velocity * rate
        acceleration = moment.acceleration * rate**2 + moment.velocity * change
        return Moment(moment.position, velocity, acceleration, moment.yaw, moment.yaw_rate * rate)

    def paced(self, time: float, target: float, acceleration: float) -> PacedMotion:
        """Return the same motion with a pace that changes from a time in s on.

        Args:
            time: s.
            target: share of the full speed.
            acceleration: m/s^2 along the path.
        """
        along, rate, _ = self.clock(time)
        ahead = self.trajectory.at(np.linspace(along, along + LOOK_AHEAD, 8)).velocity
        speed = float(np.linalg.norm(ahead, axis=1).max())
        change_time = max(abs(target - rate) * speed / acceleration, SHORTEST)
        return PacedMotion(self.trajectory, time, along, rate, target, change_time)

    def stands(self, time: float) -> bool:
        """Whether it has come to a stand by a time in s, before the end."""
        return self.target == 0.0 and time >= self.begun + self.change_time

    def ended(self, time: float) -> bool:
        """Whether the end of the trajectory is reached by a time in s."""
        return self.clock(time)[0] >= self.trajectory.duration


class Replanner:
    """Plans a path through the known and the unknown, slows down or brakes for what moves, and plans anew.

    It does no input and no output: give it the maps, and fly what ``at`` returns.  Unknown cells count as
    free, so the sensors must see further than the vehicle needs to stop.  The vehicle keeps its path while
    it stays clear, at the fastest of ``PACES`` that keeps clear of where moving objects can be.  It plans
    anew where the map shows an obstacle in its way, or when it has waited for ``PATIENCE`` seconds.  What
    comes too near makes it retreat.  Without a new map for ``STALE`` seconds it brakes.

    ``update`` may run on another thread than ``at``: a change of plan begins at the last time asked for.

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
        begin, self.goal = np.asarray(start, float), np.asarray(goal, float)
        self.phase: Phase = "waiting"
        self.plans = 0
        self.path: PlannedPath | None = None
        self._airframe, self._say = vehicle, say
        self._margin = margin_of(vehicle, margin, None)
        self._radius = float(vehicle_reach(vehicle.record))
        self._bounds = np.asarray(bounds[0], float), np.asarray(bounds[1], float)
        low, high = self._bounds
        if low.shape != (3,) or high.shape != (3,) or not (low < high).all():
            raise UserError("bounds: give the least and the greatest north, east and down, in m")
        for name, place in (("start", begin), ("goal", self.goal)):
            if place.shape != (3,) or not ((low <= place) & (place <= high)).all():
                raise UserError(f"the {name} {place.tolist()}: give m north, east, down within the bounds")
        if not min(speed, vertical_speed, acceleration) > 0.0:
            raise UserError("speed, vertical_speed and acceleration must be above 0")
        self._vertical_speed = vertical_speed
        self._speed, self._acceleration = speed, acceleration
        self._moving = MovingCells(obstacle_speed)
        self._course = PacedMotion(_standing(begin), 0.0)
        self._asked = -math.inf
        """Last time that ``at`` was asked for."""
        self._updated = math.inf
        """Time of the last map; inf before the first."""
        self._suspected = False
        """Whether the last map showed an obstacle in the way."""
        self._stood = math.inf
        """Time since when the vehicle waits on its path; inf while it does not."""
        self._retry = -math.inf
        self._why = ""

    @property
    def least(self) -> float:
        """m from the vehicle's centre to obstacles; one that is nearer blocks a path."""
        return self._radius + 0.5 * self._margin

    def at(self, time: float) -> Moment:
        """Return where the vehicle is to be at a time in s, on the clock of ``update``."""
        self._asked = max(self._asked, time)
        return self._current(time).at(time)

    def update(self, time: float, seen: OccupancyMap) -> None:
        """Look at a new map, and change the plan where it has to be.

        Args:
            time: s, rising from call to call.
            seen: the map up to now.
        """
        self._course = self._current(time)
        self._updated = time
        self._settle(time)
        low, high = self._bounds
        self._moving.update(time, seen.within(low - REACH, high + REACH))
        if self.phase == "flying":
            self._follow(time, seen)
        elif self.phase == "retreating" and (why := self._retreat_blocked(time, seen)):
            self._brake(time, why)
        if self.phase in ("waiting", "arrived"):
            self._wait_or_leave(time, seen)

    def _wait_or_leave(self, time: float, seen: OccupancyMap) -> None:
        """Where the vehicle stands: plan, wait, or retreat from what is near."""
        place = self.at(time).position
        clearance = self._room_at(place, seen)
        # The clearances of a map are lower bounds, which change by a cell where an obstacle is noisy.
        too_near = clearance < self.least - seen.cell
        due = self.phase == "waiting" and time >= self._retry
        if too_near or (due and clearance < self._radius + self._margin):
            self._retreat(time, place, clearance, seen)
        elif due:
            self._plan(time, place, seen)

    def _room_at(self, place: Floats, seen: OccupancyMap) -> float:
        """m of clearance of a place (3,), also from where moving objects can be soon."""
        clearance = float(_clearances(seen, place[None], self._room(seen))[0])
        return min(clearance, float(self._moving.clearances(place[None], np.array([RETREAT_TIMES[-1]]))[0]))

    def _room(self, seen: OccupancyMap) -> float:
        """m from obstacles that a path can begin with."""
        return self._radius + self._margin + seen.cell

    # ------------------------------------------------------------------ motion

    def _current(self, time: float) -> PacedMotion:
        """Return the motion at a time in s, which ends in a braking where no map comes."""
        stale = self._updated + STALE
        if time <= stale or self._course.target == 0.0:
            return self._course
        return self._course.paced(stale, 0.0, self._acceleration)

    def _set(self, time: float, trajectory: Trajectory, phase: Phase) -> None:
        self._course, self.phase = PacedMotion(trajectory, max(time, self._asked)), phase
        self._suspected, self._stood = False, math.inf

    def _pace(self, time: float, rate: float) -> None:
        if rate != self._course.target:
            self._course = self._course.paced(max(time, self._asked), rate, self._acceleration)

    def _brake(self, time: float, why: str) -> None:
        self._say(f"{why}: braking")
        self._pace(time, 0.0)
        self.phase, self._retry = "braking", -math.inf

    def _settle(self, time: float) -> None:
        ended = self._course.ended(time)
        if self.phase in ("braking", "retreating") and (ended or self._course.stands(time)):
            self._set(time, _standing(self._course.at(time).position), "waiting")
        elif self.phase == "flying" and ended:
            self._set(time, _standing(self.goal), "arrived")
            self._say("arrived at the goal")

    # ------------------------------------------------------------------ on a path

    def _follow(self, time: float, seen: OccupancyMap) -> None:
        """Keep to the path at the fastest pace that is clear, or leave it."""
        times, places = self._ahead(time, self._course.paced(time, 1.0, self._acceleration))
        clearance = _clearances(seen, places, 2.0 * self.least)
        blocked = clearance < self.least - seen.cell
        if blocked.any():
            first = float(times[blocked.argmax()])
            if self._suspected or first < URGENT + self._speed / self._acceleration:
                self._brake(time, f"the way comes {max(float(clearance.min()), 0.0):.2f} m near an obstacle")
                return
        self._suspected = bool(blocked.any())
        self._pace(time, self._clear_pace(time))
        if self._course.target > 0.0:
            self._stood = math.inf
        elif math.isinf(self._stood):
            self._stood = time
            self._say("something moves towards the way: waiting on it")
        if not self._course.stands(time):
            return
        near = self._room_at(self.at(time).position, seen) < self.least - seen.cell
        if near or time > self._stood + PATIENCE:
            self._set(time, _standing(self._course.at(time).position), "waiting")

    def _clear_pace(self, time: float) -> float:
        """Return the fastest pace at which the way is clear of what moves; 0 for none."""
        for rate in PACES:
            times, places = self._ahead(time, self._course.paced(time, rate, self._acceleration))
            needed = self.least + (HYSTERESIS if rate > self._course.target else 0.0)
            if self._moving.clearances(places, times).min() >= needed:
                return rate
        return 0.0

    def _ahead(self, time: float, course: PacedMotion) -> tuple[Floats, Floats]:
        """Return times (n,) in s from now and places (n, 3) of a motion, up to ``AHEAD``."""
        times = np.arange(0.0, AHEAD + self._speed / self._acceleration, CHECK_PERIOD)
        along = np.array([course.clock(time + after)[0] for after in times])
        return times, course.trajectory.at(np.minimum(along, course.trajectory.duration)).position

    # ------------------------------------------------------------------ from a stand

    def _plan(self, time: float, place: Floats, seen: OccupancyMap) -> None:
        low, high = self._bounds
        room = 1.5 * self._room(seen)
        try:
            path = plan_path(
                place,
                self.goal,
                map=self._moving.swept(seen.within(low - room, high + room), SWEPT),
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
        self.path, self._why = path, ""
        self.plans += 1
        self._set(time, path.trajectory, "flying")
        self._say(
            f"path {self.plans}: {path.length:.0f} m in {path.duration:.0f} s, {path.clearance:.2f} m from"
            " obstacles"
        )
        self._follow(time, seen)

    def _wait(self, time: float, why: str) -> None:
        if why != self._why:
            self._why = why
            self._say(f"waiting: {why}")
        self._retry = time + RETRY

    def _retreat(self, time: float, place: Floats, clearance: float, seen: OccupancyMap) -> None:
        here = float(_clearances(seen, place[None], self._room(seen))[0])
        for soon in RETREAT_TIMES:
            for end in self._places_with_room(place, soon, seen):
                points = np.stack([place, end])
                motion = path_through(points, speed=self._speed, acceleration=self._acceleration, yaw=0.0)
                times = np.linspace(0.0, motion.duration, 30)
                way = motion.at(times).position
                moving = self._moving.clearances(way, times)
                if moving.min() < min(self.least, float(moving[0]) - 0.5 * seen.cell):
                    continue
                if _clearances(seen, way, self._room(seen)).min() >= here - 0.5 * seen.cell:
                    away = float(np.linalg.norm(end - place))
                    self._say(f"{clearance:.2f} m from an obstacle: retreating {away:.1f} m")
                    self._set(time, motion, "retreating")
                    return
        self._wait(time, "an obstacle is near, and there is no room to retreat to")

    def _places_with_room(self, place: Floats, soon: float, seen: OccupancyMap) -> Floats:
        """Return places (n, 3) near one that have room now and in a time in s, the nearest first."""
        offsets = np.arange(-RETREAT, RETREAT + 0.5 * RETREAT_STEP, RETREAT_STEP)
        grid = np.stack(np.meshgrid(offsets, offsets, np.array([-1.0, 0.0, 1.0]), indexing="ij"), axis=-1)
        places = place + grid.reshape(-1, 3)
        low, high = self._bounds
        places = places[((places >= low) & (places <= high)).all(axis=1)]
        room = self._room(seen)
        if len(places):
            moving = self._moving.clearances(places, np.full(len(places), soon))
            places = places[np.minimum(_clearances(seen, places, room), moving) >= room]
        return np.asarray(places[np.argsort(np.linalg.norm(places - place, axis=1), kind="stable")])

    def _retreat_blocked(self, time: float, seen: OccupancyMap) -> str:
        """Return why a retreat, which begins near an obstacle, cannot go on; empty where it can."""
        _, places = self._ahead(time, self._course)
        clearance = _clearances(seen, places, 2.0 * self.least)
        if clearance.min() < min(self.least, float(clearance[0])) - seen.cell:
            return f"the way comes {max(float(clearance.min()), 0.0):.2f} m near an obstacle"
        return ""


def _clearances(seen: OccupancyMap, places: Floats, limit: float) -> Floats:
    """Return clearances (n,) in m of places (n, 3), ``limit`` where there is more; unknown cells are free."""
    reach = limit + 2.0 * seen.cell
    near = seen.within(places.min(axis=0) - reach, places.max(axis=0) + reach)
    if not near.log_odds.size:
        return np.full(len(places), limit)
    return MapObstacles(near, unknown_is_free=True).clearance(places, limit)


def _standing(place: Floats) -> Trajectory:
    rows = np.stack([place, place])
    return Trajectory(np.array([0.0, 1e-3]), rows, np.zeros((2, 3)), np.zeros((2, 3)), np.zeros(2))
