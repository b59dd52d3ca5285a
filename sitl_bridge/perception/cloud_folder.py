"""Recordings of lidars: a binary PCD or PLY file a turn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.view import Arrays
from sitl_bridge.perception.sample_files import SampleFolder

POINT = np.dtype(
    [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4"), ("ring", "<u2"), ("time", "<f4")]
)
"""A point in the sensor's axes: m, 0 to 1, number, and s from the end of the turn."""


def points_of(arrays: Arrays) -> NDArray[np.void]:
    """(n,) POINT of the beams that returned."""
    places = arrays["points"]
    hit = np.isfinite(places[:, 0].astype(np.float32))
    cloud = np.zeros(int(hit.sum()), POINT)
    for i, name in enumerate("xyz"):
        cloud[name] = places[hit, i]
    cloud["intensity"], cloud["ring"] = arrays["intensity"][hit], arrays["ring"][hit]
    cloud["time"] = arrays["offset"][hit]
    return cloud


def pcd(cloud: NDArray[np.void]) -> bytes:
    """A PCD file, version 0.7, binary."""
    kinds = [("F" if POINT[name].kind == "f" else "U", POINT[name].itemsize) for name in POINT.names or ()]
    header = (
        "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\n"
        f"FIELDS {' '.join(POINT.names or ())}\n"
        f"SIZE {' '.join(str(size) for _, size in kinds)}\n"
        f"TYPE {' '.join(kind for kind, _ in kinds)}\n"
        f"COUNT {' '.join('1' for _ in kinds)}\n"
        f"WIDTH {len(cloud)}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {len(cloud)}\nDATA binary\n"
    )
    return header.encode() + cloud.tobytes()


def ply(cloud: NDArray[np.void]) -> bytes:
    """A PLY file, version 1.0, binary little-endian."""
    lines = [
        f"property {'float' if POINT[name].kind == 'f' else 'ushort'} {name}\n" for name in POINT.names or ()
    ]
    header = (
        f"ply\nformat binary_little_endian 1.0\nelement vertex {len(cloud)}\n{''.join(lines)}end_header\n"
    )
    return header.encode() + cloud.tobytes()


class CloudFolder(SampleFolder):
    """A PCD or PLY file a turn.

    Args:
        sensor: whose samples they are.
        path: new directory.
    """

    def __init__(self, sensor: LidarSpecification, path: Path) -> None:
        super().__init__(sensor, path)
        self._ending = sensor.cloud_format

    def file_of(self, arrays: Arrays) -> tuple[str, bytes]:
        """The turn in the sensor's ``cloud_format``."""
        cloud = points_of(arrays)
        return self._ending, pcd(cloud) if self._ending == "pcd" else ply(cloud)
