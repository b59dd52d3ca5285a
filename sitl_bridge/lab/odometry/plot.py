"""Pictures of estimated trajectories beside the truth: from above, and their errors over time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sitl_bridge.api.poses import Comparison
from sitl_bridge.base.output_file import write_figure


def plot_trajectories(compared: Mapping[str, Comparison], path: Path) -> Path:
    """Draw the trajectories from above, and the height over time, as a PNG file.

    Args:
        compared: the estimators' trajectories with the truth, by the estimators' names.
        path: of the file.

    Raises:
        UserError: when it cannot be written.
    """
    figure = Figure(figsize=(10.0, 5.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    above, height = figure.subplots(1, 2, width_ratios=(1.4, 1.0))
    for number, (name, comparison) in enumerate(compared.items()):
        estimate, truth = comparison.estimate, comparison.truth
        if number == 0:
            above.plot(truth.position[:, 1], truth.position[:, 0], "--", color="0.25", lw=1.4, label="truth")
            height.plot(truth.time, -truth.position[:, 2], "--", color="0.25", lw=1.4, label="truth")
        color = f"C{number}"
        above.plot(estimate.position[:, 1], estimate.position[:, 0], color=color, lw=1.1, label=name)
        height.plot(estimate.time, -estimate.position[:, 2], color=color, lw=1.1, label=name)
    above.set(xlabel="east, m", ylabel="north, m", title="from above")
    above.set_aspect("equal", adjustable="datalim")
    above.legend(loc="best", fontsize="small")
    height.set(xlabel="time, s", ylabel="height, m", title="height")
    for axes in (above, height):
        axes.grid(alpha=0.3)
    return write_figure(path, figure)


def plot_errors(compared: Mapping[str, Comparison], path: Path) -> Path:
    """Draw the absolute errors of position and angle over time as a PNG file; arguments as above."""
    figure = Figure(figsize=(10.0, 5.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    position, angle = figure.subplots(2, 1, sharex=True)
    for number, (name, comparison) in enumerate(compared.items()):
        estimate, errors = comparison.estimate, comparison.absolute
        label = f"{name}: {np.sqrt(np.mean(errors.translation**2)):.3f} m rmse"
        position.plot(estimate.time, errors.translation, color=f"C{number}", lw=1.0, label=label)
        angle.plot(estimate.time, errors.angle, color=f"C{number}", lw=1.0)
    position.set(ylabel="position error, m", title="absolute error")
    position.legend(loc="best", fontsize="small")
    angle.set(xlabel="time, s", ylabel="angle error, deg")
    for axes in (position, angle):
        axes.set_ylim(bottom=0.0)
        axes.grid(alpha=0.3)
    return write_figure(path, figure)
