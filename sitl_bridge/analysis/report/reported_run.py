"""A run with its evaluation, its time line and some pictures of its cameras: what a report shows."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sitl_bridge.analysis.evaluation.measures import Limits
from sitl_bridge.analysis.evaluation.run_evaluation import Evaluation, evaluate
from sitl_bridge.analysis.evaluation.run_record import RunRecord
from sitl_bridge.analysis.evaluation.verdict import Verdict, flown_limits, verdict_of
from sitl_bridge.analysis.report.run_events import TimelineEntry, timeline
from sitl_bridge.perception.shown_picture import shown_picture
from sitl_bridge.record.picture_files import PictureFile, picture_files, sensor_folders

MOST_OF_A_CAMERA, MOST = 6, 36
"""Pictures of a camera, and of a report."""
LARGEST = 320
"""Pixels, greatest width and height."""
QUALITY = 75
"""Of JPEG."""


@dataclass(frozen=True)
class FlightPicture:
    """A picture of a report."""

    camera: str  # vehicle, sensor and kind, for the reader
    time: float  # s of simulated time
    data: str  # JPEG, base 64


def flight_pictures(run: RunRecord) -> list[FlightPicture]:
    """Pictures of a run, evenly spread over the flight; what cannot be read is noted and left out."""
    cameras = _cameras(run)
    if not cameras:
        return []
    from PIL import Image

    count = max(1, min(MOST_OF_A_CAMERA, MOST // len(cameras)))
    found = []
    for name, files in list(cameras.items())[:MOST]:
        for k in np.unique(np.linspace(0, len(files) - 1, count).round().astype(int)).tolist():
            one = files[k]
            try:
                with Image.open(one.file) as opened:
                    image = np.asarray(opened)
                if image.dtype.itemsize > 1:
                    image = image.astype(np.uint16)
                memory = io.BytesIO()
                Image.fromarray(shown_picture(image, LARGEST)).save(memory, "JPEG", quality=QUALITY)
            except (OSError, ValueError) as error:
                run.notes.append(f"{one.file}: is not shown: {error}")
                break
            data = base64.b64encode(memory.getvalue()).decode()
            found.append(FlightPicture(name, one.time * 1e-9, data))
    return found


def _cameras(run: RunRecord) -> dict[str, list[PictureFile]]:
    """Pictures of each camera in the order of their times."""
    found: dict[str, list[PictureFile]] = {}
    if not run.path.is_dir():
        return found
    for vehicle in run.run.get("vehicles") or ():
        airframe = vehicle.get("airframe") if isinstance(vehicle, dict) else None
        sensors = airframe.get("sensors") if isinstance(airframe, dict) else None
        for sensor in sensors or ():
            name = sensor.get("name") if isinstance(sensor, dict) else None
            if not name:
                continue
            for folder in sensor_folders(run.path, str(vehicle.get("name")), str(name)):
                for one in picture_files(folder):
                    label = (
                        f"{vehicle['name']}: {name}, {one.kind}"
                        if len(run.vehicles) > 1
                        else f"{name}, {one.kind}"
                    )
                    found.setdefault(label, []).append(one)
    for files in found.values():
        files.sort(key=lambda one: one.time)
    return found


@dataclass(frozen=True)
class Reported:
    """A run with its verdict, evaluation, time line and pictures, ready for the page."""

    label: str
    run: RunRecord
    verdict: Verdict
    evaluation: Evaluation
    events: list[TimelineEntry]
    pictures: list[FlightPicture] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """Return what the reader should know: of the flight, and of what could not be read."""
        partial = [self.run.partial] if self.run.partial else []
        return list(dict.fromkeys([*partial, *self.run.notes, *self.verdict.notes]))


def report(runs: Sequence[RunRecord], limits: Limits | None = None) -> list[Reported]:
    """Evaluate runs for a report.

    Args:
        runs: as read back.
        limits: by which they are judged anew; without any, a report shows the verdict of the flight.
    """
    given, found = dict(limits or {}), []
    for label, run in zip(_labels(runs), runs, strict=True):
        evaluation = evaluate(run, flown_limits(run) | given)
        verdict = verdict_of(run, evaluation, given)
        found.append(Reported(label, run, verdict, evaluation, timeline(run), flight_pictures(run)))
    return found


def _labels(runs: Sequence[RunRecord]) -> list[str]:
    """Names that tell the runs apart: of the directory; numbered where two are the same."""
    names = [run.path.name for run in runs]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]
