"""Compares predictors on real flights, and writes the tables of docs/realism.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.validation.disturbances import missing_acceleration
from sitl_bridge.lab.validation.windows import HORIZONS, Predictor, Windows, errors, flight_errors

TRIMMED = 8.0
"""s in the air from which a flight's own trim is taken; windows after it are scored."""
DRAWS = 2000
"""Of flights with replacement, for the intervals."""
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
QUANTITIES = (("position, m", 3), ("velocity, m/s", 3), ("attitude, deg", 1), ("rates, rad/s", 2))
"""Quantities of ``errors`` and their decimals."""
LACKING = ("force lacking, m/s² (x, y, z)", "moment lacking, rad/s² (x, y, z)")
"""Of ``missing_acceleration``, over mass and inertia."""
PROTOCOLS = {
    False: "Nothing from the scored flights: trim of the flights for fitting",
    True: f"Each flight's own trim from its first {TRIMMED:.0f} s in the air; the windows after it",
}


@dataclass(frozen=True)
class Score:
    """How well a predictor does."""

    name: str  # of the predictor
    own_trim: bool  # whether each flight's own trim was taken from its first seconds
    # windows, flights: how many
    windows: int
    flights: int
    mean: Floats  # (h, 4) of the flights' root mean squares, at HORIZONS, of QUANTITIES
    interval: Floats  # (2, h, 4) 95 % of it, by bootstrap over flights
    lacking: Floats  # (2, 3) likewise, of LACKING in body axes


def compare(
    predictors: Sequence[Predictor], fitting: Windows, testing: Windows, say: Callable[[str], None]
) -> list[Score]:
    """Fit all predictors to some flights and score them on others, with and without each flight's own trim.

    Raises:
        UserError: if no window is left to be scored.
    """
    late = testing.airborne > TRIMMED
    if not late.any():
        raise UserError(f"no flight to be scored is longer than {TRIMMED + HORIZONS[-1]:g} s")
    found = []
    for predictor in predictors:
        say(predictor.name)
        predictor.fit(fitting)
        mean = np.mean([predictor.trim(_flight(fitting, i)) for i in np.unique(fitting.flight)], axis=0)
        trims = np.tile(mean, (len(testing), 1))
        found.append(_score(predictor, testing, trims, own_trim=False))
        for i in np.unique(testing.flight):
            own = _flight(testing.part(~late), i)
            trims[testing.flight == i] = predictor.trim(own) if len(own) else mean
        found.append(_score(predictor, testing.part(late), trims[late], own_trim=True))
    return found


def _flight(windows: Windows, i: int) -> Windows:
    return windows.part(windows.flight == i)


def _score(predictor: Predictor, windows: Windows, trims: Floats, *, own_trim: bool) -> Score:
    predicted = predictor.predict(windows, trims)
    each = flight_errors(errors(predicted, windows), windows)
    lacking = flight_errors(missing_acceleration(predicted, windows), windows)
    drawn = np.random.default_rng(0).integers(len(each), size=(DRAWS, len(each)))
    interval = np.quantile(each[drawn].mean(axis=1), (0.025, 0.975), axis=0)
    return Score(
        predictor.name,
        own_trim,
        len(windows),
        len(each),
        each.mean(axis=0),
        interval,
        lacking.mean(axis=0).reshape(2, 3),
    )


def lines(scores: Sequence[Score]) -> Iterator[str]:
    """The tables in Markdown."""
    horizons = ", ".join(f"{h:g}" for h in HORIZONS)
    names = [*(name for name, _ in QUANTITIES), *LACKING]
    for own, title in PROTOCOLS.items():
        rows = [score for score in scores if score.own_trim == own]
        yield f"**{title}** ({rows[0].windows} windows, {rows[0].flights} flights; errors after {horizons} s)"
        yield ""
        yield "| | " + " | ".join(names) + " |"
        yield "|---" * (1 + len(names)) + "|"
        for score in rows:
            cells = [
                ", ".join(f"{value:.{digits}f}" for value in score.mean[:, q])
                + " ({:.{d}f} to {:.{d}f})".format(*score.interval[:, -1, q], d=digits)
                for q, (_, digits) in enumerate(QUANTITIES)
            ]
            cells += [", ".join(f"{value:.2f}" for value in axes) for axes in score.lacking]
            yield f"| {score.name} | {' | '.join(cells)} |"
        yield ""


def update_page(page: str, tables: Sequence[str]) -> str:
    """A page with new tables between its marks, or after it.

    Raises:
        UserError: if a mark is missing.
    """
    if (BEGIN in page) != (END in page):
        raise UserError(f"the page has one of the marks {BEGIN} and {END} alone")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([f"{before}{BEGIN}", "", *tables, END]) + (after or "\n")
