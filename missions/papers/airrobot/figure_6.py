"""Figure 6: a roll pulse of the hexacopter AR100-X6 in still air."""

from __future__ import annotations

from pathlib import Path

from comparison import Row

from .roll_pulse import compare


def reproduce(picture: Path, _quick: bool) -> list[Row]:
    """Fly the pulse with ``ar100_x6``."""
    return compare("ar100_x6", picture)
