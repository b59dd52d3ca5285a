"""Normal numbers of the sensors' random streams: the ziggurat's layers, its rims and its tail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy

from sitl_bridge.base.kernels import random_streams
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import normal, normal_pair, stream

COUNT = 4_000_000


@compiled
def _fill(state: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i] = normal(state)


@compiled
def _fill_by_pairs(state: Any, out: Any) -> None:
    for i in range(0, out.shape[0], 2):
        out[i], out[i + 1] = normal_pair(state)


@pytest.fixture(scope="module")
def numbers() -> Any:
    found = np.empty(COUNT)
    _fill(stream(7, "normal"), found)
    return found


def test_normal_numbers_are_distributed_normally(numbers: Any) -> None:
    assert scipy.stats.kstest(numbers, "norm").pvalue > 0.001
    for order, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0), (6, 15.0)):
        deviation = math.sqrt(math.prod(range(1, 2 * order, 2)) / COUNT)  # of the mean of x^order
        assert np.mean(numbers**order) == pytest.approx(moment, abs=4.0 * deviation)


@pytest.mark.parametrize("beyond", [1.0, 2.0, 3.0, random_streams.TAIL, 4.0, 4.5])
def test_both_tails_have_their_share(numbers: Any, beyond: float) -> None:
    expected = COUNT * 0.5 * math.erfc(beyond / math.sqrt(2.0))
    for found in (np.sum(numbers > beyond), np.sum(numbers < -beyond)):
        assert found == pytest.approx(expected, abs=4.0 * math.sqrt(expected))


def test_no_layer_and_no_rim_has_more_than_its_share(numbers: Any) -> None:
    edges = np.unique(random_streams.EDGES[1:])
    inner = 0.5 * (edges[1:] + edges[:-1])
    bins = np.sort(np.concatenate([edges, inner, -edges[1:], -inner]))
    counts, _ = np.histogram(numbers, bins)
    expected = COUNT * np.diff(scipy.stats.norm.cdf(bins))
    chi2 = float(np.sum((counts - expected) ** 2 / expected))
    assert scipy.stats.chi2.sf(chi2, len(expected)) > 0.001


def test_numbers_that_follow_one_another_are_independent(numbers: Any) -> None:
    for lag in (1, 2, 3, 6, 12):
        products = numbers[lag:] * numbers[:-lag]
        assert np.mean(products) == pytest.approx(0.0, abs=4.0 / math.sqrt(COUNT))
        squares = (numbers[lag:] ** 2 - 1.0) * (numbers[:-lag] ** 2 - 1.0)
        assert np.mean(squares) == pytest.approx(0.0, abs=8.0 / math.sqrt(COUNT))


def test_the_layers_have_equal_areas() -> None:
    edges = random_streams.EDGES
    heights = np.exp(-0.5 * edges**2)
    areas = edges[1:-1] * np.diff(heights)[1:]
    assert np.allclose(areas, edges[0] * heights[1], rtol=1e-9)


def test_a_pair_is_two_numbers_of_the_stream() -> None:
    single, paired = np.empty(1000), np.empty(1000)
    _fill(stream(3, "x"), single)
    _fill_by_pairs(stream(3, "x"), paired)
    assert single.tobytes() == paired.tobytes()
