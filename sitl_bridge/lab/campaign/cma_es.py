"""CMA-ES: minimises a function of several numbers by sampling (N. Hansen, "The CMA Evolution Strategy: A
Tutorial", arXiv 1604.00772; the numbers of its equations stand beside them)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class CmaEs:
    """One search; call :meth:`ask` and :meth:`tell` in turn.

    Args:
        start: (d,) the first mean.
        step: initial standard deviation.
        random: draws the samples.

    Attributes:
        mean: (d,) of the distribution.
        step: its overall standard deviation.
        population: samples for each ask.
    """

    def __init__(self, start: Floats, step: float, random: np.random.Generator) -> None:
        d = len(start)
        self.mean, self.step, self._random = np.array(start, dtype=np.float64), step, random
        self.population = 4 + int(3 * math.log(d))  # (48)
        half = self.population // 2
        raw = math.log((self.population + 1) / 2) - np.log(np.arange(1, half + 1))  # (49)
        self._weights = raw / raw.sum()
        effective = 1.0 / float(np.sum(self._weights**2))  # (8)
        self._effective = effective
        self._c_sigma = (effective + 2) / (d + effective + 5)  # (55)
        self._damping = 1 + 2 * max(0.0, math.sqrt((effective - 1) / (d + 1)) - 1) + self._c_sigma
        self._c_c = (4 + effective / d) / (d + 4 + 2 * effective / d)  # (56)
        self._c_1 = 2 / ((d + 1.3) ** 2 + effective)  # (57)
        rank = 2 * (effective - 2 + 1 / effective) / ((d + 2) ** 2 + effective)  # (58)
        self._c_mu = min(1 - self._c_1, rank)
        self._chi = math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))
        self._path_sigma, self._path_c = np.zeros(d), np.zeros(d)
        self._covariance = np.eye(d)
        self._generation = 0
        self._decompose()

    def _decompose(self) -> None:
        values, self._axes = np.linalg.eigh(self._covariance)
        self._lengths = np.sqrt(np.maximum(values, 1e-20))

    def ask(self) -> Floats:
        """(population, d) samples."""
        z = self._random.standard_normal((self.population, len(self.mean)))
        return np.asarray(self.mean + self.step * (z * self._lengths) @ self._axes.T)  # (38) to (40)

    def tell(self, samples: Floats, costs: Floats) -> None:
        """Learn from the costs of samples; the smallest is the best, infinite ones count as the worst."""
        self._generation += 1
        d = len(self.mean)
        best = np.argsort(costs, kind="stable")[: len(self._weights)]
        steps = (samples[best] - self.mean) / self.step
        mean_step = self._weights @ steps  # (41)
        self.mean = self.mean + self.step * mean_step  # (42)
        whitened = self._axes @ ((self._axes.T @ mean_step) / self._lengths)
        c, effective = self._c_sigma, self._effective
        self._path_sigma = (1 - c) * self._path_sigma + math.sqrt(c * (2 - c) * effective) * whitened  # (43)
        length = float(np.linalg.norm(self._path_sigma))
        self.step *= math.exp(min(1.0, c / self._damping * (length / self._chi - 1)))  # (44)
        expected = math.sqrt(1 - (1 - c) ** (2 * self._generation)) * (1.4 + 2 / (d + 1)) * self._chi
        moving = 1.0 if length < expected else 0.0
        cc = self._c_c
        self._path_c = (1 - cc) * self._path_c + moving * math.sqrt(cc * (2 - cc) * effective) * mean_step
        kept = 1 - self._c_1 - self._c_mu + self._c_1 * (1 - moving) * cc * (2 - cc)
        self._covariance = (
            kept * self._covariance
            + self._c_1 * np.outer(self._path_c, self._path_c)
            + self._c_mu * (steps.T * self._weights) @ steps
        )  # (47)
        self._decompose()
