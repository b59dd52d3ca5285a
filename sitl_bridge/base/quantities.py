"""Numbers of input files, as pydantic types with bounds.

The bounds are wide enough for every unit, and narrow enough that arithmetic on a few numbers neither
overflows nor divides by nearly zero.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)
"""Configuration of all models of input files: no unknown fields, immutable, finite numbers."""
SMALLEST, LARGEST = 1e-12, 1e9
"""Bounds of magnitudes in SI units.  A small rotor's thrust coefficient is about 1e-9 N s^2."""
SLOWEST_PACE, FASTEST_PACE = 0.01, 1e6
"""Simulated over wall time.  At the slowest, a step of 4 ms takes 0.4 s."""


def _not_tiny(value: float) -> float:
    if value < SMALLEST:
        raise ValueError(f"Input should be at least {SMALLEST:g}")
    return value


Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
NonNegative = Annotated[float, Field(ge=0.0, le=LARGEST)]
Positive = Annotated[float, Field(gt=0.0, le=LARGEST), AfterValidator(_not_tiny)]
Vector = tuple[Number, Number, Number]
Degrees = Annotated[float, Field(ge=-360.0, le=360.0)]
Seconds = Annotated[float, Field(ge=0.0, le=86_400.0)]
"""Simulated time: at most a day."""
Pace = Annotated[float, Field(ge=SLOWEST_PACE, le=FASTEST_PACE)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
