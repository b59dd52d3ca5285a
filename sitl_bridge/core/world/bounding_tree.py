"""Trees of bounding boxes, built by the surface area heuristic.

A ray visits a box with a probability that is proportional to its surface, so each node is cut where the sum
of surface times items of both sides is least, over 16 bins along each axis (Wald, "On fast construction of
SAH-based bounding volume hierarchies", IEEE Symposium on Interactive Ray Tracing, 2007).
"""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.world.records import NODE

BINS = 16
LEAF = 4
"""Items in a leaf at most, unless they share one centre."""
DEEPEST = 64
"""Nodes on a traversal's stack at most; the build stops cutting at half that depth."""


@compiled
def _half_surface(low: Floats, high: Floats) -> float:
    """Half the surface of a box; 0 for an empty one."""
    x, y, z = high[0] - low[0], high[1] - low[1], high[2] - low[2]
    if x < 0.0:
        return 0.0
    return x * y + y * z + z * x


@compiled
def _enclose(low: Floats, high: Floats, item_low: Floats, item_high: Floats) -> None:
    for axis in range(3):
        low[axis] = min(low[axis], item_low[axis])
        high[axis] = max(high[axis], item_high[axis])


@compiled
def _best_cut(lows: Floats, highs: Floats, order: Ints, first: int, count: int) -> tuple[int, float, float]:
    """Axis, coordinate and cost of the best cut of some items by twice their centres; axis -1: none."""
    best_axis, best_cut, best_cost = -1, 0.0, math.inf
    counts = np.empty(BINS, np.int64)
    box_low, box_high = np.empty((BINS, 3)), np.empty((BINS, 3))
    left_cost = np.empty(BINS)
    low, high = np.empty(3), np.empty(3)
    for axis in range(3):
        least, most = math.inf, -math.inf
        for k in range(first, first + count):
            center = lows[order[k], axis] + highs[order[k], axis]
            least, most = min(least, center), max(most, center)
        if not most > least:
            continue
        counts[:], box_low[:], box_high[:] = 0, math.inf, -math.inf
        scale = BINS / (most - least)
        for k in range(first, first + count):
            item = order[k]
            b = min(int((lows[item, axis] + highs[item, axis] - least) * scale), BINS - 1)
            counts[b] += 1
            _enclose(box_low[b], box_high[b], lows[item], highs[item])
        low[:], high[:] = math.inf, -math.inf
        total = 0
        for b in range(BINS):
            _enclose(low, high, box_low[b], box_high[b])
            total += counts[b]
            left_cost[b] = total * _half_surface(low, high)
        low[:], high[:] = math.inf, -math.inf
        total = 0
        for b in range(BINS - 1, 0, -1):
            _enclose(low, high, box_low[b], box_high[b])
            total += counts[b]
            cost = left_cost[b - 1] + total * _half_surface(low, high)
            if 0 < total < count and cost < best_cost:
                best_axis, best_cut, best_cost = axis, least + b / scale, cost
    return best_axis, best_cut, best_cost


@compiled
def _partition(
    lows: Floats, highs: Floats, order: Ints, first: int, count: int, axis: int, cut: float
) -> int:
    """Put the items below the cut first; returns how many they are."""
    i, j = first, first + count - 1
    while i <= j:
        if lows[order[i], axis] + highs[order[i], axis] < cut:
            i += 1
        else:
            order[i], order[j] = order[j], order[i]
            j -= 1
    return i - first


@compiled
def _build(lows: Floats, highs: Floats, order: Ints, nodes: Records) -> int:
    """Build the tree into ``nodes``; returns how many there are."""
    nodes[0].first, nodes[0].count = 0, lows.shape[0]
    used = 1
    todo = np.empty((2 * DEEPEST, 2), np.int64)
    todo[0, 0], todo[0, 1] = 0, 0
    waiting = 1
    low, high = np.empty(3), np.empty(3)
    while waiting > 0:
        waiting -= 1
        at, depth = todo[waiting, 0], todo[waiting, 1]
        first, count = int(nodes[at].first), int(nodes[at].count)
        low[:], high[:] = math.inf, -math.inf
        for k in range(first, first + count):
            _enclose(low, high, lows[order[k]], highs[order[k]])
        for axis in range(3):
            # Rounded outwards: single precision has 24 bits.
            slack = 1e-6 * (abs(low[axis]) + abs(high[axis])) + 1e-9
            nodes[at].low[axis] = low[axis] - slack
            nodes[at].high[axis] = high[axis] + slack
        if count <= LEAF or depth >= DEEPEST // 2:
            continue
        axis, cut, _ = _best_cut(lows, highs, order, first, count)
        if axis < 0:
            continue
        left = _partition(lows, highs, order, first, count, axis, cut)
        if left == 0 or left == count:
            continue
        nodes[used].first, nodes[used].count = first, left
        nodes[used + 1].first, nodes[used + 1].count = first + left, count - left
        nodes[at].first, nodes[at].count = used, 0
        todo[waiting, 0], todo[waiting, 1] = used, depth + 1
        todo[waiting + 1, 0], todo[waiting + 1, 1] = used + 1, depth + 1
        waiting += 2
        used += 2
    return used


def build_tree(lows: Floats, highs: Floats) -> tuple[Records, Ints]:
    """Tree over n items.

    Args:
        lows: (n, 3) least corners of the items' boxes.
        highs: (n, 3) greatest corners.

    Returns:
        (k,) NODE, the root first, and (n,) the items' order; leaves count places in it.  No node for n = 0.
    """
    n = len(lows)
    order = np.arange(n)
    if n == 0:
        return np.zeros(0, NODE), order
    nodes = np.zeros(2 * n, NODE)
    used = _build(np.ascontiguousarray(lows, float), np.ascontiguousarray(highs, float), order, nodes)
    return nodes[:used].copy(), order
