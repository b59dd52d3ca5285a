"""The patterns of formations: slot offsets from the formation's centre.

Offsets are (n, 3) in m in the formation's frame: forward, right, down.  Slot 0 is the leader's, at the centre
unless the offsets of a pattern are given.  ``assignment.py`` assigns vehicles to slots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import scipy

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError

XTDRONE_SPACING = 4.0
"""m between neighbouring corners of XTDrone's cube of nine, and of its pyramid's upper layer."""


def _forward_right_down(points: Sequence[tuple[float, float, float]]) -> Floats:
    """Return XTDrone's followers, and the leader before them, in this project's frame.

    XTDrone adds its offsets to ENU positions; its vehicles start with zero yaw, nose to the east, so its axes
    are forward, left, up.  A formation heading east has exactly XTDrone's positions.
    """
    followers = np.array(points, dtype=np.float64) * (1.0, -1.0, -1.0)
    return np.concatenate([np.zeros((1, 3)), followers]) + 0.0


_HALF = math.sqrt(2.0)

XTDRONE: dict[tuple[str, int], Floats] = {
    ("t", 6): _forward_right_down([(4, 0, 0), (2, 0, 0), (2, 0, -2), (2, 0, -4), (2, 0, -6)]),
    ("diamond", 6): _forward_right_down([(2, 2, -2), (2, -2, -2), (-2, -2, -2), (-2, 2, -2), (0, 0, -4)]),
    ("triangle", 6): _forward_right_down(
        [(-3, 0, -3), (3, 0, -3), (-1.5, 0, -1.5), (1.5, 0, -1.5), (0, 0, -3)]
    ),
    ("cube", 9): _forward_right_down(
        [(2, 2, 2), (-2, 2, 2), (-2, -2, 2), (2, -2, 2), (2, 2, -2), (-2, 2, -2), (-2, -2, -2), (2, -2, -2)]
    ),
    ("pyramid", 9): _forward_right_down(
        [(a * i, a * j, -a) for a in (2, 4) for i, j in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
    ),
    ("triangle", 9): _forward_right_down(
        [(0, 4, -4), (0, 0, -2), (0, 0, -4), (0, -2, -2), (0, 2, -4), (0, 2, -2), (0, -4, -4), (0, -2, -4)]
    ),
    # Eighteen surround a centre 4 m (cuboid: 0 m) ahead of the leader, which has one of the outer slots.
    ("cuboid", 18): _forward_right_down(
        [(4.0 * i, 4.0 * j, 4.0 * k) for k, i, j in product((0, 1, 2), (0, 1, 2), (0, 1)) if i or j or k]
    ),
    ("sphere", 18): _forward_right_down(
        [(6.0 - 6.0 * math.cos(a), -6.0 * math.sin(a), 0) for a in np.arange(1, 8) * math.pi / 4.0]
        + [(6.0 + 3.0 * i, 3.0 * j, 3.0 * _HALF * k) for i, j, k in product((-1, 1), repeat=3)]
        + [(6.0, 0.0, 6.0), (6.0, 0.0, -6.0)]
    ),
    ("diamond", 18): _forward_right_down(
        [(4.0 * i, 4.0 * j, 0) for i, j in product(range(3), repeat=2) if (i or j) and (i, j) != (1, 1)]
        + [(2.0 + 4.0 * i, 2.0 + 4.0 * j, k) for i, j, k in product((0, 1), (0, 1), (2.0, -2.0))]
        + [(4.0, 4.0, 4.0), (4.0, 4.0, -4.0)]
    ),
}  # fmt: skip
"""XTDrone's own slots, m: robin-shaun/XTDrone, coordination/formation_demo/formation_dict.py (2025-08-02)."""


def _by(points: Floats, *keys: Floats) -> Floats:
    """Return points sorted by the keys, the first key first; stable for ties."""
    ordered: Floats = points[np.lexsort(tuple(reversed(keys)))]
    return ordered


def grid(count: int) -> Floats:
    """A level square of unit spacing, filled from the leader outwards."""
    side = math.isqrt(count) // 2 + 2
    axis = np.arange(-side, side + 1, dtype=np.float64)
    points = np.array([(x, y, 0.0) for x in axis for y in axis])
    ring = np.abs(points).max(axis=1)
    return _by(points, ring, (points**2).sum(axis=1))[:count]


def column(count: int) -> Floats:
    """A column at unit spacing, the leader at the front."""
    return np.stack([-np.arange(count, dtype=np.float64), np.zeros(count), np.zeros(count)], axis=1)


def vee(count: int) -> Floats:
    """Two arms swept back by 45 deg, unit spacing along each, the leader at the front."""
    rank = (np.arange(count) + 1) // 2 / math.sqrt(2.0)
    side = np.where(np.arange(count) % 2 == 0, -1.0, 1.0)
    return np.stack([-rank, side * rank, np.zeros(count)], axis=1) + 0.0


def circle(count: int) -> Floats:
    """The leader in the middle of a level ring, with at least unit spacing to it and between neighbours."""
    if count == 1:
        return np.zeros((1, 3))
    others = count - 1
    radius = max(1.0, 0.5 / math.sin(math.pi / others)) if others > 1 else 1.0
    angle = 2.0 * math.pi * np.arange(others) / others
    ring = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.zeros(others)], axis=1)
    return np.concatenate([np.zeros((1, 3)), ring])


def cube(count: int) -> Floats:
    """Nested cubes of a body-centred lattice whose cells have unit edges, filled from the leader outwards.

    XTDrone's nine, the leader amid eight corners, are its first complete cube; 35 the second.
    """
    shells = math.ceil(count ** (1.0 / 3.0)) + 1
    axis = range(-shells, shells + 1)
    points = 0.5 * np.array(
        [p for p in product(axis, repeat=3) if p[0] % 2 == p[1] % 2 == p[2] % 2], np.float64
    )
    size = np.abs(points).max(axis=1)
    on_faces = (np.abs(points) == size[:, None]).sum(axis=1)
    # Corners first, so that an incomplete shell has the outline of a cube.
    return _by(points, size, -on_faces.astype(np.float64))[:count]


def pyramid(count: int) -> Floats:
    """Level squares of unit spacing below the leader, each larger by one; corners first, then outlines.

    XTDrone's nine are the apex and the corners of squares of one and two spacings.  They are the first nine
    slots here too: if only the corners of a square remain, they are placed as in any other.
    """
    layers = [np.zeros((1, 3))]
    left, depth = count - 1, 0
    while left > 0:
        depth += 1
        axis = np.arange(depth + 1) - 0.5 * depth
        square = np.array([(x, y, 0.5 * depth) for x in axis for y in axis])
        at_edge = np.abs(square[:, :2]) == 0.5 * depth
        layers.append(_by(square, -at_edge.sum(axis=1).astype(np.float64), -np.abs(square[:, 1]))[:left])
        left -= len(layers[-1])
    return np.concatenate(layers)


def triangle(count: int) -> Floats:
    """An upright triangle across the direction of flight, the leader at its top.

    Row k below it has 2k + 1 slots at half unit spacing both ways, as XTDrone's nine; an incomplete row keeps
    its ends.
    """
    rows, left, depth = [np.zeros((1, 3))], count - 1, 0
    while left > 0:
        depth += 1
        across = 0.5 * (np.arange(2 * depth + 1) - depth)
        row = np.stack([np.zeros(len(across)), across, np.full(len(across), 0.5 * depth)], axis=1)
        rows.append(_by(row, -np.abs(across))[:left])
        left -= len(rows[-1])
    return np.concatenate(rows)


SHAPES: dict[str, Callable[[int], Floats]] = {
    "grid": grid,
    "column": column,
    "v": vee,
    "circle": circle,
    "cube": cube,
    "pyramid": pyramid,
    "triangle": triangle,
}
"""Shapes for any number of vehicles, at unit spacing."""

NAMES = tuple(dict.fromkeys([*SHAPES, *(name for name, _ in XTDRONE)]))


def pattern(name: str, count: int, spacing: float = XTDRONE_SPACING) -> Floats:
    """Return the slots of a named pattern.

    Args:
        name: one of NAMES.
        count: number of vehicles, including the leader.
        spacing: m, the pattern's unit; 4 m gives XTDrone's sizes.  The smallest distance of two slots is one
            spacing in a grid, column, V or circle, 0.87 in a cube or pyramid, 0.5 in a triangle.

    Returns:
        (count, 3) m, formation frame.  Exactly XTDrone's slots if it has the pattern for this count.

    Raises:
        UserError: for an unknown name, or one that is defined only for other counts.
    """
    if count < 1:
        raise UserError(f"a formation needs at least one vehicle, not {count}")
    if (name, count) in XTDRONE:
        return XTDRONE[name, count] * (spacing / XTDRONE_SPACING)
    if name in SHAPES:
        return SHAPES[name](count) * spacing
    counts = sorted(n for other, n in XTDRONE if other == name)
    if counts:
        raise UserError(f"the pattern {name} is for {' or '.join(map(str, counts))} vehicles, not {count}")
    raise UserError(f"no pattern is called {name!r}; there are {', '.join(NAMES)}")


FEW = 50
"""Points whose distances are computed sooner than a tree is built."""


def closest_pair(points: Floats) -> tuple[float, int, int]:
    """Return the smallest distance in m of two of (n, 3) points, and the pair; infinite for one."""
    if len(points) < 2:
        return math.inf, 0, 0
    if len(points) <= FEW:
        x, y, z = (points.T[:, :, None] - points.T[:, None]) ** 2
        squared = x + y + z
        np.fill_diagonal(squared, math.inf)
        i, j = divmod(int(np.argmin(squared)), len(points))
        return math.sqrt(squared[i, j]), i, j
    distance, index = (np.asarray(part) for part in scipy.spatial.KDTree(points).query(points, k=2))
    # For coincident points, the tree may return the other one first.
    first = int(np.argmin(distance[:, 1]))
    second = int(index[first, 1] if index[first, 1] != first else index[first, 0])
    return float(distance[first, 1]), min(first, second), max(first, second)


def check_separation(points: Floats, separation: float, what: str) -> None:
    """Reject slots closer than ``separation`` m.

    Raises:
        UserError: with the pair and its distance.
    """
    distance, i, j = closest_pair(points)
    if distance < separation:
        raise UserError(
            f"{what}: slots {i} and {j} are {distance:.2f} m apart, below the limit of {separation:g} m; "
            "widen the spacing"
        )
