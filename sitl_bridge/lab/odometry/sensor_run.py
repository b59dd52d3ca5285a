"""Recorded sensor runs, as estimators of motion read them: folders of clouds and EuRoC folders of a pair."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from scipy.spatial.transform import Rotation

from sitl_bridge.api.poses import (
    ENDINGS,
    CameraModel,
    LidarTurn,
    PoseTrajectory,
    StereoImages,
    StereoRig,
    read_cloud,
)
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import ConfigurationError, UserError, shorten
from sitl_bridge.base.input_file import is_file, read_bytes, read_text
from sitl_bridge.base.yaml_file import read, validate
from sitl_bridge.lab.odometry.tum_file import read_tum

Kind = Literal["clouds", "stereo"]
MAX_TABLE, MAX_IMAGE = 500_000_000, 100_000_000
"""Bytes."""
Numbers = list[float]


@dataclass(frozen=True)
class RecordedSensor:
    """The recording of one sensor."""

    kind: Kind  # clouds of a lidar, or images of a stereo pair
    path: Path  # its directory

    @property
    def name(self) -> str:
        """Name of the directory."""
        return self.path.resolve().name


def recorded_sensors(run: Path) -> list[RecordedSensor]:
    """The recordings of a run directory, or the one that ``run`` itself is.

    Raises:
        UserError: where there is none.
    """
    if not run.is_dir():
        raise UserError(f"{run}: is no directory; name a run directory or the recording of a sensor")
    within = run / "sensors"
    places = [run, *(sorted(path for path in within.iterdir() if path.is_dir()) if within.is_dir() else [])]
    found = []
    for path in places:
        if is_file(path / "mav0" / "cam0" / "data.csv") and is_file(path / "mav0" / "cam1" / "data.csv"):
            found.append(RecordedSensor("stereo", path))
        elif any(child.suffix in ENDINGS for child in path.iterdir()):
            found.append(RecordedSensor("clouds", path))
    if not found:
        raise UserError(
            f"{run}: holds no recorded lidar, stereo pair or VI-sensor; fly with `record: true` on the sensor"
            " in the airframe, as iris_odometry has it"
        )
    return found


# ------------------------------------------------------------------------------------------------ clouds


def cloud_files(path: Path) -> list[tuple[int, Path]]:
    """Time in ns and file of each turn, in the order of time.

    Raises:
        UserError: where a file's name is no time.
    """
    found = []
    for file in path.iterdir():
        if file.suffix in ENDINGS:
            if not file.stem.isdigit():
                raise UserError(f"{file}: the name of a cloud is its time in ns")
            found.append((int(file.stem), file))
    return sorted(found)


def turns(path: Path) -> Iterator[tuple[float, LidarTurn]]:
    """Time in s and points of each turn."""
    for time, file in cloud_files(path):
        yield time * 1e-9, LidarTurn(*read_cloud(file))


# ------------------------------------------------------------------------------------------------ pairs


class _Matrix(BaseModel):
    data: Numbers = Field(min_length=16, max_length=16)


class _CameraSheet(BaseModel):
    """A camera's sensor.yaml; what an estimator needs of it."""

    T_BS: _Matrix
    resolution: tuple[int, int]
    camera_model: Literal["pinhole"]
    intrinsics: Numbers = Field(min_length=4, max_length=4)
    distortion_model: Literal["radial-tangential", "radtan", "equidistant"]
    distortion_coefficients: Numbers = Field(min_length=4, max_length=5)

    @property
    def place(self) -> Floats:
        """(4, 4) camera to body."""
        return np.array(self.T_BS.data).reshape(4, 4)

    def camera(self) -> CameraModel:
        """Its geometry."""
        fx, fy, cx, cy = self.intrinsics
        matrix = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
        return CameraModel(
            matrix, np.array(self.distortion_coefficients), self.distortion_model == "equidistant"
        )


def _sheet(path: Path) -> _CameraSheet:
    return validate(_CameraSheet, read(path))


def stereo_rig(path: Path) -> StereoRig:
    """Geometry of a pair in EuRoC's layout.

    Raises:
        ConfigurationError: for a sheet that cannot be read, and for two cameras of different kinds.
    """
    left, right = (_sheet(path / "mav0" / camera / "sensor.yaml") for camera in ("cam0", "cam1"))
    if left.resolution != right.resolution or left.camera().fisheye != right.camera().fisheye:
        raise ConfigurationError(
            str(path), ["cam0 and cam1 differ in resolution or model; pairs of equal cameras are read"]
        )
    across = np.linalg.inv(right.place) @ left.place
    return StereoRig(left.camera(), right.camera(), left.resolution, across[:3, :3], across[:3, 3])


def _rows(path: Path) -> list[list[str]]:
    text = read_text(path, MAX_TABLE)
    rows = [row for row in csv.reader(io.StringIO(text)) if row and not row[0].startswith("#")]
    for row in rows:
        if not row[0].strip().isdigit() or len(row) < 2:
            raise ConfigurationError(
                str(path), [f"{shorten(','.join(row))!r} is no line of a time in ns and data"]
            )
    return rows


def _image(path: Path) -> NDArray[np.uint8]:
    raw = read_bytes(path, MAX_IMAGE)
    from PIL import Image

    try:
        with Image.open(io.BytesIO(raw), formats=["PNG", "JPEG"]) as image:
            return np.asarray(image.convert("L"), np.uint8)
    except Exception as error:
        raise UserError(f"{path}: is no image: {shorten(str(error))}") from error


def pairs(path: Path) -> Iterator[tuple[float, StereoImages]]:
    """Time in s and grey images of each pair; times at which one image is missing are left out."""
    folders = [path / "mav0" / camera for camera in ("cam0", "cam1")]
    tables = [{int(row[0]): row[1].strip() for row in _rows(folder / "data.csv")} for folder in folders]
    for time in sorted(tables[0].keys() & tables[1].keys()):
        left, right = (
            _image(folder / "data" / table[time]) for folder, table in zip(folders, tables, strict=True)
        )
        yield time * 1e-9, StereoImages(left, right)


# ------------------------------------------------------------------------------------------------ truth


def true_way(sensor: RecordedSensor) -> PoseTrajectory:
    """The true trajectory of a recorded sensor; of a pair, the left camera's.

    Raises:
        UserError: where there is none.
    """
    file = sensor.path / "groundtruth.txt"
    table = sensor.path / "mav0" / "state_groundtruth_estimate0" / "data.csv"
    if is_file(file):
        return read_tum(file)
    if sensor.kind != "stereo" or not is_file(table):
        raise UserError(
            f"{sensor.path}: holds no true trajectory: groundtruth.txt, or EuRoC's"
            " state_groundtruth_estimate0"
        )
    try:
        figures = np.array([[float(word) for word in row[:8]] for row in _rows(table)])
    except ValueError as error:
        raise ConfigurationError(str(table), ["a line holds a word that is no number"]) from error
    if figures.ndim != 2 or figures.shape[1] != 8:
        raise ConfigurationError(str(table), ["a line has a time, a position and a quaternion w x y z"])
    body = Rotation.from_quat(figures[:, [5, 6, 7, 4]]).as_matrix()
    place = _sheet(sensor.path / "mav0" / "cam0" / "sensor.yaml").place
    return PoseTrajectory(figures[:, 0] * 1e-9, figures[:, 1:4] + body @ place[:3, 3], body @ place[:3, :3])
