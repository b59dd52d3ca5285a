"""Section 3.6: the evaluations of waypoints and of a gust, which the paper names and prints no values of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save

from sitl_bridge.api.judging import constant_setpoints, disturbance_results, waypoint_results

from . import hovering

MOVED, GUST, ENDED, END = 15.0, 27.0, 29.0, 38.0
"""s: the waypoint 1 0 1 of section 3.3; a gust as long as that of firefly_with_wind_gust.gazebo."""
FORCE = 5.0 / np.sqrt(2.0)
"""N: 5 N along (1, 1, 0), ENU."""


def reproduce(picture: Path, _quick: bool) -> list[Row]:
    """Fly to the waypoint and through the gust, draw the position, evaluate as the scripts of RotorS do."""
    flown = hovering.fly(
        hovering.published(),
        lambda t: (0.0, 1.0, -1.0) if t >= MOVED else (0.0, 0.0, -1.0),
        END,
        force=lambda t: (FORCE, FORCE, 0.0) if GUST <= t < ENDED else 0.0,
    )
    figure = new_figure()
    axes = figure.subplots()
    for name, axis, sign in (("x", 1, 1), ("y", 0, 1), ("z", 2, -1)):
        (line,) = axes.plot(flown.time, sign * flown.position[:, axis], lw=1.0, label=name)
        axes.plot(flown.time, sign * flown.setpoint[:, axis], ":", color=line.get_color(), lw=0.8)
    axes.axvspan(GUST, ENDED, color="0.9")
    axes.set(xlabel="time [s]", ylabel="position [m]", title="Waypoint and gust (ENU; dotted: setpoint)")
    axes.legend(loc="center left", ncols=3)
    axes.grid(alpha=0.3)
    save(figure, picture)
    after = flown.time > hovering.TAKE_OFF
    motion = [values[after] for values in (flown.time, flown.position, flown.rates)]
    held = constant_setpoints(motion[0], flown.setpoint[after])
    waypoint = waypoint_results(*motion, held)[1]
    (gust,) = disturbance_results(*motion, held, [GUST])
    assert waypoint.hover is not None
    return [
        Row("waypoint 1 m away: settled within 0.1 m after", "s", "", waypoint.settling or np.nan, digits=2),
        Row("... RMS of the position error from then on", "m", "", waypoint.hover.position, digits=3),
        Row("gust: largest distance from the setpoint", "m", "", gust.deviation, digits=3),
        Row("... settled within 0.1 m after", "s", "", gust.settling or np.nan, digits=2),
    ]
