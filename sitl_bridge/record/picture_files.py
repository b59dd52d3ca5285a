"""Finds the pictures that the sensors of a run recorded, whichever layout their directories have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PictureFile:
    """A recorded picture."""

    time: int  # ns of simulated time
    kind: str  # cam0, cam1, rgb or depth
    file: Path  # PNG


def recordings(run: Path) -> Path:
    """The directory of a run in which its sensors' samples are, a directory each."""
    return run / "sensors"


def sensor_folders(run: Path, vehicle: str, sensor: str) -> tuple[Path, Path]:
    """Directories in which a vehicle's sensor may have recorded."""
    place = recordings(run)
    return place / sensor, place / f"{vehicle}-{sensor}"


def picture_files(folder: Path) -> Iterator[PictureFile]:
    """The pictures in a sensor's directory: EuRoC's layout of cameras, TUM's of depth cameras."""
    for camera in sorted(folder.glob("mav0/cam*")):
        for file in camera.glob("data/*.png"):
            yield PictureFile(int(file.stem), camera.name, file)
    for kind in ("depth", "rgb"):
        for file in folder.glob(f"{kind}/*.png"):
            seconds, micro = file.stem.split(".")
            yield PictureFile(int(seconds) * 1_000_000_000 + int(micro) * 1000, kind, file)
