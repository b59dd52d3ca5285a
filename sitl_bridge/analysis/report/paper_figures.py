"""Figures of a run for papers: PNG, SVG and PDF by matplotlib, with titles and units, colour-blind safe."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sitl_bridge.analysis.report.reported_run import Reported
from sitl_bridge.analysis.report.time_lines import Plot, fleet_plots, spectrum_plot, thin_out, vehicle_plots
from sitl_bridge.base.output_file import make_directory, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("png", "svg", "pdf")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a7a00")
"""Okabe and Ito's palette, with a dark yellow in place of the light one."""
STYLE: Any = {
    "font.size": 8.0,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "axes.linewidth": 0.6,
}
"""Text stays text in SVG and PDF."""
WIDTH = 3.5
"""Of a column of a two-column paper, inches."""
POINTS = 4000


def write_figures(reported: Sequence[Reported], directory: Path) -> list[Path]:
    """Write the figures of runs into a directory; those of several runs begin with the run's number.

    Raises:
        UserError: if they cannot be written.
    """
    make_directory(directory)
    written = []
    for number, one in enumerate(reported):
        prefix = f"{number + 1}_" if len(reported) > 1 else ""
        for plot in fleet_plots(one.run):
            written += _write(plot_figure(plot), directory / f"{prefix}{plot.key}")
        many = len(one.run.vehicles) > 1
        for vehicle, found in zip(one.run.vehicles, one.evaluation.vehicles, strict=True):
            name = f"{prefix}{vehicle.name}_" if many else prefix
            plots = vehicle_plots(vehicle, POINTS)
            plots += [] if found.rates is None else [spectrum_plot(found.rates)]
            for plot in plots:
                written += _write(plot_figure(plot), directory / f"{name}{plot.key}")
    return written


def plot_figure(plot: Plot) -> Figure:
    """A plot as a figure of a column's width."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.62 * WIDTH), dpi=300, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        draw_plot(axes, plot)
    return figure


def draw_plot(axes: Axes, plot: Plot) -> None:
    """Draw curves, levels, title, units and legend."""
    shown = thin_out(plot, POINTS)
    for number, line in enumerate(shown.lines):
        colour = "0.45" if line.reference else COLOURS[number % len(COLOURS)]
        axes.plot(
            shown.x, line.values, "--" if line.reference else "-", color=colour, lw=0.8, label=line.name
        )
    top = np.nanmax([np.nanmax(line.values) for line in shown.lines if np.isfinite(line.values).any()])
    for value, name in plot.levels:
        if top > 0.2 * value:
            axes.axhline(value, color="#b33c00", ls=":", lw=0.8)
            axes.annotate(
                name, (0.01, value), xycoords=("axes fraction", "data"), va="bottom", color="#b33c00"
            )
    if plot.logarithmic:
        axes.set(xscale="log", yscale="log")
    axes.set(xlabel=plot.x_title, ylabel=plot.unit, title=plot.title)
    axes.grid(alpha=0.3, lw=0.4)
    axes.legend(fontsize=7.0, framealpha=0.8)


def _write(figure: Figure, base: Path) -> list[Path]:
    written = []
    for kind in FORMATS:
        picture = io.BytesIO()
        with mpl.rc_context(STYLE):
            figure.savefig(picture, format=kind)
        written.append(write_whole(base.with_name(f"{base.name}.{kind}"), picture.getvalue()))
    return written
