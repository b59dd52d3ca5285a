"""Depth camera: the distance along its optical axis for every pixel."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sitl_bridge.quantities import NonNegative, Positive
from sitl_bridge.sensors.perception.view import Arrays, SeeingSpecification, View


class DepthCameraSpecification(SeeingSpecification):
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

    @cached_property
    def directions(self) -> NDArray[np.float64]:
        """(height * width, 3) unit vectors in the sensor's axes, row by row; pixel centres at whole numbers,
        the optical axis at ((width - 1) / 2, (height - 1) / 2)."""
        columns, rows = np.meshgrid(np.arange(self.width), np.arange(self.height))
        y = (columns - 0.5 * (self.width - 1)) / self.focal_length
        z = (rows - 0.5 * (self.height - 1)) / self.focal_length
        rays = np.stack([np.ones_like(y), y, z], axis=-1).reshape(-1, 3)
        return rays / np.linalg.norm(rays, axis=1)[:, None]

    def measure(self, view: View) -> Arrays:
        """Depth (height, width) in m as float32, along the optical axis; nan where there is none."""
        directions = self.directions
        origins, turned = self.rays(view, directions)
        limit = self.maximum / float(directions[:, 0].min())
        depth = view.caster.cast(origins, turned, limit).distance * directions[:, 0]
        sigma = self.noise + self.quadratic_noise * np.where(np.isfinite(depth), depth, 0.0) ** 2
        depth = depth + sigma * view.random.standard_normal(len(depth))
        seen = (depth >= self.minimum) & (depth <= self.maximum)
        return {"depth": np.where(seen, depth, np.nan).astype(np.float32).reshape(self.height, self.width)}
