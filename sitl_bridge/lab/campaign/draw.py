"""A run that a design or a search wants."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Draw:
    """A run that a design or a search wants.

    Attributes:
        point: in the unit cube.
        weight: of importance sampling.
        same_seed: whether it has the seed of the campaign, as all such runs.
    """

    point: tuple[float, ...]
    weight: float = 1.0
    same_seed: bool = False
