"""Figure 9: six vehicles swap places, all avoid one another."""

from __future__ import annotations

from pathlib import Path

from comparison import Row

from .swaps import compare


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly, draw and evaluate ``missions/swap_six.yaml``."""
    return compare("swap_six", picture, quick)
