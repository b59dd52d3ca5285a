"""KISS-ICP: point-to-point ICP against a voxel map (Vizzo et al., IEEE RA-L 8(2), 2023); an extra."""

from __future__ import annotations

import numpy as np

from sitl_bridge.core.odometry.deskew import predicted
from sitl_bridge.core.odometry.samples import LidarTurn, Pose, missing_estimator

FARTHEST = 100.0
"""m; KISS-ICP's default of the greatest range."""
FIRST_THRESHOLD = 4.0
"""First threshold of correspondences as a multiple of the voxel; KISS-ICP's 2 m is for roads."""


class KissIcpOdometry:
    """KISS-ICP's pipeline, on one thread, so that equal clouds give equal poses.

    Args:
        voxel: m, of the map.

    Raises:
        UserError: where the package is missing.
    """

    def __init__(self, voxel: float) -> None:
        try:
            from kiss_icp.config import KISSConfig
            from kiss_icp.config.config import (
                AdaptiveThresholdConfig,
                DataConfig,
                MappingConfig,
                RegistrationConfig,
            )
            from kiss_icp.kiss_icp import KissICP
        except ImportError as error:
            raise missing_estimator("kiss-icp", "kiss-icp") from error
        self._pipeline = KissICP(
            KISSConfig(
                data=DataConfig(max_range=FARTHEST, deskew=True),
                mapping=MappingConfig(voxel_size=voxel),
                registration=RegistrationConfig(max_num_threads=1),
                adaptive_threshold=AdaptiveThresholdConfig(
                    initial_threshold=min(FIRST_THRESHOLD * voxel, 2.0), min_motion_th=0.1 * voxel
                ),
            )
        )

    def update(self, turn: LidarTurn) -> Pose:
        """Return the pose at the end of the turn."""
        if len(turn.points) == 0:
            return np.array(self._pipeline.last_pose)
        self._pipeline.last_delta = predicted(np.array(self._pipeline.last_delta), turn)
        self._pipeline.register_frame(turn.points, turn.offset)
        return np.array(self._pipeline.last_pose)
