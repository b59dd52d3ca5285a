"""Figure 7: the distance of two vehicles whose references cross at 2 m/s."""

from __future__ import annotations

from pathlib import Path

from comparison import Row

from .distances import compare


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly, draw and evaluate ``crossing.yaml``."""
    return compare("crossing", picture, quick)
