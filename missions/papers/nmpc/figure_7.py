"""Figure 7: the distance of two vehicles whose references cross at 2 m/s."""

from __future__ import annotations

from pathlib import Path

from comparison import Row

from .distances import draw, evaluate
from .flights import flown, variants


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly, draw and evaluate ``crossing.yaml``."""
    flight = flown("crossing")
    draw(flight.time, flight.distances(), picture)
    return [*evaluate(flight.distances(), bool(flight.active.any())), *variants("crossing", quick)]
