"""Numbers of input files, as pydantic types: within bounds so wide that no unit leaves them, so narrow that
arithmetic on a few of them neither overflows nor divides by next to nothing.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
"""Of every model of an input file: no unknown fields, no change once read, finite numbers."""
SMALLEST, LARGEST = 1e-12, 1e9
"""Of magnitudes, in SI units.  A small rotor's thrust coefficient is some 1e-9 N s^2."""
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
"""Of simulated time: a day at most."""
Pace = Annotated[float, Field(ge=SLOWEST_PACE, le=FASTEST_PACE)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
