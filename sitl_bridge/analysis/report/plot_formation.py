"""Picture of a formation flight: tracks in space, slot error and separation over time.

Writes a PNG with matplotlib, without a display.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sitl_bridge.base.output_file import write_figure
from sitl_bridge.swarm.quick_simulation import MAX_SLOT_ERROR, FormationResult

TRACKS = 100
"""Largest number of drawn tracks; more would cover one another.  Positions are drawn for all vehicles."""


def draw(result: FormationResult, path: Path, title: str) -> None:
    """Draw a formation flight to a PNG file."""
    figure = Figure(figsize=(13.0, 6.5), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2, width_ratios=(1.25, 1.0))
    figure.suptitle(title)
    _space(figure.add_subplot(grid[:, 0], projection="3d"), result)
    error = figure.add_subplot(grid[0, 1])
    _errors(error, result)
    _separation(figure.add_subplot(grid[1, 1], sharex=error), result)
    write_figure(path, figure)


def _space(axes: Any, result: FormationResult) -> None:
    """Draw tracks, and all positions shortly after each move."""
    count = result.position.shape[1]
    drawn = np.unique(np.linspace(0, count - 1, min(count, TRACKS)).astype(int))
    for i in drawn:
        north, east, down = result.position[:, i].T
        axes.plot(
            east,
            north,
            -down,
            lw=1.4 if i == 0 else 0.6,
            color="black" if i == 0 else f"C{i % 10}",
            alpha=0.7,
        )
    size = 18.0 if count <= TRACKS else 2.0
    for move in result.plan.choreography.moves:
        row = min(int(np.searchsorted(result.time, move.over * 1e-6)), len(result.time) - 1)
        north, east, down = result.position[row].T
        axes.scatter(east, north, -down, s=size, label=f"{move.name}, {result.time[row]:.0f} s")
    axes.set(xlabel="east, m", ylabel="north, m", zlabel="height, m")
    axes.legend(loc="upper left", fontsize="small")
    axes.set_aspect("equal")


def _errors(axes: Any, result: FormationResult) -> None:
    if result.error.shape[1] <= TRACKS:
        axes.plot(result.time, result.error, lw=0.7)
    worst = np.where(np.isfinite(result.error), result.error, -np.inf).max(axis=1)
    axes.plot(result.time, np.where(np.isfinite(worst), worst, np.nan), color="black", lw=1.0, label="worst")
    axes.axhline(MAX_SLOT_ERROR, color="tab:red", ls="--", lw=1.0, label=f"{MAX_SLOT_ERROR:g} m")
    for move in result.plan.choreography.moves[1:]:
        axes.axvspan(move.start * 1e-6, move.over * 1e-6, color="0.9", zorder=0)
    axes.set(ylabel="distance from the slot, m", title="slots (grey: moves)")
    axes.set_ylim(bottom=0.0)
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)


def _separation(axes: Any, result: FormationResult) -> None:
    axes.plot(result.time, result.separation, color="tab:blue", lw=1.0)
    limit = result.plan.limits.separation
    axes.axhline(limit, color="tab:red", ls="--", lw=1.0, label=f"{limit:g} m")
    for event in result.events:
        axes.axvline((event.time - result.start) * 1e-6, color="0.6", lw=0.6)
    axes.set(xlabel="time since the start, s", ylabel="closest pair, m", title="separation (lines: events)")
    axes.set_ylim(bottom=0.0)
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
