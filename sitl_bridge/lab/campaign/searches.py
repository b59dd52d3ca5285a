"""Searches: they draw runs in batches, are sent their rows, and return what they found.

All work with standard normal numbers z, one for each value, whose distribution function is the point in the
unit cube.  A search draws the same runs again when a campaign goes on.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sitl_bridge.api.judging import kind_of
from sitl_bridge.base.arrays import Floats, Mask
from sitl_bridge.base.extras import missing_package
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.lab.campaign.file import RareEvents, Sensitivity, SmallestFailure, WorstCase
from sitl_bridge.lab.campaign.flight_job import RunRow, margin
from sitl_bridge.lab.campaign.space import CampaignSpace


@dataclass(frozen=True)
class Draw:
    """A run that a design or a search wants."""

    point: tuple[float, ...]  # in the unit cube
    weight: float = 1.0  # of importance sampling
    same_seed: bool = False  # whether it has the seed of the campaign, as all such runs


Found: TypeAlias = JsonObject
Searching: TypeAlias = Generator[Sequence[Draw], Sequence[RunRow], Found]
"""Yields the runs it wants next, and is sent their rows in the same order."""

PLAIN_SHARE = 0.1
"""Of draws from the campaign's own distribution, which keeps every weight below its inverse."""
ADAPTING = 0.5
"""Share of the runs that may be spent until the sampling distribution reaches the failures."""
OWN_SPREAD = 0.5
"""Share of the campaign's own variance in that of the sampling distribution."""
FARTHEST = 5.0
"""Greatest z that is flown."""


def search_of(space: CampaignSpace) -> Searching | None:
    """The search of a campaign; None for a design."""
    search = space.specification.search
    if isinstance(search, RareEvents):
        return rare_events(space, search)
    if isinstance(search, WorstCase):
        return worst_case(space, search)
    if isinstance(search, SmallestFailure):
        return smallest_failure(space, search)
    return None if search is None else sensitivity(space, search)


def _draws(z: Floats, weights: Floats | None = None, *, same_seed: bool = False) -> list[Draw]:
    from scipy.special import ndtr  # loads slowly

    cube = ndtr(np.clip(z, -FARTHEST, FARTHEST))
    found = np.ones(len(z)) if weights is None else weights
    return [
        Draw(tuple(float(u) for u in point), float(weight), same_seed)
        for point, weight in zip(cube, found, strict=True)
    ]


# -------------------------------------------------------------------------- rare events


def rare_events(space: CampaignSpace, search: RareEvents) -> Searching:
    """Cross-entropy importance sampling (Rubinstein and Kroese, "The Cross-Entropy Method", 2004).

    The estimate is the mean weight of the failures among the draws after the last change of the sampling
    distribution, and so has no bias.
    """
    random = np.random.default_rng(space.specification.seed)
    dimensions, runs = len(space.names), space.size
    limit = space.limits[search.measure]
    assert limit is not None
    mean, deviation = np.zeros(dimensions), np.ones(dimensions)
    flown, rounds = 0, 0
    while flown + search.batch <= ADAPTING * runs:
        z, weights = _sample(random, search.batch, mean, deviation)
        rows = yield _draws(z, weights)
        flown, rounds = flown + search.batch, rounds + 1
        distance = np.array([_distance(row, search.measure, limit) for row in rows])
        level = max(0.0, float(np.quantile(distance, search.elite)))
        mean, deviation = _fit_density(z, np.where(distance <= level, weights, 0.0), mean, deviation)
        if level == 0.0:
            break
    z, weights = _sample(random, runs - flown, mean, deviation)
    rows = yield _draws(z, weights)
    known = np.array([row.status == "flown" for row in rows])
    failed = np.array([not row.succeeded for row in rows])
    return {
        "kind": "rare_events",
        "measure": search.measure,
        "limit": limit,
        **weighted_rate(weights[known], failed[known]),
        "rounds": rounds,
        "adapting_runs": flown,
        "mean": dict(zip(space.names, mean.tolist(), strict=True)),
    }


def weighted_rate(weights: Floats, failed: Mask) -> Found:
    """The probability of failure from weighted draws, and its 95 % interval by the central limit theorem."""
    count = len(weights)
    if count < 2:
        return {"probability": math.nan, "low": 0.0, "high": 1.0, "failures": int(failed.sum())}
    shares = weights * failed
    rate, error = float(shares.mean()), float(shares.std(ddof=1)) / math.sqrt(count)
    if not failed.any():
        # Every weight is at most 1 / PLAIN_SHARE, so a rate of 3 / n of plain draws would have shown.
        return {"probability": 0.0, "low": 0.0, "high": min(1.0, 3.0 / (PLAIN_SHARE * count)), "failures": 0}
    spread = 1.96 * error
    return {
        "probability": rate,
        "low": max(0.0, rate - spread),
        "high": min(1.0, rate + spread),
        "failures": int(failed.sum()),
    }


def _sample(
    random: np.random.Generator, count: int, mean: Floats, deviation: Floats
) -> tuple[Floats, Floats]:
    """Draws of the mixture of the learned and the plain distribution, and their weights."""
    z = random.standard_normal((count, len(mean)))
    learned = random.random(count) >= PLAIN_SHARE
    z[learned] = mean + deviation * z[learned]
    plain = np.exp(-0.5 * np.sum(z**2, axis=1))
    shifted = np.exp(-0.5 * np.sum(((z - mean) / deviation) ** 2, axis=1)) / np.prod(deviation)
    return z, plain / (PLAIN_SHARE * plain + (1.0 - PLAIN_SHARE) * shifted)


def _fit_density(z: Floats, weights: Floats, mean: Floats, deviation: Floats) -> tuple[Floats, Floats]:
    total = float(weights.sum())
    if not total > 0.0:
        return mean, deviation
    share = weights / total
    new = share @ z
    # A few elite draws underestimate the spread, and draws beyond it would have great weights.
    return new, np.sqrt(OWN_SPREAD + (1.0 - OWN_SPREAD) * (share @ (z - new) ** 2))


def _distance(row: RunRow, measure: str, limit: float) -> float:
    """From failure, as a share of the limit: at most 0 for a failure, infinite for a run without a value."""
    if row.status != "flown":
        return math.inf
    value = row.measures.get(measure)
    found = math.inf if value is None else margin(measure, value, limit)
    return found if row.succeeded else min(found, 0.0)


# -------------------------------------------------------------------------- worst case


def worst_case(space: CampaignSpace, search: WorstCase) -> Searching:
    """CMA-ES for the largest measure, or the smallest of one with a lower bound; all with the same seed.

    By the package cma (N. Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772).
    """
    least = kind_of(search.measure).at_least
    strategy = evolution(np.zeros(len(space.names)), search.spread, space.specification.seed)
    best: tuple[float, RunRow | None] = (math.inf, None)
    flown = 0
    while flown < space.size:
        z = np.clip(strategy.ask(), -FARTHEST, FARTHEST)
        count = min(len(z), space.size - flown)
        rows = yield _draws(z[:count], same_seed=True)
        flown += count
        costs = np.array([_cost(row, search.measure, least=least) for row in rows])
        for cost, row in zip(costs, rows, strict=True):
            if cost < best[0]:
                best = (float(cost), row)
        if count < len(z):
            break
        strategy.tell(list(z), costs.tolist())
    worst = best[1]
    return {
        "kind": "worst_case",
        "measure": search.measure,
        "value": None if worst is None else worst.measures[search.measure],
        "id": None if worst is None else worst.id,
        "values": None if worst is None else dict(worst.values),
    }


def evolution(start: Floats, step: float, seed: int) -> Any:
    """A search by CMA-ES from a mean (d,) with an initial deviation, whose samples follow from a seed.

    Raises:
        UserError: without the package cma.
    """
    try:
        from cma import CMAEvolutionStrategy
    except ImportError as error:
        raise missing_package("cma", "searches for the worst case", "campaign") from error
    random = np.random.default_rng(seed)
    options = {"randn": lambda *shape: random.standard_normal(shape), "seed": math.nan, "verbose": -9}
    return CMAEvolutionStrategy(start, step, options)


def _cost(row: RunRow, measure: str, *, least: bool) -> float:
    value = row.measures.get(measure)
    return math.inf if value is None or row.status != "flown" else value if least else -value


# -------------------------------------------------------------------------- smallest failure


def smallest_failure(space: CampaignSpace, search: SmallestFailure) -> Searching:
    """Draw until a flight fails, put back every value that it fails without, and bisect the others."""
    dimensions, runs = len(space.names), space.size
    random = np.random.default_rng(space.specification.seed)
    middle = np.full(dimensions, 0.5)
    failing: Floats | None = None
    flown = 0
    batch = max(1, min(8, runs // 4))
    while failing is None and flown < runs:
        points = random.random((min(batch, runs - flown), dimensions))
        rows = yield [Draw(tuple(map(float, point)), same_seed=True) for point in points]
        flown += len(points)
        bad = [point for point, row in zip(points, rows, strict=True) if _fails(row)]
        failing = min(bad, key=lambda point: float(np.abs(point - middle).sum()), default=None)
    if failing is None:
        return {"kind": "smallest_failure", "id": None, "values": None, "needed": [], "runs": flown}
    row: RunRow | None = None
    for i in np.argsort(np.abs(failing - middle)):
        if flown >= runs:
            break
        trial = failing.copy()
        trial[i] = 0.5
        answers = yield [Draw(tuple(map(float, trial)), same_seed=True)]
        flown += 1
        if _fails(answers[0]):
            failing, row = trial, answers[0]
    for i in np.flatnonzero(failing != 0.5):
        inside, outside = 0.5, float(failing[i])
        while abs(outside - inside) > search.tolerance and flown < runs:
            trial = failing.copy()
            trial[i] = 0.5 * (inside + outside)
            answers = yield [Draw(tuple(map(float, trial)), same_seed=True)]
            flown += 1
            if _fails(answers[0]):
                outside, failing, row = float(trial[i]), trial, answers[0]
            else:
                inside = float(trial[i])
    if row is None:
        row = (yield [Draw(tuple(map(float, failing)), same_seed=True)])[0]
    return {
        "kind": "smallest_failure",
        "id": row.id,
        "values": dict(row.values),
        "needed": [name for name, u in zip(space.names, failing, strict=True) if u != 0.5],
        "reason": row.reason,
        "runs": flown,
    }


def _fails(row: RunRow) -> bool:
    return row.status == "flown" and not row.succeeded


# -------------------------------------------------------------------------- sensitivity


def sensitivity(space: CampaignSpace, search: Sensitivity) -> Searching:
    """Sobol indices by Saltelli's design (scipy.stats.sobol_indices); all with the same seed."""
    from scipy.stats import qmc, sobol_indices  # loads slowly

    dimensions = len(space.names)
    count = search.whole_samples
    both = qmc.Sobol(2 * dimensions, seed=space.specification.seed).random(count)
    a, b = both[:, :dimensions], both[:, dimensions:]
    mixed = np.repeat(a[None], dimensions, axis=0)
    for i in range(dimensions):
        mixed[i, :, i] = b[:, i]
    points = np.concatenate([a, b, *mixed])
    rows = yield [Draw(tuple(map(float, point)), same_seed=True) for point in points]
    found: Found = {"kind": "sensitivity", "samples": count, "measures": {}}
    for name in search.measures:
        flat = np.array([row.measures.get(name, math.nan) for row in rows])
        values = flat.reshape(dimensions + 2, count)
        whole = np.isfinite(values).all(axis=0)
        values = values[:, whole]
        if values.shape[1] < 8 or float(values[0].std()) == 0.0:
            found["measures"][name] = None
            continue
        indices = sobol_indices(
            func={"f_A": values[:1], "f_B": values[1:2], "f_AB": values[2:, None]}, n=values.shape[1]
        )
        found["measures"][name] = {
            value: {"first": float(first), "total": float(total)}
            for value, first, total in zip(
                space.names, indices.first_order.ravel(), indices.total_order.ravel(), strict=True
            )
        }
    return found
