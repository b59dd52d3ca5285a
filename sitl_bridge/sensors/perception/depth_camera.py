"""Depth camera: the distance along its optical axis for every pixel."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from pydantic import Field

from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.quantities import NonNegative, Positive
from sitl_bridge.sensors.perception.depth_buffer import Pinhole
from sitl_bridge.sensors.perception.obstacle_map import RangingSpecification, Returns
from sitl_bridge.sensors.perception.view import Arrays, View


@compiled
def read_depths(inverse: Any, normal: Any, figures: Any, depth: Any) -> None:
    """Depths as a camera reads them.

    Args:
        inverse: (h, w) float32, 1/m; 0 for nothing.
        normal: (h, w) float32, standard normal numbers.
        figures: (4,) least and greatest depth in m, constant noise in m, quadratic noise in 1/m.
        depth: (h, w) float32 m, written; nan for none.
    """
    least, most, constant, quadratic = figures[0], figures[1], figures[2], figures[3]
    for v in range(inverse.shape[0]):
        for u in range(inverse.shape[1]):
            depth[v, u] = math.nan
            if inverse[v, u] > 0.0:
                true = 1.0 / inverse[v, u]
                read = true + (constant + quadratic * true * true) * normal[v, u]
                if least <= read <= most:
                    depth[v, u] = read


class DepthCameraSpecification(RangingSpecification):
    """A depth camera that looks along the sensor's x axis; columns run along y, rows along z.

    The noise grows with the square of the depth, as the disparity of structured light and stereo has a
    constant error (Khoshelham and Elberink, Sensors 12(2), 2012: sigma_z = 1.43e-3 z^2 for a Kinect).
    """

    kind: Literal["depth_camera"]
    rate: float = Field(30.0, ge=0.01, le=100.0, description="Hz")
    width: int = Field(640, ge=2, le=4096, description="pixels")
    height: int = Field(480, ge=2, le=4096, description="pixels")
    field_of_view: float = Field(58.0, gt=1.0, lt=179.0, description="deg, horizontal")
    minimum: NonNegative = Field(0.4, description="m")
    maximum: Positive = Field(8.0, description="m")
    noise: NonNegative = Field(0.0, description="m, standard deviation of a depth near by")
    quadratic_noise: NonNegative = Field(1.43e-3, description="1/m, of a depth, times its square")

    @property
    def focal_length(self) -> float:
        """Pixels."""
        return 0.5 * self.width / math.tan(0.5 * math.radians(self.field_of_view))

    @property
    def camera(self) -> Pinhole:
        """Its geometry; pixel centres at whole numbers, the optical axis through the middle of the image."""
        cx, cy = 0.5 * (self.width - 1), 0.5 * (self.height - 1)
        return Pinhole(self.width, self.height, self.focal_length, cx, cy)

    def measure(self, view: View) -> Arrays:
        """Depth (height, width) in m as float32, along the optical axis; nan where there is none."""
        place, turn = self.pose(view)
        inverse = view.caster.draw(place, turn, 2.0 * self.maximum, self.camera).inverse
        normal = view.random.standard_normal(inverse.shape, np.float32)
        depth = np.empty_like(inverse)
        bounds = np.array([self.minimum, self.maximum, self.noise, self.quadratic_noise])
        read_depths(inverse, normal, bounds, depth)
        return {"depth": depth}

    def returns(self, view: View, arrays: Arrays) -> Returns:
        """Where the pixels' rays met something."""
        camera, depth = self.camera, arrays["depth"].astype(float)
        rows, columns = np.nonzero(np.isfinite(depth))
        met = depth[rows, columns]
        y, z = (columns - camera.cx) / camera.focal * met, (rows - camera.cy) / camera.focal * met
        place, turn = self.pose(view)
        across = (np.arange(camera.width) - camera.cx) / camera.focal
        middle = np.stack([np.ones_like(across), across, np.zeros_like(across)], axis=1)
        return Returns(place + np.stack([met, y, z], axis=1) @ turn.T, self.sectors_of(middle))
