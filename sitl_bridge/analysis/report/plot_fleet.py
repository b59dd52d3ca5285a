"""Picture of a flight of several vehicles, from the truth: tracks, heights, smallest distance.

Writes a PNG with matplotlib, without a display.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sitl_bridge.analysis.report.vehicle_distances import closest_distance
from sitl_bridge.base.output_file import write_figure
from sitl_bridge.record.truth_log import read_truth

RATE = 10.0
"""Sampling rate of the plotted truth, Hz: at 10 m/s one point per metre."""


def draw_fleet(truth: Path, names: list[str], path: Path, title: str) -> bool:
    """Draw a flight to a PNG file; return False if the log is empty.

    Args:
        truth: log of all vehicles.
        names: of the vehicles, in the log's order.
        path: of the picture.
        title: of the picture.
    """
    time, position = thinned(truth, len(names))
    if len(time) < 2:
        return False
    figure = Figure(figsize=(13.0, 7.0), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2, width_ratios=(1.2, 1.0))
    figure.suptitle(title)
    above = figure.add_subplot(grid[:, 0])
    height = figure.add_subplot(grid[0, 1])
    near = figure.add_subplot(grid[1, 1], sharex=height)
    for i, name in enumerate(names):
        north, east, down = position[:, i].T
        above.plot(east, north, lw=1.0, label=name)
        above.plot(east[0], north[0], "o", ms=4, color=above.lines[-1].get_color())
        height.plot(time, -down, lw=1.0)
    above.set(xlabel="east, m", ylabel="north, m", title="from above (dots: start)")
    above.set_aspect("equal", adjustable="datalim")
    if len(names) <= 20:
        above.legend(loc="best", fontsize="small", ncols=2)
    height.set(ylabel="height, m")
    near.plot(time, closest_distance(position), lw=1.0)
    near.set(xlabel="simulated time, s", ylabel="m", title="closest pair in the air")
    near.set_ylim(bottom=0.0)
    for axes in (above, height, near):
        axes.grid(alpha=0.3)
    write_figure(path, figure)
    return True


def thinned(truth: Path, count: int, rate: float = RATE) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (k,) s and (k, n, 3) m NED of the truth, sampled at ``rate`` Hz."""
    table: Any = read_truth(truth)
    rows = len(table) // count
    every = (
        max(1, round(1e6 / rate / max(int(table["time"][count] - table["time"][0]), 1))) if rows > 1 else 1
    )
    table = table[: rows * count].reshape(rows, count)[::every]
    axes = [table[f"position_{axis}"] for axis in ("north", "east", "down")]
    return table["time"][:, 0] * 1e-6, np.stack(axes, axis=-1).astype(np.float64)
