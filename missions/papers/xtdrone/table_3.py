"""Tables III and IV, figures 6 and 7: errors of visual odometry with four large turns, and its cost.

The paper runs ORB-SLAM2 and VINS-Fusion, which are not part of this project; here its own ``stereo-vo`` runs
over recordings of XTDrone's stereo pair.  Errors are those of evo over half a metre, with positions aligned.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge.analysis.evaluation.pose_error import (
    Comparison,
    PoseTrajectory,
    align,
    compare,
    pairs_by_delta,
)
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.perception.stereo_camera import StereoCameraSpecification
from sitl_bridge.lab.odometry.evaluation import Yardstick, built_in_estimator, evaluate
from sitl_bridge.lab.odometry.sensor_run import recorded_sensors

WORLD = Path(__file__).resolve().parents[2] / "worlds" / "warehouse.yaml"
PAIR = StereoCameraSpecification(
    kind="stereo_camera", rate=10.0, color=False, position=(0.1, 0.0, 0.03), record=True
)
"""XTDrone's, at a third of its rate and grey, as stereo-vo sees it."""
CORNERS = np.array([[0.5, 3.0], [-0.5, 3.0], [-0.5, -3.0], [0.5, -3.0], [0.5, 0.0]])
"""m north and east; the flight begins at the last, heading east, and turns by 90 deg at the other four."""
HEIGHT, LEG, TURN = 2.5, 3.0, 4.0
"""m; s for a leg; s for a turn."""
OPTICAL = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
"""Camera axes (right, down, ahead) to FRD."""
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
REASON = "another estimator and course, see below"
COST = "another estimator, ten pairs a second, another machine"


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


def setpoint(at: float) -> tuple[NDArray[np.float64], float]:
    """Place, m NED, and heading, rad, at s of the course: legs and turns from rest to rest."""
    places, headings = [CORNERS[-1]], [0.5 * np.pi]
    for corner in CORNERS:
        places += [corner, corner]
        headings += [headings[-1], headings[-1] + 0.5 * np.pi]
    ends = np.concatenate([[0.0], np.cumsum([LEG, TURN] * len(CORNERS))])
    k = min(int(np.searchsorted(ends, at, side="right")) - 1, len(ends) - 2)
    s = min((at - ends[k]) / (ends[k + 1] - ends[k]), 1.0)
    s = s * s * (3.0 - 2.0 * s)
    place = (1.0 - s) * places[k] + s * places[k + 1]
    return np.array([*place, -HEIGHT]), float((1.0 - s) * headings[k] + s * headings[k + 1])


def fly(seed: int, legs: int) -> Run:
    """Fly the course through the warehouse, and run the odometry over the recorded images."""
    base = sb.Airframe.load("iris_rtk")
    airframe = base.model_copy(update={"sensors": (*base.sensors, PAIR)})
    length = legs * LEG + (legs - 1) * TURN
    with tempfile.TemporaryDirectory() as runs:
        with sb.Sitl(airframe, world=WORLD, seed=seed, yaw=0.5 * np.pi, runs=runs) as sitl:
            drone = sitl.vehicle
            drone.arm()
            drone.take_off(HEIGHT)
            drone.go_to([*CORNERS[-1], -HEIGHT], 0.5 * np.pi, within=0.2)
            begun = sitl.time

            def each(_: object) -> None:
                place, heading = setpoint(sitl.time - begun)
                drone.follow(place, yaw=heading)

            sitl.run(length, each)
            recorded = recorded_sensors(sitl.directory)
        estimator = built_in_estimator("stereo-vo", recorded, None, 1.0)
        (found,) = evaluate([estimator], Path(runs) / "odometry", Yardstick("se3", DELTA, "m"))
    if found.matched is None:
        raise UserError(f"stereo-vo, seed {seed}: {found.fault}")
    estimate, camera = (
        poses.take(np.flatnonzero(poses.time >= poses.time[-1] - length)) for poses in found.matched
    )
    axes = camera.rotation @ OPTICAL.T
    left = np.array(PAIR.position) + np.array(PAIR.shifts[0])
    return Run(
        camera,
        PoseTrajectory(camera.time, camera.position - axes @ left, axes),
        estimate,
        100.0 * found.cpu / float(np.ptp(found.matched[0].time)),
        100.0 * found.memory / MEMORY,
    )


def errors(run: Run, truth: PoseTrajectory) -> Comparison:
    """Errors against the camera's motion, or against the body's, whose axes are others."""
    return compare(run.estimate, truth, how="se3", delta=DELTA, unit="m")


def draw(run: Run, picture: Path) -> None:
    """Figure 6, trajectories from above, and 7, relative error of the angle over time."""
    figure = new_figure(9.0, 3.4)
    above, beside = figure.subplots(1, 2, width_ratios=(1.0, 1.6))
    aligned, _ = align(run.estimate, run.camera, "se3")
    for poses, style, label in ((run.camera, "k--", "true"), (aligned, "-", "stereo-vo")):
        above.plot(poses.position[:, 1], poses.position[:, 0], style, lw=1.2, label=label)
    above.set(xlabel="east [m]", ylabel="north [m]", aspect="equal")
    for truth, label in ((run.body, "axes of camera against body"), (run.camera, "equal axes")):
        _, ends = pairs_by_delta(align(run.estimate, truth, "se3")[0], DELTA, "m")
        since = run.camera.time[ends] - run.camera.time[0]
        beside.plot(since, errors(run, truth).relative.angle, ".-", lw=1.0, label=label)
    beside.set(xlabel="time [s]", ylabel="RPE, angle [°]")
    for axes in (above, beside):
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
    save(figure, picture)


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly with five seeds, draw the first; means of the errors in the camera's and in the body's axes."""
    runs = [fly(seed, 2 if quick else len(CORNERS)) for seed in ((1,) if quick else range(1, 6))]
    draw(runs[0], picture)

    def mean(truth: str, part: str, what: str) -> float:
        found = [getattr(errors(run, getattr(run, truth)), part).statistics()[what].rmse for run in runs]
        return float(np.mean(found))

    rows = []
    for name, part, what, unit, orb, vins in PAPER:
        label = f"{name}, {what}"
        off = mean("body", part, what)
        rows += [
            Row(f"{label}: stereo-vo", unit, "", mean("camera", part, what), digits=3),
            Row(f"{label}, axes of camera and body: ORB-SLAM2", unit, orb, off, REASON),
            Row(f"{label}, axes of camera and body: VINS-Fusion", unit, vins, off, REASON),
        ]
    for what, share, values in (
        ("processor time, of the time flown", [run.processor for run in runs], ("150.3", "69.2")),
        ("memory, of 16 GB", [run.memory for run in runs], ("4.1", "0.7")),
    ):
        for name, value in zip(("ORB-SLAM2", "VINS-Fusion"), values, strict=True):
            rows.append(Row(f"{what}: {name}", "%", value, float(np.mean(share)), COST))
    return rows
