"""Trajectory files of the TUM RGB-D benchmark: a line a pose, ``time x y z qx qy qz qw``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from sitl_bridge.api.poses import PoseTrajectory
from sitl_bridge.base.errors import ConfigurationError, shorten
from sitl_bridge.base.input_file import read_text
from sitl_bridge.base.output_file import write_whole

MAX_BYTES = 200_000_000
"""Of a file: an hour of poses at 500 Hz."""
_FAULTS_SHOWN = 10


def read_tum(path: Path) -> PoseTrajectory:
    """Return the trajectory of a file; columns are separated by blanks, ``#`` begins a comment.

    Raises:
        ConfigurationError: with the lines at fault.
    """
    rows: list[list[float]] = []
    faults: list[str] = []
    for number, line in enumerate(read_text(path, MAX_BYTES).splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        fault = ""
        try:
            row = [float(word) for word in words]
        except ValueError:
            row, fault = [], f"{shorten(line)!r} is no line of numbers"
        if not fault and len(row) != 8:
            fault = f"{len(row)} numbers; a pose has 8: time x y z qx qy qz qw"
        elif not fault and not np.isfinite(row).all():
            fault = "a number is not finite"
        elif not fault and not np.any(row[4:]):
            fault = "the quaternion is zero"
        elif not fault and rows and row[0] <= rows[-1][0]:
            fault = f"the time {row[0]:g} s is not after the one before it"
        if fault:
            faults.append(f"line {number}: {fault}")
        else:
            rows.append(row)
        if len(faults) == _FAULTS_SHOWN:
            break
    if not rows and not faults:
        faults.append("holds no pose")
    if faults:
        raise ConfigurationError(str(path), faults)
    table = np.array(rows)
    return PoseTrajectory(table[:, 0], table[:, 1:4], Rotation.from_quat(table[:, 4:]).as_matrix())


def write_tum(path: Path, poses: PoseTrajectory) -> Path:
    """Write a trajectory, whole or not at all.

    Raises:
        UserError: when it cannot be written.
    """
    quaternion = Rotation.from_matrix(poses.rotation).as_quat() if len(poses) else np.zeros((0, 4))
    lines = ["# time x y z qx qy qz qw"]
    for time, place, turn in zip(poses.time, poses.position, quaternion, strict=True):
        lines.append(f"{time:.9f} " + " ".join(f"{figure:.9f}" for figure in (*place, *turn)))
    return write_whole(path, "\n".join(lines) + "\n")
