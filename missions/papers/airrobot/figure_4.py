"""Figure 4: a roll pulse of the AR100B in still air."""

from __future__ import annotations

from pathlib import Path

from comparison import Row

from .roll_pulse import compare


def reproduce(picture: Path, _quick: bool) -> list[Row]:
    """Fly the pulse with ``ar100b``."""
    return compare("ar100b", picture)
