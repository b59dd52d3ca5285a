"""Figures after the paper's figures 6 to 11: distances over time, their histogram, and flown paths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Patch, Rectangle

from sitl_bridge.base.output_file import write_figure
from sitl_bridge.swarm.avoidance.closed_loop import Flight

_BINS = 60


def distance_figure(flight: Flight) -> Figure:
    """Plot the closest pair's distance over time, its histogram, r_th and r_min (figures 6 to 8)."""
    distance = flight.distances()
    keep = flight.scenario.controller.distances
    figure = Figure(figsize=(8.0, 6.0), layout="constrained")
    over_time, histogram = figure.subplots(2, 1)
    over_time.plot(flight.time, distance, color="tab:blue")
    histogram.hist(distance, bins=_BINS, color="tab:blue")
    for value, label, style in ((keep.threshold, "r_th", "--"), (keep.minimum, "r_min", "-")):
        over_time.axhline(value, color="tab:red", linestyle=style, label=f"{label} = {value} m")
        histogram.axvline(value, color="tab:red", linestyle=style)
    over_time.set(xlabel="time (s)", ylabel="distance of the closest pair (m)", ylim=(0.0, None))
    over_time.set_title(f"{flight.scenario.name}, seed {flight.seed}")
    over_time.legend()
    histogram.set(xlabel="distance (m)", ylabel="ticks", xlim=(0.0, None))
    return figure


def path_figure(flight: Flight, radius: float = 0.3) -> Figure:
    """Plot references (dotted), paths (solid) and start positions (circles) from above (figures 9 to 11).

    Args:
        flight: the flight.
        radius: m of a vehicle in the figure.
    """
    figure = Figure(figsize=(7.0, 7.0), layout="constrained")
    axes = figure.subplots()
    for i, name in enumerate(flight.names):
        colour = f"C{i % 10}"
        axes.plot(flight.reference[:, i, 1], flight.reference[:, i, 0], ":", color=colour)
        axes.plot(flight.state[:, i, 1], flight.state[:, i, 0], color=colour, label=name)
        axes.add_patch(_circle(flight.state[0, i, 1], flight.state[0, i, 0], radius, colour))
    for entity in flight.scenario.obstacles:
        north, east = entity.centre[0], entity.centre[1]
        if entity.kind == "box":
            axes.add_patch(_box(east, north, entity.edges[1], entity.edges[0]))
        else:
            axes.add_patch(_circle(east, north, entity.radius, "0.5"))
    axes.set(xlabel="east (m)", ylabel="north (m)", aspect="equal")
    axes.set_title(f"{flight.scenario.name}, seed {flight.seed}")
    if len(flight.names) <= 10:
        axes.legend(fontsize="small")
    return figure


def _circle(x: float, y: float, radius: float, colour: str) -> Patch:
    return Circle((x, y), radius, facecolor=colour, alpha=0.5)


def _box(x: float, y: float, width: float, height: float) -> Patch:
    return Rectangle((x - 0.5 * width, y - 0.5 * height), width, height, facecolor="0.5", alpha=0.5)


def save_figures(flight: Flight, directory: Path) -> tuple[Path, ...]:
    """Write a flight's figures as PNG files.

    Args:
        flight: the flight.
        directory: created if missing.

    Returns:
        the files: distances for two or more vehicles, and paths.
    """
    directory.mkdir(parents=True, exist_ok=True)
    figures = {"paths": path_figure(flight)}
    if np.isfinite(flight.distances()).all():
        figures["distances"] = distance_figure(flight)
    files = []
    for kind, figure in figures.items():
        file = directory / f"{flight.scenario.name}_{kind}.png"
        FigureCanvasAgg(figure)
        files.append(write_figure(file, figure))
    return tuple(files)
