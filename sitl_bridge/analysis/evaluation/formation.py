"""Files of a flown formation, and the truth of one flown on the vehicles' own estimates.

The estimates are in the flight's tracks, the truth in the simulator's log.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from sitl_bridge.base.output_file import write_arrays, write_json
from sitl_bridge.record.truth_log import read_truth
from sitl_bridge.swarm.formation.files import write_csv
from sitl_bridge.swarm.formation.formation import true_slot_errors
from sitl_bridge.swarm.formation.patterns import closest_pair
from sitl_bridge.swarm.quick_simulation import FormationResult, worst

SUMMARY, TRACKS = "summary.json", "tracks.npz"


def add_truth(directory: Path, log: Path, count: int) -> dict[str, float]:
    """Add the truth to a formation's ``summary.json``.

    Args:
        directory: of ``write_result``.
        log: of the truth, on the vehicles' clock.
        count: number of vehicles in it, in the order of the formation.

    Returns:
        largest error with a steady centre and between moves, and smallest separation, m; empty if the
        formation wrote no tracks.
    """
    if not ((directory / TRACKS).is_file() and (directory / SUMMARY).is_file()):
        return {}
    summary = json.loads((directory / SUMMARY).read_text(encoding="utf-8"))
    with np.load(directory / TRACKS) as file:
        tracks = {name: file[name] for name in file.files}
    table = read_truth(log)
    whole = len(table) // count * count
    clock = table["time"][:whole:count] * 1e-6
    axes = ("position_north", "position_east", "position_down")
    moments = tracks["time"] + summary["started_at_s"]
    true = np.empty_like(tracks["position"])
    for vehicle in range(count):
        for axis, name in enumerate(axes):
            # A log that ended early, for instance on a full disk, has no data for the time after it.
            true[:, vehicle, axis] = np.interp(
                moments, clock, table[name][vehicle:whole:count], left=np.nan, right=np.nan
            )
    errors = true_slot_errors(tracks, true)
    found = {
        "true_worst_slot_error_steady_m": worst(errors[tracks["steady"]]),
        "true_worst_slot_error_settled_m": worst(errors[tracks["settled"]]),
        "true_least_separation_m": min(
            (closest_pair(row)[0] for row in true[tracks["time"] >= 0.0] if np.isfinite(row).all()),
            default=math.inf,
        ),
    }
    write_json(directory / SUMMARY, summary | found)
    return {**found, "estimated": summary["worst_slot_error_steady_m"]}


def write_result(result: FormationResult, directory: Path) -> None:
    """Write ``summary.json``, ``tracks.npz`` and the plan, ``plan/vehicle_NNN.csv``, into a directory."""
    plan = directory / "plan"
    plan.mkdir(parents=True, exist_ok=True)
    write_json(directory / SUMMARY, result.summary())
    write_arrays(directory / TRACKS, result.tracks())
    made = result.plan
    paths = made.choreography.trajectories(made.path, made.heading, made.duration)
    for i, path in enumerate(paths):
        write_csv(plan / f"vehicle_{i:03d}.csv", path)
