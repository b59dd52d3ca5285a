"""Spectra, step responses and velocity tracking: the figures of hector's validation; no files.

J. Meyer, A. Sendobry, S. Kohlbrecher, U. Klingauf, O. von Stryk, "Comprehensive simulation of quadrotor UAVs
using ROS and Gazebo", 2012, figure 4: power spectral density of the angular rates, and velocity against its
command.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.arrays import Floats, interpolate

SEGMENT = 4.0
"""Length of Welch's segments, s: a resolution of 0.25 Hz."""
LOWEST_PEAK = 0.5
"""Lowest frequency of an oscillation, Hz; what is slower is the manoeuvre."""
SETTLED_BAND = 0.05
"""Share of a step within which its response has settled."""
SMALLEST_STEP = 0.5
"""Smallest velocity step that is evaluated, m/s."""
STEP_HELD = 2.0
"""Shortest time that a setpoint stays for its step to be evaluated, s."""
SMOOTH = 0.25
"""Time over which a ramp of the setpoint counts as a step, s."""


@dataclass(frozen=True)
class Spectrum:
    """One-sided power spectral density."""

    frequency: Floats  # (f,) Hz, above zero
    density: Floats  # (f, c) of each column, in the signal's unit squared per Hz

    def peak(self) -> float:
        """The frequency in Hz of the largest density above ``LOWEST_PEAK``, over all columns; nan without."""
        chosen = self.frequency >= LOWEST_PEAK
        if not chosen.any():
            return math.nan
        return float(self.frequency[chosen][int(np.argmax(self.density[chosen].sum(axis=1)))])


@dataclass(frozen=True)
class StepResponse:
    """Response to a step of a setpoint."""

    begin: float  # s
    size: float  # of the step, signed
    axis: int  # of the signal
    rise: float  # s from 10 to 90 % of the step; nan if it does not get there
    overshoot: float  # % of the step
    settling: float  # s until the response stays within ``SETTLED_BAND``; nan if it does not


def resample_evenly(time: Floats, values: Floats) -> tuple[float, Floats]:
    """Values (k, c) on an even grid, and its rate in Hz; a clock that stands still is left out."""
    keep = np.concatenate([[True], np.diff(time) > 0])
    if not keep.all():
        time, values = time[keep], values[keep]
    step = float(np.median(np.diff(time)))
    grid = np.arange(time[0], time[-1] + 0.5 * step, step)
    return 1.0 / step, interpolate(grid, time, values)


def spectrum(time: Floats, values: Floats) -> Spectrum | None:
    """Power spectral density by Welch's method: Hann windows, half overlapping, means removed.

    Args:
        time: (k,) s.
        values: (k, c).

    Returns:
        the spectrum; None for less than two segments.
    """
    good = np.isfinite(values).all(axis=1)
    if not good.all():
        time, values = time[good], values[good]
    if len(time) < 16 or time[-1] - time[0] < 2.0 * SEGMENT:
        return None
    rate, grid = resample_evenly(time, values)
    samples = min(max(16, round(SEGMENT * rate)), len(grid))
    # scipy.signal.welch is the same; loading scipy.signal takes longer than to judge a flight.
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(samples) / samples)
    starts = range(0, len(grid) - samples + 1, samples - samples // 2)
    density = np.zeros((samples // 2 + 1, grid.shape[1]))
    for start in starts:
        part = grid[start : start + samples]
        density += np.abs(np.fft.rfft((part - part.mean(axis=0)) * window[:, None], axis=0)) ** 2
    density *= 2.0 / (rate * float(window @ window) * len(starts))
    if samples % 2 == 0:
        density[-1] *= 0.5  # half the rate has no negative twin
    return Spectrum(np.asarray(np.fft.rfftfreq(samples, 1.0 / rate)[1:], np.float64), density[1:])


def step_responses(
    time: Floats, response: Floats, setpoint_time: Floats, setpoint: Floats
) -> list[StepResponse]:
    """Responses to the steps of a setpoint, each axis by itself.

    Args:
        time: (k,) s of the response.
        response: (k, c).
        setpoint_time: (m,) s.
        setpoint: (m, c); nan where there is none.
    """
    found = []
    for axis in range(setpoint.shape[1]):
        wanted = setpoint[:, axis]
        for begin, end, old, new in _steps(setpoint_time, wanted):
            chosen = (time >= begin) & (time < end)
            if np.count_nonzero(chosen) > 2:
                found.append(_response(time[chosen], response[chosen, axis], begin, old, new, axis))
    return sorted(found, key=lambda one: one.begin)


def _steps(time: Floats, wanted: Floats) -> list[tuple[float, float, float, float]]:
    """Steps between constant parts of a setpoint: begin, end, value before and after."""
    parts: list[tuple[float, float, float]] = []
    first = 0
    for i in range(1, len(time) + 1):
        if i < len(time) and abs(wanted[i] - wanted[first]) < 0.02 * SMALLEST_STEP:
            continue
        if np.isfinite(wanted[first]) and i - first > 1:
            parts.append(
                (float(time[first]), float(time[i] if i < len(time) else time[-1]), float(wanted[first]))
            )
        first = i
    found = []
    for (_, ended, old), (begun, end, new) in itertools.pairwise(parts):
        if begun - ended <= SMOOTH and abs(new - old) >= SMALLEST_STEP and end - begun >= STEP_HELD:
            found.append((ended, end, old, new))
    return found


def _response(time: Floats, values: Floats, begin: float, old: float, new: float, axis: int) -> StepResponse:
    share = (values - values[0]) / (new - values[0]) if new != values[0] else np.ones(len(values))
    low, high = np.flatnonzero(share >= 0.1), np.flatnonzero(share >= 0.9)
    rise = float(time[high[0]] - time[low[0]]) if len(high) else math.nan
    outside = np.flatnonzero(np.abs(share - 1.0) > SETTLED_BAND)
    last = int(outside[-1]) if len(outside) else -1
    settling = float(time[last + 1] - begin) if last + 1 < len(time) else math.nan
    return StepResponse(
        begin,
        new - old,
        axis,
        rise,
        100.0 * max(float(share.max()) - 1.0, 0.0) if len(high) else 0.0,
        settling,
    )
