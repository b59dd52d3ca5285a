"""Absolute and relative pose error of an estimated trajectory against the truth; no files.

The definitions are those of Sturm and others, "A benchmark for the evaluation of RGB-D SLAM systems",
IROS 2012, as evo computes them.  Alignment follows Umeyama, "Least-squares estimation of transformation
parameters between two point patterns", IEEE PAMI 13(4), 1991.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints
from sitl_bridge.base.errors import UserError

Alignment = Literal["none", "origin", "se3", "sim3"]
DeltaUnit = Literal["frames", "m", "s"]

MATCH_TOLERANCE = 0.01
"""Largest difference of the times of matched poses, s."""


@dataclass(frozen=True)
class PoseTrajectory:
    """Poses over time."""

    time: Floats  # (n,) s, increasing
    position: Floats  # (n, 3) m
    rotation: Floats  # (n, 3, 3) of body axes to the world's axes

    def __len__(self) -> int:
        return len(self.time)

    def take(self, index: Ints) -> PoseTrajectory:
        """Return the poses of these indices."""
        return PoseTrajectory(self.time[index], self.position[index], self.rotation[index])


@dataclass(frozen=True)
class Similarity:
    """A transformation p -> scale rotation p + translation."""

    rotation: Floats
    translation: Floats
    scale: float = 1.0

    def apply(self, poses: PoseTrajectory) -> PoseTrajectory:
        """Return transformed poses."""
        position = self.scale * poses.position @ self.rotation.T + self.translation
        return PoseTrajectory(poses.time, position, self.rotation @ poses.rotation)


@dataclass(frozen=True)
class Statistics:
    """Figures of an error, in its own unit; ``std`` is the population's."""

    rmse: float
    mean: float
    median: float
    std: float
    min: float
    max: float

    @classmethod
    def of(cls, error: Floats) -> Statistics:
        """Return the figures of (n,) errors, n > 0."""
        return cls(
            float(np.sqrt(np.mean(error**2))),
            float(np.mean(error)),
            float(np.median(error)),
            float(np.std(error)),
            float(np.min(error)),
            float(np.max(error)),
        )


@dataclass(frozen=True)
class PoseErrors:
    """Errors of poses or of motions between pairs of poses."""

    translation: Floats  # (n,) m
    angle: Floats  # (n,) deg
    full: Floats  # (n,) Frobenius norm of the error's 4x4 matrix minus the identity

    def statistics(self) -> Mapping[str, Statistics]:
        """Return the figures of each part, by its name."""
        return {name: Statistics.of(getattr(self, name)) for name in ("translation", "angle", "full")}


def match(
    estimate: PoseTrajectory, truth: PoseTrajectory, tolerance: float = MATCH_TOLERANCE
) -> tuple[PoseTrajectory, PoseTrajectory]:
    """Return the poses of both trajectories whose times match.

    Each pose of the shorter trajectory is matched with the pose of the longer one that is nearest in time.

    Args:
        tolerance: s, largest difference of matched times.

    Raises:
        UserError: where no times match.
    """
    if len(truth) > len(estimate):
        short, long = _match_times(estimate.time, truth.time, tolerance)
        first, second = short, long
    else:
        short, long = _match_times(truth.time, estimate.time, tolerance)
        first, second = long, short
    if not len(first):
        raise UserError(
            f"no poses match within {tolerance:g} s: the estimate is from {_span(estimate)}, the truth from "
            f"{_span(truth)}; use one clock for both, or a larger tolerance"
        )
    return estimate.take(first), truth.take(second)


def _span(poses: PoseTrajectory) -> str:
    return f"{poses.time[0]:.3f} to {poses.time[-1]:.3f} s" if len(poses) else "no time at all"


def _match_times(short: Floats, long: Floats, tolerance: float) -> tuple[Ints, Ints]:
    """Return indices of equal moments of two increasing time axes."""
    if not len(short) or not len(long):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    after = np.clip(np.searchsorted(long, short), 1, max(len(long) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(long) - 1)
    nearest = np.where(np.abs(long[before] - short) <= np.abs(long[after] - short), before, after)
    kept = np.flatnonzero(np.abs(long[nearest] - short) <= tolerance)
    return kept, nearest[kept]


def umeyama(points: Floats, targets: Floats, with_scale: bool) -> Similarity:
    """Return the transformation of points onto targets, both (n, 3), of least squares (eqs. 34 to 43).

    Raises:
        UserError: where the points lie in one place or on one line: their rotation is not determined; and
            where their squares are beyond all numbers, as in a damaged recording.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        middle, aim = points.mean(axis=0), targets.mean(axis=0)
        away, wanted = points - middle, targets - aim
        product = wanted.T @ away / len(points)
    if not np.isfinite(product).all():
        far = max(np.abs(points).max(), np.abs(targets).max())
        raise UserError(f"the trajectories cannot be aligned: a position is {far:.3g} m away")
    u, spread, vt = np.linalg.svd(product)
    if spread[1] <= 1e-12 * max(spread[0], 1e-300) or spread[0] <= 1e-24:
        raise UserError(
            "the trajectories cannot be aligned: the positions lie in one place or on one straight line; "
            "use the alignment 'origin' or 'none'"
        )
    mirror = np.array([1.0, 1.0, 1.0 if np.linalg.det(u) * np.linalg.det(vt) > 0.0 else -1.0])
    rotation = u @ np.diag(mirror) @ vt
    scale = float((spread * mirror).sum() / np.mean((away**2).sum(axis=1))) if with_scale else 1.0
    return Similarity(rotation, aim - scale * rotation @ middle, scale)


def align(
    estimate: PoseTrajectory, truth: PoseTrajectory, how: Alignment
) -> tuple[PoseTrajectory, Similarity]:
    """Return the aligned estimate, and the transformation.

    Args:
        estimate: matched with the truth.
        how: ``none``; ``origin``, the first poses coincide; ``se3``, rotation and translation of least
            squares of the positions; ``sim3``, scale as well, which scales positions only.

    Raises:
        UserError: where the positions do not determine an alignment.
    """
    if how == "none":
        found = Similarity(np.eye(3), np.zeros(3))
    elif how == "origin":
        rotation = truth.rotation[0] @ estimate.rotation[0].T
        found = Similarity(rotation, truth.position[0] - rotation @ estimate.position[0])
    else:
        found = umeyama(estimate.position, truth.position, how == "sim3")
    return found.apply(estimate), found


def _rotation_angle(rotation: Floats) -> Floats:
    """Return angles in deg of (n, 3, 3); by sine and cosine, which is exact for small and large angles."""
    skew = np.stack(
        [
            rotation[:, 2, 1] - rotation[:, 1, 2],
            rotation[:, 0, 2] - rotation[:, 2, 0],
            rotation[:, 1, 0] - rotation[:, 0, 1],
        ],
        axis=1,
    )
    cosine = np.trace(rotation, axis1=1, axis2=2) - 1.0
    return np.asarray(np.degrees(np.arctan2(np.linalg.norm(skew, axis=1), cosine)))


def _errors(position: Floats, rotation: Floats) -> PoseErrors:
    """Return the parts of (n,) error transformations."""
    turn = np.sum((rotation - np.eye(3)) ** 2, axis=(1, 2))
    square = np.sum(position**2, axis=1)
    return PoseErrors(np.sqrt(square), _rotation_angle(rotation), np.sqrt(turn + square))


def absolute_error(estimate: PoseTrajectory, truth: PoseTrajectory) -> PoseErrors:
    """Return the absolute pose errors of matched, aligned poses: E = truth^-1 estimate."""
    back = truth.rotation.transpose(0, 2, 1)
    position = np.einsum("nij,nj->ni", back, estimate.position - truth.position)
    return _errors(position, back @ estimate.rotation)


def relative_error(estimate: PoseTrajectory, truth: PoseTrajectory, pairs: tuple[Ints, Ints]) -> PoseErrors:
    """Return the relative pose errors over pairs: E = (truth motion)^-1 (estimated motion)."""
    shift, turn = _motions(estimate, pairs)
    true_shift, true_turn = _motions(truth, pairs)
    back = true_turn.transpose(0, 2, 1)
    return _errors(np.einsum("nij,nj->ni", back, shift - true_shift), back @ turn)


def _motions(poses: PoseTrajectory, pairs: tuple[Ints, Ints]) -> tuple[Floats, Floats]:
    """Return translation and rotation from each pair's first pose to its second, in the first's axes."""
    first, second = pairs
    back = poses.rotation[first].transpose(0, 2, 1)
    shift = np.einsum("nij,nj->ni", back, poses.position[second] - poses.position[first])
    return shift, back @ poses.rotation[second]


def pairs_by_delta(
    poses: PoseTrajectory, delta: float, unit: DeltaUnit, all_pairs: bool = False
) -> tuple[Ints, Ints]:
    """Return pairs of indices that are ``delta`` apart.

    Consecutive pairs do not overlap: each begins where the one before ends.  With ``all_pairs``, every pose
    begins a pair.  In m and s a pair ends at the first pose that is at least ``delta`` away along the path or
    in time.

    Args:
        poses: the estimate, matched.
        delta: frames, m along the path, or s.
        unit: of delta.
        all_pairs: overlapping pairs.

    Raises:
        UserError: for a delta of no size, and where no two poses are that far apart.
    """
    if not 0.0 < delta < float("inf") or (unit == "frames" and delta != int(delta)):
        raise UserError(f"delta: {delta:g} {unit} is no distance of two poses")
    path = _AXES[unit](poses)
    index = np.arange(len(path))
    # Sums of steps differ from multiples of delta by rounding.
    ends = np.searchsorted(path, path + delta * (1.0 - 1e-9), side="left")
    if not all_pairs:
        begun, k = [], 0
        while k < len(path) and ends[k] < len(path):
            begun.append(k)
            k = int(ends[k])
        index = np.array(begun, np.int64)
    index = index[ends[index] < len(path)]
    if not len(index):
        raise UserError(f"the trajectory is shorter than one delta of {delta:g} {unit}; use a smaller delta")
    return index, ends[index]


_AXES: Mapping[DeltaUnit, Callable[[PoseTrajectory], Floats]] = {
    "frames": lambda poses: np.arange(len(poses), dtype=np.float64),
    "m": lambda poses: np.concatenate(
        [[0.0], np.cumsum(np.linalg.norm(np.diff(poses.position, axis=0), axis=1))]
    ),
    "s": lambda poses: poses.time,
}


@dataclass(frozen=True)
class Comparison:
    """Pose errors of an estimate."""

    # the matched poses: the estimate's, aligned, and the true ones
    estimate: PoseTrajectory
    truth: PoseTrajectory
    length: float  # m, path of the truth over the matched poses
    alignment: Similarity  # applied to the estimate
    absolute: PoseErrors  # APE
    relative: PoseErrors  # RPE

    @property
    def matched(self) -> int:
        """Number of matched poses."""
        return len(self.truth)


def compare(
    estimate: PoseTrajectory,
    truth: PoseTrajectory,
    *,
    how: Alignment = "none",
    delta: float = 1.0,
    unit: DeltaUnit = "frames",
    all_pairs: bool = False,
    tolerance: float = MATCH_TOLERANCE,
) -> Comparison:
    """Return APE and RPE of an estimate.

    Args:
        truth: the truth, on the same clock.
        how: alignment of the estimate with the truth; see ``align``.
        delta: length of RPE's pairs; see ``pairs_by_delta``.
        unit: of delta.
        all_pairs: overlapping pairs.
        tolerance: s, largest difference of matched times.

    Raises:
        UserError: where poses do not match, cannot be aligned or are too few.
    """
    matched, reference = match(estimate, truth, tolerance)
    aligned, found = align(matched, reference, how)
    pairs = pairs_by_delta(aligned, delta, unit, all_pairs)
    length = float(np.linalg.norm(np.diff(reference.position, axis=0), axis=1).sum())
    return Comparison(
        aligned,
        reference,
        length,
        found,
        absolute_error(aligned, reference),
        relative_error(aligned, reference, pairs),
    )
