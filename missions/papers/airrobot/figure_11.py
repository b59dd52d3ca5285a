"""Figure 11 and section 7: the wind measured with a flight, by analysis by synthesis.

T. Linkugel, A. Schilling, "Another step towards measuring the world from the air: Model-based 3D real-time
simulation of micro-UAV", 2013: the wind of a simulation is changed until its measurements are those of the
flight.  Here the flight is simulated, too, with the noise of its sensors.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge.lab.identification import WindEstimate, identify_airframe, read_identification_flight

WINDS = ((6.0, 180.0), (3.0, 240.0))
"""m/s, and deg from which it blows: figure 5's, then a weaker one from another side."""
HELD = 40.0
"""s in each, in position hold at 10 m; half of it in the quick form."""
PASSING = 10.0
"""s on each side of the change, the spacing of the estimate's knots, which are not evaluated."""


def vector(wind: tuple[float, float]) -> NDArray[np.float64]:
    """(2,) m/s north and east of where it blows to."""
    speed, source = wind
    return -speed * np.array([math.cos(math.radians(source)), math.sin(math.radians(source))])


def measured(seed: int, held: float) -> WindEstimate:
    """The wind along a flight in both winds, from its log; its time is s since the wind changed."""
    first, second = (f"{speed:g}@{source:g}" for speed, source in WINDS)
    with tempfile.TemporaryDirectory() as runs:
        with sb.Sitl("ar100b", world=sb.World(wind=first), seed=seed, runs=runs) as sitl:
            sitl.vehicle.arm()
            sitl.vehicle.take_off(10.0)
            sitl.run(held)
            sitl.set_wind(second)
            sitl.run(held)
            run = sitl.directory
        log = read_identification_flight(run, 4)
    (wind,) = identify_airframe([log], sb.Airframe.load("ar100b"), fit=("wind",)).wind
    return WindEstimate(
        wind.time - log.commands.time[-1] + held,
        wind.velocity,
        wind.deviation,
        wind.mean,
        wind.mean_deviation,
    )


def errors(wind: WindEstimate, number: int) -> tuple[float, float, float]:
    """Mean speed, m/s, error of its direction, deg, and largest error of the vector, m/s, in one wind."""
    begun = wind.time < -PASSING if number == 0 else wind.time > PASSING
    found, true = wind.velocity[begun], vector(WINDS[number])
    mean = found.mean(axis=0)
    turn = math.atan2(mean[1], mean[0]) - math.atan2(true[1], true[0])
    off = np.linalg.norm(found - true, axis=1).max()
    return float(np.linalg.norm(mean)), abs(math.degrees(math.remainder(turn, math.tau))), float(off)


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly and measure the wind, draw it along the first flight beside the true one."""
    winds = [measured(1, 0.5 * HELD)] if quick else [measured(seed, HELD) for seed in range(1, 6)]
    wind = winds[0]
    figure = new_figure(8.0, 3.6)
    axes = figure.subplots()
    true = np.array([vector(each) for each in WINDS])
    for name, axis in (("north", 0), ("east", 1)):
        line = axes.errorbar(
            wind.time,
            wind.velocity[:, axis],
            2.0 * wind.deviation[:, axis],
            fmt="o-",
            ms=4,
            lw=1.0,
            label=name,
        )
        axes.plot(
            [wind.time[0], 0.0, 0.0, wind.time[-1]],
            true[[0, 0, 1, 1], axis],
            "--",
            color=line[0].get_color(),
            lw=1.0,
        )
    axes.set(xlabel="time since the wind changed [s]", ylabel="wind [m/s]", title="dashed: true")
    axes.legend()
    axes.grid(alpha=0.3)
    save(figure, picture)
    rows = []
    for number, (speed, source) in enumerate(WINDS):
        found = [errors(each, number) for each in winds]
        rows += [
            Row(
                f"{speed:g} m/s from {source:g}°: speed measured",
                "m/s",
                "",
                float(np.mean([one[0] for one in found])),
                digits=2,
            ),
            Row("... direction, off by", "°", "", max(one[1] for one in found), digits=1),
            Row("... largest error of the vector", "m/s", "", max(one[2] for one in found), digits=2),
        ]
    return rows
