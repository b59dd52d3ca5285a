"""Figure 6: the distance of two vehicles, of which one hovers, another of higher priority is flown at it."""

from __future__ import annotations

from pathlib import Path

from comparison import Row

from .distances import THRESHOLD, compare
from .flights import flown, least

WEAK = 200.0
"""A tenth of the default Q_c."""


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly, draw and evaluate ``missions/approach.yaml``."""
    rows = compare("approach", picture, quick)
    if not quick:
        weak = flown("approach", collision=WEAK)
        above = 100.0 * float((weak.distances() > THRESHOLD).mean())
        rows += [
            Row(f"least distance, Q_c {WEAK:g} in place of 2000", "m", "> 0.9", least(weak), digits=2),
            Row("... time above r_th", "%", "", above, digits=1),
            Row("... hard constraint ever active (1: yes)", "", "", float(weak.active.any()), digits=0),
        ]
    return rows
