"""Figure 10: six vehicles swap places, each avoids those of higher priority."""

from __future__ import annotations

from pathlib import Path

from comparison import Row

from .swaps import compare


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly, draw and evaluate ``missions/priority_swap.yaml``."""
    return compare("priority_swap", picture, quick)
