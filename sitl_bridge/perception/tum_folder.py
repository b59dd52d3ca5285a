"""Recordings of depth and RGB-D cameras in the layout of TUM's RGB-D data sets.

Sturm et al., "A benchmark for the evaluation of RGB-D SLAM systems", IROS 2012.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.view import Arrays, Poses
from sitl_bridge.perception.sample_files import OPTICAL, PoseTable, SampleTable, seconds, write_png

FACTOR = 5000.0
"""Counts a metre, TUM's; cameras that reach beyond 13 m have 1000."""


class TumFolder:
    """``depth/`` with depth.txt, ``rgb/`` with rgb.txt where there is colour, and groundtruth.txt.

    Args:
        sensor: whose samples they are.
        path: new directory.
    """

    def __init__(self, sensor: DepthCameraSpecification, path: Path) -> None:
        self._path = path
        self._factor = FACTOR if sensor.maximum * FACTOR < 65535.0 else 1000.0
        (path / "depth").mkdir(parents=True)
        self._depth = SampleTable(
            path / "depth.txt", f"# timestamp filename, {self._factor:g} counts a metre"
        )
        self._color: SampleTable | None = None
        self._way = PoseTable(path / "groundtruth.txt", sensor, OPTICAL)

    def write(self, time: int, arrays: Arrays, poses: Poses) -> None:
        """Add a sample; see ``Folder``."""
        stamp = seconds(time)
        counts = np.nan_to_num(arrays["depth"].astype(np.float32), nan=0.0) * self._factor
        image = np.minimum(counts + 0.5, 65535.0).astype(np.uint16)
        write_png(self._path / "depth" / f"{stamp}.png", image)
        self._depth.add([f"{stamp} depth/{stamp}.png"])
        if "color" in arrays:
            if self._color is None:
                (self._path / "rgb").mkdir()
                self._color = SampleTable(self._path / "rgb.txt", "# timestamp filename")
            write_png(self._path / "rgb" / f"{stamp}.png", arrays["color"])
            self._color.add([f"{stamp} rgb/{stamp}.png"])
        self._way.add(poses)

    def close(self) -> None:
        """Close its tables."""
        self._depth.close()
        if self._color is not None:
            self._color.close()
        self._way.close()
