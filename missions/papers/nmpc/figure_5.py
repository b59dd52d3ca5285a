"""Figure 5: the crossing of two vehicles, a picture a second."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save

from .flights import flown


def reproduce(picture: Path, _quick: bool) -> list[Row]:
    """Draw six moments of the crossing from above, in place of photographs."""
    flight = flown("crossing")
    figure = new_figure(8.0, 5.4)
    grid = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
    nearest = int(np.argmin(flight.distances()))
    rate = round(1.0 / (flight.time[1] - flight.time[0]))
    moments = np.arange(nearest - 2 * rate, nearest + 4 * rate, rate)
    for axes, k in zip(grid, moments, strict=True):
        for i, colour in enumerate(("tab:red", "tab:blue")):
            north, east = flight.state[: k + 1, i, 0], flight.state[: k + 1, i, 1]
            axes.plot(flight.reference[:, i, 1], flight.reference[:, i, 0], ":", color="0.6", lw=0.8)
            axes.plot(east, north, color=colour, lw=1.0)
            axes.plot(east[-1], north[-1], "o", color=colour, ms=9)
        axes.set(title=f"{flight.time[k]:.1f} s", aspect="equal", xlim=(-5.5, 5.5), ylim=(-5.5, 5.5))
    figure.supxlabel("east [m]")
    figure.supylabel("north [m]")
    save(figure, picture)
    speed = float(np.linalg.norm(flight.state[:, :, 3:6], axis=-1).max())
    steps = np.diff(flight.reference, axis=0)
    wanted = float(np.linalg.norm(steps, axis=-1).max() * rate)
    return [
        Row("largest speed of the references", "m/s", "2", wanted, digits=1),
        Row("largest speed flown", "m/s", "", speed, digits=1),
    ]
