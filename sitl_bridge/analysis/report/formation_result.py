"""Files of a flown formation: summary, tracks and the plan of each vehicle."""

from __future__ import annotations

import json
from pathlib import Path

from sitl_bridge.base.output_file import write_arrays, write_whole
from sitl_bridge.swarm.quick_simulation import FormationResult
from sitl_bridge.swarm.trajectory_file import write_csv


def write_result(result: FormationResult, directory: Path) -> None:
    """Write ``summary.json``, ``tracks.npz`` and the plan, ``plan/vehicle_NNN.csv``, into a directory."""
    plan = directory / "plan"
    plan.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result.summary(), indent=2)
    write_whole(directory / "summary.json", text + "\n")
    write_arrays(directory / "tracks.npz", result.tracks())
    made = result.plan
    paths = made.choreography.trajectories(made.path, made.heading, made.duration)
    for i, path in enumerate(paths):
        write_csv(plan / f"vehicle_{i:03d}.csv", path)
