"""Figure 12: the formation in the simple 3-D simulator, second-order point masses."""

from __future__ import annotations

from pathlib import Path

from comparison import Row

from .formation import CONFIGURATIONS, draw
from .formation import quick as fly


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly and draw; evaluate the slots."""
    flown = fly(short=quick)
    draw(flown, picture, {})
    return [
        *(
            Row(f"{name}: largest slot error, settled", "m", "", flown.settled(name), digits=3)
            for name, end in CONFIGURATIONS.items()
            if end < flown.time[-1]
        ),
        Row("least distance of two vehicles", "m", "", flown.separation, digits=2),
    ]
