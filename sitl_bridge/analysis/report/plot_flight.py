"""Picture of a flight: top view, height over time, deviation over time.

Writes a PNG with matplotlib, without a display.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sitl_bridge.analysis.evaluation.flight_record import FlightRecord
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.output_file import write_figure

POINTS = 4000
"""Number of points per curve, more than the picture has pixels across."""


def _thin(time: Floats, values: Floats) -> tuple[Floats, Floats]:
    every = max(1, len(time) // POINTS)
    return time[::every], values[::every]


def draw(record: FlightRecord, path: Path, title: str) -> None:
    """Draw a flight to a PNG file.

    Args:
        record: of a flight with a take-off.
        path: of the picture.
        title: of the picture.
    """
    figure = Figure(figsize=(12.0, 7.0), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2, width_ratios=(1.2, 1.0))
    above = figure.add_subplot(grid[:, 0])
    height = figure.add_subplot(grid[0, 1])
    error = figure.add_subplot(grid[1, 1], sharex=height)
    figure.suptitle(title)
    air = (record.time >= record.take_off - 3.0) & (record.time <= record.landing + 3.0)
    time, estimate = _thin(record.time[air], record.estimate[air])
    start = record.take_off

    curves = [(time, estimate, "estimated", "tab:blue", 1.2)]
    if len(record.true_time):
        true_air = (record.true_time >= record.take_off - 3.0) & (record.true_time <= record.landing + 3.0)
        true_time, truth = _thin(record.true_time[true_air], record.truth[true_air])
        curves.append((true_time, truth, "true", "tab:orange", 1.2))
    reference = record.reference
    if len(reference):
        above.plot(reference[:, 1], reference[:, 0], "--", color="0.5", lw=1.0, label="reference")
    for moments, points, label, colour, width in curves:
        above.plot(points[:, 1], points[:, 0], color=colour, lw=width, label=label)
        height.plot(moments - start, -points[:, 2], color=colour, lw=width, label=label)
    if len(estimate):
        above.plot(estimate[0, 1], estimate[0, 0], "o", color="tab:green", ms=6, label="take-off")
        above.plot(estimate[-1, 1], estimate[-1, 0], "s", color="tab:red", ms=6, label="landing")
    above.set(xlabel="east, m", ylabel="north, m", title="from above")
    above.set_aspect("equal", adjustable="datalim")
    above.legend(loc="best", fontsize="small")
    height.set(ylabel="height, m", title="height above the estimator's origin")
    if len(record.error_time):
        moments, values = _thin(record.error_time, record.error)
        gaps = np.concatenate([[0.0], np.diff(moments)]) > 1.0
        error.plot(moments - start, np.where(gaps, np.nan, values), color="tab:red", lw=1.0)
        error.set_ylim(bottom=0.0)
    else:
        error.text(0.5, 0.5, "no reference", ha="center", va="center", transform=error.transAxes)
    error.set(xlabel="time since take-off, s", ylabel="deviation, m", title="deviation from the reference")
    for axes in (above, height, error):
        axes.grid(alpha=0.3)
    write_figure(path, figure)
