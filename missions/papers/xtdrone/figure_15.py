"""Figure 15: the velocity of a follower along Y and its command, in the formation on full dynamics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save

from sitl_bridge.api.swarms import VelocityFollower

from .formation import full


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Draw the velocity of the follower that moves most along Y, and the command of its law."""
    flown = full(short=quick)
    shown = flown.time >= 0.0
    time = flown.time[shown]
    most = int(np.argmax(np.abs(np.diff(flown.slot[shown, :, 1], axis=0)).sum(axis=0)))
    position, slot = flown.position[shown, most], flown.slot[shown, most]
    velocity = -np.gradient(position[:, 1], time)
    law = VelocityFollower()
    command = law.gain * (slot - position)
    command *= np.minimum(1.0, law.max_speed / np.maximum(np.linalg.norm(command, axis=1), 1e-12))[:, None]
    wanted = -command[:, 1]
    figure = new_figure()
    axes = figure.subplots()
    axes.plot(time, wanted, "--", lw=1.0, label="setpoint")
    axes.plot(time, velocity, lw=1.0, label="velocity")
    axes.set(xlabel="time [s]", ylabel="Y velocity [m/s]", title=f"Follower {most}")
    axes.legend()
    axes.grid(alpha=0.3)
    save(figure, picture)
    lags = range(12)
    errors = [np.sqrt(np.mean((velocity[lag:] - wanted[: len(wanted) - lag]) ** 2)) for lag in lags]
    return [
        Row("velocity less setpoint along Y, RMS", "m/s", "", float(errors[0]), digits=3),
        Row("delay with which they agree best", "s", "", 0.1 * int(np.argmin(errors)), digits=1),
    ]
