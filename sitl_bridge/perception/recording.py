"""Writes a sensor's samples into a directory while it flies, on a thread of its own.

Simulated time waits when the disk is slow, so no sample is left out.  A full disk ends the recording of that
sensor; what was written stays readable, and the flight goes on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.perception.camera import ImagingSpecification
from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.view import Arrays, PerceptionSpecification, Poses
from sitl_bridge.perception.background_writer import BackgroundWriter
from sitl_bridge.perception.sample_files import ArrayFolder, CloudFolder, EurocFolder, SampleFolder, TumFolder
from sitl_bridge.record.picture_files import recordings

WAITING = 16
"""Samples that wait to be written."""


def folder_for(sensor: PerceptionSpecification, path: Path) -> SampleFolder | TumFolder | EurocFolder:
    """A new directory in the layout of a kind of sensor.

    Cameras and pairs have EuRoC's, depth cameras TUM's, lidars a file a cloud; all others have an NPZ file a
    sample.

    Raises:
        OSError: when it cannot be made.
    """
    match sensor:
        case ImagingSpecification():
            return EurocFolder(sensor, path)
        case DepthCameraSpecification():
            return TumFolder(sensor, path)
        case LidarSpecification():
            return CloudFolder(sensor, path)
        case _:
            return ArrayFolder(sensor, path)


def warn(line: str) -> None:
    """Report as a warning of Python's."""
    warnings.warn(line, RuntimeWarning, stacklevel=2)


def report_of(errors: ErrorLog | None, what: str) -> Callable[[str], None]:
    """Return a reporter of faults of ``what``: to the error log, or without one as warnings."""
    return warn if errors is None else lambda line: errors.add(what, UserError(line))


class SampleRecording:
    """Records one sensor of one vehicle.

    Args:
        path: new directory.
        report: takes one sentence when the recording ends early, on the thread of ``put`` or ``close``.
    """

    def __init__(
        self, sensor: PerceptionSpecification, path: Path, report: Callable[[str], None] = warn
    ) -> None:
        self._sensor = sensor
        self._path = path
        self._folder: SampleFolder | TumFolder | EurocFolder | None = None
        self._count = 0
        self._writer: BackgroundWriter[tuple[int, Arrays, Poses]] = BackgroundWriter(
            f"recording of {sensor.name}",
            WAITING,
            work=self._write,
            end=self._end,
            fault_of=self._fault_of,
            report=report,
        )

    def put(self, time: int, arrays: Arrays, poses: Poses) -> None:
        """Add a sample; waits while many others wait.  The arrays must not change afterwards."""
        self._writer.put((time, arrays, poses))

    def close(self) -> None:
        """Write what waits, and end; safe to call twice."""
        self._writer.close()

    def _write(self, sample: tuple[int, Arrays, Poses]) -> None:
        if self._folder is None:
            self._folder = folder_for(self._sensor, self._path)
        self._folder.write(*sample)
        self._count += 1

    def _end(self, _failed: bool) -> None:
        if self._folder is not None:
            self._folder.close()

    def _fault_of(self, error: Exception) -> str | None:
        if not isinstance(error, OSError | UserError):
            return None
        why = error.strerror if isinstance(error, OSError) else str(error)
        return f"{self._path}: {why}; the recording ends after {self._count} samples"


def recording_of(
    sensor: PerceptionSpecification, directory: Path | None, name: str, errors: ErrorLog | None = None
) -> SampleRecording | None:
    """Recording of a sensor whose airframe asks for it.

    Args:
        directory: of the run, which gets ``sensors/NAME``; None records nothing.
        name: of the sensor in the run.
        errors: takes the end of a recording that cannot go on; None: a warning of Python's.
    """
    if not sensor.record or directory is None:
        return None
    return SampleRecording(sensor, recordings(directory) / name, report_of(errors, f"recording of {name}"))
