"""Files of recorded samples: tables, PNG images, trajectories, and a directory with an NPZ file a sample."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sitl_bridge.base.output_file import append_whole, write_whole
from sitl_bridge.base.rotations import quaternion_from_matrix
from sitl_bridge.core.sensors.perception.view import Arrays, Poses, SeeingSpecification

OPTICAL = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
"""Axes of a camera's image (x right, y down, z ahead) to the sensor's (x ahead, y right, z down)."""


class SampleTable:
    """A text table that is whole after every block of lines.

    Args:
        path: new file.
        header: its first line.
    """

    def __init__(self, path: Path, header: str) -> None:
        self._file = path.open("xb", buffering=0)
        self.add([header])

    def add(self, lines: list[str]) -> None:
        """Append lines.

        Raises:
            OSError: when they cannot be written; nothing of them is.
        """
        append_whole(self._file, "".join(line + "\n" for line in lines).encode())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write_png(path: Path, image: NDArray[np.generic]) -> None:
    """Write an image, (h, w) of 8 or 16 bit or (h, w, 3) of 8 bit, as a PNG file.

    Raises:
        UserError: when it cannot be written.
    """
    picture = io.BytesIO()
    Image.fromarray(image).save(picture, "PNG", compress_level=1)
    write_whole(path, picture.getvalue())


def seconds(time: int) -> str:
    """us as s."""
    return f"{time // 1_000_000}.{time % 1_000_000:06d}"


class PoseTable:
    """The true way of a sensor in TUM's layout: s, position in m NED, quaternion x y z w of its axes to NED.

    Args:
        path: new file.
        sensor: of which it is the way.
        axes: (3, 3) of the frame to the sensor's axes.
    """

    def __init__(self, path: Path, sensor: SeeingSpecification, axes: NDArray[np.float64]) -> None:
        self._table = SampleTable(path, "# timestamp tx ty tz qx qy qz qw")
        self._position = np.array(sensor.position, float)
        self._turn = sensor.mounting() @ axes

    def add(self, poses: Poses) -> None:
        """Append the poses of the vehicle.

        Raises:
            OSError: when they cannot be written.
        """
        position, rotation = poses.at(poses.time.astype(float))
        lines = []
        for time, p, r in zip(poses.time.tolist(), position, rotation, strict=True):
            place = p + r @ self._position
            w, x, y, z = quaternion_from_matrix(r @ self._turn)
            numbers = " ".join(f"{value:.9g}" for value in (*place, x, y, z, w))
            lines.append(f"{seconds(time)} {numbers}")
        self._table.add(lines)

    def close(self) -> None:
        """Close the file."""
        self._table.close()


class SampleFolder(ABC):
    """A file a sample, named by its time in ns, and ``groundtruth.txt`` of the sensor.

    Args:
        sensor: whose samples they are.
        path: new directory.
    """

    def __init__(self, sensor: SeeingSpecification, path: Path) -> None:
        path.mkdir(parents=True)
        self._path = path
        self._truth = PoseTable(path / "groundtruth.txt", sensor, np.eye(3))

    @abstractmethod
    def file_of(self, arrays: Arrays) -> tuple[str, bytes]:
        """Ending and content of the file of a sample."""

    def write(self, time: int, arrays: Arrays, poses: Poses) -> None:
        """Add a sample; see ``Folder``."""
        ending, content = self.file_of(arrays)
        write_whole(self._path / f"{time * 1000}.{ending}", content)
        self._truth.add(poses)

    def close(self) -> None:
        """Close its tables."""
        self._truth.close()


class ArrayFolder(SampleFolder):
    """An NPZ file a sample."""

    def file_of(self, arrays: Arrays) -> tuple[str, bytes]:
        """The sample's arrays by their names."""
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **arrays)
        return "npz", packed.getvalue()
