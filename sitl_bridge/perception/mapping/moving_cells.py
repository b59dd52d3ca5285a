"""What moves in an occupancy map: groups of cells that were free, become occupied, and advance.

A cell counts where it was surely free for a while and has no static cell beside it.  Cells beside walls,
which scans show free and occupied in turn, do not.  A group of such cells moves where its front advances
steadily: the times at which the cells became occupied rise linearly along its way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_dilation, label

from sitl_bridge.base.arrays import Floats, Ints, Singles
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap

BESIDE = np.ones((3, 3, 3), np.bool_)
"""A cell and its 26 neighbours."""
KEPT = 2.0
"""s for which a cell is part of a front."""
LEAST = 8
"""Cells of a front; fewer are noise."""
SURELY_FREE = -0.3
"""Log-odds of a cell that a scan has passed and none has hit."""
FREE_TIME = 0.7
"""s for which a cell was free before; a cell between wall and air is not, for scan after scan."""
STATIC_TIME = 3.0
"""s after which an occupied cell counts as static, and no cell beside it as moving."""
SLOWEST = 0.2
"""m/s; a front that is slower is an obstacle of the map like any other."""
STEADY = 0.6
"""Share of the variance of the times at which a front reached its cells that a steady advance explains."""
FASTEST = 1.5
"""Times the largest speed of obstacles; a front that seems faster is noise."""
REVERSAL = 2.0
"""s in which what moves may go any way."""
UNCERTAIN = 0.25
"""Share of its way by which the place of what moves is uncertain."""
MOST_CELLS = 200
"""Of a front that are followed; of more, every second, third, ..."""


@dataclass(frozen=True)
class Front:
    """The leading side of something that moves."""

    cells: Floats  # (n, 3) m NED, centres of the cells that it has reached, moved to where it is now
    velocity: Floats  # (3,) m/s


class MovingCells:
    """Finds moving obstacles from one map to the next.

    Args:
        speed: m/s, their largest.

    Attributes:
        fronts: found by the last update.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self.fronts: list[Front] = []
        self._half = 0.0
        self._first: Ints = np.zeros(3, np.int64)
        self._free: Singles = np.zeros((0, 0, 0), np.float32)
        """Time in s since when a cell is surely free; nan where it is not."""
        self._held: Singles = np.zeros((0, 0, 0), np.float32)
        """Time in s since when a cell is occupied, -inf where it was unknown before; nan where it is not."""
        self._reached: Singles = np.zeros((0, 0, 0), np.float32)
        """Time in s at which a free cell became occupied by what may move; -inf where none did."""

    def update(self, time: float, seen: OccupancyMap) -> None:
        """Compare a map at a time in s with those before."""
        self._half = 0.5 * np.sqrt(3.0) * seen.cell
        self._align(seen)
        occupied, free = seen.occupied, seen.log_odds < SURELY_FREE
        new = occupied & np.isnan(self._held)
        was_free = time - self._free >= FREE_TIME  # false where nan
        known = ~np.isnan(self._free)
        self._held[new] = np.where(known[new], np.float32(time), np.float32(-np.inf))
        self._held[~occupied] = np.nan
        self._free[~free] = np.nan
        self._free[free & np.isnan(self._free)] = time
        static = time - self._held >= STATIC_TIME
        moved = new & was_free
        if moved.any():
            moved &= ~binary_dilation(static, BESIDE)
            self._reached[moved] = time
        self.fronts = self._found(time, seen)

    def clearances(self, places: Floats, ahead: Floats) -> Floats:
        """Return least clearances (n,) in m of places (n, 3) when times (n,) in s have passed.

        What moves may have stopped anywhere on its way by then, or have turned for ``REVERSAL`` seconds.
        """
        least = np.full(len(places), np.inf)
        turned = self._speed * np.minimum(ahead, REVERSAL)
        for front in self.fronts:
            speed = float(np.linalg.norm(front.velocity))
            offset = places[:, None] - front.cells
            way = front.velocity * ahead[:, None]
            along = np.einsum("pcj,pj->pc", offset, way) / np.maximum(np.sum(way**2, axis=1), 1e-12)[:, None]
            nearest = np.clip(along, 0.0, 1.0)[..., None] * way[:, None]
            swept = np.linalg.norm(offset - nearest, axis=2).min(axis=1) - UNCERTAIN * speed * ahead
            near = np.linalg.norm(offset, axis=2).min(axis=1) - turned
            least = np.minimum(least, np.minimum(swept, near))
        return np.asarray(least - self._half)

    def swept(self, seen: OccupancyMap, ahead: float) -> OccupancyMap:
        """Return a map in which cells that what moves may reach within a time in s are occupied."""
        changed = seen.copy()
        if not self.fronts:
            return changed
        reach = self._speed * ahead + self._half
        low = np.min([front.cells.min(axis=0) for front in self.fronts], axis=0) - reach
        high = np.max([front.cells.max(axis=0) for front in self.fronts], axis=0) + reach
        shape = np.array(changed.log_odds.shape)
        first, last = (
            np.clip((corner - seen.corner) / seen.cell, 0, shape).astype(int) for corner in (low, high)
        )
        part = changed.log_odds[tuple(slice(a, b) for a, b in zip(first, last, strict=True))]
        cells = (np.argwhere(np.ones(part.shape, np.bool_)) + first + 0.5) * seen.cell + seen.corner
        reached = self.clearances(cells, np.full(len(cells), ahead)) < 0.0
        part[reached.reshape(part.shape)] = 1.0
        return changed

    def _align(self, seen: OccupancyMap) -> None:
        """Give the grids the shape of a map, which only grows."""
        first, shape = np.rint(seen.corner / seen.cell).astype(np.int64), seen.log_odds.shape
        if shape == self._free.shape and (first == self._first).all():
            return
        start = self._first - first
        part = tuple(slice(int(a), int(a) + n) for a, n in zip(start, self._free.shape, strict=True))
        for name, fill in (("_free", np.nan), ("_held", np.nan), ("_reached", -np.inf)):
            grown = np.full(shape, fill, np.float32)
            grown[part] = getattr(self, name)
            setattr(self, name, grown)
        self._first = first

    def _found(self, time: float, seen: OccupancyMap) -> list[Front]:
        recent = self._reached >= time - KEPT
        if np.count_nonzero(recent) < LEAST:
            return []
        cells = np.argwhere(recent)
        low, high = cells.min(axis=0), cells.max(axis=0) + 1
        box = tuple(slice(int(max(a - 1, 0)), int(b + 1)) for a, b in zip(low, high, strict=True))
        # Rings of a lidar leave gaps of a cell.
        groups, _ = label(binary_dilation(recent[box], BESIDE), BESIDE)
        numbers = groups[tuple((cells - [s.start for s in box]).T)]
        places = (cells + self._first + 0.5) * seen.cell
        times = self._reached[tuple(cells.T)].astype(float)
        fronts = [
            self._front(time, places[numbers == n], times[numbers == n], seen.cell)
            for n in np.unique(numbers)
        ]
        return [front for front in fronts if front is not None]

    def _front(self, time: float, places: Floats, times: Floats, cell: float) -> Front | None:
        """Return the front of cells (n, 3) m that were reached at times (n,) s; None for noise."""
        if len(places) < LEAST or np.ptp(times) < 1e-6:
            return None
        spread, offset = times - times.mean(), places - places.mean(axis=0)
        # A cell's size as the least extent: the cells of a front may lie in one layer.
        covariance = offset.T @ offset + np.eye(3) * len(places) * cell**2 / 12.0
        slowness = np.linalg.solve(covariance, offset.T @ spread)
        explained = 1.0 - np.sum((spread - offset @ slowness) ** 2) / (spread @ spread)
        speed = 1.0 / max(float(np.linalg.norm(slowness)), 1e-9)
        if explained < STEADY or not SLOWEST <= speed <= FASTEST * self._speed:
            return None
        velocity = slowness * speed**2
        now = places + velocity * (time - times)[:, None]
        return Front(now[:: -(-len(now) // MOST_CELLS)], velocity)
