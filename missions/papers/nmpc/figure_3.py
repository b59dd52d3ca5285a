"""Figure 3: the logistic potential of eq. 10 for several smoothness parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save

from sitl_bridge.api.swarms import ControllerSettings, collision

THRESHOLD = 1.2
"""m, r_th of the paper's experiments."""


def potential(distance: float, smoothness: float) -> float:
    """Cost of eq. 10 as a share of its weight Q_c."""
    settings = ControllerSettings().record()[0]
    settings["smoothness"] = smoothness
    half = collision(settings, THRESHOLD, distance, np.zeros(3), np.zeros(3), np.zeros((3, 3)))
    return float(2.0 * half / settings["collision_weight"])


def reproduce(picture: Path, _quick: bool) -> list[Row]:
    """Draw the potential; evaluate it about the threshold."""
    figure = new_figure()
    axes = figure.subplots()
    distances = np.linspace(0.0, 3.0, 200)
    for smoothness in (1.0, 2.0, 4.0, 8.0):
        costs = [potential(d, smoothness) for d in distances]
        axes.plot(distances, costs, label=rf"$\kappa$ = {smoothness:g} 1/m")
    axes.axvline(THRESHOLD, color="0.5", lw=0.8, ls="--")
    axes.set(xlabel="distance [m]", ylabel=r"cost / $Q_c$", title=r"Potential, $r_{th}$ = 1.2 m")
    axes.legend()
    axes.grid(alpha=0.3)
    save(figure, picture)
    return [
        Row("share of Q_c at r_th, any κ", "1", "", potential(THRESHOLD, 2.0), digits=2),
        Row("share of Q_c at 0.9 m, κ = 8 1/m (the default)", "1", "", potential(0.9, 8.0), digits=2),
    ]
