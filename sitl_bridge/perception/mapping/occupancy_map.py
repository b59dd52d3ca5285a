"""An occupancy map that range sensors build: cells are free, occupied or unknown.

The grid is dense and grows with what is inserted.  Frames: m NED; cell (0, 0, 0) begins at ``corner``, a
whole multiple of the cell's size.

The model is OctoMap's: Hornung and others, "OctoMap: an efficient probabilistic 3D mapping framework based on
octrees", Autonomous Robots 34(3), 2013, eqs. 2 to 4.  As there, a scan changes a cell once, and a cell that
holds an end of a ray counts as hit even where other rays of the scan pass it.
"""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.base.arrays import Bytes, Columns, Floats, Mask, Singles
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.extras import missing_package
from sitl_bridge.base.input_file import read_arrays
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.output_file import write_arrays, write_whole

if TYPE_CHECKING:
    from pyoctomap import OcTree

HIT_PROBABILITY, MISS_PROBABILITY = 0.7, 0.4
LEAST_PROBABILITY, GREATEST_PROBABILITY = 0.12, 0.97
"""OctoMap's, section 5.2 of the paper: sensor model and clamping."""
MAX_CELLS = 200_000_000
"""5 bytes each."""
_LEAST = 1e-6
"""Least probability of an octree's cell."""
_GROWTH = 32
"""Cells by which the grid grows at least."""
UNSEEN, PASSED, HIT = 0, 1, 2
"""Marks of cells during a scan."""


def _log_odds(probability: float) -> float:
    return math.log(probability / (1.0 - probability))


class OccupancyMap:
    """Occupancy by log-odds on a grid.

    Attributes:
        cell: m, edge of a cell.
        first: (3,) index of the least cell of the grid, counted from the origin.
        corner: (3,) m NED, least corner of the grid.
        log_odds: (x, y, z) float32 along north, east, down; nan where unknown.
        time: s of simulated time of the last sample; nan where the map is not built in flight.

    Args:
        cell: m, edge of a cell.
        clamping: least and greatest probability that a cell takes; the nearer to one half, the sooner the map
            follows what moves.

    Raises:
        UserError: for a cell without a size.
    """

    def __init__(
        self, cell: float = 0.2, clamping: tuple[float, float] = (LEAST_PROBABILITY, GREATEST_PROBABILITY)
    ) -> None:
        if not 1e-3 <= cell <= 1e3:
            raise UserError(f"a map with cells of {cell:g} m: give a size from 1 mm to 1 km")
        self.cell = cell
        self.time = math.nan
        self.first = np.zeros(3, np.int64)
        self.log_odds: Singles = np.zeros((0, 0, 0), np.float32)
        self._marks: Bytes = np.zeros((0, 0, 0), np.uint8)
        self._model = np.array([_log_odds(p) for p in (HIT_PROBABILITY, MISS_PROBABILITY, *clamping)])

    @property
    def corner(self) -> Floats:
        """(3,) m NED, least corner of the grid."""
        return np.asarray(self.first * self.cell, np.float64)

    @property
    def occupied(self) -> Mask:
        """(x, y, z) cells that are occupied with a probability above one half."""
        return self.log_odds > 0.0

    @property
    def free(self) -> Mask:
        """(x, y, z) cells that were seen and are not occupied."""
        return self.log_odds <= 0.0

    @property
    def unknown(self) -> Mask:
        """(x, y, z) cells that no ray has reached."""
        return np.isnan(self.log_odds)

    def centers(self, cells: Mask) -> Floats:
        """Return the (n, 3) m NED centres of chosen cells, given as a (x, y, z) mask."""
        return np.asarray((np.argwhere(cells) + self.first + 0.5) * self.cell, np.float64)

    def insert(self, origin: ArrayLike, ends: ArrayLike, maximum: float = math.inf) -> None:
        """Insert the rays of a scan.

        Args:
            origin: (3,) m NED of the sensor, or (n, 3) of each ray.
            ends: (n, 3) m NED where the rays end; rows with nan are left out.
            maximum: m; a longer ray ends there and does not hit.

        Raises:
            UserError: for arrays that do not fit, and when the map would become too large.
        """
        starts = np.atleast_2d(np.asarray(origin, float))
        targets = np.asarray(ends, float)
        if targets.size and targets.shape[-1] != 3:
            raise UserError(f"insert: ends of shape {targets.shape}; give m north, east, down of each")
        targets = targets.reshape(-1, 3)
        if starts.shape not in ((1, 3), targets.shape) or not np.isfinite(starts).all():
            raise UserError(
                f"insert: origins of shape {starts.shape} for {len(targets)} rays; give 3 finite figures each"
            )
        good = ~np.isnan(targets).any(axis=1)
        targets = targets[good]
        if len(starts) > 1:
            starts = starts[good]
        ray = targets - starts
        distance = np.linalg.norm(ray, axis=1)
        hits = distance <= maximum
        if not np.isfinite(distance[hits]).all():
            raise UserError("insert: a ray without an end; give its maximum range")
        if not hits.all():
            far = ~hits
            begin = starts if len(starts) == 1 else starts[far]
            with np.errstate(invalid="ignore"):
                targets[far] = begin + ray[far] * (maximum / distance[far])[:, None]
        if not len(targets) or not np.isfinite(targets).all():
            if len(targets):
                raise UserError(
                    "insert: a ray of infinite length has no direction; cut it at the maximum range"
                )
            return
        self._cover(np.vstack([starts, targets]))
        cells = targets / self.cell - self.first
        insert_scan(self.log_odds, self._marks, starts / self.cell - self.first, cells, hits, self._model)

    def insert_ranges(
        self,
        origin: ArrayLike,
        directions: ArrayLike,
        ranges: ArrayLike,
        maximum: float,
    ) -> None:
        """Insert a scan or cloud by ranges.

        Args:
            origin: (3,) m NED of the sensor, or (n, 3) of each ray.
            directions: (n, 3) unit vectors NED.
            ranges: (n,) m; inf where nothing is within ``maximum``, nan where the sensor has no reading.
            maximum: m, the sensor's range.

        Raises:
            UserError: as ``insert``.
        """
        starts = np.atleast_2d(np.asarray(origin, float))
        length = np.asarray(ranges, float).reshape(-1)
        # A little beyond the range, so that it is cut there and counts as no hit.
        length = np.where(np.isposinf(length), 1.001 * maximum, length)
        way = np.asarray(directions, float).reshape(-1, 3)
        if way.shape != (len(length), 3):
            raise UserError(f"insert_ranges: {len(length)} ranges and directions of shape {way.shape}")
        self.insert(origin, starts + way * length[:, None], maximum)

    def _cover(self, points: Floats) -> None:
        """Grow the grid until it holds all points (n, 3)."""
        with np.errstate(invalid="ignore", over="ignore"):
            low, high = np.floor(points.min(axis=0) / self.cell), np.floor(points.max(axis=0) / self.cell) + 1
        if self.log_odds.size:
            before = self.first, self.first + self.log_odds.shape
            if (low >= before[0]).all() and (high <= before[1]).all():
                return
            low, high = np.minimum(low, before[0]), np.maximum(high, before[1])
        low, high = np.floor(low / _GROWTH) * _GROWTH, np.ceil(high / _GROWTH) * _GROWTH
        shape = high - low
        if np.prod(shape) > MAX_CELLS:
            extent = " x ".join(f"{side * self.cell:.0f}" for side in shape)
            raise UserError(
                f"the map would span {extent} m, more than {MAX_CELLS:,} cells of {self.cell:g} m; use"
                " larger cells or a shorter range"
            )
        grown = np.full(shape.astype(np.int64), np.nan, np.float32)
        first = low.astype(np.int64)
        if self.log_odds.size:
            at = self.first - first
            inner = tuple(slice(a, a + n) for a, n in zip(at, self.log_odds.shape, strict=True))
            grown[inner] = self.log_odds
        self.log_odds, self.first = grown, first
        self._marks = np.zeros(grown.shape, np.uint8)

    def copy(self) -> OccupancyMap:
        """Return a map with the same cells, which later scans into this one do not change."""
        made = OccupancyMap(self.cell)
        made.time, made._model = self.time, self._model
        made.log_odds, made.first = self.log_odds.copy(), self.first.copy()
        made._marks = np.zeros(made.log_odds.shape, np.uint8)
        return made

    # ------------------------------------------------------------------ files

    def save(self, path: str | Path) -> Path:
        """Write the map: ``.npz`` with everything, or ``.ot`` or ``.bt`` of OctoMap (x east, y north, z up).

        ``.ot`` has the log-odds, ``.bt`` whether a cell is free or occupied.

        Raises:
            UserError: for another suffix, an empty map, one too large for an octree, without the package
                pyoctomap for an octree, or for a full disk.
        """
        file = Path(path)
        if not self.log_odds.size:
            raise UserError(f"{file}: the map is empty; insert a scan before it is saved")
        if file.suffix == ".npz":
            return write_arrays(file, self._arrays(np.float32))
        if file.suffix not in {".bt", ".ot"}:
            raise UserError(f"{file}: a map is saved as .npz, .bt or .ot")
        tree = self._octree(file)
        return write_whole(file, tree.writeBinary() if file.suffix == ".bt" else tree.write())

    def _octree(self, file: Path) -> OcTree:
        """The known cells as pyoctomap's OcTree, x east, y north, z up."""
        try:
            from pyoctomap import OcTree
        except ImportError as error:
            raise missing_package("pyoctomap", "octree maps", "planning") from error
        known = np.argwhere(~self.unknown)
        values = self.log_odds[tuple(known.T)]
        north, east, down = (known + self.first + 0.5).T * self.cell
        places = np.stack([east, north, -down], axis=1)
        tree = OcTree(self.cell)
        reach = 2 ** (tree.getTreeDepth() - 1) * self.cell
        if np.abs(places).max(initial=0.0) > reach:
            raise UserError(
                f"{file}: an octree with cells of {self.cell:g} m reaches {reach:g} m from the origin"
            )
        # A tree limits what it is given; the map has done so by limits of its own.
        tree.setClampingThresMin(_LEAST)
        tree.setClampingThresMax(1.0 - _LEAST)
        for value in np.unique(values):
            tree.updateNodes(places[values == value], float(value), lazy_eval=True)
        tree.updateInnerOccupancy()
        return tree

    def publish(self, path: Path) -> None:
        """Write the map fast, for a program that reads it in flight by ``load``; log-odds to 0.2 percent.

        Raises:
            UserError: when it cannot be written.
        """
        table = io.BytesIO()
        np.savez(table, allow_pickle=False, **self._arrays(np.float16))
        write_whole(path, table.getvalue())

    def _arrays(self, dtype: type[np.floating[Any]]) -> Columns:
        return {
            "log_odds": self.log_odds.astype(dtype),
            "first": self.first,
            "cell": np.array(self.cell),
            "time": np.array(self.time),
        }

    @classmethod
    def load(cls, path: str | Path) -> OccupancyMap:
        """Read a map from its ``.npz`` file.

        Raises:
            UserError: for a file that is no map.
        """
        try:
            file = read_arrays(Path(path), 4 * MAX_CELLS + 10_000)
            made = cls(float(file["cell"]))
            made.log_odds = np.asarray(file["log_odds"], np.float32)
            made.first = np.asarray(file["first"], np.int64).reshape(3)
            made.time = float(file["time"]) if "time" in file else math.nan
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: is no map that was saved here: {error}") from error
        if made.log_odds.ndim != 3:
            raise UserError(f"{path}: is no map that was saved here: its cells have no three axes")
        made._marks = np.zeros(made.log_odds.shape, np.uint8)
        return made


@compiled
def _update(log_odds: Singles, marks: Bytes, i: int, j: int, k: int, model: Floats) -> None:
    """Apply the mark of a cell to its log-odds, and clear it."""
    mark = marks[i, j, k]
    if mark == UNSEEN:
        return
    marks[i, j, k] = UNSEEN
    before = log_odds[i, j, k]
    if math.isnan(before):
        before = 0.0
    change = model[0] if mark == HIT else model[1]
    log_odds[i, j, k] = min(max(before + change, model[2]), model[3])


@compiled
def _walk(log_odds: Singles, marks: Bytes, origin: Floats, end: Floats, model: Floats, apply: bool) -> None:
    """Mark the cells from a ray's origin to before its end as passed, or apply the marks of all its cells.

    The cells are those of Amanatides and Woo, "A fast voxel traversal algorithm for ray tracing",
    Eurographics 1987.

    Args:
        log_odds: (x, y, z) grid.
        marks: (x, y, z) uint8.
        origin: (3,) in cells from the grid's corner, inside the grid.
        end: likewise.
        model: (4,) log-odds of a hit, of a pass, least, greatest.
        apply: whether to apply marks.
    """
    x, y, z = math.floor(origin[0]), math.floor(origin[1]), math.floor(origin[2])
    ex, ey, ez = math.floor(end[0]), math.floor(end[1]), math.floor(end[2])
    dx, dy, dz = end[0] - origin[0], end[1] - origin[1], end[2] - origin[2]
    sx, sy, sz = (1 if dx > 0.0 else -1), (1 if dy > 0.0 else -1), (1 if dz > 0.0 else -1)
    # Share of the ray between walls of cells, and up to the next wall.
    px = 1.0 / abs(dx) if dx != 0.0 else math.inf
    py = 1.0 / abs(dy) if dy != 0.0 else math.inf
    pz = 1.0 / abs(dz) if dz != 0.0 else math.inf
    tx = ((x + 1 - origin[0]) if sx > 0 else (origin[0] - x)) * px if dx != 0.0 else math.inf
    ty = ((y + 1 - origin[1]) if sy > 0 else (origin[1] - y)) * py if dy != 0.0 else math.inf
    tz = ((z + 1 - origin[2]) if sz > 0 else (origin[2] - z)) * pz if dz != 0.0 else math.inf
    for _ in range(abs(ex - x) + abs(ey - y) + abs(ez - z)):
        if apply:
            _update(log_odds, marks, x, y, z, model)
        elif marks[x, y, z] == UNSEEN:
            marks[x, y, z] = PASSED
        if tx <= ty and tx <= tz:
            x, tx = x + sx, tx + px
        elif ty <= tz:
            y, ty = y + sy, ty + py
        else:
            z, tz = z + sz, tz + pz
        # Rounding at a corner of cells may lead past the end.
        if not (0 <= x < marks.shape[0] and 0 <= y < marks.shape[1] and 0 <= z < marks.shape[2]):
            return


@compiled
def insert_scan(
    log_odds: Singles, marks: Bytes, origins: Floats, ends: Floats, hits: Mask, model: Floats
) -> None:
    """Insert the rays of a scan.

    Args:
        log_odds: (x, y, z) float32, nan where unknown; changed.
        marks: (x, y, z) uint8, all UNSEEN before and after.
        origins: (n, 3) or (1, 3) in cells from the grid's corner; origins and ends are inside the grid.
        ends: (n, 3) likewise.
        hits: (n,) whether the ray ends at a surface; else its end is the limit of the range.
        model: (4,) log-odds of a hit, of a pass, least, greatest.
    """
    one = origins.shape[0] == 1
    for n in range(ends.shape[0]):
        if hits[n]:
            i, j, k = math.floor(ends[n, 0]), math.floor(ends[n, 1]), math.floor(ends[n, 2])
            marks[i, j, k] = HIT
    for apply in (False, True):
        for n in range(ends.shape[0]):
            _walk(log_odds, marks, origins[0 if one else n], ends[n], model, apply)
    for n in range(ends.shape[0]):
        if hits[n]:
            i, j, k = math.floor(ends[n, 0]), math.floor(ends[n, 1]), math.floor(ends[n, 2])
            _update(log_odds, marks, i, j, k, model)
