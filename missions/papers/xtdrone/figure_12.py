"""Figure 12: the formation in the simple 3-D simulator, second-order point masses."""

from __future__ import annotations

from pathlib import Path

from comparison import Row

from .formation import CONFIGURATIONS, draw, quick


def reproduce(picture: Path, _quick: bool) -> list[Row]:
    """Fly and draw; evaluate the slots."""
    flown = quick()
    draw(flown, picture, {})
    return [
        *(
            Row(f"{name}: largest slot error, settled", "m", "", flown.settled(name), digits=3)
            for name in CONFIGURATIONS
        ),
        Row("least distance of two vehicles", "m", "", flown.separation, digits=2),
    ]
