"""Pose errors against closed forms: known offsets, rotations, scales and drifts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.commands import run_command

from sitl_bridge.analysis.evaluation.pose_error import (
    Alignment,
    DeltaUnit,
    PoseTrajectory,
    Similarity,
    Statistics,
    absolute_error,
    align,
    compare,
    match,
    pairs_by_delta,
    relative_error,
)
from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.odometry.tum_file import read_tum, write_tum


def wander(seed: int = 1, count: int = 50) -> PoseTrajectory:
    """A smooth random path in all directions, 10 poses a second."""
    rng = np.random.default_rng(seed)
    position = np.cumsum(np.cumsum(rng.normal(0.0, 0.05, (count, 3)), axis=0), axis=0)
    rotation = Rotation.from_rotvec(np.cumsum(rng.normal(0.0, 0.1, (count, 3)), axis=0)).as_matrix()
    return PoseTrajectory(5.0 + 0.1 * np.arange(count, dtype=np.float64), position, rotation)


def straight(count: int = 11, step: float = 1.0, drift: float = 0.0) -> PoseTrajectory:
    """A path north; the estimate's heading drifts by ``drift`` deg a pose without effect on its positions."""
    north = step * np.arange(count)
    yaw = np.radians(drift) * np.arange(count)
    turns = Rotation.from_rotvec(np.stack([0 * yaw, 0 * yaw, yaw], axis=1)).as_matrix()
    return PoseTrajectory(
        np.arange(count, dtype=np.float64), np.stack([north, 0 * north, 0 * north], axis=1), turns
    )


def test_a_constant_offset_is_the_absolute_error_and_no_relative_error() -> None:
    truth = wander()
    moved = Similarity(np.eye(3), np.array([3.0, 0.0, -4.0])).apply(truth)
    error = absolute_error(moved, truth)
    assert error.translation == pytest.approx(5.0, rel=1e-12)
    assert error.angle == pytest.approx(0.0, abs=1e-6)
    assert error.full == pytest.approx(5.0, rel=1e-12)
    drift = relative_error(moved, truth, pairs_by_delta(moved, 1, "frames"))
    assert drift.translation == pytest.approx(0.0, abs=1e-12)


def test_a_rotation_of_the_body_is_the_angle_and_the_frobenius_norm() -> None:
    truth = wander()
    turn = Rotation.from_rotvec(np.radians(30.0) * np.array([1.0, 2.0, -2.0]) / 3.0).as_matrix()
    turned = PoseTrajectory(truth.time, truth.position, truth.rotation @ turn)
    error = absolute_error(turned, truth)
    assert error.angle == pytest.approx(30.0, rel=1e-12)
    # |R - I|_F = 2 sqrt(2) sin(angle / 2)
    assert error.full == pytest.approx(2.0 * np.sqrt(2.0) * np.sin(np.radians(15.0)), rel=1e-12)
    assert error.translation == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("how", "scale"), [("origin", 1.0), ("se3", 1.0), ("sim3", 0.4)])
def test_an_alignment_takes_out_the_transformation_it_is_made_for(how: Alignment, scale: float) -> None:
    truth = wander()
    turn = Rotation.from_rotvec([0.5, -1.5, 2.0]).as_matrix()
    estimate = Similarity(turn, np.array([10.0, -20.0, 3.0]), scale).apply(truth)
    aligned, found = align(estimate, truth, how)
    assert aligned.position == pytest.approx(truth.position, abs=1e-9)
    assert aligned.rotation == pytest.approx(truth.rotation, abs=1e-9)
    assert found.scale == pytest.approx(1.0 / scale)
    assert found.rotation == pytest.approx(turn.T, abs=1e-9)


def test_the_alignment_is_a_rotation_even_where_a_mirror_image_would_fit_better() -> None:
    truth = wander()
    mirrored = PoseTrajectory(truth.time, truth.position * np.array([1.0, 1.0, -1.0]), truth.rotation)
    _, found = align(mirrored, truth, "se3")
    assert np.linalg.det(found.rotation) == pytest.approx(1.0)


def test_positions_beyond_all_numbers_as_in_a_damaged_recording_are_refused() -> None:
    truth = wander()
    damaged = truth.position.copy()
    damaged[3, 1] = 1e200
    poses = PoseTrajectory(truth.time, damaged, truth.rotation)
    with pytest.raises(UserError, match=r"a position is 1e\+200 m away"):
        align(poses, poses, "se3")


def test_positions_on_a_line_do_not_determine_an_alignment() -> None:
    with pytest.raises(UserError, match="one straight line; use the alignment 'origin' or 'none'"):
        align(straight(), straight(), "se3")


def test_a_drift_of_scale_and_heading_is_the_relative_error_of_each_pair() -> None:
    truth, estimate = straight(), straight(step=1.1, drift=2.0)
    one = relative_error(estimate, truth, pairs_by_delta(estimate, 1, "frames"))
    # The motion in the estimate's own axes: 1.1 m at minus its heading of 2 k deg.
    heading = np.radians(2.0 * np.arange(10))
    expected = np.hypot(1.1 * np.cos(heading) - 1.0, 1.1 * np.sin(heading))
    assert one.translation == pytest.approx(expected, rel=1e-12)
    assert one.angle == pytest.approx(2.0)
    five = relative_error(estimate, truth, pairs_by_delta(estimate, 5, "frames"))
    assert five.angle == pytest.approx(10.0)
    assert len(five.angle) == 2
    whole = absolute_error(estimate, truth)
    assert whole.translation == pytest.approx(0.1 * np.arange(11), abs=1e-12)
    assert whole.angle == pytest.approx(2.0 * np.arange(11), abs=1e-9)


def test_pairs_are_a_delta_apart_in_frames_metres_and_seconds() -> None:
    path = straight(count=21, step=0.1)
    deltas: dict[DeltaUnit, float] = {"frames": 5, "m": 0.5, "s": 5.0}
    for unit, delta in deltas.items():
        first, second = pairs_by_delta(path, delta, unit)
        assert first.tolist() == [0, 5, 10, 15]
        assert second.tolist() == [5, 10, 15, 20]
    first, second = pairs_by_delta(path, 0.5, "m", all_pairs=True)
    assert first.tolist() == list(range(16))
    assert (second - first).tolist() == [5] * 16
    with pytest.raises(UserError, match="shorter than one delta of 3 m"):
        pairs_by_delta(path, 3.0, "m")
    with pytest.raises(UserError, match="no distance"):
        pairs_by_delta(path, 1.5, "frames")


def test_statistics_of_known_errors() -> None:
    found = Statistics.of(np.array([1.0, 2.0, 3.0, 6.0]))
    assert found.rmse == pytest.approx(np.sqrt(12.5))
    assert (found.mean, found.median, found.min, found.max) == (3.0, 2.5, 1.0, 6.0)
    assert found.std == pytest.approx(np.sqrt(3.5))


def test_poses_match_by_time_within_a_tolerance() -> None:
    truth = wander(count=100)
    some = truth.take(np.arange(0, 100, 7))
    late = PoseTrajectory(some.time + 0.004, some.position, some.rotation)
    estimate, reference = match(late, truth)
    assert estimate.position.tolist() == reference.position.tolist() == some.position.tolist()
    reference, estimate = match(truth, late)
    assert len(reference) == len(some)
    with pytest.raises(UserError, match=r"no poses match within 0\.001 s"):
        match(late, truth, 0.001)


def test_a_tum_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    poses = wander()
    read = read_tum(write_tum(tmp_path / "a.txt", poses))
    assert read.time == pytest.approx(poses.time)
    assert read.position == pytest.approx(poses.position, abs=1e-8)
    assert read.rotation == pytest.approx(poses.rotation, abs=1e-8)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("1 2 3", "line 3: 3 numbers; a pose has 8"),
        ("two 0 0 0 0 0 0 1", "line 3: 'two 0 0 0 0 0 0 1' is no line of numbers"),
        ("2 0 0 nan 0 0 0 1", "line 3: a number is not finite"),
        ("2 0 0 0 0 0 0 0", "line 3: the quaternion is zero"),
        ("1 0 0 0 0 0 0 1", "line 3: the time 1 s is not after the one before it"),
    ],
)
def test_a_faulty_line_of_a_tum_file_is_named(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"# poses\n1 0 0 0 0 0 0 1\n{line}\n")
    with pytest.raises(UserError, match=fault):
        read_tum(path)
    path.write_text("# nothing\n")
    with pytest.raises(UserError, match="holds no pose"):
        read_tum(path)


def run(*arguments: str) -> str:
    result = run_command("pose-error", *arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_the_command_prints_a_table_or_json(tmp_path: Path) -> None:
    truth = wander()
    moved = Similarity(np.eye(3), np.array([3.0, 0.0, -4.0])).apply(truth)
    files = [str(write_tum(tmp_path / name, it)) for name, it in (("a.txt", moved), ("b.txt", truth))]
    table = run(*files)
    assert "50 matched poses" in table
    assert "5.000000" in table
    facts = json.loads(run(*files, "--json", "--align", "sim3", "--delta", "0.5", "--delta-unit", "s"))
    assert facts["ape"]["translation"]["rmse"] == pytest.approx(0.0, abs=1e-6)
    assert facts["rpe"]["pairs"] == 9
    assert facts["alignment"]["translation"] == pytest.approx([-3.0, 0.0, 4.0], abs=1e-6)
    for option, value in (("--align", "umeyama"), ("--delta-unit", "miles"), ("--tolerance", "-1")):
        assert option in run(*files, option, value)


def test_a_comparison_needs_only_the_moments_that_match() -> None:
    truth = wander()
    part = truth.take(np.arange(10, 30))
    found = compare(part, truth, how="se3")
    assert found.matched == 20
    assert found.absolute.statistics()["translation"].max == pytest.approx(0.0, abs=1e-9)
