"""Tracks of a simulated avoidance flight, kept for its report."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sitl_bridge.base.output_file import write_arrays
from sitl_bridge.swarm.avoidance.closed_loop import Flight


def write_tracks(flight: Flight, directory: Path) -> None:
    """Write ``tracks.npz``, unless the directory has it: of several flights the first is reported.

    Raises:
        UserError: if it cannot be written.
    """
    file = directory / "tracks.npz"
    if not file.is_file():
        arrays = {
            "time": flight.time,
            "position": flight.state[:, :, :3],
            "reference": flight.reference,
            "names": np.array(flight.names),
        }
        write_arrays(file, arrays)
