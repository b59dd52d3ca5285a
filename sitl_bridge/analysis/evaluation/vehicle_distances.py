"""Distances between the vehicles of a fleet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.arrays import Floats

MIN_FLIGHT_HEIGHT = 0.5
"""Height above which a vehicle counts for the closest pair, m."""


def closest_distance(position: Floats) -> Floats:
    """Return the (k,) m between the closest pair of (k, n, 3) in the air; nan for fewer than two."""
    found = np.full(len(position), np.inf)
    count = position.shape[1]
    flies = -position[:, :, 2] > MIN_FLIGHT_HEIGHT
    for i in range(count):
        for j in range(i + 1, count):
            apart = np.linalg.norm(position[:, i] - position[:, j], axis=1)
            found = np.where(flies[:, i] & flies[:, j], np.minimum(found, apart), found)
    return np.where(np.isfinite(found), found, np.nan)


@dataclass(frozen=True)
class ClosestPair:
    """The closest pair of a flight."""

    distance: float  # m
    time: float  # s
    vehicles: tuple[int, int]  # row indices


def closest_pair(time: Floats, position: Floats) -> ClosestPair | None:
    """Return the closest pair for (k,) s and (k, n, 3) m NED; None if no two flew at the same time."""
    found = closest_distance(position)
    if not np.isfinite(found).any():
        return None
    k = int(np.nanargmin(found))
    place = np.where(-position[k, :, 2:] > MIN_FLIGHT_HEIGHT, position[k], np.nan)
    apart = np.linalg.norm(place[:, None] - place[None], axis=2)
    np.fill_diagonal(apart, np.nan)
    first, second = sorted(divmod(int(np.nanargmin(apart)), len(place)))
    return ClosestPair(float(found[k]), float(time[k]), (first, second))
