"""Tables III and IV, figures 6 and 7: errors of visual odometry with four large turns, and its cost.

The paper runs ORB-SLAM2 and VINS-Fusion, which are not part of this project; here its own ``stereo-vo`` runs
over XTDrone's stereo pair.  Errors are those of evo over half a metre, with positions aligned.
"""

from __future__ import annotations

import time
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
from sitl_bridge.base.rotations import matrix_from_quaternion
from sitl_bridge.core.odometry.samples import CameraModel, StereoImages, StereoRig
from sitl_bridge.core.odometry.stereo import StereoOdometry
from sitl_bridge.core.sensors.perception.stereo_camera import StereoCameraSpecification

WORLD = Path(__file__).resolve().parents[2] / "worlds" / "warehouse.yaml"
PAIR = StereoCameraSpecification(kind="stereo_camera", rate=10.0, color=False, position=(0.1, 0.0, 0.03))
"""XTDrone's, at a third of its rate and grey, as stereo-vo sees it."""
CORNERS = np.array([[0.5, 3.0], [-0.5, 3.0], [-0.5, -3.0], [0.5, -3.0], [0.5, 0.0]])
"""m north and east; the flight begins at the last, heading east, and turns by 90 deg at the other four."""
HEIGHT, LEG, TURN = 2.5, 3.0, 4.0
"""m; s for a leg; s for a turn."""
OPTICAL = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
"""Camera axes (right, down, ahead) to FRD."""
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


@dataclass(frozen=True)
class Run:
    """A flight: true poses of the left camera and of the body, the estimate, its processor time in %."""

    camera: PoseTrajectory
    body: PoseTrajectory
    estimate: PoseTrajectory
    share: float


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
    """Fly the course through the warehouse, with odometry while flying."""
    base = sb.Airframe.load("iris_rtk")
    airframe = base.model_copy(update={"sensors": (*base.sensors, PAIR)})
    fx, fy, cx, cy = PAIR.intrinsics
    camera = CameraModel(np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]]), np.zeros(4), False)
    size = (PAIR.width, PAIR.height)
    odometry = StereoOdometry(
        StereoRig(camera, camera, size, np.eye(3), np.array([-PAIR.baseline, 0.0, 0.0]))
    )
    times: list[float] = []
    poses: list[NDArray[np.float64]] = []
    spent = 0.0
    with sb.Sitl(airframe, world=WORLD, seed=seed, yaw=0.5 * np.pi) as sitl:
        drone = sitl.vehicle
        drone.arm()
        drone.take_off(HEIGHT)
        drone.go_to([*CORNERS[-1], -HEIGHT], 0.5 * np.pi, within=0.2)
        begun = sitl.time

        def each(_: object) -> None:
            nonlocal spent
            place, heading = setpoint(sitl.time - begun)
            drone.follow(place, yaw=heading)
            sample = drone.sensor("stereo_camera")
            if not times or float(sample["time"]) > times[-1]:
                left, right = (np.asarray(sample[side], np.uint8) for side in ("left", "right"))
                started = time.process_time()
                poses.append(odometry.update(StereoImages(left, right)))
                spent += time.process_time() - started
                times.append(float(sample["time"]))

        sitl.run(legs * LEG + (legs - 1) * TURN, each)
        truth = drone.truth
    at = np.searchsorted(truth.time, np.array(times) - 1e-6)
    body = matrix_from_quaternion(truth.attitude[at])
    left = np.array(PAIR.position) + np.array(PAIR.shifts[0])
    found = np.array(poses)
    stamps = np.array(times)
    return Run(
        PoseTrajectory(stamps, truth.position[at] + body @ left, body @ OPTICAL),
        PoseTrajectory(stamps, truth.position[at], body),
        PoseTrajectory(stamps, found[:, :3, 3], found[:, :3, :3]),
        100.0 * spent / (stamps[-1] - stamps[0]),
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
    """Fly with three seeds, draw the first; means of the errors in the camera's and in the body's axes."""
    runs = [fly(seed, 2 if quick else len(CORNERS)) for seed in ((1,) if quick else (1, 2, 3))]
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
    share = float(np.mean([run.share for run in runs]))
    reason = "another estimator, ten pairs a second"
    rows += [
        Row("processor time, of the time flown: ORB-SLAM2", "%", "150.3", share, reason),
        Row("processor time, of the time flown: VINS-Fusion", "%", "69.2", share, reason),
    ]
    return rows
