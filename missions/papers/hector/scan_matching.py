"""Planar SLAM by a laser scanner: each scan is matched to the map of those before, without odometry.

S. Kohlbrecher, J. Meyer, O. von Stryk, U. Klingauf, "A flexible and scalable SLAM system with full 3D motion
estimation", SSRR 2011, section IV, which hector_quadrotor's paper deploys as its reference 14; figures of
hector_mapping.  Maps are of three resolutions; the coarse ones keep the match from getting stuck.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CELLS = (0.2, 0.1, 0.05)
"""m, edges of the maps' cells, in the order in which they are matched."""
ITERATIONS = (4, 4, 6)
FREE, OCCUPIED, MOST = math.log(0.4 / 0.6), math.log(0.9 / 0.1), 50.0
"""Log odds that a beam adds to cells that it crosses and to that in which it ends, and their bound."""
MOVED, TURNED = 0.4, 0.9
"""m and rad since the last scan that went into the map, beyond which the next one does."""
LARGEST_TURN = 0.2
"""rad of a step of the match."""


class OccupancyGrid:
    """Log odds of a square map about the start.

    Args:
        cell: m.
        reach: m from the start to its edges.

    Attributes:
        odds: (n, n) log odds.
        occupied: (n, n) probability.
    """

    def __init__(self, cell: float, reach: float) -> None:
        self.cell, self.middle = cell, round(reach / cell)
        self.odds = np.zeros((2 * self.middle, 2 * self.middle))
        self.occupied = np.full(self.odds.shape, 0.5)

    def at(self, points: Array) -> tuple[Array, Array]:
        """Occupancy (k,) at points (k, 2) m, interpolated, and its slope (k, 2) in 1/m (eqs 4 to 6)."""
        place = points / self.cell + self.middle - 0.5
        low = np.clip(np.floor(place).astype(int), 0, len(self.odds) - 2)
        x, y = np.clip(place - low, 0.0, 1.0).T
        i, j = low.T
        m00, m10, m01, m11 = (self.occupied[i + a, j + b] for a, b in ((0, 0), (1, 0), (0, 1), (1, 1)))
        value = (1 - y) * ((1 - x) * m00 + x * m10) + y * ((1 - x) * m01 + x * m11)
        slope = np.stack(
            [(1 - y) * (m10 - m00) + y * (m11 - m01), (1 - x) * (m01 - m00) + x * (m11 - m10)], 1
        )
        return value, slope / self.cell

    def add(self, origin: Array, ends: Array) -> None:
        """Put a scan in: beams from (2,) to (k, 2) m; each cell counts once."""
        way = ends - origin
        steps = int(np.linalg.norm(way, axis=1).max() / (0.7 * self.cell)) + 1
        crossed = origin + np.linspace(0.0, 1.0, steps)[:, None, None] * way
        free, hit = np.zeros(self.odds.shape, bool), np.zeros(self.odds.shape, bool)
        for marks, points in ((free, crossed.reshape(-1, 2)), (hit, ends)):
            i, j = np.clip((points / self.cell + self.middle).astype(int), 0, len(self.odds) - 1).T
            marks[i, j] = True
        self.odds[free & ~hit] += FREE
        self.odds[hit] += OCCUPIED
        np.clip(self.odds, -MOST, MOST, out=self.odds)
        self.occupied = 1.0 / (1.0 + np.exp(-self.odds))


class ScanMatcher:
    """Pose from scans.

    Args:
        reach: m from the start that the maps cover.

    Attributes:
        pose: (3,) m along and across the axes at the start, and rad.
        maps: coarse to fine.
    """

    def __init__(self, reach: float) -> None:
        self.maps = [OccupancyGrid(cell, reach) for cell in CELLS]
        self.pose = np.zeros(3)
        self._added: Array | None = None

    def update(self, points: Array) -> Array:
        """The pose at which (k, 2) m, a scan in level axes along the heading, fits the map; (3,)."""
        if self._added is not None:
            for level, iterations in zip(self.maps, ITERATIONS, strict=True):
                for _ in range(iterations):
                    self.pose = self.pose + self._step(level, points)
        moved = np.inf if self._added is None else np.linalg.norm((self.pose - self._added)[:2])
        turned = 0.0 if self._added is None else abs(math.remainder(self.pose[2] - self._added[2], math.tau))
        if moved > MOVED or turned > TURNED:
            ends = self._placed(points)
            for level in self.maps:
                level.add(self.pose[:2], ends)
            self._added = self.pose
        return self.pose

    def _placed(self, points: Array) -> Array:
        c, s = math.cos(self.pose[2]), math.sin(self.pose[2])
        return points @ np.array([[c, s], [-s, c]]) + self.pose[:2]

    def _step(self, level: OccupancyGrid, points: Array) -> Array:
        """A Gauss-Newton step towards occupancy 1 at all ends of beams (eqs 7 to 13)."""
        placed = self._placed(points)
        value, slope = level.at(placed)
        arm = placed - self.pose[:2]
        rows = np.column_stack([slope, slope[:, 1] * arm[:, 0] - slope[:, 0] * arm[:, 1]])
        hessian = rows.T @ rows
        if np.linalg.cond(hessian) > 1e12:
            return np.zeros(3)
        step = np.linalg.solve(hessian, rows.T @ (1.0 - value))
        step[2] = np.clip(step[2], -LARGEST_TURN, LARGEST_TURN)
        return np.asarray(step)
