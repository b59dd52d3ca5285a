"""Disturbances between flights and within them: forces and moments that no figure of an airframe describes.

Batteries and propellers are replaced between flights, so each has a trim of its own; thrust falls as it goes
on; slow moments come and go.  Both are estimated while a flight goes on, from what the predictions before
lacked: a constant of the flight plus a first-order Gauss-Markov process, behind the noise of measured states,
in each axis by a Kalman filter (Gelb, Applied Optimal Estimation, 1974, chapter 4).  Only what was measured
before a prediction's start is used.

The measured velocity and rates at a start are noisy, too: what one prediction lacks, the next has too much.
The correlation of neighbours shows how much (Muth, Journal of the American Statistical Association 55, 1960),
and a start is the measured one mixed with the prediction from the start before.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from sitl_bridge.base.arrays import Floats, Mask
from sitl_bridge.base.rotations import matrix_from_quaternion
from sitl_bridge.lab.validation.windows import FIELDS, HORIZONS, Motion, Predictor, Windows

SMOOTHING = 0.07
"""s by which a measured state, a derivative over as much to either side, comes late."""
PASSES = 3
"""In which the starts of predictions settle; each brings in the start of one prediction earlier."""
CONSTANTS, SLOW, TIMES = (0.3, 1.0, 3.0), (0.1, 0.3, 1.0), (0.3, 0.6, 1.2, 2.4)
"""Deviations of the constant and of the process, over that of the noise; s of the process: what is tried."""


@dataclass(frozen=True)
class Observer:
    """Filters for six axes."""

    # constant, slow: (6,) deviations over that of the noise
    constant: Floats
    slow: Floats
    time: Floats  # (6,) s, of the process
    trust: Floats  # (6,) of a measured start's velocity and rates, beside the prediction before it

    @classmethod
    def fit(cls, predicted: Motion, windows: Windows) -> Observer:
        """The filters that foresee best what predictions of the flights for fitting lack."""
        lacking = missing_acceleration(predicted, windows)
        tried, found = np.array(list(itertools.product(CONSTANTS, SLOW, TIMES))), []
        for figures in tried:
            constant, slow, time = np.repeat(figures[:, None], 6, axis=1)
            filters = cls(constant, slow, time, np.ones(6))
            found.append(((lacking - filters.estimates(lacking, windows)) ** 2).mean(axis=0))
        constant, slow, time = tried[np.argmin(found, axis=0)].T
        best = cls(constant, slow, time, np.ones(6))
        return replace(best, trust=gains_of_starts(lacking - best.estimates(lacking, windows), windows))

    def starts(self, windows: Windows, ends: Motion) -> Motion:
        """Measured starts mixed with the ends, after the first horizon, of the predictions before."""
        follows = np.flatnonzero(_follows(windows)) + 1
        start, body = windows.start, matrix_from_quaternion(windows.start.attitude[follows, 0])
        velocity, rates = start.velocity.copy(), start.rates.copy()
        off = np.einsum("wji,wj->wi", body, ends.velocity[follows - 1, 0] - velocity[follows, 0])
        velocity[follows, 0] += np.einsum("wij,wj->wi", body, (1.0 - self.trust[:3]) * off)
        rates[follows, 0] += (1.0 - self.trust[3:]) * (ends.rates[follows - 1, 0] - rates[follows, 0])
        return Motion(start.position, velocity, start.attitude, rates)

    def estimates(self, lacking: Floats, windows: Windows) -> Floats:
        """(w, 6) what each prediction will lack, from those of its flight that had ended before its start."""
        made = np.zeros_like(lacking)
        for i in np.unique(windows.flight):
            rows = np.flatnonzero(windows.flight == i)
            begins, used = windows.begins[rows], 0
            state, spread = np.zeros((6, 2)), np.zeros((6, 2, 2))
            spread[:, 0, 0], spread[:, 1, 1] = self.constant**2, self.slow**2
            now = begins[0]
            for row, begin in zip(rows, begins, strict=True):
                while used < len(rows) and begins[used] + HORIZONS[0] + SMOOTHING <= begin + 1e-9:
                    state, spread = self._after(state, spread, begins[used] - now)
                    now = begins[used]
                    gain = spread.sum(axis=2) / (spread.sum(axis=(1, 2)) + 1.0)[:, None]
                    state = state + gain * (lacking[rows[used]] - state.sum(axis=1))[:, None]
                    spread = spread - gain[:, :, None] * spread.sum(axis=1)[:, None, :]
                    used += 1
                made[row] = self._after(state, spread, begin - now)[0].sum(axis=1)
        return made

    def _after(self, state: Floats, spread: Floats, seconds: float) -> tuple[Floats, Floats]:
        """State and covariance after a time without measurements."""
        keep = np.stack([np.ones(6), np.exp(-seconds / self.time)], axis=1)
        later = spread * keep[:, :, None] * keep[:, None, :]
        later[:, 1, 1] += self.slow**2 * (1.0 - keep[:, 1] ** 2)
        return state * keep, later


def _follows(windows: Windows) -> Mask:
    """(w - 1,) whether the next window begins where a window's first horizon is."""
    one_flight = np.diff(windows.flight) == 0
    return np.asarray(one_flight & (np.abs(np.diff(windows.begins) - HORIZONS[0]) < 1e-6))


def gains_of_starts(errors: Floats, windows: Windows) -> Floats:
    """(6,) gains of steady Kalman filters of a random walk Q behind white noise R, from errors (w, 6).

    The errors from measured starts, w + n' - n, have the variance Q + 2 R and, of neighbours, the covariance
    -R.  Then P = (Q + sqrt(Q^2 + 4 Q R))/2 before a measurement, and the gain P/(P + R).
    """
    follows = _follows(windows)
    noise = np.maximum(-(errors[:-1][follows] * errors[1:][follows]).mean(axis=0), 0.0)
    walk = np.maximum((errors**2).mean(axis=0) - 2.0 * noise, 1e-12)
    before = 0.5 * (walk + np.sqrt(walk**2 + 4.0 * walk * noise))
    return np.asarray(before / (before + noise))


def missing_acceleration(predicted: Motion, windows: Windows) -> Floats:
    """(w, 6) force over mass in m/s^2 and moment over inertia in rad/s^2 that predictions lack, body axes.

    They are means over the first horizon: the errors of velocity and rates over its length.
    """
    velocity = (windows.truth.velocity - predicted.velocity)[:, 0]
    body = np.einsum("wji,wj->wi", matrix_from_quaternion(windows.start.attitude[:, 0]), velocity)
    rates = (windows.truth.rates - predicted.rates)[:, 0]
    return np.concatenate([body, rates], axis=1) / HORIZONS[0]


class Observed(Predictor):
    """Any predictor, with what its predictions of the same flight lacked before."""

    def __init__(self, inner: Predictor) -> None:
        self._inner = inner
        self.name = f"{inner.name}, with what it lacked before"
        self._observer: Observer | None = None

    def fit(self, windows: Windows) -> None:
        """Fit the predictor, then the filters to what it lacks, both in the flights for fitting."""
        self._inner.fit(windows)
        whole = windows.all or windows
        flights = [self._inner.trim(whole.part(whole.flight == i)) for i in np.unique(whole.flight)]
        trim = np.tile(np.mean(flights, axis=0), (len(whole), 1))
        whole = whole.cut_at_first_horizon()
        self._observer = Observer.fit(self._inner.predict(whole, trim), whole)

    def trim(self, windows: Windows) -> Floats:
        """That of the predictor."""
        return self._inner.trim(windows)

    def predict(self, windows: Windows, trim: Floats) -> Motion:
        """The motion at the windows' horizons."""
        if self._observer is None:
            raise RuntimeError("an observed predictor is fitted before it predicts")
        whole = (windows.all or windows).cut_at_first_horizon()  # all that the filters read
        trims = np.ones((len(whole), trim.shape[1]))
        for i, first in zip(*np.unique(windows.flight, return_index=True), strict=True):
            trims[whole.flight == i] = trim[first]
        lacking = self._observer.estimates(
            missing_acceleration(self._inner.predict(whole, trims), whole), whole
        )
        start = whole.start
        for _ in range(PASSES):
            ends = self._inner.predict_pushed(replace(whole, start=start), trims, lacking)
            start = self._observer.starts(whole, ends)
        chosen = Motion(*(getattr(start, name)[windows.row] for name in FIELDS))
        return self._inner.predict_pushed(replace(windows, start=chosen), trim, lacking[windows.row])
