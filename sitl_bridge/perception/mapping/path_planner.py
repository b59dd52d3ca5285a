"""Paths around obstacles: waypoints by A*, straightened, as polylines in m NED."""

from __future__ import annotations

import heapq
import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.base.arrays import Floats, Ints, Mask
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.perception.mapping.clearance import Box, Obstacles

MOST_CELLS = 20_000_000
USUAL_CELLS = 1_500_000
"""Cells of a grid whose size is chosen here."""
FINEST_CELL = 0.25
SURROUNDINGS = 10.0
"""m around obstacles, start and goal that a path may use where no bounds are given."""


def figures(place: Floats) -> str:
    """Return a place as text."""
    return f"({place[0]:.2f}, {place[1]:.2f}, {place[2]:.2f})"


@compiled
def search_grid(
    clearance: Floats, first: int, last: int, needed: float, cell: float, cost: Floats, came: Ints
) -> bool:
    """Find the shortest way between two cells over their 26 neighbours.

    Hart, Nilsson and Raphael, "A formal basis for the heuristic determination of minimum cost paths", IEEE
    Trans. Systems Science and Cybernetics 4(2), 1968; the heuristic is the straight distance.  A distance
    changes by no more than the way along it, so half of (c1 + c2 - length) is the least clearance that is
    possible between two centres with clearances c1 and c2; it must reach ``needed``.

    Args:
        clearance: (x, y, z) m at the centres of cells.
        first: flat index of the start's cell.
        last: flat index of the goal's cell.
        needed: m of clearance.
        cell: m, edge of a cell.
        cost: (cells,) float64, all inf; m from the start, written.
        came: (cells,) int64, written: the cell before.

    Returns:
        whether there is a way.
    """
    rows, columns, layers = clearance.shape
    gx, gy, gz = last // (layers * columns), last // layers % columns, last % layers
    cost[first], came[first] = 0.0, first
    heap = [(0.0, first)]
    while len(heap) > 0:
        total, at = heapq.heappop(heap)
        if at == last:
            return True
        x, y, z = at // (layers * columns), at // layers % columns, at % layers
        straight = cell * math.sqrt(float((x - gx) ** 2 + (y - gy) ** 2 + (z - gz) ** 2))
        if at != first and total > cost[at] + straight + 1e-9:
            continue
        here = clearance[x, y, z]
        for i in range(max(x - 1, 0), min(x + 2, rows)):
            for j in range(max(y - 1, 0), min(y + 2, columns)):
                for k in range(max(z - 1, 0), min(z + 2, layers)):
                    length = cell * math.sqrt(float((i - x) ** 2 + (j - y) ** 2 + (k - z) ** 2))
                    if length == 0.0 or 0.5 * (here + clearance[i, j, k] - length) < needed:
                        continue
                    other = (i * columns + j) * layers + k
                    reached = cost[at] + length
                    if reached < cost[other]:
                        cost[other], came[other] = reached, at
                        left = cell * math.sqrt(float((i - gx) ** 2 + (j - gy) ** 2 + (k - gz) ** 2))
                        heapq.heappush(heap, (reached + left, other))
    return False


class PathPlanner:
    """Plans paths that keep a distance from obstacles.

    Attributes:
        low, high: (3,) m NED, box that paths stay in.
        cell: m, edge of a cell of the search.

    Args:
        obstacles: to keep away from.
        needed: m of clearance of every point of a path.
        bounds: box that paths stay in; None for that of the obstacles, start and goal and 10 m around.
        cell: m, edge of a cell of the search; None for one that suits the size of the box.

    Raises:
        UserError: for figures that make no sense.
    """

    def __init__(
        self,
        obstacles: Obstacles,
        needed: float,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        cell: float | None = None,
    ) -> None:
        if not 0.0 < needed < math.inf:
            raise UserError(f"a path with a clearance of {needed:g} m: it must be above 0")
        if cell is not None and not 0.0 < cell < math.inf:
            raise UserError(f"a search with cells of {cell:g} m: the size must be above 0")
        self.obstacles, self.needed = obstacles, needed
        self._cell = cell
        self._bounds: Box | None = None
        if bounds is not None:
            low, high = np.asarray(bounds[0], float), np.asarray(bounds[1], float)
            if low.shape != (3,) or high.shape != (3,) or not (low < high).all():
                raise UserError("bounds: give the least and the greatest north, east and down, in m")
            self._bounds = low, high

    def plan(self, start: ArrayLike, goal: ArrayLike) -> Floats:
        """Return the (k, 3) waypoints of a path from start to goal, both included.

        Raises:
            UserError: where start or goal is outside of the bounds or too near to an obstacle, and where
                there is no path.
        """
        begin, end, (low, high) = self.check(start, goal)
        if self.is_clear(begin, end):
            return np.stack([begin, end])
        return self._straighten(self._search(begin, end, low, high))

    def check(self, start: ArrayLike, goal: ArrayLike) -> tuple[Floats, Floats, Box]:
        """Return start and goal (3,) and the box to plan in.

        Raises:
            UserError: where start or goal is outside of the box or too near to an obstacle.
        """
        begin, end = (self._place(name, place) for name, place in (("start", start), ("goal", goal)))
        low, high = self._box(begin, end)
        for name, place in (("start", begin), ("goal", end)):
            if not ((place >= low) & (place <= high)).all():
                raise UserError(
                    f"the {name} {figures(place)} is outside of the world to plan in, {figures(low)} to"
                    f" {figures(high)} m NED; move it inside, or give larger bounds"
                )
            self._require_clear(name, place)
        return begin, end, (low, high)

    def is_clear(self, first: Floats, second: Floats) -> bool:
        """Whether the straight way between two places keeps the clearance."""
        return bool(self.clearances(np.stack([first, second])).min() >= self.needed - 1e-9)

    def clearances(self, points: Floats) -> Floats:
        """Return clearances along a polyline (k, 3), at steps of an eighth of the needed one at most."""
        step = self.needed / 8.0
        parts = [points[:1]]
        for a, b in pairwise(points):
            count = max(1, math.ceil(float(np.linalg.norm(b - a)) / step))
            parts.append(a + (b - a) * (np.arange(1, count + 1) / count)[:, None])
        return self.obstacles.clearance(np.concatenate(parts), 4.0 * self.needed)

    def is_within_bounds(self, points: Floats) -> Mask:
        """Return (n,) whether points (n, 3) are within the bounds, where bounds were given."""
        if self._bounds is None:
            return np.ones(len(points), np.bool_)
        low, high = self._bounds
        return np.asarray(((points >= low) & (points <= high)).all(axis=1))

    def _place(self, name: str, given: ArrayLike) -> Floats:
        place = np.asarray(given, float)
        if place.shape != (3,) or not np.isfinite(place).all():
            raise UserError(f"the {name} must be three figures: m north, east, down")
        return place

    def _require_clear(self, name: str, place: Floats) -> None:
        clearance = float(self.obstacles.clearance(place[None], 4.0 * self.needed)[0])
        if clearance <= 0.0:
            raise UserError(f"the {name} {figures(place)} m NED is inside an obstacle, or in unknown space")
        if clearance < self.needed:
            raise UserError(
                f"the {name} {figures(place)} m NED is {clearance:.2f} m from an obstacle or the ground; the"
                f" vehicle and its margin need {self.needed:.2f} m: move the {name}, or use a smaller margin"
            )

    def _box(self, begin: Floats, end: Floats) -> Box:
        if self._bounds is not None:
            return self._bounds
        corners = [begin, end, *(self.obstacles.box() or ())]
        return np.min(corners, axis=0) - SURROUNDINGS, np.max(corners, axis=0) + SURROUNDINGS

    def _cell_size(self, low: Floats, high: Floats) -> float:
        extent = high - low
        if self._cell is None:
            usual = float(np.prod(extent) / USUAL_CELLS) ** (1.0 / 3.0)
            return max(usual, self.obstacles.finest, FINEST_CELL)
        if np.prod(np.ceil(extent / self._cell)) > MOST_CELLS:
            raise UserError(
                f"cells of {self._cell:g} m in a box of {extent[0]:.0f} x {extent[1]:.0f} x {extent[2]:.0f} m"
                f" are more than {MOST_CELLS:,}; use larger cells or smaller bounds"
            )
        return self._cell

    def _search(self, begin: Floats, end: Floats, low: Floats, high: Floats) -> Floats:
        """Return the way through the centres of cells, from start to goal."""
        cell = self._cell_size(low, high)
        shape = np.maximum(1, np.ceil((high - low) / cell)).astype(np.int64)
        axes = [low[i] + cell * (np.arange(shape[i]) + 0.5) for i in range(3)]
        limit = self.needed + 2.0 * cell
        clearance = np.empty(tuple(shape))
        for i, north in enumerate(axes[0]):
            east, down = np.meshgrid(axes[1], axes[2], indexing="ij")
            layer = np.stack([np.full(east.size, north), east.ravel(), down.ravel()], axis=1)
            clearance[i] = self.obstacles.clearance(layer, limit).reshape(east.shape)
        first, last = (
            self._cell_beside(name, place, low, cell, shape)
            for name, place in (("start", begin), ("goal", end))
        )
        cost, came = np.full(clearance.size, np.inf), np.full(clearance.size, -1, np.int64)
        if not search_grid(clearance, first, last, self.needed, cell, cost, came):
            raise UserError(
                f"there is no path from {figures(begin)} to {figures(end)} m NED with a clearance of"
                f" {self.needed:.2f} m and cells of {cell:.2f} m; use a smaller margin, smaller cells or"
                " larger bounds"
            )
        way = [last]
        while way[-1] != first:
            way.append(int(came[way[-1]]))
        centers = low + cell * (np.stack(np.unravel_index(way[::-1], tuple(shape)), axis=1) + 0.5)
        return np.vstack([begin, centers, end])

    def _cell_beside(self, name: str, place: Floats, low: Floats, cell: float, shape: Ints) -> int:
        """Return the flat index of the nearest cell whose centre can be reached straight from a place."""
        at = np.floor((place - low) / cell).astype(np.int64)
        around = np.array(np.meshgrid(*[np.arange(-2, 3)] * 3, indexing="ij")).reshape(3, -1).T + at
        around = around[((around >= 0) & (around < shape)).all(axis=1)]
        centers = low + cell * (around + 0.5)
        for i in np.argsort(np.linalg.norm(centers - place, axis=1)):
            if self.is_clear(place, centers[i]):
                return int(np.ravel_multi_index(tuple(around[i]), tuple(shape)))
        raise UserError(f"the {name} {figures(place)} m NED is in a gap too narrow for cells of {cell:.2f} m")

    def _straighten(self, way: Floats) -> Floats:
        """Return the way without the points that a clear straight line can skip, from both ends in turn."""
        for _ in range(4):
            kept, k = [0], 2
            while k < len(way):
                if not self.is_clear(way[kept[-1]], way[k]):
                    kept.append(k - 1)
                k += 1
            kept.append(len(way) - 1)
            way = way[kept][::-1]
        return way


SECONDS = 5.0
"""Time that a planner is given; it uses all of it to shorten the path."""
PLANNERS = {"rrt_star": "RRTstar", "bit_star": "BITstar"}
"""Karaman and Frazzoli, IJRR 30(7), 2011; Gammell and others, IJRR 39(5), 2020."""


def plan_by_ompl(planner: PathPlanner, start: ArrayLike, goal: ArrayLike, method: str, seed: int) -> Floats:
    """Return the (k, 3) waypoints of a path from start to goal.

    How far the path is shortened depends on the machine's speed.

    Args:
        planner: obstacles, bounds and clearance.
        start: (3,) m NED.
        goal: (3,) m NED.
        method: one of PLANNERS.
        seed: above 0, of the random numbers; OMPL takes one only before its first plan in a process.

    Raises:
        UserError: as ``PathPlanner.plan``, and where OMPL is missing.
    """
    try:
        from ompl import base, geometric, util
    except ImportError as error:
        raise UserError(
            f"planning by {method} needs the package ompl, which is not installed: pip install ompl, or"
            " pip install 'sitl-bridge[planning]'; or plan by 'a_star'"
        ) from error
    begin, end, (low, high) = planner.check(start, goal)
    if planner.is_clear(begin, end):
        return np.stack([begin, end])
    util.setLogLevel(util.LOG_NONE)
    if seed > 0:
        util.RNG.setSeed(seed)
    space = base.RealVectorStateSpace(3)
    bounds = base.RealVectorBounds(3)
    for i in range(3):
        bounds.setLow(i, float(low[i]))
        bounds.setHigh(i, float(high[i]))
    space.setBounds(bounds)
    setup = geometric.SimpleSetup(space)
    information = setup.getSpaceInformation()
    limit = 2.0 * planner.needed

    def is_valid(state: Any) -> bool:
        place = np.array([[state[0], state[1], state[2]]])
        return bool(planner.obstacles.clearance(place, limit)[0] >= planner.needed - 1e-9)

    setup.setStateValidityChecker(is_valid)
    step = planner.needed / 8.0 / float(np.linalg.norm(high - low))
    information.setStateValidityCheckingResolution(step)
    setup.setStartAndGoalStates(_state(space, begin), _state(space, end))
    setup.setPlanner(getattr(geometric, PLANNERS[method])(information))
    setup.solve(SECONDS)
    if not setup.haveExactSolutionPath():
        raise UserError(
            f"{method} has found no path from {figures(begin)} to {figures(end)} m NED within {SECONDS:g} s;"
            " plan by 'a_star', or use a smaller margin or smaller bounds"
        )
    path = setup.getSolutionPath()
    return np.array([[state[i] for i in range(3)] for state in path.getStates()])


def _state(space: Any, place: Floats) -> Any:
    """Return a place as a state of OMPL."""
    state = space.allocState()
    for i in range(3):
        state[i] = float(place[i])
    return state
