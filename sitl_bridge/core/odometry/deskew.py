"""The motion within a turn of a lidar: its prediction, and points freed of its distortion."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.core.odometry.samples import LidarTurn, Pose


def rotation_vector(rotation: NDArray[np.float64]) -> NDArray[np.float64]:
    """(3,) rad, axis times angle, of a rotation matrix by less than half a turn."""
    skew = 0.5 * np.array(
        [
            rotation[2, 1] - rotation[1, 2],
            rotation[0, 2] - rotation[2, 0],
            rotation[1, 0] - rotation[0, 1],
        ]
    )
    sine, cosine = float(np.linalg.norm(skew)), 0.5 * (float(np.trace(rotation)) - 1.0)
    if sine < 1e-12:
        return np.zeros(3)
    return np.asarray(skew * (np.arctan2(sine, cosine) / sine))


def predicted(motion: Pose, turn: LidarTurn) -> Pose:
    """(4, 4) motion expected of a turn, axes at its end to axes at its beginning.

    Args:
        motion: (4, 4) of the turn before.
        turn: whose rotation by a gyroscope replaces that of the motion, if there is one.
    """
    if turn.rotation is None:
        return motion
    found = motion.copy()
    found[:3, :3] = turn.rotation
    return found


def deskewed(turn: LidarTurn, motion: Pose) -> NDArray[np.float64]:
    """(n, 3) points in the sensor's axes at the end of the turn, at constant velocity and turn rate.

    Args:
        turn: of the lidar.
        motion: (4, 4) of one turn: axes at its end to axes at its beginning.
    """
    span = float(-turn.offset.min()) if len(turn.offset) else 0.0
    if span == 0.0:
        return turn.points
    share = turn.offset / span
    axis = rotation_vector(motion[:3, :3])
    angle = float(np.linalg.norm(axis))
    points = turn.points
    if angle > 1e-12:
        k = axis / angle
        a = (share * angle)[:, None]
        # Rodrigues' formula.
        along = (points @ k)[:, None] * k
        points = along + np.cos(a) * (points - along) + np.sin(a) * np.cross(k, points)
    # Of the motion in the axes of the end, to first order of the angle of a turn.
    shift = motion[:3, :3].T @ motion[:3, 3]
    return np.asarray(points + share[:, None] * shift)
