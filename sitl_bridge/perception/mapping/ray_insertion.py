"""Compiled insertion of rays into a grid of log-odds.

The model is OctoMap's: Hornung and others, "OctoMap: an efficient probabilistic 3D mapping framework based on
octrees", Autonomous Robots 34(3), 2013, eqs. 2 to 4.  As there, a scan changes a cell once, and a cell that
holds an end of a ray counts as hit even where other rays of the scan pass it.
"""

from __future__ import annotations

import math

from sitl_bridge.base.arrays import Bytes, Floats, Mask, Singles
from sitl_bridge.base.kernels.compiled import compiled

UNSEEN, PASSED, HIT = 0, 1, 2
"""Marks of cells during a scan."""


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
