"""What triangulating depth cameras do at the edges of objects: shadows, ragged and mixed pixels."""

from __future__ import annotations

import numpy as np

from sitl_bridge.base.arrays import Mask, Singles, Words
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import normal_pair

STEP = 0.05
"""Relative difference of depths that makes an edge."""
SHARE = np.float32(1.0 - STEP)
REACH = 2
"""Pixels from an edge within which it counts."""


@compiled
def cast_shadows(inverse: Singles, shift: float) -> None:
    """Remove what the second camera or the projector, on the side of +y, does not see.

    A surface at column u appears there at u - shift / depth, where a nearer one further to the right may
    hide it.

    Args:
        inverse: (h, w) float32, 1/m, changed; 0 for nothing.
        shift: focal length in pixels times baseline in m.
    """
    for v in range(inverse.shape[0]):
        least = 1e9
        for u in range(inverse.shape[1] - 1, -1, -1):
            if inverse[v, u] > 0.0:
                column = u - shift * inverse[v, u]
                if column >= least:
                    inverse[v, u] = 0.0
                else:
                    least = column


@compiled
def _spread(rows: tuple[Singles, ...], row: Singles, sign: np.float32, out: Singles) -> None:
    """Greatest values of a row and of those within reach of each pixel, times ``sign`` (1, or -1: least).

    Simple loops over whole rows, which compile to vector instructions.

    Args:
        rows: tuple of 2 REACH + 1 (w,) float32: the rows within reach.
        row: (w,) float32.
        sign: float32.
        out: (w,) float32, written.
    """
    width = row.shape[0]
    for k in range(2 * REACH + 1):
        other = rows[k]
        for u in range(width):
            value = sign * other[u]
            out[u] = value if k == 0 or value > out[u] else out[u]
    for k in range(1, REACH + 1):
        for ahead in range(2):
            shown, other = (out[: width - k], row[k:]) if ahead == 1 else (out[k:], row[: width - k])
            for u in range(shown.shape[0]):
                value = sign * other[u]
                shown[u] = value if value > shown[u] else shown[u]


@compiled
def _find_edges(inverse: Singles, v: int, most: Singles, least: Singles, edges: Mask) -> None:
    """Whether there is an edge within reach of each pixel of a row.

    Args:
        inverse: (h, w) float32.
        v: row.
        most: (w,) float32, scratch.
        least: (w,) float32, scratch.
        edges: (w,) bool, written.
    """
    height, row = inverse.shape[0], inverse[v]
    rows = (
        inverse[max(v - 2, 0)],
        inverse[max(v - 1, 0)],
        row,
        inverse[min(v + 1, height - 1)],
        inverse[min(v + 2, height - 1)],
    )
    _spread(rows, row, np.float32(1.0), most)
    _spread(rows, row, np.float32(-1.0), least)
    for u in range(row.shape[0]):
        edges[u] = (SHARE * most[u] > row[u]) | (-least[u] < SHARE * row[u])


@compiled
def fray_edges(inverse: Singles, spread: float, mixed: bool, random: Words, out: Singles) -> None:
    """Let pixels near edges show what is a random distance beside them.

    Args:
        inverse: (h, w) float32, 1/m; 0 for nothing.
        spread: pixels, standard deviation of the distance along rows and columns.
        mixed: whether a pixel between two columns shows a depth between theirs.
        random: (4,) uint64, advanced.
        out: (h, w) float32, written.
    """
    height, width = inverse.shape
    most, least = np.empty(width, np.float32), np.empty(width, np.float32)
    edges = np.empty(width, np.bool_)
    for v in range(height):
        for u in range(width):
            out[v, u] = inverse[v, u]
        _find_edges(inverse, v, most, least, edges)
        for u in range(width):
            if not edges[u]:
                continue
            a, b = normal_pair(random)
            x = min(max(u + spread * a, 0.0), width - 1.0)
            row = int(min(max(v + spread * b, 0.0), height - 1.0) + 0.5)
            left = min(int(x), width - 2)
            near, far = inverse[row, left], inverse[row, left + 1]
            if mixed and near > 0.0 and far > 0.0:
                share = x - left
                out[v, u] = 1.0 / ((1.0 - share) / near + share / far)
            else:
                out[v, u] = inverse[row, int(x + 0.5)]
