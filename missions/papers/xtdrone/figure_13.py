"""Figure 13: the same formation on full dynamics, sensors and flight stacks."""

from __future__ import annotations

from pathlib import Path

from comparison import Row

from .formation import CONFIGURATIONS, draw, full, worst


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly and draw; evaluate the slots, in full over five seeds and with the wakes that Gazebo lacks."""
    flown = full()
    draw(flown, picture, {})
    rows = [
        *(
            Row(f"{name}: largest slot error, settled", "m", "", flown.settled(name), digits=3)
            for name in CONFIGURATIONS
        ),
        Row("least distance of two vehicles", "m", "", flown.separation, digits=2),
    ]
    if not quick:
        seeds, wake = [full(seed) for seed in range(1, 6)], full(wake=True)
        rows += [
            Row("five seeds: largest slot error, settled", "m", "", max(map(worst, seeds)), digits=3),
            Row("five seeds: contacts", "", "", sum(one.contacts for one in seeds), digits=0),
            *(
                Row(f"{name}, with wakes: largest slot error, settled", "m", "", wake.settled(name), digits=2)
                for name in CONFIGURATIONS
            ),
            Row("with wakes: contacts", "", "", wake.contacts, digits=0),
        ]
    return rows
