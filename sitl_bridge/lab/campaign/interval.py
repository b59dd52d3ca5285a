"""Confidence intervals of rates."""

from __future__ import annotations

CONFIDENCE = 0.95


def clopper_pearson(count: int, total: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a rate (Clopper and Pearson 1934), (0, 1) without trials.

    Args:
        count: successes.
        total: trials.
        confidence: of the interval.
    """
    from scipy.special import betaincinv  # loads slowly

    tail = 0.5 * (1.0 - confidence)
    low = 0.0 if count == 0 else float(betaincinv(count, total - count + 1, tail))
    high = 1.0 if count == total else float(betaincinv(count + 1, total - count, 1.0 - tail))
    return low, high
