"""How near vehicles of a fleet come to one another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

OFF_THE_GROUND = 0.5
"""m above which a vehicle counts for the distance of the nearest two."""


def nearest(position: NDArray[np.float64]) -> NDArray[np.float64]:
    """(k,) m between the nearest two of (k, n, 3) that are off the ground; nan with fewer than two."""
    found = np.full(len(position), np.inf)
    count = position.shape[1]
    flies = -position[:, :, 2] > OFF_THE_GROUND
    for i in range(count):
        for j in range(i + 1, count):
            apart = np.linalg.norm(position[:, i] - position[:, j], axis=1)
            found = np.where(flies[:, i] & flies[:, j], np.minimum(found, apart), found)
    return np.where(np.isfinite(found), found, np.nan)
