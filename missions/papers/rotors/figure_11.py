"""Figure 11 and the evaluation of section 3.6: the position error of a hover at 1 m by odometry."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save

import sitl_bridge as sb

from . import hovering

SETPOINT = (0.0, 0.0, -1.0)
NOISE = (0.01, 0.017)
"""m and rad, of rotors_description/urdf/mav_generic_noisy_odometry_sensor.gazebo."""


def rms(flown: hovering.Flown) -> tuple[float, float]:
    """RMS of position error, m, and angular velocity, rad/s, from 10 to 20 s, as hovering_eval.py."""
    held = (flown.time > 10.0) & (flown.time <= 20.0)
    error = flown.position[held] - flown.setpoint[held]
    return tuple(math.sqrt((values**2).sum(axis=1).mean()) for values in (error, flown.rates[held]))


def hover(airframe: sb.Airframe, **options: object) -> hovering.Flown:
    """20 s of the hovering example."""
    return hovering.fly(airframe, lambda _t: SETPOINT, 20.0, **options)


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Draw the error of the hover with noise on the odometry, and evaluate hovers with and without."""
    published = hovering.published()
    shipped = sb.Airframe.load("firefly").changed(mass=published.mass)
    noisy = hover(published, source=hovering.Odometry(NOISE))
    figure = new_figure()
    axes = figure.subplots()
    error = noisy.position - noisy.setpoint
    held = noisy.time > 10.0
    for name, values, sign in zip("xyz", error.T, (1, -1, -1), strict=True):
        axes.plot(noisy.time[held], sign * values[held], lw=0.9, label=f"{name} error")
    axes.set(xlabel="time [s]", ylabel="position error [m]", title="Position error (ENU)")
    axes.legend(loc="upper right", ncols=3)
    axes.grid(alpha=0.3)
    save(figure, picture)
    ideal, _ = rms(hover(published))
    offset = -float(np.mean(error[held, 2]))
    rows = [
        Row("position error, RMS, ideal odometry", "m", "0.040", ideal),
        Row("position error, RMS, noise on the odometry", "m", "", rms(noisy)[0], digits=3),
        Row("constant offset in z, noise on the odometry", "m", "", offset, digits=3),
    ]
    if not quick:
        even = published.changed(motor={"time_constant_down": published.motor.time_constant_up})
        offset = rms(hover(even, source=hovering.Odometry(NOISE)))[0]
        rows += [
            Row("... with motors as quick down as up", "m", "", offset, digits=3),
            Row("... with induced flow, drag and ground effect", "m", "", rms(hover(shipped))[0], digits=3),
            Row("... and a full battery", "m", "", rms(hover(shipped, full_battery=True))[0], digits=3),
        ]
    return rows
