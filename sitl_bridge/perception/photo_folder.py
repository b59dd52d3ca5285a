"""The photos of one camera in the run directory: JPEG files with the place in EXIF, and a table of poses."""

from __future__ import annotations

import io
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.output_file import write_whole
from sitl_bridge.base.rotations import quaternion_from_matrix
from sitl_bridge.perception.pose_estimate import EstimatedPose
from sitl_bridge.perception.sample_files import SampleTable, seconds

COLUMNS = (
    "index", "file", "time",
    "true_latitude", "true_longitude", "true_altitude", "true_north", "true_east", "true_down",
    "true_qw", "true_qx", "true_qy", "true_qz",
    "estimated_latitude", "estimated_longitude", "estimated_altitude",
    "estimated_qw", "estimated_qx", "estimated_qy", "estimated_qz",
)  # fmt: skip
"""Of photos.csv: s of simulated time; deg and m above mean sea level; m from the world's origin; quaternions
of the camera's axes (ahead, right, down) to NED.  The estimate is empty where the flight stack gave none."""

MAKER, PROGRAM, GPS = 0x010F, 0x0131, 0x8825
"""EXIF 2.32: Make, Software and the pointer to the GPS tags."""


@dataclass(frozen=True)
class CameraPose:
    """The pose of a camera."""

    position: Floats  # m NED
    rotation: Floats  # (3, 3) camera's axes to NED
    place: tuple[float, float, float]  # deg, deg, m above mean sea level


def _angle(value: float) -> tuple[Fraction, Fraction, Fraction]:
    """Degrees, minutes and seconds as EXIF has them."""
    total = round(abs(value) * 3600.0 * 10_000)
    degrees, rest = divmod(total, 3600 * 10_000)
    minutes, rest = divmod(rest, 60 * 10_000)
    return Fraction(degrees), Fraction(minutes), Fraction(rest, 10_000)


def jpeg(
    image: NDArray[np.generic], quality: int, pose: EstimatedPose | None, heading: float, name: str
) -> bytes:
    """An image as a JPEG file.

    Args:
        image: (h, w) or (h, w, 3) of 8 bit.
        quality: of the compression.
        pose: for the GPS tags; None leaves them out.
        heading: deg from north of the optical axis.
        name: of the camera.
    """
    from PIL import Image  # only cameras that take photos need it

    exif = Image.Exif()
    exif[MAKER], exif[PROGRAM] = name, "sitl-bridge"
    if pose is not None:
        latitude, longitude, altitude = pose.place
        exif[GPS] = {
            0: bytes((2, 3, 0, 0)),
            1: "S" if latitude < 0.0 else "N",
            2: _angle(latitude),
            3: "W" if longitude < 0.0 else "E",
            4: _angle(longitude),
            5: bytes((int(altitude < 0.0),)),
            6: Fraction(round(abs(altitude) * 1000), 1000),
            16: "T",
            17: Fraction(round(heading % 360.0 * 100), 100),
            18: "WGS-84",
        }
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality, subsampling=0, exif=exif)
    return file.getvalue()


class PhotoFolder:
    """``0001.jpg`` and on, and photos.csv.

    Args:
        path: directory, made with the first photo.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._table: SampleTable | None = None

    def add(
        self,
        time: int,
        content: bytes,
        true: CameraPose,
        estimated: EstimatedPose | None,
        attitude: tuple[float, float, float, float],
    ) -> str:
        """Write a photo.

        Args:
            time: us of simulated time.
            content: the JPEG file.
            true: pose of the camera.
            estimated: pose of the vehicle.
            attitude: w, x, y, z of the camera, estimated.

        Returns:
            name of the file.

        Raises:
            UserError: when it cannot be written.
            OSError: likewise.
        """
        if self._table is None:
            self.path.mkdir(parents=True, exist_ok=True)
            self._table = SampleTable(self.path / "photos.csv", ",".join(COLUMNS))
        self.count += 1
        name = f"{self.count:04d}.jpg"
        write_whole(self.path / name, content)
        row = [str(self.count), name, seconds(time)]
        row += [f"{true.place[0]:.9f}", f"{true.place[1]:.9f}", f"{true.place[2]:.4f}"]
        row += [f"{v:.4f}" for v in true.position] + [
            f"{v:.7f}" for v in quaternion_from_matrix(true.rotation)
        ]
        if estimated is None:
            row += [""] * 7
        else:
            latitude, longitude, altitude = estimated.place
            row += [f"{latitude:.9f}", f"{longitude:.9f}", f"{altitude:.4f}"]
            row += [f"{v:.7f}" for v in attitude]
        self._table.add([",".join(row)])
        return name

    def close(self) -> None:
        """Close the table."""
        if self._table is not None:
            self._table.close()
