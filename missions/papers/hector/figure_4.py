"""Figure 4: spectra of the angular rates, and velocities with their commands, over the test trajectory."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save

from sitl_bridge.api.judging import Spectrum, spectrum, step_responses

from .transitions import Flown, HectorController, fly

DEAD_TIME = 0.015
"""s, the paper's."""
STIFF = 4.0
"""Of the attitude loop, in the experiment that looks for the paper's oscillation."""
MANOEUVRE = 1.5
"""Hz; below it the spectrum is that of the steps of velocity."""


def tilting(flown: Flown) -> Spectrum:
    """Spectrum of the roll and pitch rates, added up."""
    found = spectrum(flown.time, flown.rates[:, :2])
    assert found is not None
    return Spectrum(found.frequency, found.density.sum(axis=1, keepdims=True))


def oscillation(found: Spectrum) -> tuple[float, float]:
    """Frequency in Hz and density of the highest peak from the manoeuvre's to 10 Hz; nan without one."""
    density = found.density[:, 0]
    peaks = np.flatnonzero((density[1:-1] > density[:-2]) & (density[1:-1] > density[2:])) + 1
    peaks = peaks[(found.frequency[peaks] > MANOEUVRE) & (found.frequency[peaks] < 10.0)]
    if not len(peaks):
        return math.nan, math.nan
    best = peaks[np.argmax(density[peaks])]
    return float(found.frequency[best]), float(density[best])


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly by the released gains with the dead time; in full also without, stiffer, and by a built-in law."""
    flown = fly(HectorController, dead_time=DEAD_TIME)
    curves = {"released gains, 15 ms dead time": tilting(flown)}
    error = flown.velocity - flown.wanted
    steps = step_responses(flown.time, flown.velocity, flown.time, flown.wanted)
    rows = [
        Row(
            "velocity error, RMS over the trajectory",
            "m/s",
            "",
            float(np.sqrt((error**2).sum(1).mean())),
            digits=2,
        ),
        Row(
            "rise time of the velocity, median", "s", "", float(np.median([s.rise for s in steps])), digits=2
        ),
    ]
    reason = "the released gains are softer, see below"
    rows.append(
        Row("oscillation, released gains", "Hz", "3", oscillation(curves[next(iter(curves))])[0], reason, 2)
    )
    if not quick:
        stiff = [
            tilting(fly(partial(HectorController, stiffness=STIFF), dead_time=late))
            for late in (0.0, DEAD_TIME)
        ]
        curves |= {"attitude 4 times as stiff": stiff[0], "... and 15 ms dead time": stiff[1]}
        at, high = oscillation(stiff[1])
        low = float(np.interp(at, stiff[0].frequency, stiff[0].density[:, 0]))
        own = [fly(seed=seed) for seed in range(1, 6)]
        errors = [float(np.sqrt(((f.velocity - f.wanted) ** 2).sum(1).mean())) for f in own]
        rows += [
            Row(
                "oscillation, attitude 4 times as stiff",
                "Hz",
                "3",
                at,
                "gains of the vehicle are not known",
                2,
            ),
            Row("... its density with dead time over that without", "1", "", high / low, digits=1),
            Row(
                "built-in controller: velocity error, RMS, worst of five seeds",
                "m/s",
                "",
                max(errors),
                digits=2,
            ),
        ]
    figure = new_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    for name, found in curves.items():
        left.loglog(found.frequency, found.density[:, 0], lw=1.0, label=name)
    left.axvline(3.0, color="0.5", ls=":", lw=1.0)
    left.set(
        xlim=(0.25, 20.0), ylim=(1e-5, None), xlabel="frequency [Hz]", ylabel="PSD of the rates [(rad/s)²/Hz]"
    )
    left.legend(fontsize="small")
    for name, axis, sign in (("x", 0, 1), ("y", 1, -1), ("z", 2, -1)):
        (line,) = right.plot(flown.time, sign * flown.velocity[:, axis], lw=1.0, label=f"v_{name}")
        right.plot(flown.time, sign * flown.wanted[:, axis], "--", color=line.get_color(), lw=0.8)
    right.set(xlabel="time [s]", ylabel="velocity [m/s]")
    right.legend(ncols=3, fontsize="small")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    save(figure, picture)
    return rows
