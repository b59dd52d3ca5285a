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


FARTHEST = 10.0
"""m from a vehicle's centre of gravity to any of its parts: the rotors of the VoloCity, among the largest
multirotors that fly, lie within a ring of 11.3 m (volocopter.com)."""


def _on_a_vehicle(value: tuple[float, float, float]) -> tuple[float, float, float]:
    if max(map(abs, value)) > FARTHEST:
        raise ValueError(
            f"{max(value, key=abs):g} m from the centre of gravity: is it in another unit than m?"
        )
    return value


Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
NonNegative = Annotated[float, Field(ge=0.0, le=LARGEST)]
Positive = Annotated[float, Field(gt=0.0, le=LARGEST), AfterValidator(_not_tiny)]
Vector = tuple[Number, Number, Number]
Mounting = Annotated[Vector, AfterValidator(_on_a_vehicle)]
"""m, a place on a vehicle, from its centre of gravity."""
Degrees = Annotated[float, Field(ge=-360.0, le=360.0)]
Seconds = Annotated[float, Field(ge=0.0, le=86_400.0)]
"""Simulated time: at most a day."""
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Pace = Annotated[float, Field(ge=SLOWEST_PACE, le=FASTEST_PACE)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
