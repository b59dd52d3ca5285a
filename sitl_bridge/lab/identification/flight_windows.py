"""Recorded flights cut into short windows, with the motor commands and the measurements within each.

A simulation that is driven by recorded commands drifts away from the flight, because nothing corrects it.
Each window therefore begins anew with the measured motion (multiple shooting).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sitl_bridge.api.logs import LOW_RATE, MARGIN, STEP, Series, VehicleLog
from sitl_bridge.base.arrays import Floats, Ints, Mask
from sitl_bridge.base.errors import UserError

SECONDS = STEP * 1e-6
GAP = 8.0
"""Median intervals without a sample after which a measurement has a gap; windows with gaps are left out."""
FASTEST = 260.0
"""Hz to which faster samples are averaged."""
QUANTITIES = (("rates", "rad/s"), ("acceleration", "m/s^2"), ("velocity", "m/s"))
"""Measured quantities, three axes each."""
ROWS = (
    "flight", "begins", "voltage", "current", "height", "position", "velocity", "attitude", "rates",
)  # fmt: skip
"""Arrays with a row for each window."""


@dataclass(frozen=True)
class Samples:
    """Samples of a quantity in one window."""

    before: Ints  # (k,) number of the simulated step before each sample, 0 for the window's first
    share: Floats  # (k,) of the way to the next step
    values: Floats  # (k, 3)

    def interpolate_steps(self, steps: Floats) -> Floats:
        """(k, ...) values at the samples' times of a quantity given at the ends of steps, (s, ...)."""
        share = self.share.reshape(-1, *[1] * (steps.ndim - 1))
        return np.asarray((1.0 - share) * steps[self.before] + share * steps[self.before + 1])


@dataclass(frozen=True)
class FlightWindows:
    """Windows of equal length."""

    flight: Ints  # (w,) number of each window's flight
    begins: Floats  # (w,) s on its flight's clock
    steps: int  # of the simulation in a window
    joined: Mask  # (w,) whether a window begins where the one before ends
    drives: tuple[Series, ...]  # of each flight, the integral of the motor signals over time
    voltage: Floats  # (w,) V of the battery; nan if it was not logged
    current: Floats  # (w,) A from the battery; nan if it was not logged
    # (w, s + 1, m) rad/s of the rotors at the steps' ends, from before the first; None if they were not
    # measured, or more seldom than the motor commands
    speeds: Floats | None
    height: Floats  # (w,) m AMSL of the local frame's origin
    position: Floats  # (w, 3) m NED at the beginning
    velocity: Floats  # (w, 3) m/s NED
    attitude: Floats  # (w, s + 1, 4) from the beginning to the end of the window
    rates: Floats  # (w, s + 1, 3) rad/s likewise
    samples: dict[str, tuple[Samples, ...]]  # of each quantity, by its name, a window each
    turning: bool  # whether rotation can be simulated: the commands are fast enough

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def length(self) -> float:
        """s of a window."""
        return self.steps * SECONDS

    @property
    def middles(self) -> Floats:
        """(w,) s."""
        return self.begins + 0.5 * self.length

    def first(self) -> Floats:
        """(f,) s at which each flight's first window begins."""
        _, rows = np.unique(self.flight, return_index=True)
        return np.asarray(self.begins[rows])

    def part(self, where: Mask) -> FlightWindows:
        """The windows that a mask chooses."""
        flight, begins = self.flight[where], self.begins[where]
        return replace(
            self,
            joined=_join(flight, begins, self.length),
            samples={
                name: tuple(s for s, taken in zip(given, where, strict=True) if taken)
                for name, given in self.samples.items()
            },
            **{name: getattr(self, name)[where] for name in self._rows()},
        )

    def _rows(self) -> tuple[str, ...]:
        """Names of the arrays with a row for each window."""
        return ROWS if self.speeds is None else (*ROWS, "speeds")

    def signals(self, w: int, delay: float) -> Floats:
        """(2 s, m) mean motor signals of the steps before a window and of its own, late by a delay in s."""
        edges = self.begins[w] - delay + SECONDS * np.arange(-self.steps, self.steps + 1)
        return np.asarray(np.diff(self.drives[self.flight[w]].at(edges), axis=0) / SECONDS)

    @classmethod
    def of_all(cls, logs: Sequence[VehicleLog], length: float) -> FlightWindows:
        """The windows of several flights, whose rotors' speeds are used if all have them."""
        driven = all(measured_speeds(log) is not None for log in logs)
        logs = logs if driven else [replace(log, speeds=None) for log in logs]
        parts = [cls.of(log, length) for log in logs]
        parts = [replace(part, flight=part.flight + i) for i, part in enumerate(parts)]
        first = parts[0]
        rows: Any = {name: np.concatenate([getattr(p, name) for p in parts]) for name in first._rows()}
        return replace(
            first,
            joined=np.concatenate([part.joined for part in parts]),
            drives=tuple(drive for part in parts for drive in part.drives),
            samples={
                name: tuple(one for part in parts for one in part.samples[name]) for name in first.samples
            },
            turning=all(part.turning for part in parts),
            **rows,
        )

    @classmethod
    def of(cls, log: VehicleLog, length: float) -> FlightWindows:
        """Cut a log's flights into windows of ``length`` s.

        Raises:
            UserError: if nothing is left of the flight.
        """
        steps = max(round(length / SECONDS), 4)
        length = steps * SECONDS
        speeds = measured_speeds(log)
        driving = log.commands if speeds is None else speeds
        turning = min(driving.rate, log.rates.rate) >= LOW_RATE
        begins = np.concatenate(
            [np.arange(a + MARGIN, b - MARGIN - length, length) for a, b in log.airborne] or [np.zeros(0)]
        )
        if not len(begins):
            raise UserError(
                f"the log has no flight of {2 * MARGIN + length:g} s, which the identification needs"
            )
        measured = {name: getattr(log, name) for name, _ in QUANTITIES}
        whole = np.logical_and.reduce(
            [_without_gap(begins, length, s) for s in (driving, *measured.values())]
        )
        if not whole.any():
            raise UserError("the log has gaps in every part of the flight; log to a faster card")
        begins = begins[whole]
        grid = begins[:, None] + SECONDS * np.arange(steps + 1)
        attitude = log.attitude.at(grid.ravel()).reshape(*grid.shape, 4)
        middles = begins + 0.5 * length
        flight = np.zeros(len(begins), np.int64)
        return cls(
            flight=flight,
            begins=begins,
            steps=steps,
            joined=_join(flight, begins, length),
            drives=(_integral(log.commands, turning),),
            voltage=_one_each(log.voltage, middles),
            current=_one_each(log.current, middles),
            speeds=None if speeds is None else speeds.at(grid.ravel()).reshape(*grid.shape, -1),
            height=np.full(len(begins), log.origin[2]),
            position=log.position.at(begins),
            velocity=log.velocity.at(begins),
            attitude=attitude / np.linalg.norm(attitude, axis=2, keepdims=True),
            rates=log.rates.at(grid.ravel()).reshape(*grid.shape, 3),
            samples={name: tuple(_samples(series, begins, steps)) for name, series in measured.items()},
            turning=turning,
        )


def measured_speeds(log: VehicleLog) -> Series | None:
    """Rotor speeds that can take the place of the motor commands: logged fast, or no slower than these."""
    speeds = log.speeds
    if speeds is None or not len(speeds.time):
        return None
    return speeds if speeds.rate >= LOW_RATE or speeds.rate >= log.commands.rate else None


def _one_each(series: Series | None, times: Floats) -> Floats:
    """(w,) values of a series of one column; nan without it."""
    return np.full(len(times), np.nan) if series is None else series.at(times).reshape(len(times))


def _join(flight: Ints, begins: Floats, length: float) -> Mask:
    return np.append(False, (np.diff(begins) < 1.01 * length) & (np.diff(flight) == 0))


def _without_gap(begins: Floats, length: float, series: Series) -> Mask:
    """(w,) whether a series has samples throughout each window and just before it."""
    gaps = np.flatnonzero(np.diff(series.time) > max(GAP / max(series.rate, 1e-3), 0.02))
    starts, ends = series.time[gaps], series.time[gaps + 1]
    inside = (series.time[0] <= begins) & (begins + length <= series.time[-1])
    broken = (starts[None, :] < begins[:, None] + length) & (ends[None, :] > begins[:, None])
    return np.asarray(inside & ~broken.any(axis=1))


def _integral(signals: Series, turning: bool) -> Series:
    """Integral over time of signals that hold from sample to sample; between seldom ones, linear."""
    time, values = signals.time, signals.values
    if turning:
        time = np.append(time, time[-1] + 1.0)
    else:
        time = np.arange(time[0], time[-1], SECONDS)
        values = signals.at(time[:-1] + 0.5 * SECONDS)
    areas = np.cumsum(values * np.diff(time)[:, None], axis=0)
    return Series(time, np.vstack([np.zeros(values.shape[1]), areas]))


def _samples(series: Series, begins: Floats, steps: int) -> list[Samples]:
    series = _average(series)
    found = []
    for begin in begins:
        first, last = np.searchsorted(series.time, (begin + SECONDS, begin + steps * SECONDS - 1e-9))
        place = (series.time[first:last] - begin) / SECONDS - 1.0
        before = np.clip(place.astype(np.int64), 0, steps - 2)
        found.append(Samples(before, place - before, series.values[first:last]))
    return found


def _average(series: Series) -> Series:
    """A series with the means of as many samples as bring its rate down to FASTEST."""
    n = int(np.ceil(series.rate / FASTEST))
    if n < 2:
        return series
    k = len(series.time) // n
    time = series.time[: k * n].reshape(k, n).mean(axis=1)
    return Series(time, series.values[: k * n].reshape(k, n, -1).mean(axis=1))


def hold_out(times: Floats, block: float, every: int, first: Floats) -> Mask:
    """(t,) whether times are kept for validation: in every n-th block of ``block`` s from ``first`` (t,)."""
    return np.asarray(((times - first) // block).astype(np.int64) % every == every - 1)
