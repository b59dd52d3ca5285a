"""Designs: where the runs of a campaign lie in the unit cube of its values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.lab.campaign.distribution import Distribution
from sitl_bridge.lab.campaign.file import Campaign

Points = Floats


def design_points(campaign: Campaign, distributions: Sequence[Distribution]) -> Points:
    """The (runs, values) points of a design, each coordinate in 0..1; the same for the same seed."""
    from scipy.stats import qmc  # loads slowly

    count = len(distributions)
    if campaign.design == "grid":
        return grid_points(distributions, campaign.levels)
    assert campaign.runs is not None
    if campaign.design == "lhs":
        return np.asarray(qmc.LatinHypercube(count, seed=campaign.seed).random(campaign.runs))
    if campaign.design == "sobol":
        # Whole powers of 2 keep the balance of the sequence; the first of them are flown.
        exponent = max(0, int(campaign.runs - 1).bit_length())
        return np.asarray(qmc.Sobol(count, seed=campaign.seed).random_base2(exponent)[: campaign.runs])
    return np.random.default_rng(campaign.seed).random((campaign.runs, count))


def grid_points(distributions: Sequence[Distribution], levels: int) -> Points:
    """Every combination of all values of discrete distributions and of ``levels`` quantiles of the others."""
    axes = []
    for one in distributions:
        if one.discrete:
            axes.append((np.arange(len(one.values)) + 0.5) / len(one.values))
        else:
            axes.append(np.linspace(0.0, 1.0, levels))
    return np.array(list(itertools.product(*axes)))


def runs_of(campaign: Campaign, distributions: Sequence[Distribution]) -> int:
    """Flights of the first stage, at most."""
    if campaign.search is not None and campaign.search.kind == "sensitivity":
        return campaign.search.whole_samples * (len(distributions) + 2)
    if campaign.design == "grid":
        counts = [len(one.values) if one.discrete else campaign.levels for one in distributions]
        return int(np.prod(counts))
    assert campaign.runs is not None
    return campaign.runs
