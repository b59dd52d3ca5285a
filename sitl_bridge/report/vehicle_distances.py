"""How near vehicles of a fleet come to one another."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Closest:
    """The two that came nearest to one another in the air.

    Attributes:
        distance: m.
        time: s.
        vehicles: their rows.
    """

    distance: float
    time: float
    vehicles: tuple[int, int]


def closest(time: NDArray[np.float64], position: NDArray[np.float64]) -> Closest | None:
    """Of (k,) s and (k, n, 3) m NED; None where no two were ever off the ground together."""
    found = nearest(position)
    if not np.isfinite(found).any():
        return None
    k = int(np.nanargmin(found))
    place = np.where(-position[k, :, 2:] > OFF_THE_GROUND, position[k], np.nan)
    apart = np.linalg.norm(place[:, None] - place[None], axis=2)
    np.fill_diagonal(apart, np.nan)
    first, second = sorted(divmod(int(np.nanargmin(apart)), len(place)))
    return Closest(float(found[k]), float(time[k]), (first, second))
