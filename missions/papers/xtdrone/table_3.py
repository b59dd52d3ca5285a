"""Tables III and IV, figures 6 and 7: errors of visual odometry with four large turns, and its cost.

The paper runs ORB-SLAM2 and VINS-Fusion, which are not part of this project; here its own ``stereo-vo`` runs
over recordings of XTDrone's stereo pair.  Errors are those of evo over half a metre, with positions aligned,
as in XTDrone's accuracy_evaluation.sh (commit 25c9132, beside estimates and errors of the paper's five runs).
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

import sitl_bridge as sb
from sitl_bridge.api.models import StereoCameraSpecification
from sitl_bridge.api.poses import (
    Comparison,
    PoseTrajectory,
    align,
    compare,
    pairs_by_delta,
)
from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.odometry import Yardstick, built_in_estimator, evaluate, recorded_sensors

WORLD = Path(__file__).resolve().parents[2] / "worlds" / "warehouse.yaml"
PAIR = StereoCameraSpecification(
    kind="stereo_camera", rate=6.0, color=False, position=(0.1, 0.0, 0.03), record=True
)
"""XTDrone's, grey, six times a second; VINS-Fusion's estimates came 4.3 times."""
START, HEIGHT, HEADING = np.array([-2.6, -9.0]), 2.5, -22.0
"""m north and east, m above ground, deg."""
COURSE = (
    (2.0, 0.0), (1.5, 112.0), (14.0, 0.0), (1.3, 93.0), (2.0, 0.0), (2.9, 208.0), (2.1, 0.0), (1.3, -91.0),
    (7.0, 0.0),
)  # fmt: skip
"""m ahead and deg to the right of each segment: the paper's flight by the released estimates, with 0.5 m to
35 deg in turns.  The first and the last are shorter, as the racks leave room."""
SPEED, RATE = 0.8, 18.0
"""m/s and deg/s, means of the segments, three times the paper's."""
JITTER = {"orb": 0.03, "vins": 0.02}
"""m on each axis of each place, that make the way of an estimate 30 and 15 % longer: as much as the released
estimates' are longer than by steps of half a metre."""
OVERTURNED = 0.06
"""Share by which an estimate's turns are too large: the released ones' differ by it, on the mean of four."""
OPTICAL = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
"""Camera axes (right, down, ahead) to those of a body in ROS (ahead, left, up)."""
MEMORY = 16 * 2**30
"""Bytes, of the paper's computer."""
DELTA = 0.5
"""m, the paper's."""

PAPER = (
    ("RPE", "relative", "angle", "°", "15.706", "21.613"),
    ("RPE", "relative", "translation", "m", "0.525", "0.714"),
    ("APE", "absolute", "angle", "°", "129.229", "126.168"),
    ("APE", "absolute", "translation", "m", "1.3196", "1.0722"),
)
"""Table III: of ORB-SLAM2, then of VINS-Fusion without an inertial unit."""
REASON = "jitter and drift of other estimators, see below"
COST = "another estimator, six pairs a second, another machine"


@dataclass(frozen=True)
class Run:
    """A flight: true poses of the left camera and of the body, and the estimate, on the course.

    ``processor`` is its time as a share of the time flown, ``memory`` its most as one of MEMORY, in %.
    """

    camera: PoseTrajectory
    body: PoseTrajectory
    estimate: PoseTrajectory
    processor: float
    memory: float


def course(segments: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times (k,) in s and setpoints (k, 3), m north and east and rad, of segments from rest to rest."""
    share = np.linspace(0.0, 1.0, 51)[1:]
    times, rows = [np.zeros(1)], [np.array([[*START, math.radians(HEADING)]])]
    for way, turn in COURSE[:segments]:
        eased = share**2 * (3.0 - 2.0 * share)
        yaw = rows[-1][-1, 2] + math.radians(turn) * eased
        steps = way * np.diff(eased, prepend=0.0)[:, None] * np.stack([np.cos(yaw), np.sin(yaw)], axis=1)
        rows.append(np.column_stack([rows[-1][-1, :2] + np.cumsum(steps, axis=0), yaw]))
        times.append(times[-1][-1] + share * (abs(turn) / RATE if turn else way / SPEED))
    return np.concatenate(times), np.concatenate(rows)


def fly(seed: int, segments: int) -> Run:
    """Fly the course through the warehouse, and run the odometry over the recorded images."""
    base = sb.Airframe.load("iris_rtk")
    airframe = base.model_copy(update={"sensors": (*base.sensors, PAIR)})
    things = sb.World.load(WORLD).specification.scene.objects
    world = sb.World(scene=[thing for thing in things if thing.path is None])
    times, setpoints = course(segments)
    with tempfile.TemporaryDirectory() as runs:
        with sb.Sitl(
            airframe, world=world, seed=seed, yaw=math.radians(HEADING), positions=[START], runs=runs
        ) as sitl:
            drone = sitl.vehicle
            drone.arm()
            drone.take_off(HEIGHT)
            drone.go_to([*START, -HEIGHT], math.radians(HEADING), within=0.2)
            begun = sitl.time

            def each(_: object) -> None:
                north, east, yaw = (
                    float(np.interp(sitl.time - begun, times, column)) for column in setpoints.T
                )
                drone.follow([north, east, -HEIGHT], yaw=yaw)

            sitl.run(float(times[-1]), each)
            recorded = recorded_sensors(sitl.directory)
        estimator = built_in_estimator("stereo-vo", recorded, None, 1.0)
        (found,) = evaluate([estimator], Path(runs) / "odometry", Yardstick("se3", DELTA, "m"))
    if found.comparison is None:
        raise UserError(f"stereo-vo, seed {seed}: {found.fault}")
    matched = (found.comparison.estimate, found.comparison.truth)
    estimate, camera = (
        poses.take(np.flatnonzero(poses.time >= poses.time[-1] - times[-1])) for poses in matched
    )
    axes = camera.rotation @ OPTICAL.T
    left = OPTICAL @ np.array([PAIR.position[1] - 0.5 * PAIR.baseline, PAIR.position[2], PAIR.position[0]])
    return Run(
        camera,
        PoseTrajectory(camera.time, camera.position - axes @ left, axes),
        estimate,
        100.0 * found.cpu / float(np.ptp(matched[0].time)),
        100.0 * found.memory / MEMORY,
    )


def as_in(file: str, run: Run) -> tuple[PoseTrajectory, PoseTrajectory]:
    """Estimate and truth with the axes, the jitter and the drift of the paper's files.

    file: ``vins``: an estimate in the camera's axes against the truth in the body's; ``orb``: the same, but
    the estimate's places are in the axes ahead, left, up of its first pose and its rotations in the camera's,
    as its ros_stereo.cc writes them.
    """
    rotation, position = run.estimate.rotation, run.estimate.position
    back = rotation[:-1].transpose(0, 2, 1)
    steps = np.einsum("nij,nj->ni", back, np.diff(position, axis=0))
    turns = Rotation.from_rotvec((1.0 + OVERTURNED) * Rotation.from_matrix(back @ rotation[1:]).as_rotvec())
    axes, places = [np.eye(3)], [np.zeros(3)]
    for step, turn in zip(steps, turns.as_matrix(), strict=True):
        places.append(places[-1] + axes[-1] @ step)
        axes.append(axes[-1] @ turn)
    found = np.array(places) + JITTER[file] * np.random.default_rng(1).standard_normal(position.shape)
    if file == "orb":
        found = found @ OPTICAL.T
    return PoseTrajectory(run.estimate.time, found, np.array(axes)), run.body


def errors(estimate: PoseTrajectory, truth: PoseTrajectory) -> Comparison:
    """The paper's."""
    return compare(estimate, truth, how="se3", delta=DELTA, unit="m")


def draw(run: Run, picture: Path) -> None:
    """Figure 6, trajectories from above, and 7, relative error of the angle over time."""
    figure = new_figure(9.0, 3.4)
    above, beside = figure.subplots(1, 2, width_ratios=(1.0, 1.1))
    aligned, _ = align(run.estimate, run.camera, "se3")
    for poses, style, label in ((run.camera, "k--", "true"), (aligned, "-", "stereo-vo")):
        above.plot(poses.position[:, 1], poses.position[:, 0], style, lw=1.2, label=label)
    above.set(xlabel="east [m]", ylabel="north [m]", aspect="equal")
    for label, found, truth in (
        ("as in ORB-SLAM2's file", *as_in("orb", run)),
        ("as in VINS-Fusion's", *as_in("vins", run)),
        ("equal axes", run.estimate, run.camera),
    ):
        _, ends = pairs_by_delta(found, DELTA, "m")
        angle = errors(found, truth).relative.angle
        beside.plot(truth.time[ends] - truth.time[0], angle, ".-", lw=1.0, label=label)
    beside.set(xlabel="time [s]", ylabel="RPE, angle [°]")
    for axes in (above, beside):
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
    save(figure, picture)


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly with five seeds, draw the first; means of the errors in equal axes and as in the paper's files."""
    runs = [fly(seed, 2 if quick else len(COURSE)) for seed in ((1,) if quick else range(1, 6))]
    draw(runs[0], picture)
    compared = {"": [errors(run.estimate, run.camera) for run in runs]}
    compared |= {file: [errors(*as_in(file, run)) for run in runs] for file in JITTER}

    def mean(part: str, what: str, file: str) -> float:
        return float(np.mean([getattr(one, part).statistics()[what].rmse for one in compared[file]]))

    rows = []
    for name, part, what, unit, orb, vins in PAPER:
        rows.append(Row(f"{name}, {what}: stereo-vo", unit, "", mean(part, what, ""), digits=3))
        for file, program, value in (("orb", "ORB-SLAM2", orb), ("vins", "VINS-Fusion", vins)):
            row = Row(f"... as in the files of {program}", unit, value, mean(part, what, file))
            rows.append(row if row.agrees else replace(row, reason=REASON))
    for what, share, values in (
        ("processor time, of the time flown", [run.processor for run in runs], ("150.3", "69.2")),
        ("memory, of 16 GB", [run.memory for run in runs], ("4.1", "0.7")),
    ):
        for program, value in zip(("ORB-SLAM2", "VINS-Fusion"), values, strict=True):
            rows.append(Row(f"{what}: {program}", "%", value, float(np.mean(share)), COST))
    return rows
