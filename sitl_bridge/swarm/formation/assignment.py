"""Slot assignment with the least total squared distance, and the separation of the paths.

With squared distances and synchronous straight paths, no two vehicles of an optimal assignment meet (Turpin,
Michael and Kumar, "CAPT: Concurrent assignment and planning of trajectories for multiple robots", Int. J.
Robotics Research 33(1), 2014): for any two of them (s_i - s_j).(g_i - g_j) >= 0, or swapping the two goals
would be shorter; so their distance never falls below 1/sqrt(2) of the smallest at starts and goals.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from sitl_bridge.base.arrays import Floats, Ints

WIDEN_UP_TO = 100
"""Largest fleet, in vehicles, for the search, which takes WIDEN_TRIES assignments of a millisecond each."""

WIDEN_TRIES = 60


def assign(
    positions: Floats,
    slots: Floats,
    *,
    fixed: dict[int, int] | None = None,
    clearance: float = 0.0,
    penalty: Floats | None = None,
) -> Ints:
    """Return the slot of each vehicle, by the Hungarian method (Kuhn-Munkres, scipy's linear_sum_assignment).

    Args:
        positions: (n, 3) m of the vehicles.
        slots: (m, 3) m in the same frame, m >= n.
        fixed: fixed slots, by vehicle.
        clearance: m; paths closer than this to a vehicle with a fixed slot are used only without an
            alternative.
        penalty: (n, m) m^2 added to the squared distances.

    Returns:
        (n,) indices of slots.  Without fixed slots the paths keep their distance (see the module);
        otherwise check with ``closest_approach``.

    Raises:
        ValueError: for fewer slots than vehicles.
    """
    if len(slots) < len(positions):
        raise ValueError(f"{len(slots)} slots are too few for {len(positions)} vehicles")
    fixed = fixed or {}
    cost = np.asarray(scipy.spatial.distance.cdist(positions, slots, "sqeuclidean"))
    detour = len(positions) * (float(cost.max()) + 1.0)
    blocked = np.zeros(cost.shape, dtype=np.bool_)
    for vehicle, slot in fixed.items():
        blocked |= _squared_clearances(positions - positions[vehicle], slots - slots[slot]) < clearance**2
    cost[blocked] += detour
    if penalty is not None:
        cost += penalty
    vehicles = np.array([i for i in range(len(positions)) if i not in fixed], dtype=np.int64)
    free = np.setdiff1d(np.arange(len(slots)), np.array(sorted(fixed.values()), dtype=np.int64))
    result = np.full(len(positions), -1, dtype=np.int64)
    for vehicle, slot in fixed.items():
        result[vehicle] = slot
    rows, columns = scipy.optimize.linear_sum_assignment(cost[np.ix_(vehicles, free)])
    result[vehicles[rows]] = free[columns]
    return result


def assign_wide(
    positions: Floats, slots: Floats, *, fixed: dict[int, int] | None = None, clearance: float = 0.0
) -> Ints:
    """As ``assign``, with the largest separation among assignments of equal or nearly equal cost.

    In regular patterns many assignments have the same least cost but different separations.  The cost of the
    closest pair's paths is increased step by step, with a new assignment each time, and the assignment with
    the largest separation is returned.  Fleets above WIDEN_UP_TO keep the first.
    """
    choice = assign(positions, slots, fixed=fixed, clearance=clearance)
    if len(positions) > WIDEN_UP_TO:
        return choice
    penalty = np.zeros((len(positions), len(slots)))
    toll = 1e-3 * float(((slots[choice] - positions) ** 2).sum(axis=1).mean() + 1e-9)
    best, widest = choice, -1.0
    for _ in range(WIDEN_TRIES):
        distance, part, i, j = closest_approach(positions, slots[choice])
        if distance > widest + 1e-9:
            best, widest = choice, distance
        if part in (0.0, 1.0):
            break  # the smallest distance is at an end of the paths
        penalty[[i, j], choice[[i, j]]] += toll
        choice = assign(positions, slots, fixed=fixed, clearance=clearance, penalty=penalty)
    return best


def _squared_clearances(begin: Floats, end: Floats) -> Floats:
    """Return the squared smallest distances (n, m) to the origin on paths from ``begin`` to ``end``.

    Infinite if an end is the nearest point, because no other path can improve that.

    Args:
        begin, end: (n, 3), (m, 3) m relative to the vehicle to pass.
    """
    square = (begin**2).sum(axis=1)[:, None]
    along = begin @ end.T - square
    length = square + (end**2).sum(axis=1)[None, :] - 2.0 * (along + square)
    inside = (along < 0.0) & (-along < length)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(inside, square - along**2 / length, np.inf)


def closest_approach(begin: Floats, end: Floats) -> tuple[float, float, int, int]:
    """Return how close n vehicles come on synchronous straight paths.

    Args:
        begin, end: (n, 3) m.

    Returns:
        smallest distance in m; its part of the path, 0 to 1; the pair.  Infinite for one vehicle.
    """
    if len(begin) < 2:
        return math.inf, 0.0, 0, 0
    i, j = _candidate_pairs(begin, end)
    apart, change = begin[i] - begin[j], (end[i] - end[j]) - (begin[i] - begin[j])
    part, square = nearest_part(apart, change)
    worst = int(np.argmin(square))
    return math.sqrt(float(square[worst])), float(part[worst]), int(i[worst]), int(j[worst])


def nearest_part(apart: Floats, change: Floats) -> tuple[Floats, Floats]:
    """Return the part (0 to 1) at which ``apart + part * change`` is shortest, and its squared length."""
    length = (change**2).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(length > 0.0, -(apart * change).sum(axis=-1) / length, 0.0)
    part = np.clip(part, 0.0, 1.0)
    return part, ((apart + part[..., None] * change) ** 2).sum(axis=-1)


def _candidate_pairs(begin: Floats, end: Floats) -> tuple[Ints, Ints]:
    """Return pairs that may be the closest: all of some hundred vehicles, else those with near midpoints.

    A vehicle stays within half its path length of the path's midpoint, so pairs with midpoints further apart
    than the known smallest distance plus both halves cannot be closer.
    """
    count = len(begin)
    if count <= 300:
        i, j = np.triu_indices(count, 1)
        return i.astype(np.int64), j.astype(np.int64)
    middle = 0.5 * (begin + end)
    reach = np.linalg.norm(end - begin, axis=1)
    known = min(
        np.asarray(scipy.spatial.KDTree(p).query(p, k=2)[0])[:, 1].min() for p in (begin, end, middle)
    )
    pairs = scipy.spatial.KDTree(middle).query_pairs(known + float(reach.max()) + 1e-9, output_type="ndarray")
    return pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64)
