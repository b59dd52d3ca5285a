"""How two stages of a campaign agree: the same runs flown by the built-in stack and by PX4."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sitl_bridge.lab.campaign.flight_job import RunRow

FEWEST = 3
"""Runs with a measure in both stages from which a correlation is computed."""


@dataclass(frozen=True)
class Agreement:
    """Of the runs that both stages have flown.

    Attributes:
        confusion: counts by (succeeded in the first stage, in the second one).
        correlations: Pearson's, by measure; nan for a measure that does not vary.
        pairs: runs in both stages.
    """

    confusion: dict[tuple[bool, bool], int]
    correlations: dict[str, float]
    pairs: int


def agreement(rows: Iterable[RunRow]) -> Agreement | None:
    """Compare the stages; None where no run was flown in both."""
    first: dict[tuple[object, ...], RunRow] = {}
    second: dict[tuple[object, ...], RunRow] = {}
    for row in rows:
        if row.status == "flown":
            key = (row.number, row.seed, *row.values.values())
            (first if row.stage == "built_in" else second)[key] = row
    both = [(first[key], row) for key, row in second.items() if key in first]
    if not both:
        return None
    confusion = {(a, b): 0 for a in (True, False) for b in (True, False)}
    for one, other in both:
        confusion[one.succeeded, other.succeeded] += 1
    names = [name for name in both[0][0].measures if any(name in other.measures for _, other in both)]
    return Agreement(confusion, {name: _correlation(both, name) for name in names}, len(both))


def _correlation(both: list[tuple[RunRow, RunRow]], name: str) -> float:
    pairs = [
        (one.measures[name], other.measures[name])
        for one, other in both
        if name in one.measures and name in other.measures
    ]
    a, b = (np.array([pair[i] for pair in pairs if np.isfinite(pair).all()]) for i in (0, 1))
    if len(a) < FEWEST or a.std() == 0.0 or b.std() == 0.0:
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])
