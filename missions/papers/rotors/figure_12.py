"""Figure 12: angular velocities of a hover with noise on the odometry."""

from __future__ import annotations

from pathlib import Path

from comparison import Row, new_figure, save

from . import hovering
from .figure_11 import NOISE, hover, rms


def reproduce(picture: Path, _quick: bool) -> list[Row]:
    """Draw the angular velocities of the noisy hover; evaluate them with and without noise."""
    published = hovering.published()
    noisy, ideal = hover(published, source=hovering.Odometry(NOISE)), hover(published)
    figure = new_figure()
    axes = figure.subplots()
    held = noisy.time > 10.0
    for name, values, sign in zip("xyz", noisy.rates.T, (1, -1, -1), strict=True):
        axes.plot(noisy.time[held], sign * values[held], lw=0.6, label=f"{name}")
    axes.set(xlabel="time [s]", ylabel="angular velocity [rad/s]", title="Angular velocities (FLU)")
    axes.legend(loc="upper right", ncols=3)
    axes.grid(alpha=0.3)
    save(figure, picture)
    return [
        Row("angular velocity, RMS, ideal odometry", "rad/s", "0.000", rms(ideal)[1]),
        Row("angular velocity, RMS, noise on the odometry", "rad/s", "", rms(noisy)[1], digits=3),
    ]
