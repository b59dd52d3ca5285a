"""What moves in an occupancy map: cells that were free and are occupied now."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import label
from scipy.spatial import cKDTree

from sitl_bridge.mapping.occupancy_map import OccupancyMap

Floats = NDArray[np.float64]

KEPT = 1.5
"""s for which a cell counts as moving."""
LEAST = 6
"""Connected cells that make a moving object; fewer are noise at the edges of static ones."""
SURELY_FREE = -0.3
"""Log-odds of a cell that a scan has passed and none has hit."""


class MovingCells:
    """Finds moving obstacles from one map to the next.

    Args:
        speed: m/s, their largest.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._before: OccupancyMap | None = None
        self._found: deque[tuple[float, Floats]] = deque()
        self._half = 0.0
        self._tree: cKDTree | None = None

    def update(self, time: float, seen: OccupancyMap) -> None:
        """Compare a map at a time in s with the last one."""
        if self._before is not None:
            centers = _newly_occupied(self._before, seen)
            if len(centers):
                self._found.append((time, centers))
        while self._found and self._found[0][0] < time - KEPT:
            self._found.popleft()
        self._before = seen.copy()
        self._half = 0.5 * np.sqrt(3.0) * seen.cell
        cells = [centers for _, centers in self._found]
        self._tree = cKDTree(np.concatenate(cells)) if cells else None

    def clearances(self, places: Floats, ahead: Floats) -> Floats:
        """Return least clearances (n,) in m of places (n, 3) when times (n,) in s have passed."""
        if self._tree is None:
            return np.full(len(places), np.inf)
        distance, _ = self._tree.query(places)
        return np.asarray(distance - self._half - self._speed * ahead)


def _newly_occupied(before: OccupancyMap, now: OccupancyMap) -> Floats:
    """Return the centres (k, 3) of cells that were free before and are occupied now, in groups."""
    start = np.rint((before.corner - now.corner) / now.cell).astype(np.int64)
    stop = start + before.log_odds.shape
    # A map only grows, so the earlier one lies within the later.
    part = tuple(slice(int(a), int(b)) for a, b in zip(start, stop, strict=True))
    changed = (now.log_odds[part] > 0.0) & (before.log_odds < SURELY_FREE)
    groups, count = label(changed, np.ones((3, 3, 3)))
    if not count:
        return np.zeros((0, 3))
    large = np.bincount(groups.ravel()) >= LEAST
    large[0] = False
    return (np.argwhere(large[groups]) + start + 0.5) * now.cell + now.corner
