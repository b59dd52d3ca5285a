"""Flies an iris in the power plant and shows what its camera, its depth camera and its lidar see.

.venv/bin/python missions/api/what_sensors_see.py [PICTURE.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import sitl_bridge as sb

WORLD = Path(__file__).resolve().parents[1] / "worlds" / "power_plant.yaml"
SENSORS = [
    {"kind": "camera", "color": True, "width": 640, "height": 480, "rate": 10.0, "supersampling": 2},
    {"kind": "depth_camera", "field_of_view": 80.0, "maximum": 60.0, "quadratic_noise": 2e-4, "rate": 10.0},
    {"kind": "lidar", "rings": 32, "lowest": -25.0, "highest": 15.0, "columns": 1024},
]


def main() -> None:
    """Fly, and draw the samples."""
    picture = Path(sys.argv[1] if len(sys.argv) > 1 else "what_sensors_see.png")
    airframe = sb.Airframe.load("iris").changed(sensors=SENSORS)
    with sb.Sitl(airframe, world=str(WORLD), positions=[(-12.0, -4.0)], seed=1) as fleet:
        fleet.arm()
        fleet.take_off(10.0)
        fleet.run(3.0)
        image = fleet.sensor("camera")["image"]
        depth = fleet.sensor("depth_camera")["depth"]
        cloud = fleet.sensor("lidar")["points"]
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.4), layout="constrained")
    left.imshow(image)
    left.set_title("camera")
    shown = middle.imshow(depth, cmap="viridis_r")
    middle.set_title("depth camera")
    figure.colorbar(shown, ax=middle, label="depth [m]", shrink=0.8)
    for axes in (left, middle):
        axes.set_axis_off()
    seen = cloud[np.isfinite(cloud[:, 0])]
    dots = right.scatter(seen[:, 1], seen[:, 0], c=10.0 - seen[:, 2], s=0.3, cmap="cividis", vmin=0, vmax=30)
    figure.colorbar(dots, ax=right, label="height [m]", shrink=0.8)
    right.set_title(f"lidar, {len(seen)} points from above")
    right.set_xlabel("right [m]")
    right.set_ylabel("forward [m]")
    right.set_aspect("equal")
    figure.savefig(picture, dpi=90)
    print(f"{picture}: what the sensors saw at {fleet.time:.1f} s")


if __name__ == "__main__":
    main()
