"""The distance of two vehicles over time and its histogram, as figures 6 and 7 draw them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save
from numpy.typing import NDArray

THRESHOLD, MINIMUM = 1.2, 0.9
"""m, r_th and r_min of the paper's experiments."""


def draw(time: NDArray[np.float64], distance: NDArray[np.float64], picture: Path) -> None:
    """Draw (k,) m over (k,) s, and the histogram."""
    figure = new_figure(8.0, 5.0)
    above, below = figure.subplots(2, 1)
    above.plot(time, distance, lw=1.0, label="distance")
    above.axhline(THRESHOLD, color="tab:orange", ls="--", lw=1.0, label="$r_{th}$")
    above.axhline(MINIMUM, color="tab:red", ls="--", lw=1.0, label="$r_{min}$")
    above.set(xlabel="time [s]", ylabel="distance [m]", ylim=(0.0, None))
    above.legend(ncols=3)
    below.hist(distance, bins=np.arange(0.0, float(distance.max()) + 0.1, 0.1))
    for at, colour in ((THRESHOLD, "tab:orange"), (MINIMUM, "tab:red")):
        below.axvline(at, color=colour, ls="--", lw=1.0)
    below.set(xlabel="distance [m]", ylabel="samples")
    for axes in (above, below):
        axes.grid(alpha=0.3)
    save(figure, picture)


def evaluate(distance: NDArray[np.float64], active: bool, what: str = "") -> list[Row]:
    """Least distance, how long it was above r_th, and whether the hard constraint was active."""
    share = 100.0 * float(np.mean(distance > THRESHOLD))
    return [
        Row(f"{what}least distance", "m", "> 0.9", float(distance.min()), digits=2),
        Row(f"{'... ' if what else ''}time above r_th = 1.2 m", "%", "", share, digits=1),
        Row(f"{'... ' if what else ''}hard constraint ever active (1: yes)", "", "0", float(active)),
    ]
