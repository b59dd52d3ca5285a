"""Many normal numbers at once: the published words of Philox, and the normal distribution."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from sitl_bridge.base.kernels.normal_numbers import fill_normal, normal_numbers, philox


def test_the_words_are_those_of_philox() -> None:
    words = np.empty((4, 3), np.uint32)
    philox(np.zeros(2, np.uint32), 0, words)
    # Random123, tests/kat_vectors: philox4x32 10.
    assert [f"{w:08x}" for w in words[:, 0]] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]


@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_are_normal_and_independent(seed: int) -> None:
    n = 400_000
    numbers = normal_numbers(np.random.default_rng(seed), n).astype(float)
    assert scipy.stats.kstest(numbers, "norm").pvalue > 1e-3
    assert numbers.mean() == pytest.approx(0.0, abs=4.5 / np.sqrt(n))
    assert (numbers**2).mean() == pytest.approx(1.0, abs=4.5 * np.sqrt(2.0 / n))
    assert (numbers**4).mean() == pytest.approx(3.0, abs=4.5 * np.sqrt(96.0 / n))
    for reach in (3.0, 4.0):
        expected = 2.0 * n * scipy.stats.norm.sf(reach)
        assert (np.abs(numbers) > reach).sum() == pytest.approx(expected, abs=4.5 * np.sqrt(expected))
    for lag in (1, 2, 3, 4, 512, 1024, 1536, 2048):
        for first in (numbers, np.abs(numbers)):
            assert abs(np.corrcoef(first[lag:], first[:-lag])[0, 1]) < 4.5 / np.sqrt(n)


def test_a_key_gives_the_same_numbers_whatever_their_count() -> None:
    key = np.array([7, 8], np.uint32)
    short, long = np.empty(1000, np.float32), np.empty(5000, np.float32)
    fill_normal(key, short)
    fill_normal(key, long)
    assert short.tobytes() == long[:1000].tobytes()
    other = np.empty(1000, np.float32)
    fill_normal(np.array([7, 9], np.uint32), other)
    assert abs(np.corrcoef(short, other)[0, 1]) < 0.15
    # The same bits on every machine.
    assert short[:4].tobytes().hex() == "c9794ebe5fb418bbd08aaa3f9af6873f"
