"""Section 3.4: the hover with a pose sensor and an inertial unit in place of the odometry."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save
from numpy.typing import NDArray

from . import hovering
from .figure_11 import NOISE, SETPOINT, hover
from .pose_and_imu import PoseAndImu, inertial_unit

END = 40.0
"""s, of which the hover begins at 5 s."""
EARLY, LATE = (5.5, 7.5), (30.0, 40.0)
"""s between which offsets are compared: right after the take-off, and when the biases are known."""


def fly(seed: int) -> hovering.Flown:
    """Hover on the filter's state."""
    unit = inertial_unit()
    vehicle = hovering.published().model_copy(update={"sensors": (unit,)})
    source = PoseAndImu(hovering.Pose(NOISE, seed), unit)
    return hovering.fly(vehicle, lambda _t: SETPOINT, END, source=source, sensors=True, seed=seed)


def offset(flown: hovering.Flown, between: tuple[float, float]) -> tuple[NDArray[np.float64], float]:
    """Mean error of the position, (3,) m NED, and the RMS about it, m."""
    held = (flown.time > between[0]) & (flown.time <= between[1])
    error = flown.position[held] - flown.setpoint[held]
    mean = error.mean(axis=0)
    return mean, float(np.sqrt(((error - mean) ** 2).sum(axis=1).mean()))


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly, draw the position error; compare the offsets with that of the controller on ideal odometry."""
    seeds = [fly(seed) for seed in ((1,) if quick else range(1, 6))]
    ideal = hover(hovering.published())
    own, still = offset(ideal, (10.0, 20.0))
    figure = new_figure()
    axes = figure.subplots()
    for name, axis, sign in (("x", 1, 1), ("y", 0, 1), ("z", 2, -1)):
        shown = seeds[0].time > hovering.TAKE_OFF
        error = sign * (seeds[0].position - seeds[0].setpoint)[shown, axis]
        axes.plot(seeds[0].time[shown], error, lw=0.9, label=f"{name} error")
    axes.set(xlabel="time [s]", ylabel="position error [m]", title="Position error (ENU)", ylim=(-0.15, 0.15))
    axes.legend(loc="upper right", ncols=3)
    axes.grid(alpha=0.3)
    save(figure, picture)
    early, late = (
        [float(np.linalg.norm(offset(flown, when)[0][:2])) for flown in seeds] for when in (EARLY, LATE)
    )
    height = max(abs(offset(flown, LATE)[0][2] - own[2]) for flown in seeds)
    wobble = max(offset(flown, LATE)[1] for flown in seeds)
    return [
        Row("offset to the side, 0.5 to 2.5 s after the take-off, largest", "m", "", max(early), digits=3),
        Row("... 25 to 35 s after, largest", "m", "", max(late), digits=3),
        Row("difference of its height from that on ideal odometry, largest", "m", "", height, digits=3),
        Row("wobble, RMS about the mean, 30 to 40 s, largest", "m", "", wobble, digits=3),
        Row("... with ideal odometry", "m", "", still, digits=3),
    ]
