"""The estimator against real sensor models on known paths: is it right, and is it as sure as it should be."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from estimator_bench import Bench, Path, fly_path
from numpy.typing import NDArray
from scipy.stats import chi2

from sitl_bridge.config.airframe import load_airframe
from sitl_bridge.world.world import World

REST = 5.0
"""s on the ground before the paths move."""


def eased(t: NDArray[np.float64], start: float, seconds: float) -> NDArray[np.float64]:
    """0 before ``start``, 1 ``seconds`` later, with three continuous derivatives."""
    s = np.clip((t - start) / seconds, 0.0, 1.0)
    out: NDArray[np.float64] = s**4 * (35 - 84 * s + 70 * s**2 - 20 * s**3)
    return out


@cache
def wandering(seconds: float) -> Path:
    """A climb to 10 m and loops of up to 9 m/s and 7 m/s^2 with turns of the heading."""

    def position(t: NDArray[np.float64]) -> NDArray[np.float64]:
        s, u = eased(t, REST, 4.0), t - REST
        north = s * 15.0 * np.sin(0.5 * u)
        east = s * 10.0 * np.sin(0.8 * u) * np.cos(0.3 * u)
        return np.stack([north, east, -0.055 - s * (10.0 + 3.0 * np.sin(0.4 * u))], 1)

    def yaw(t: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.7 + eased(t, REST, 4.0) * np.sin(0.3 * (t - REST))

    return fly_path(position, yaw, seconds, float(World().environment[0]["gravity"]))


def nees(errors: NDArray[np.float64], covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) normalised estimation error squared of (n, k) errors."""
    solved = np.linalg.solve(covariance, errors[..., None])[..., 0]
    out: NDArray[np.float64] = (errors * solved).sum(axis=1)
    return out


@pytest.mark.parametrize("name", ["iris", "firefly"])
def test_errors_are_as_large_as_the_covariance_says(name: str) -> None:
    bench = Bench(load_airframe(name), wandering(61.0), list(range(20)))
    bench.fly(8.0)
    low, high = (float(chi2.ppf(p, 20 * 15)) / 20 for p in (0.0005, 0.9995))
    for _ in range(5):
        bench.fly(10.0)
        found = nees(bench.errors(), bench.estimators["covariance"][:, :15, :15]).mean()
        assert low < found < high
    assert not bench.estimates["rejected"].any()
