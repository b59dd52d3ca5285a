"""One estimator of motion over one recorded sensor, in a process of its own: run by ``evaluation``.

``python -m sitl_bridge.lab.odometry.worker ESTIMATOR RECORDING TRAJECTORY VOXEL`` writes a TUM
file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sitl_bridge.api.poses import LIDAR_ESTIMATORS, PoseTrajectory, StereoOdometry
from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.odometry.sensor_run import pairs, stereo_rig, turns
from sitl_bridge.lab.odometry.tum_file import write_tum


def run_estimator(name: str, recording: Path, voxel: float) -> PoseTrajectory:
    """Run an estimator over a recording.

    Args:
        name: of the estimator.
        recording: directory of clouds, or in EuRoC's layout.
        voxel: m, of a lidar estimator's map.

    Raises:
        UserError: where a file is broken or a package is missing.
    """
    if name in LIDAR_ESTIMATORS:
        lidar = LIDAR_ESTIMATORS[name](voxel)
        found = [(time, lidar.update(turn)) for time, turn in turns(recording)]
    else:
        stereo = StereoOdometry(stereo_rig(recording))
        found = [(time, stereo.update(images)) for time, images in pairs(recording)]
    if not found:
        raise UserError(f"{recording}: holds no sample")
    poses = np.array([pose for _, pose in found])
    return PoseTrajectory(np.array([time for time, _ in found]), poses[:, :3, 3], poses[:, :3, :3])


def main() -> int:
    """Run as the arguments say."""
    name, recording, trajectory, voxel = sys.argv[1:]
    try:
        write_tum(Path(trajectory), run_estimator(name, Path(recording), float(voxel)))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
