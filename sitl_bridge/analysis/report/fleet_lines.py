"""Curves over time of a fleet: slot errors of a formation, and the distance of the closest pair."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.analysis.report.run_evaluation import fleet_positions
from sitl_bridge.analysis.report.run_record import RunRecord
from sitl_bridge.analysis.report.time_lines import Line, Plot
from sitl_bridge.analysis.report.vehicle_distances import closest_distance

Floats: TypeAlias = NDArray[np.float64]

RATE = 20.0
"""Rate at which the closest pair is drawn, Hz."""
MOST_LINES = 12
"""Vehicles whose own curve is drawn; of larger fleets the largest and the median."""


def fleet_plots(run: RunRecord) -> list[Plot]:
    """Plots of a fleet; empty for a single vehicle."""
    plots = []
    tracks = run.tracks
    if tracks is not None and {"time", "slot_error"} <= tracks.keys() and tracks["slot_error"].ndim == 2:
        error = np.asarray(tracks["slot_error"], np.float64)
        time = np.asarray(tracks["time"], np.float64) + _clock(run)
        note = "distance of each vehicle from its slot, by the vehicles' own estimates"
        plots.append(Plot("slot_error", "Slot error", "m", time, _lines(error, run), note=note))
    fleet = fleet_positions(run, RATE)
    if fleet is not None:
        time, position = fleet
        distance = closest_distance(position)
        if np.isfinite(distance).any():
            note = "between vehicles in the air"
            line = Line("smallest distance", distance)
            plots.append(Plot("closest_pair", "Distance of the closest pair", "m", time, (line,), note=note))
        height = -position[:, :, 2]
        plots.append(Plot("fleet_height", "Height above the origin", "m", time, _lines(height, run)))
    return plots


def _clock(run: RunRecord) -> float:
    """Start of a formation on the clock of the run, s; a simulated formation has its own clock only."""
    started = run.formation.get("started_at_s")
    return float(started) if isinstance(started, int | float) and run.formation is not run.summary else 0.0


def _lines(values: Floats, run: RunRecord) -> tuple[Line, ...]:
    """Curves (k, n) of the vehicles, or of the largest and the median in a large fleet."""
    count = values.shape[1]
    if count > MOST_LINES:
        filled = np.where(np.isfinite(values), values, -np.inf)
        largest = np.where(np.isfinite(filled.max(axis=1)), filled.max(axis=1), np.nan)
        return (Line("largest", largest), Line("median", np.median(values, axis=1)))
    names = [vehicle.name for vehicle in run.vehicles]
    names = names if len(names) == count else [str(i) for i in range(count)]
    return tuple(Line(name, values[:, i]) for i, name in enumerate(names))
