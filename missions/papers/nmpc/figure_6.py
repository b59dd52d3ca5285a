"""Figure 6: the distance of two vehicles, of which one hovers, another of higher priority is flown at it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from comparison import Row

from sitl_bridge.api.swarms import ControllerSettings, Weights

from . import by_hand
from .distances import THRESHOLD, draw, evaluate
from .flights import flown, variants

WEAK = 200.0
"""A tenth of the default Q_c."""


def by_a_script(row: Row) -> Row:
    """The row, with who flew; not where it continues the one before."""
    return (
        row if row.quantity.startswith("...") else replace(row, quantity=f"flown by a script: {row.quantity}")
    )


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly one by hand, draw and evaluate; in full, also by the script of ``missions/approach.yaml``."""
    flight = by_hand.fly(ControllerSettings(), passes=2 if quick else by_hand.PASSES)
    draw(flight.time, flight.distance, picture)
    rows = evaluate(flight.distance, flight.active)
    if not quick:
        seeds = [flight, *(by_hand.fly(ControllerSettings(), seed=seed) for seed in range(2, 6))]
        least = min(float(each.distance.min()) for each in seeds)
        weak = by_hand.fly(ControllerSettings(weights=Weights(collision=WEAK)))
        above = 100.0 * float((weak.distance > THRESHOLD).mean())
        scripted = flown("approach")
        rows += [
            Row("least distance, five seeds", "m", "> 0.9", least, digits=2),
            Row(
                f"least distance, Q_c {WEAK:g} in place of 2000",
                "m",
                "> 0.9",
                float(weak.distance.min()),
                digits=2,
            ),
            Row("... time above r_th", "%", "", above, digits=1),
            Row("... hard constraint ever active (1: yes)", "", "", float(weak.active), digits=0),
            *evaluate(scripted.distances(), bool(scripted.active.any()), "flown by a script: "),
            *(by_a_script(row) for row in variants("approach", quick)),
        ]
    return rows
