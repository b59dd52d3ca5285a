"""Figures of observations: their limit, and writing them into an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from sitl_bridge.base.kernels.compiled import compiled

LIMIT = 1e4
"""Greatest magnitude of a figure in an observation, in its unit."""
_MOST = np.float32(LIMIT)


@compiled
def bounded(figure: float) -> Any:
    """A figure as float32, within the limit; not a number stays so."""
    single = np.float32(figure)
    if single > _MOST:
        return _MOST
    if single < -_MOST:
        return -_MOST
    return single


@compiled
def write_ways(goals: Any, truth: Any, first: int, observations: Any) -> None:
    """Write the ways from vehicles, truth (n, 13), to goals (n, 3) into columns from ``first`` on."""
    for i in range(goals.shape[0]):
        for axis in range(3):
            observations[i, first + axis] = bounded(goals[i, axis] - truth[i, axis])


@compiled
def write_figures(figures: Any, first: int, observations: Any) -> None:
    """Write figures (n, k) into the observations (n, m) float32, from column ``first`` on."""
    for i in range(figures.shape[0]):
        for k in range(figures.shape[1]):
            observations[i, first + k] = bounded(figures[i, k])
