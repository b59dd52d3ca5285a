"""Compiled A* on a grid of clearances."""

from __future__ import annotations

import heapq
import math
from typing import Any

from sitl_bridge.base.kernels.compiled import compiled


@compiled
def search_grid(
    clearance: Any, first: int, last: int, needed: float, cell: float, cost: Any, came: Any
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
