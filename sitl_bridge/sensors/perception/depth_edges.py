"""What triangulating depth cameras do at the edges of objects: shadows, ragged and mixed pixels."""

from __future__ import annotations

from typing import Any

from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.kernels.random_streams import normal_pair

STEP = 0.05
"""Relative difference of depths that makes an edge."""
REACH = 2
"""Pixels from an edge within which it counts."""


@compiled
def cast_shadows(inverse: Any, shift: float) -> None:
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
def _at_edge(inverse: Any, v: int, u: int) -> bool:
    """Whether there is an edge within reach."""
    here = inverse[v, u]
    height, width = inverse.shape
    for k in range(-REACH, REACH + 1):
        beside = inverse[v, min(max(u + k, 0), width - 1)]
        above = inverse[min(max(v + k, 0), height - 1), u]
        if abs(beside - here) > STEP * max(beside, here) or abs(above - here) > STEP * max(above, here):
            return True
    return False


@compiled
def fray_edges(inverse: Any, spread: float, mixed: bool, random: Any, out: Any) -> None:
    """Let pixels near edges show what is a random distance beside them.

    Args:
        inverse: (h, w) float32, 1/m; 0 for nothing.
        spread: pixels, standard deviation of the distance along rows and columns.
        mixed: whether a pixel between two columns shows a depth between theirs.
        random: (4,) uint64, advanced.
        out: (h, w) float32, written.
    """
    height, width = inverse.shape
    for v in range(height):
        for u in range(width):
            out[v, u] = inverse[v, u]
            if not _at_edge(inverse, v, u):
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
