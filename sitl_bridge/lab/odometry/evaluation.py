"""Runs estimators of motion over a recorded sensor run and compares each with the truth.

Each estimator is a process of its own, one after the other: its CPU time and its greatest memory are those of
the whole process, with its start and the reading of files.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sitl_bridge.api.poses import (
    LIDAR_ESTIMATORS,
    STEREO_ESTIMATOR,
    Alignment,
    Comparison,
    DeltaUnit,
    PoseTrajectory,
    StereoOdometry,
    compare,
)
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.extras import missing_package
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.system import launch
from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.lab.odometry.sensor_run import Kind, RecordedSensor, stereo_rig, true_way
from sitl_bridge.lab.odometry.tum_file import read_tum

TRAJECTORY = "{trajectory}"
"""Stands for the TUM file that an external program writes."""
KINDS: tuple[Kind, ...] = ("clouds", "stereo")
POLL = 0.05
"""s of wall time."""


@dataclass(frozen=True)
class MotionEstimator:
    """An estimator and the recording that it is run over."""

    name: str  # of the estimator
    sensor: RecordedSensor  # recording
    command: tuple[str, ...]  # program and arguments; TRAJECTORY stands for its result


@dataclass(frozen=True)
class Yardstick:
    """How trajectories are compared; see ``pose_error.compare``."""

    how: Alignment = "se3"
    delta: float = 1.0
    unit: DeltaUnit = "m"


@dataclass(frozen=True)
class OdometryResult:
    """Result of an estimator."""

    estimator: MotionEstimator  # that ran
    fault: str = ""  # why it has no trajectory; empty otherwise
    cpu: float = 0.0  # s of all its threads
    memory: int = 0  # bytes of its largest resident set
    poses: int = 0  # number of its poses
    comparison: Comparison | None = None  # with the truth


def _choose(sensors: Sequence[RecordedSensor], kind: Kind, wanted: str | None, what: str) -> RecordedSensor:
    found = [sensor for sensor in sensors if sensor.kind == kind]
    if wanted is not None and len(found) > 1:
        found = [sensor for sensor in found if sensor.name == wanted]
    if len(found) == 1:
        return found[0]
    needs = {"clouds": "the clouds of a lidar", "stereo": "the images of a stereo pair"}[kind]
    names = ", ".join(sensor.name for sensor in sensors if sensor.kind == kind)
    if names:
        raise UserError(f"{what} needs {needs}, and the run holds several: choose one by --sensor ({names})")
    raise UserError(f"{what} needs {needs}; the run holds {', '.join(s.name for s in sensors)}")


def built_in_estimator(
    name: str, sensors: Sequence[RecordedSensor], wanted: str | None, voxel: float
) -> MotionEstimator:
    """An estimator of this package, with its package tried.

    Args:
        name: of the estimator.
        sensors: of the run.
        wanted: name of the sensor where there are several of a kind.
        voxel: m, of a lidar estimator's map.

    Raises:
        UserError: for an unknown name, a sensor that is not in the run, a package that is missing.
    """
    known = [*LIDAR_ESTIMATORS, STEREO_ESTIMATOR]
    if name not in known:
        raise UserError(f"--with {name}: choose from {', '.join(known)}, or run a program by --external")
    if name in LIDAR_ESTIMATORS:
        sensor = _choose(sensors, "clouds", wanted, name)
        LIDAR_ESTIMATORS[name](voxel)
    else:
        sensor = _choose(sensors, "stereo", wanted, name)
        StereoOdometry(stereo_rig(sensor.path))
    program = (sys.executable, "-m", "sitl_bridge.lab.odometry.worker")
    return MotionEstimator(name, sensor, (*program, name, str(sensor.path.resolve()), TRAJECTORY, str(voxel)))


def external_estimator(text: str, sensors: Sequence[RecordedSensor], wanted: str | None) -> MotionEstimator:
    """An estimator that is any program: ``NAME=PROGRAM ARGUMENTS``.

    The arguments hold ``{clouds}`` or ``{stereo}`` for the recording and ``{trajectory}`` for the result.

    Raises:
        UserError: for a command that cannot be run.
    """
    name, separator, line = text.partition("=")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UserError(f"--external {text}: {error}") from error
    kinds = [kind for kind in KINDS if any("{" + kind + "}" in word for word in words)]
    if not separator or not name.replace("-", "").replace("_", "").isalnum() or len(kinds) != 1:
        raise UserError(
            f"--external {text}: write NAME=PROGRAM ARGUMENTS, with {{clouds}} or {{stereo}} for the"
            " recording and {trajectory} for the TUM file that the program writes"
        )
    if not any(TRAJECTORY in word for word in words):
        raise UserError(f"--external {text}: {TRAJECTORY} is missing, the TUM file that the program writes")
    if shutil.which(words[0]) is None:
        raise UserError(f"--external {text}: there is no program {words[0]}")
    sensor = _choose(sensors, kinds[0], wanted, name)
    place = str(sensor.path.resolve())
    return MotionEstimator(name, sensor, tuple(word.replace("{" + kinds[0] + "}", place) for word in words))


def evaluate(
    estimators: Sequence[MotionEstimator],
    output: Path,
    yardstick: Yardstick,
    report: Callable[[str], None] = lambda _line: None,
) -> list[OdometryResult]:
    """Run the estimators one after the other and compare them.

    Args:
        estimators: with names of their own.
        output: directory that gets a directory of each, with its trajectory and console log.
        report: takes a line when an estimator begins.

    Raises:
        UserError: where a recording has no truth, or nothing can be written.
    """
    names = [estimator.name for estimator in estimators]
    if len(set(names)) < len(names):
        raise UserError("each estimator needs a name of its own")
    truths = {estimator.sensor: true_way(estimator.sensor) for estimator in estimators}
    results = []
    for estimator in estimators:
        report(f"{estimator.name} runs over {estimator.sensor.name}")
        results.append(_run(estimator, output / estimator.name, truths[estimator.sensor], yardstick))
    return results


def picture_writer() -> Callable[[Sequence[OdometryResult], Path], None]:
    """Return what draws the trajectories and errors of results into a directory.

    Raises:
        UserError: where matplotlib is not installed.
    """
    try:
        from sitl_bridge.lab.odometry.plot import plot_errors, plot_trajectories
    except ModuleNotFoundError as error:
        raise missing_package("matplotlib", "pictures of trajectories", "figures") from error

    def draw(results: Sequence[OdometryResult], place: Path) -> None:
        compared = {result.estimator.name: result.comparison for result in results if result.comparison}
        if compared:
            plot_trajectories(compared, place / "trajectories.png")
            plot_errors(compared, place / "errors.png")

    return draw


def _run(
    estimator: MotionEstimator, place: Path, truth: PoseTrajectory, yardstick: Yardstick
) -> OdometryResult:
    try:
        place.mkdir(parents=True, exist_ok=True)
        trajectory, use = place.resolve() / "trajectory.txt", place.resolve() / "resources.json"
        for old in (trajectory, use):
            old.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{place}: cannot be written: {error.strerror}") from error
    program = [word.replace(TRAJECTORY, str(trajectory)) for word in estimator.command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(word for word in sys.path if word)}
    measured = launch.command("measure", [str(use), *program], watched=False)
    with ChildProcess(estimator.name, measured, place, environment) as process:
        while process.poll() is None:
            time.sleep(POLL)
        ended = process.describe_end()
    if process.poll() != 0:
        return OdometryResult(estimator, ended)
    facts: JsonObject = json.loads(use.read_text())
    cost: JsonObject = {"cpu": facts["cpu"], "memory": facts["memory"]}
    try:
        poses = read_tum(trajectory)
        comparison = compare(
            poses, truth, how=yardstick.how, delta=yardstick.delta, unit=yardstick.unit, all_pairs=True
        )
    except UserError as error:
        return OdometryResult(estimator, str(error), **cost)
    return OdometryResult(estimator, poses=len(poses), comparison=comparison, **cost)


def collect_results(results: Sequence[OdometryResult]) -> JsonObject:
    """The figures of all estimators, by name."""
    found = {}
    for result in results:
        facts: JsonObject = {"sensor": result.estimator.sensor.name, "fault": result.fault}
        facts |= {"cpu_s": result.cpu, "memory_bytes": result.memory, "poses": result.poses}
        if result.comparison is not None:
            facts |= {"matched_poses": result.comparison.matched, "path_length_m": result.comparison.length}
            for name, errors in (
                ("ape", result.comparison.absolute),
                ("rpe", result.comparison.relative),
            ):
                facts[name] = {part: dataclasses.asdict(s) for part, s in errors.statistics().items()}
        found[result.estimator.name] = facts
    return found
