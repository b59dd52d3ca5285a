"""Roots of functions of one number; importing scipy.optimize would take a quarter of a stack's start."""

from __future__ import annotations

import sys
from collections.abc import Callable

EPSILON = 2.0 * sys.float_info.epsilon


def root(function: Callable[[float], float], low: float, high: float, tolerance: float = 2e-12) -> float:
    """Return where a continuous function changes its sign, by inverse quadratic steps where they are safe.

    Chandrupatla (1997), Advances in Engineering Software 28, 145-149.

    Args:
        function: of one number.
        low, high: at which it has different signs, or is 0.
        tolerance: of the root, beyond the resolution of its value.

    Raises:
        ValueError: where both signs are the same.
    """
    a, b = high, low
    at_a, at_b = function(a), function(b)
    if at_a * at_b > 0.0:
        raise ValueError(f"the function has one sign at {low:g} and {high:g}")
    share = 0.5
    while True:
        best, least = (a, at_a) if abs(at_a) < abs(at_b) else (b, at_b)
        margin = (EPSILON * abs(best) + tolerance) / abs(b - a) if b != a else 1.0
        if least == 0.0 or margin > 0.5:
            return best
        x = a + min(1.0 - margin, max(margin, share)) * (b - a)
        at_x = function(x)
        if at_x * at_a > 0.0:
            c, at_c = a, at_a
        else:
            c, at_c, b, at_b = b, at_b, a, at_a
        a, at_a = x, at_x
        share = 0.5
        if c != b and at_c not in (at_a, at_b):
            xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
            if phi * phi < xi and (1.0 - phi) ** 2 < 1.0 - xi:
                share = at_a / (at_b - at_a) * at_c / (at_b - at_c)
                share += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
